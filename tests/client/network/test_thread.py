"""The network thread ends with all its tasks."""

import asyncio
import threading

import pytest

from slackwater.client.errors import NetworkError
from slackwater.client.network.cluster import Cluster, ClusterConfig
from slackwater.client.network.connection import BrokerConnection
from slackwater.client.network.thread import NetworkThread
from slackwater.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from slackwater.wire.messages.sasl_handshake import SaslHandshakeRequest
from slackwater.wire.schema import Request
from tests.client.network.hostile_server import HostileServer


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


def test_callbacks_during_close_start_no_task() -> None:
    network, remaining, ran = NetworkThread("test"), iter(range(20)), threading.Event()

    async def task_after_close() -> None:
        """Never runs; without an await, pytest reports it."""

    def hand_over() -> None:
        ran.set()
        if next(remaining, None) is None:
            network.create_task(task_after_close())
        else:
            network.call_soon(hand_over)

    async def hand_over_when_cancelled() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            hand_over()

    network.submit(hand_over_when_cancelled())
    network.run(asyncio.sleep(0))
    network.close()
    network.call_soon(hand_over)
    assert ran.is_set()
    assert next(remaining) < 20


def test_connection_with_unsent_data_is_aborted() -> None:
    responding, end = threading.Event(), threading.Event()

    def respond(request: Request) -> bytes:
        responding.set()
        end.wait()
        return b""

    server = HostileServer(respond)
    network = NetworkThread("test")
    address = ("127.0.0.1", server.port)
    cluster = network.run(Cluster.create(ClusterConfig(bootstrap_servers=(address,), client_id="c")))

    async def send_unread_requests() -> BrokerConnection:
        connection = await cluster.connection_at(*address)
        connection.send(MetadataRequest(), timeout_s=60)
        await asyncio.to_thread(responding.wait)
        topics = [MetadataRequestTopic(name="t" * 30_000) for _ in range(1_000)]
        connection.send(MetadataRequest(topics=topics), timeout_s=60)  # more than the buffers of the sockets
        return connection

    connection = network.run(send_unread_requests())
    network.run(cluster.close())
    network.close()  # an open socket is reported as a ResourceWarning
    end.set()
    server.close()
    assert not connection.is_open
    assert network.loop.is_closed()


def test_connection_that_asks_for_sasl_is_aborted() -> None:
    asked, end = threading.Event(), threading.Event()

    def respond(request: Request) -> bytes:
        if isinstance(request, SaslHandshakeRequest):
            asked.set()
            end.wait(20)
        raise OSError  # closes the connection

    server = HostileServer(respond)
    network = NetworkThread("test")
    address = ("127.0.0.1", server.port)
    cluster = network.run(Cluster.create(ClusterConfig(bootstrap_servers=(address,), client_id="c")))
    pending = network.submit(cluster.request_any(MetadataRequest(), MetadataResponse))
    assert asked.wait(10)
    network.run(cluster.close())
    network.close()  # an open socket is reported as a ResourceWarning
    end.set()
    server.close()
    assert pending.cancelled()
    assert network.loop.is_closed()
