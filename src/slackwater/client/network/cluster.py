"""A cluster from the client's view: its brokers, its topics, and the connections to them.

Invariants:
- The bootstrap servers are used until the first metadata response, and again when no known broker is reachable.
- Reconnecting to an address backs off exponentially, with jitter, up to a maximum.
- A broker has one connection for each purpose (`DATA`, `COORDINATOR`, `ADMIN`): a heartbeat never waits behind a fetch
  (CL-40).
- Metadata of a topic is replaced as a whole; a topic that no longer exists is removed.
- Everything runs on the loop of the network thread.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Self, TypeVar

from slackwater.client.errors import NetworkError
from slackwater.client.network.authentication import refuse_sasl_port
from slackwater.client.network.connection import CLIENT_SOFTWARE, BrokerConnection, ConnectionSecurity, Plaintext
from slackwater.escaping import get_logger
from slackwater.group.errors import AuthorizationError, BrokerError, Error, UsageError
from slackwater.security.errors import AuthenticationError
from slackwater.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from slackwater.wire.schema import NO_UUID, Request, Response

log = get_logger("slackwater.client.network.cluster")
R = TypeVar("R", bound=Response)
# The purposes of connections. The requests of one purpose to a broker share a connection.
DATA: Final = "data"  # records and metadata, all other requests
COORDINATOR: Final = "coordinator"  # a member's requests to its group's coordinator
ADMIN: Final = "admin"  # the admin client's requests to the coordinators of groups
LAST_PRODUCE_VERSION_BY_NAME: Final = 12  # newer versions take topic ids (KIP-516)
_JITTER: Final = 0.2
_CLOSE_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """The connection settings of a client, under Kafka's names."""

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
    security: ConnectionSecurity = field(default_factory=Plaintext)
    log_prefix: str = ""
    client_software: str = CLIENT_SOFTWARE


