"""Fetches ahead of the consumer, on the network thread.

Invariants:
- At most one fetch request per broker is in flight; it covers every partition of that broker that may buffer more.
- Unread data is bounded: two responses per partition, and `fetch.max.bytes` for all partitions together.
- A response to an outdated request (after a seek or a new assignment) is discarded: its `version` is old.
- Retriable errors (a moved leader, an unreachable broker) are retried after a metadata refresh and a backoff. Other
  errors wait for the application's next poll; their partitions are not fetched before.
"""

import threading
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from slackwater.client.consumer.metrics import FetchMetrics
from slackwater.client.consumer.positions import PartitionState, Positions
from slackwater.client.errors import NetworkError
from slackwater.client.network.cluster import Cluster
from slackwater.client.network.fetch import (
    FetchOptions,
    FetchStatus,
    fetch_position,
    fetch_status,
    fetched_data,
    fetched_partitions,
    send_fetch,
)
from slackwater.client.network.fetch_session import FetchSessionHandler
from slackwater.client.network.maintenance import MetadataRefresher
from slackwater.client.network.offsets import LATEST, OffsetAndTimestamp, list_offsets_once
from slackwater.client.network.thread import EarliestTimer, NetworkThread
from slackwater.escaping import get_logger
from slackwater.group.errors import Error, PeerError, SlackwaterError
from slackwater.group.topic_partition import TopicPartition
from slackwater.security.errors import AuthenticationError
from slackwater.wire.messages.fetch import FetchResponse, PartitionData

log = get_logger("slackwater.client.consumer.fetcher")


class NoOffsetForPartitionError(SlackwaterError):
    """A partition has no committed offset, and auto.offset.reset is none."""


