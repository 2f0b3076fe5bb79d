"""A cluster as a client knows it: its brokers, its topics, and the connections to them.

Rules kept here
- The bootstrap servers are asked until the first metadata came, and again when no known broker can be reached.
- A broker that could not be reached is left alone for a while: longer each time, with jitter, up to a bound.
- One connection to a broker serves everybody, except the coordinator's, which is one apart: a heartbeat never waits
  behind a fetch (CL-40). Whoever wants a connection that is being made waits for that one, and nobody overtakes.
- What is known of a topic is replaced as a whole; a topic that the cluster does not know any more is forgotten.
- Everything here runs on the network's loop.
"""

import asyncio
import logging
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Self, TypeVar

from slackwater.client.errors import NetworkError
from slackwater.client.network.connection import BrokerConnection, Plaintext, Security
from slackwater.group.errors import BrokerError, Error, UsageError
from slackwater.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from slackwater.wire.schema import NO_UUID, Request, Response

log = logging.getLogger("slackwater.client.network.cluster")
R = TypeVar("R", bound=Response)
DATA: Final = "data"
COORDINATOR: Final = "coordinator"
_JITTER: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """How a client finds and keeps its brokers; durations in milliseconds, under Kafka's names."""

    bootstrap_servers: tuple[tuple[str, int], ...]
    client_id: str
    request_timeout_ms: int = 30_000
    default_api_timeout_ms: int = 60_000
    socket_connection_setup_timeout_ms: int = 10_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    connections_max_idle_ms: int = 540_000
    security: Security = field(default_factory=Plaintext)
    log_prefix: str = ""