@dataclass(frozen=True, slots=True)
class BrokerNode:
    """One broker."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """One partition; a leader of -1 means no leader."""

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
    """Parse `bootstrap.servers`."""
    items = text.split(",") if isinstance(text, str) else list(text)
    addresses = []
    for item in map(str.strip, items):
        if not item:
            continue
        host, colon, port = item.rpartition(":")
        if not colon or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) <= 65_535:
            raise UsageError(f"bootstrap.servers has {item!r}, which is not an address; write host:port,host:port.")
        addresses.append((host.rpartition("://")[2].removeprefix("[").removesuffix("]"), int(port)))
    if not addresses:
        raise UsageError("bootstrap.servers is empty; write host:port,host:port.")
    return tuple(addresses)


class _Backoff:
    """The number of failed connection attempts to an address, and the earliest time of the next one."""

    __slots__ = ("failures", "not_before")

    def __init__(self) -> None:
        self.failures = 0
        self.not_before = 0.0


class _ConnectionQueue:
    """The callers that wait for one connection, in order."""

    __slots__ = ("error", "failures", "lock", "waiting")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.waiting = 0
        self.failures = 0
        self.error: Exception | None = None  # of the last attempt


class Cluster:
    """The brokers and topics of a cluster, and the connections to it."""

    def __init__(self, config: ClusterConfig) -> None:
        self.config = config
        self.brokers: dict[int, BrokerNode] = {}
        self.topics: dict[str, TopicMetadata] = {}
        self.names_by_id: dict[bytes, str] = {}
        self.controller_id = -1
        self.cluster_id: str | None = None
        self.finalized_features: dict[str, int] = {}  # the level of each feature, from the newest connection
        self._features_epoch = -1
        self.last_failure = ""  # of the last attempt to connect; empty after a success
        self._loop = asyncio.get_running_loop()
        self._connections: dict[tuple[str, int, str], BrokerConnection] = {}
        self._open: set[BrokerConnection] = set()  # also those that are closing
        self._connecting: dict[tuple[str, int, str], asyncio.Task[BrokerConnection]] = {}
        self._queues: defaultdict[tuple[str, int, str], _ConnectionQueue] = defaultdict(_ConnectionQueue)
        self._backoffs: dict[tuple[str, int], _Backoff] = {}
        self._closed = False

    @classmethod
    async def create(cls, config: ClusterConfig) -> Self:
        """Create a cluster on the running loop; for callers on another thread."""
        return cls(config)

    # --- connections --------------------------------------------------------------------------------------------------

    async def connection_to(self, node_id: int, purpose: str = DATA) -> BrokerConnection:
        """Return a connection to a broker."""
        broker = self.brokers.get(node_id)
        if broker is None:
            await self.refresh()
            broker = self.brokers.get(node_id)
            if broker is None:
                raise NetworkError(f"Broker {node_id} is not in the metadata of the cluster.")
        return await self.connection_at(broker.host, broker.port, purpose)

    async def connection_at(self, host: str, port: int, purpose: str = DATA) -> BrokerConnection:
        """Return a connection to an address; wait while the address is backing off.

        Callers get the connection in the order of their calls. This keeps requests in order: an older commit must not
        overwrite a newer one.
        """
        key = (host, port, purpose)
        queue = self._queues[key]
        connection = self._connections.get(key)
        if connection is not None and connection.is_open and not queue.waiting:
            return connection
        queue.waiting += 1
        failures = queue.failures
        try:
            async with queue.lock:
                connection = self._connections.get(key)
                if connection is not None and connection.is_open:
                    return connection
                if queue.error is not None and queue.failures > failures:  # one attempt serves all callers in the queue
                    raise queue.error
                try:
                    return await self._shared_attempt(key)
                except Exception as error:
                    queue.failures, queue.error = queue.failures + 1, error
                    raise
        finally:
            queue.waiting -= 1

    async def _shared_attempt(self, key: tuple[str, int, str]) -> BrokerConnection:
        task = self._connecting.get(key)
        if task is None:
            if self._closed:
                raise NetworkError("This client was closed.")
            task = self._connecting[key] = self._loop.create_task(self._connect(key))
            task.add_done_callback(lambda done: self._on_attempt_done(key, done))
        return await asyncio.shield(task)

    async def any_connection(self) -> BrokerConnection:
        """Return a connection to any broker, preferably the one with the fewest requests in flight.

        Coordinator connections are excluded: responses arrive in order, and a JoinGroup response may take long.
        """
        candidates = [
            connection
            for (_, _, purpose), connection in self._connections.items()
            if purpose != COORDINATOR and connection.is_open
        ]
        if candidates:
            return min(candidates, key=lambda connection: connection.in_flight)
        known = [(broker.host, broker.port) for broker in self.brokers.values()]
        random.shuffle(known)
        failures: list[str] = []
        for host, port in self._without_backoff_first([*known, *self.config.bootstrap_servers]):
            try:
                return await self.connection_at(host, port)
            except NetworkError as error:
                failures.append(str(error))
        raise NetworkError("No broker can be reached. " + " ".join(dict.fromkeys(failures)))

    def _without_backoff_first(self, addresses: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
        """Sort addresses by the rest of their backoff, so that an unreachable broker does not delay the others."""
        now = self._loop.time()

        def wait_s(address: tuple[str, int]) -> float:
            backoff = self._backoffs.get(address)
            return max(backoff.not_before - now, 0.0) if backoff is not None else 0.0

        return sorted(dict.fromkeys(addresses), key=wait_s)

    def disconnect(self, host: str, port: int, purpose: str) -> None:
        """Close a connection."""
        connection = self._connections.pop((host, port, purpose), None)
        if connection is not None:
            connection.close()

    async def _connect(self, key: tuple[str, int, str]) -> BrokerConnection:
        host, port, _ = key
        config = self.config
        backoff = self._backoffs.setdefault((host, port), _Backoff())
        if (wait_s := backoff.not_before - self._loop.time()) > 0:
            await asyncio.sleep(wait_s)
        try:
            connection = await BrokerConnection.connect(
                host,
                port,
                client_id=config.client_id,
                timeout_s=config.socket_connection_setup_timeout_ms / 1000,
                security=config.security,
                client_software=config.client_software,
            )
            previous = self._connections.get(key)
            if previous is not None and previous.may_need_sasl:
                try:
                    await refuse_sasl_port(connection, config.request_timeout_ms / 1000)
                except BaseException:
                    connection.abort("connecting failed or was cancelled")
                    raise
        except (NetworkError, AuthenticationError) as error:
            self.last_failure = str(error)
            log.warning(
                "%sConnection to node %d (%s:%d) could not be established. Node may not be available. (%s)",
                config.log_prefix,
                self._node_id(host, port),
                host,
                port,
                error,
            )
            backoff_ms = min(config.reconnect_backoff_ms * 2**backoff.failures, config.reconnect_backoff_max_ms)
            backoff.failures = min(backoff.failures + 1, 30)
            backoff.not_before = self._loop.time() + backoff_ms / 1000 * random.uniform(1 - _JITTER, 1 + _JITTER)
            raise
        backoff.failures = 0
        self.last_failure = ""
        if self._closed:
            connection.abort("this client was closed")
            raise NetworkError("This client was closed.")
        if connection.features_epoch >= self._features_epoch:
            self._features_epoch, self.finalized_features = connection.features_epoch, connection.finalized_features
        self._connections[key] = connection
        self._open.add(connection)
        connection.lost.add_done_callback(lambda _: self._open.discard(connection))
        return connection

    def _node_id(self, host: str, port: int) -> int:
        """Return the id of a broker; bootstrap servers count down from -1, as in Java."""
        for broker in self.brokers.values():
            if (broker.host, broker.port) == (host, port):
                return broker.node_id
        servers = self.config.bootstrap_servers
        return -1 - servers.index((host, port)) if (host, port) in servers else -1

    def _on_attempt_done(self, key: tuple[str, int, str], task: "asyncio.Task[BrokerConnection]") -> None:
        self._connecting.pop(key, None)
        if not task.cancelled():
            task.exception()  # mark it as retrieved: the waiting callers raise it

    def close_idle(self) -> None:
        """Close connections that were idle for `connections.max.idle.ms`; a negative value means never."""
        if self.config.connections_max_idle_ms < 0:
            return
        limit = self._loop.time() - self.config.connections_max_idle_ms / 1000
        for key, connection in list(self._connections.items()):
            if not connection.is_open or (connection.last_used_at < limit and not connection.in_flight):
                del self._connections[key]
                connection.close()

    async def close(self) -> None:
        """Close all connections; abort those that need longer than a second to close."""
        self._closed = True
        for task in list(self._connecting.values()):
            task.cancel()
        for connection in self._open:
            connection.close()
        if self._open:
            await asyncio.wait([connection.lost for connection in self._open], timeout=_CLOSE_S)
        for connection in self._open:
            connection.abort("it did not close in time")

    @property
    def principal(self) -> str:
        """The principal of this client in words, for an error about a missing ACL."""
        return self.config.security.principal or "the principal of this client"

    def error(self, error: Error, message: str, required_acl: str) -> BrokerError:
        """Return the error of a response; that of an authorization names the principal and the ACL that it needs."""
        raised = BrokerError(error, message)
        if isinstance(raised, AuthorizationError):
            return BrokerError(error, f"{message.rstrip('.')}; {self.principal} needs an ACL for {required_acl}.")
        return raised

    # --- requests -----------------------------------------------------------------------------------------------------

    async def request(self, node_id: int, request: Request, response: type[R], *, timeout_s: float | None = None) -> R:
        """Send a request to one broker."""
        connection = await self.connection_to(node_id)
        return await connection.request(request, response, timeout_s=self._timeout_s(timeout_s))

    async def request_any(self, request: Request, response: type[R], *, timeout_s: float | None = None) -> R:
        """Send a request to any reachable broker."""
        connection = await self.any_connection()
        try:
            return await connection.request(request, response, timeout_s=self._timeout_s(timeout_s))
        except NetworkError:
            if connection.may_need_sasl:
                await self.any_connection()  # raises the error that names the mechanisms, if the port needs SASL
            raise

    async def request_controller(self, request: Request, response: type[R], *, timeout_s: float | None = None) -> R:
        """Send a request to the controller."""
        if self.controller_id not in self.brokers:
            await self.refresh()
        if self.controller_id in self.brokers:
            return await self.request(self.controller_id, request, response, timeout_s=timeout_s)
        return await self.request_any(request, response, timeout_s=timeout_s)

    def _timeout_s(self, timeout_s: float | None) -> float:
        return self.config.request_timeout_ms / 1000 if timeout_s is None else timeout_s

    # --- metadata -----------------------------------------------------------------------------------------------------

    async def refresh(self, topics: Iterable[str] | None = (), *, create: bool = False) -> Mapping[str, TopicMetadata]:
        """Request the brokers and these topics (None: all topics); return the metadata of each topic."""
        requested = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=requested, allow_auto_topic_creation=create)
        response = await self.request_any(request, MetadataResponse)
        if response.error_code:
            raise BrokerError(Error(response.error_code))
        self.brokers = {
            broker.node_id: BrokerNode(broker.node_id, broker.host, broker.port, broker.rack)
            for broker in response.brokers
        }
        self.controller_id = response.controller_id
        self.cluster_id = response.cluster_id
        received = {topic.name: topic for topic in map(_topic_metadata, response.topics)}
        if topics is None:
            self.topics.clear()
        for name, topic in received.items():
            if topic.error in (Error.NONE, Error.LEADER_NOT_AVAILABLE):
                self.topics[name] = topic
            elif topic.error in (Error.UNKNOWN_TOPIC_OR_PARTITION, Error.UNKNOWN_TOPIC_ID):
                self.topics.pop(name, None)
        self.names_by_id = {topic.topic_id: name for name, topic in self.topics.items() if topic.topic_id != NO_UUID}
        return received

    @property
    def connections(self) -> dict[tuple[str, int, str], BrokerConnection]:
        """The connections by host, port and purpose."""
        return dict(self._connections)

    @property
    def bootstrap_servers(self) -> str:
        """The bootstrap servers as text."""
        return ", ".join(f"{host}:{port}" for host, port in self.config.bootstrap_servers)

    def leader(self, topic: str, partition: int) -> PartitionMetadata | None:
        """Return the metadata of a partition; None if it is unknown or has no leader."""
        metadata = self.topics.get(topic)
        if metadata is None or partition >= len(metadata.partitions):
            return None
        leader = metadata.partitions[partition]
        return leader if leader.leader >= 0 and leader.leader in self.brokers else None


def _topic_metadata(row: MetadataResponseTopic) -> TopicMetadata:
    partitions = [
        PartitionMetadata(
            partition.partition_index,
            partition.leader_id,
            partition.leader_epoch,
            tuple(partition.replica_nodes),
            tuple(partition.isr_nodes),
            Error(partition.error_code),
        )
        for partition in row.partitions
    ]
    partitions.sort(key=lambda partition: partition.index)
    return TopicMetadata(row.name or "", row.topic_id, row.is_internal, tuple(partitions), Error(row.error_code))