class OffsetOutOfRangeError(SlackwaterError):
    """The log of a partition does not contain its position, and auto.offset.reset is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetcherConfig:
    """The consumer's fetch settings.

    `reset_timestamp` returns the ListOffsets timestamp of auto.offset.reset, or None for `none`.
    """

    options: FetchOptions
    create_topics: bool = False
    reset_timestamp: Callable[[], int | None] = lambda: LATEST


class _Sent(NamedTuple):
    """The state of a partition when its fetch request was sent."""

    version: int
    offset: int


class Fetcher:
    """The fetching side of one consumer."""

    def __init__(
        self,
        config: FetcherConfig,
        cluster: Cluster,
        network: NetworkThread,
        lock: threading.Condition,
        positions: Positions,
    ) -> None:
        self.metrics = FetchMetrics()
        self.reset_timestamp = config.reset_timestamp
        self.refresh_metadata: Callable[[Iterable[str]], Awaitable[object]] = self._refresh_topics
        self._errors: deque[SlackwaterError] = deque()
        self._options = config.options
        self._create_topics = config.create_topics
        self._cluster = cluster
        self._network = network
        self._lock = lock
        self._positions = positions
        self._sessions: dict[int, FetchSessionHandler] = defaultdict(FetchSessionHandler)
        self._in_flight: set[int] = set()  # brokers with a fetch request
        self._backoff_until: dict[int, float] = {}
        self._resets_not_before = 0.0
        self._scheduled = False
        self._timer = EarliestTimer(network, self._run)
        self._refresh_later = MetadataRefresher(cluster, network, self._refresh_leaders, self._run)
        self._closed = False

    def schedule(self) -> None:
        """Look for partitions to fetch soon. Called from any thread with the lock held."""
        if not self._scheduled:
            self._scheduled = True
            self._network.call_soon(self._run)

    def close(self) -> None:
        """Send no more requests."""
        self._closed = True

    def fail(self, error: SlackwaterError, states: Iterable[PartitionState] = ()) -> None:
        """Raise an error in the application's next call; stop fetching these partitions until then."""
        self._errors.append(error)
        for state in states:
            state.has_error = True
        self._lock.notify_all()

    @property
    def pending_errors(self) -> int:
        """The number of errors that the application's next calls will raise."""
        return len(self._errors)

    def next_error(self) -> SlackwaterError | None:
        """Return the next error to raise; after the last one, its partitions are fetched again."""
        if not self._errors:
            return None
        error = self._errors.popleft()
        if not self._errors:
            for state in self._positions:
                state.has_error = False
            self.schedule()
        return error

    # --- on the network thread ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        with self._lock:
            self._scheduled = False
            if self._closed:
                return
            self._start_resets()
            self._start_fetches()

    async def _refresh_topics(self, topics: Iterable[str]) -> None:
        await self._cluster.refresh(topics, create=self._create_topics)

    async def _refresh_leaders(self, topics: set[str]) -> None:
        try:
            await self.refresh_metadata(topics)
        except AuthenticationError as error:
            with self._lock:
                if not self._errors:
                    self.fail(error)

    # Start offsets

    def _start_resets(self) -> None:
        if (wait_s := self._resets_not_before - self._network.loop.time()) > 0:
            self._timer.call_in(wait_s)
            return
        timestamps: dict[TopicPartition, int] = {}
        versions: dict[TopicPartition, int] = {}
        for state in self._positions:
            if state.reset_timestamp is not None and not state.resetting and not state.has_error:
                state.resetting = True
                timestamps[state.partition] = state.reset_timestamp
                versions[state.partition] = state.version
        if timestamps:
            self._network.create_task(self._reset(timestamps, versions))

    async def _reset(self, timestamps: dict[TopicPartition, int], versions: dict[TopicPartition, int]) -> None:
        """Send one round of ListOffsets requests; partitions without a response are retried after a backoff."""
        offsets: dict[TopicPartition, OffsetAndTimestamp | None] = {}
        fatal: SlackwaterError | None = None
        read_committed = self._options.read_committed
        try:
            offsets, failure = await list_offsets_once(self._cluster, timestamps, read_committed=read_committed)
            # A partition without a record as new as the timestamp starts at its end.
            if at_end := {partition: LATEST for partition, offset in offsets.items() if offset is None}:
                ends, failure = await list_offsets_once(self._cluster, at_end, read_committed=read_committed)
                offsets |= ends
            if failure is not None:
                log.debug("ListOffsets failed: %s", failure)
        except NetworkError as error:
            log.debug("ListOffsets failed: %s", error)
        except SlackwaterError as error:
            fatal = error
        with self._lock:
            states = [self._positions.get(partition) for partition in timestamps]
            current = [state for state in states if state is not None and state.version == versions[state.partition]]
            for state in current:
                state.resetting = False
                offset = offsets.get(state.partition)
                if offset is not None:
                    log.info("Resetting offset for partition %s to position %d.", state.partition, offset.offset)
                    self._positions.seek(state, offset.offset, offset.leader_epoch)
            if fatal is not None:
                self.fail(fatal, current)
            self._lock.notify_all()
            missing = {state.partition.topic for state in current if state.reset_timestamp is not None}
            if missing:
                self._resets_not_before = self._network.loop.time() + self._cluster.config.retry_backoff_ms / 1000
                self._refresh_later(missing)
        self._run()

    # Requests

    def _start_fetches(self) -> None:
        if self._positions.buffered_bytes >= self._options.max_bytes:
            return
        now = self._network.loop.time()
        by_node: dict[int, list[PartitionState]] = defaultdict(list)
        leaderless: set[str] = set()
        for state in self._positions:
            if not state.is_fetchable:
                continue
            node_id = self._node_for(state, now)
            if node_id is None:
                leaderless.add(state.partition.topic)
            else:
                by_node[node_id].append(state)
        self._refresh_later(leaderless)
        for node_id, states in by_node.items():
            if node_id in self._in_flight:
                continue
            if (wait_s := self._backoff_until.get(node_id, 0.0) - now) > 0:
                self._timer.call_in(wait_s)
                continue
            self._in_flight.add(node_id)
            self._network.create_task(self._fetch(node_id, states))

    def _node_for(self, state: PartitionState, now: float) -> int | None:
        preferred = state.preferred_replica
        if preferred is not None and preferred[1] > now and preferred[0] in self._cluster.brokers:
            return preferred[0]
        leader = self._cluster.leader(*state.partition)
        return leader.leader if leader is not None else None

    async def _fetch(self, node_id: int, states: list[PartitionState]) -> None:
        session = self._sessions[node_id]
        topics = {state.partition.topic for state in states}
        sent: dict[TopicPartition, _Sent] = {}
        stale: set[str] = set()
        try:
            connection = await self._cluster.connection_to(node_id)
            with self._lock:  # the wait for the connection may have changed the partitions
                states = [state for state in states if self._positions.get(state.partition) is state]
                states = [state for state in states if state.is_fetchable]
                for state in states:
                    state.fetching = True
                sent = {state.partition: _Sent(state.version, state.fetch_offset) for state in states}
                max_bytes = self._options.max_partition_bytes
                positions = {
                    state.partition: fetch_position(self._cluster, state.partition, state.fetch_offset, max_bytes)
                    for state in states
                }
            if positions:
                sent_at = self._network.loop.time()
                request = session.next_request(positions)
                response = await send_fetch(self._cluster, connection, request, self._options)
                with self._lock:
                    stale = self._on_response(node_id, session, response, sent)
                    self._measure(response, sent_at)
        except NetworkError as error:
            log.debug("A fetch request failed: %s", error)
            self._back_off(node_id, session)
            stale = topics
        except Exception as error:
            self._back_off(node_id, session)
            if not isinstance(error, SlackwaterError):
                log.exception("A fetch request failed.")
                error = PeerError(f"A fetch request failed: {error!r}")
            with self._lock:
                self.fail(error, states)
        finally:
            with self._lock:
                self._in_flight.discard(node_id)
                for state in states:
                    if state.partition in sent and state.version == sent[state.partition].version:
                        state.fetching = False
                self._lock.notify_all()
        if stale:
            self._refresh_later(stale)
        else:
            self._run()

    def _back_off(self, node_id: int, session: FetchSessionHandler) -> None:
        session.reset()
        self._backoff_until[node_id] = self._network.loop.time() + self._cluster.config.reconnect_backoff_ms / 1000

    def _measure(self, response: FetchResponse, sent_at: float) -> None:
        now = self._network.loop.time()
        size = sum(len(data.records or b"") for topic in response.responses for data in topic.partitions)
        self.metrics.on_fetch(round((now - sent_at) * 1000), size, round(now * 1000))

    # Responses

    def _on_response(
        self, node_id: int, session: FetchSessionHandler, response: FetchResponse, sent: Mapping[TopicPartition, _Sent]
    ) -> set[str]:
        """Buffer the batches of a response; return the topics whose metadata is stale."""
        if response.error_code:
            self._back_off(node_id, session)
            log.debug("The fetch session with broker %d ended: %s.", node_id, Error(response.error_code).name)
            return set()
        session.on_response(response.session_id)
        stale: set[str] = set()
        for partition, data in fetched_partitions(self._cluster, response):
            state = self._positions.get(partition)
            request = sent.get(partition)
            if state is None or request is None or (state.version, state.fetch_offset) != request:
                continue
            error = Error(data.error_code)
            match fetch_status(error):
                case FetchStatus.OK:
                    self._buffer(state, data)
                case FetchStatus.OUT_OF_RANGE:
                    self._on_out_of_range(state, node_id)
                case FetchStatus.STALE_METADATA:
                    state.preferred_replica = None
                    stale.add(partition.topic)
                case FetchStatus.RETRIABLE:
                    log.warning("Fetching %s failed and is retried: %s.", partition, error.name)
                    stale.add(partition.topic)
                case FetchStatus.FATAL:
                    text = f"Fetching {partition} at offset {state.fetch_offset} failed: {error.name}."
                    if error is Error.CORRUPT_MESSAGE:
                        text += (
                            " The broker's log is damaged there; its log says where. To skip records, seek past them."
                        )
                    self.fail(self._cluster.error(error, text, f"Read on topic {partition.topic}"), [state])
        return stale

    def _buffer(self, state: PartitionState, data: PartitionData) -> None:
        state.high_watermark = data.high_watermark
        state.last_stable_offset = data.last_stable_offset
        state.log_start_offset = data.log_start_offset
        if data.preferred_read_replica >= 0:
            expires_at = self._network.loop.time() + self._cluster.config.metadata_max_age_ms / 1000
            state.preferred_replica = (data.preferred_read_replica, expires_at)
        batches = fetched_data(data, state.fetch_offset, read_committed=self._options.read_committed)
        if batches is not None:
            state.fetched.append(batches)
            state.fetch_offset = batches.next_offset

    def _on_out_of_range(self, state: PartitionState, node_id: int) -> None:
        if state.preferred_replica is not None:
            state.preferred_replica = None
        elif state.has_buffered:
            # Return the buffered records first; a later fetch shows whether the offset is still out of range.
            self._back_off(node_id, self._sessions[node_id])
        elif (timestamp := self.reset_timestamp()) is not None:
            log.info("Fetch position %s of %s is out of range, resetting offset.", state.position, state.partition)
            self._positions.reset(state, timestamp)
        else:
            error = OffsetOutOfRangeError(
                f"The log of {state.partition} does not contain the position {state.position}, and auto.offset.reset "
                "is none; seek, or set auto.offset.reset to earliest or latest."
            )
            self.fail(error, [state])