@dataclass(frozen=True, slots=True)
class BrokerNode:
    """One broker."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """One partition; a leader of -1 is none."""

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    error: Error = Error.NONE


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """One topic."""

    name: str
    topic_id: bytes
    is_internal: bool
    partitions: tuple[PartitionMetadata, ...]
    error: Error = Error.NONE


def parse_bootstrap(text: str | Iterable[str]) -> tuple[tuple[str, int], ...]:
    """The addresses in `bootstrap.servers`."""
    words = text.split(",") if isinstance(text, str) else list(text)
    addresses = []
    for word in map(str.strip, words):
        if not word:
            continue
        host, found, port = word.rpartition(":")
        if not found or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) <= 65_535:
            raise UsageError(f"bootstrap.servers has {word!r}, which is no address; write host:port,host:port.")
        addresses.append((host.rpartition("://")[2].removeprefix("[").removesuffix("]"), int(port)))
    if not addresses:
        raise UsageError("bootstrap.servers is empty; write host:port,host:port.")
    return tuple(addresses)


class _Attempts:
    """How often an address could not be reached, and when to try again."""

    __slots__ = ("failures", "not_before")

    def __init__(self) -> None:
        self.failures = 0
        self.not_before = 0.0


class _Line:
    """Those who wait for one connection, first come first served."""

    __slots__ = ("error", "failures", "lock", "waiting")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.waiting = 0
        self.failures = 0
        self.error: Exception | None = None  # of the last failure


class Cluster:
    """Brokers, topics, connections."""

    def __init__(self, config: ClusterConfig) -> None:
        self.config = config
        self.brokers: dict[int, BrokerNode] = {}
        self.topics: dict[str, TopicMetadata] = {}
        self.names_by_id: dict[bytes, str] = {}
        self.controller_id = -1
        self.cluster_id: str | None = None
        self.last_failure = ""  # why a connection could not be made the last time that happened
        self.refreshed_at = 0.0  # when metadata last came, on the loop's clock
        self._loop = asyncio.get_running_loop()
        self._connections: dict[tuple[str, int, str], BrokerConnection] = {}
        self._connecting: dict[tuple[str, int, str], asyncio.Task[BrokerConnection]] = {}
        self._lines: defaultdict[tuple[str, int, str], _Line] = defaultdict(_Line)
        self._attempts: dict[tuple[str, int], _Attempts] = {}
        self._watchers: list[Callable[[], None]] = []
        self._closed = False

    @classmethod
    async def create(cls, config: ClusterConfig) -> Self:
        """Make one from another thread, on the loop it belongs to."""
        return cls(config)

    # --- connections --------------------------------------------------------------------------------------------------

    async def connection_to(self, node_id: int, purpose: str = DATA) -> BrokerConnection:
        """A connection to this broker."""
        broker = self.brokers.get(node_id)
        if broker is None:
            await self.refresh()
            broker = self.brokers.get(node_id)
            if broker is None:
                raise NetworkError(f"Broker {node_id} is not in the cluster's metadata.")
        return await self.connection_at(broker.host, broker.port, purpose)

    async def connection_at(self, host: str, port: int, purpose: str = DATA) -> BrokerConnection:
        """A connection to this address; waits until the address may be tried again.

        Nobody overtakes: whoever sends as soon as this returns sends in the order of the calls, also those who had to
        wait. A commit that overtook an older one would be taken back by it.
        """
        key = (host, port, purpose)
        line = self._lines[key]
        connection = self._connections.get(key)
        if connection is not None and connection.is_open and not line.waiting:
            return connection
        line.waiting += 1
        failures = line.failures
        try:
            async with line.lock:
                connection = self._connections.get(key)
                if connection is not None and connection.is_open:
                    return connection
                if line.error is not None and line.failures > failures:  # one attempt serves all who wait for it
                    raise line.error
                try:
                    return await self._connection(key)
                except Exception as error:
                    line.failures, line.error = line.failures + 1, error
                    raise
        finally:
            line.waiting -= 1

    async def _connection(self, key: tuple[str, int, str]) -> BrokerConnection:
        task = self._connecting.get(key)
        if task is None:
            if self._closed:
                raise NetworkError("This client was closed.")
            task = self._connecting[key] = self._loop.create_task(self._connect(key))
            task.add_done_callback(lambda done: self._connected(key, done))
        return await asyncio.shield(task)

    async def any_connection(self) -> BrokerConnection:
        """A connection to whichever broker can be reached, the least busy first.

        Never the coordinator's: a broker answers in order, and a JoinGroup is answered when the whole group has come.
        """
        at_hand = [one for key, one in self._connections.items() if key[2] != COORDINATOR and one.is_open]
        if at_hand:
            return min(at_hand, key=lambda one: one.in_flight)
        known = [(broker.host, broker.port) for broker in self.brokers.values()]
        random.shuffle(known)
        tried: list[str] = []
        for host, port in self._soonest_first([*known, *self.config.bootstrap_servers]):
            try:
                return await self.connection_at(host, port)
            except NetworkError as error:
                tried.append(str(error))
        raise NetworkError("No broker can be reached. " + " ".join(dict.fromkeys(tried)))

    def _soonest_first(self, addresses: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
        """Those that may be tried at once first: nobody waits for a broker that is away while another one is there."""
        now = self._loop.time()

        def wait_s(address: tuple[str, int]) -> float:
            attempts = self._attempts.get(address)
            return max(attempts.not_before - now, 0.0) if attempts is not None else 0.0

        return sorted(dict.fromkeys(addresses), key=wait_s)

    def disconnect(self, host: str, port: int, purpose: str) -> None:
        """Close a connection that is not wanted any more."""
        connection = self._connections.pop((host, port, purpose), None)
        if connection is not None:
            connection.close()

    async def _connect(self, key: tuple[str, int, str]) -> BrokerConnection:
        host, port, _ = key
        config = self.config
        attempts = self._attempts.setdefault((host, port), _Attempts())
        if (wait_s := attempts.not_before - self._loop.time()) > 0:
            await asyncio.sleep(wait_s)
        try:
            connection = await BrokerConnection.connect(
                host,
                port,
                client_id=config.client_id,
                timeout_s=config.socket_connection_setup_timeout_ms / 1000,
                security=config.security,
            )
        except NetworkError as error:
            self.last_failure = str(error)
            log.warning(
                "%sConnection to node %d (%s:%d) could not be established. Node may not be available. (%s)",
                config.log_prefix,
                self._node_id(host, port),
                host,
                port,
                error,
            )
            pause_ms = min(config.reconnect_backoff_ms * 2**attempts.failures, config.reconnect_backoff_max_ms)
            attempts.failures = min(attempts.failures + 1, 30)
            attempts.not_before = self._loop.time() + pause_ms / 1000 * random.uniform(1 - _JITTER, 1 + _JITTER)
            raise
        attempts.failures = 0
        self.last_failure = ""
        if self._closed:
            connection.close()
            raise NetworkError("This client was closed.")
        self._connections[key] = connection
        return connection

    def _node_id(self, host: str, port: int) -> int:
        """A broker's id; bootstrap servers count from -1 down, as in Java."""
        for broker in self.brokers.values():
            if (broker.host, broker.port) == (host, port):
                return broker.node_id
        servers = self.config.bootstrap_servers
        return -1 - servers.index((host, port)) if (host, port) in servers else -1

    def _connected(self, key: tuple[str, int, str], task: "asyncio.Task[BrokerConnection]") -> None:
        self._connecting.pop(key, None)
        if not task.cancelled():
            task.exception()  # whoever asked hears of it; nobody else has to

    def close_idle(self) -> None:
        """Close connections that nobody has used for `connections.max.idle.ms`; a negative time is for ever."""
        if self.config.connections_max_idle_ms < 0:
            return
        limit = self._loop.time() - self.config.connections_max_idle_ms / 1000
        for key, connection in list(self._connections.items()):
            if not connection.is_open or (connection.used < limit and not connection.in_flight):
                del self._connections[key]
                connection.close()

    async def close(self) -> None:
        """Close all connections."""
        self._closed = True
        for task in list(self._connecting.values()):
            task.cancel()
        connections = list(self._connections.values())
        for connection in connections:
            connection.close()
        if connections:
            await asyncio.wait([connection.lost for connection in connections], timeout=1.0)

    # --- asking -------------------------------------------------------------------------------------------------------

    async def request(self, node_id: int, request: Request, kind: type[R], *, timeout_s: float | None = None) -> R:
        """Ask one broker."""
        connection = await self.connection_to(node_id)
        return await connection.request(request, kind, timeout_s=self._timeout_s(timeout_s))

    async def request_any(self, request: Request, kind: type[R], *, timeout_s: float | None = None) -> R:
        """Ask whichever broker can be reached."""
        connection = await self.any_connection()
        return await connection.request(request, kind, timeout_s=self._timeout_s(timeout_s))

    async def request_controller(self, request: Request, kind: type[R], *, timeout_s: float | None = None) -> R:
        """Ask the controller."""
        if self.controller_id not in self.brokers:
            await self.refresh()
        if self.controller_id in self.brokers:
            return await self.request(self.controller_id, request, kind, timeout_s=timeout_s)
        return await self.request_any(request, kind, timeout_s=timeout_s)

    def _timeout_s(self, timeout_s: float | None) -> float:
        return self.config.request_timeout_ms / 1000 if timeout_s is None else timeout_s

    # --- metadata -----------------------------------------------------------------------------------------------------

    def watch(self, changed: Callable[[], None]) -> None:
        """Call back whenever metadata came."""
        self._watchers.append(changed)

    async def refresh(self, topics: Iterable[str] | None = (), *, create: bool = False) -> Mapping[str, TopicMetadata]:
        """Ask for the brokers and these topics (None: all); the answer has what the cluster said of each."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=create)
        answer = await self.request_any(request, MetadataResponse)
        if answer.error_code:
            raise BrokerError(Error(answer.error_code))
        self.brokers = {one.node_id: BrokerNode(one.node_id, one.host, one.port, one.rack) for one in answer.brokers}
        self.controller_id = answer.controller_id
        self.cluster_id = answer.cluster_id
        found = {topic.name: topic for topic in map(_topic, answer.topics)}
        if topics is None:
            self.topics.clear()
        for name, topic in found.items():
            if topic.error in (Error.NONE, Error.LEADER_NOT_AVAILABLE):
                self.topics[name] = topic
            elif topic.error in (Error.UNKNOWN_TOPIC_OR_PARTITION, Error.UNKNOWN_TOPIC_ID):
                self.topics.pop(name, None)
        self.names_by_id = {topic.topic_id: name for name, topic in self.topics.items() if topic.topic_id != NO_UUID}
        self.refreshed_at = self._loop.time()
        for changed in self._watchers:
            changed()
        return found

    @property
    def servers(self) -> str:
        """The bootstrap servers, for people."""
        return ", ".join(f"{host}:{port}" for host, port in self.config.bootstrap_servers)

    def leader(self, topic: str, partition: int) -> PartitionMetadata | None:
        """What is known of a partition; None if it is not known or has no leader."""
        known = self.topics.get(topic)
        if known is None or partition >= len(known.partitions):
            return None
        found = known.partitions[partition]
        return found if found.leader >= 0 and found.leader in self.brokers else None


def _topic(row: MetadataResponseTopic) -> TopicMetadata:
    partitions = [
        PartitionMetadata(
            one.partition_index,
            one.leader_id,
            one.leader_epoch,
            tuple(one.replica_nodes),
            tuple(one.isr_nodes),
            Error(one.error_code),
        )
        for one in row.partitions
    ]
    partitions.sort(key=lambda one: one.index)
    return TopicMetadata(row.name or "", row.topic_id, row.is_internal, tuple(partitions), Error(row.error_code))
