"""The thread of a client's input and output: it ends with everything that runs on it."""

import asyncio

import pytest

from slackwater.client.errors import ConnectionFailed
from slackwater.client.network.cluster import Cluster, ClusterConfig
from slackwater.client.network.thread import Network


def test_what_begins_something_while_it_is_ended_does_not_keep_the_loop() -> None:
    network, ended = Network("test"), []

    async def last_words() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("second")

    async def begin() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            network.spawn(last_words())
            await asyncio.sleep(0)  # it begins
            ended.append("first")

    async def make() -> asyncio.Event:
        return asyncio.Event()

    started = network.run(make())
    network.start(begin())
    network.run(started.wait())
    network.close()
    assert ended == ["first", "second"]
    assert network.loop.is_closed()


def test_a_cluster_that_was_closed_opens_no_connection() -> None:
    network = Network("test")
    cluster = network.run(Cluster.make(ClusterConfig(bootstrap_servers=(("127.0.0.1", 1),), client_id="c")))
    network.run(cluster.close())
    with pytest.raises(ConnectionFailed, match="This client was closed"):
        network.run(cluster.at("127.0.0.1", 1))
    network.close()
