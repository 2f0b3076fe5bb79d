"""The network thread ends with all its tasks."""

import asyncio

import pytest

from slackwater.client.errors import NetworkError
from slackwater.client.network.cluster import Cluster, ClusterConfig
from slackwater.client.network.thread import NetworkThread


def test_tasks_started_during_close_are_cancelled() -> None:
    network, ended = NetworkThread("test"), []

    async def task_at_close() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("second")

    async def begin() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            network.create_task(task_at_close())
            await asyncio.sleep(0)  # the new task starts
            ended.append("first")

    async def make() -> asyncio.Event:
        return asyncio.Event()

    started = network.run(make())
    network.submit(begin())
    network.run(started.wait())
    network.close()
    assert ended == ["first", "second"]
    assert network.loop.is_closed()


def test_closed_cluster_opens_no_connection() -> None:
    network = NetworkThread("test")
    cluster = network.run(Cluster.create(ClusterConfig(bootstrap_servers=(("127.0.0.1", 1),), client_id="c")))
    network.run(cluster.close())
    with pytest.raises(NetworkError, match="This client was closed"):
        network.run(cluster.connection_at("127.0.0.1", 1))
    network.close()
