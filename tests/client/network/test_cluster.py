"""The order of callers that wait for a connection."""

import asyncio
from collections.abc import Iterator

import pytest

from slackwater.client.errors import NetworkError
from slackwater.client.network.cluster import Cluster, ClusterConfig
from slackwater.client.network.connection import BrokerConnection
from slackwater.client.network.thread import NetworkThread

HOST, PORT = "broker", 9092
CALLERS = 50


class OpenConnection(BrokerConnection):
    """A connection that is open."""

    is_open = True


@pytest.fixture
def network() -> Iterator[NetworkThread]:
    network = NetworkThread("test")
    yield network
    network.close()


@pytest.fixture
def network_cluster(network: NetworkThread) -> Cluster:
    return network.run(Cluster.create(ClusterConfig(bootstrap_servers=((HOST, PORT),), client_id="c")))


def test_connection_waiters_keep_their_order(
    network: NetworkThread, network_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[int] = []

    async def connect(host: str, port: int, **_: object) -> BrokerConnection:
        for _turn in range(CALLERS // 3):
            await asyncio.sleep(0)
        return OpenConnection(host, port, "c")

    async def call(number: int) -> None:
        await network_cluster.connection_at(HOST, PORT)
        served.append(number)

    async def call_concurrently() -> None:
        """Start one caller per turn of the event loop: before, during and after the connection attempt."""
        callers = []
        for number in range(CALLERS):
            callers.append(asyncio.ensure_future(call(number)))
            await asyncio.sleep(0)
        await asyncio.gather(*callers)

    monkeypatch.setattr(BrokerConnection, "connect", connect)
    network.run(call_concurrently())
    assert served == list(range(CALLERS))


def test_one_attempt_serves_all_waiters(
    network: NetworkThread, network_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[int] = []

    async def connect(_host: str, port: int, **_: object) -> BrokerConnection:
        attempts.append(port)
        await asyncio.sleep(0)
        raise NetworkError("connection refused")

    async def call_concurrently() -> list[object]:
        return await asyncio.gather(
            *(network_cluster.connection_at(HOST, PORT) for _ in range(5)), return_exceptions=True
        )

    monkeypatch.setattr(BrokerConnection, "connect", connect)
    assert [str(error) for error in network.run(call_concurrently())] == ["connection refused"] * 5
    assert attempts == [PORT]
    network.run(call_concurrently())
    assert attempts == [PORT, PORT]


def test_cancelled_waiter_leaves_attempt_to_next(
    network: NetworkThread, network_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[int] = []

    async def call_concurrently() -> BrokerConnection:
        may_finish = asyncio.Event()

        async def connect(host: str, port: int, **_: object) -> BrokerConnection:
            attempts.append(port)
            await may_finish.wait()
            return OpenConnection(host, port, "c")

        monkeypatch.setattr(BrokerConnection, "connect", connect)
        first, second = (asyncio.ensure_future(network_cluster.connection_at(HOST, PORT)) for _ in range(2))
        while not attempts:
            await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        may_finish.set()
        return await second

    assert isinstance(network.run(call_concurrently()), OpenConnection)
    assert attempts == [PORT]
