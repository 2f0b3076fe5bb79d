"""Fetches what a consumer will read next, ahead of it and on the network's thread.

Rules kept here
- A broker has one fetch of ours at a time; it asks for every partition there that may take more.
- What is kept unread is bounded: two answers per partition, and `fetch.max.bytes` for all together.
- An answer to a question that was overtaken (seek, new assignment) is dropped: its `stamp` is old.
- Errors that pass (another leader, a broker that is away) are tried again after new metadata and a pause; errors that
  do not pass wait in `errors` for the application's next poll. Their partitions are left alone until it was raised.
"""

import asyncio
import logging
import threading
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final

from slackwater.client.consumer.metrics import FetchMetrics
from slackwater.client.consumer.positions import Chunk, PartitionState, Positions
from slackwater.client.errors import NetworkError
from slackwater.client.network.cluster import Cluster
from slackwater.client.network.fetch_session import Ask, FetchSession, Wanted
from slackwater.client.network.maintenance import MetadataRefresher
from slackwater.client.network.offsets import LATEST, OffsetAndTimestamp, ask_leaders
from slackwater.client.network.thread import NetworkThread
from slackwater.group.errors import BrokerError, Error, PeerError, SlackwaterError
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.apis import FETCH
from slackwater.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from slackwater.wire.records.batch import end_offset
from slackwater.wire.schema import NO_UUID

log = logging.getLogger("slackwater.client.consumer.fetcher")
BY_NAME: Final = 12
"""The newest version of Fetch that names topics; newer ones take ids."""
_MOVED: Final = frozenset(
    {
        Error.NOT_LEADER_OR_FOLLOWER,
        Error.LEADER_NOT_AVAILABLE,
        Error.REPLICA_NOT_AVAILABLE,
        Error.KAFKA_STORAGE_ERROR,
        Error.FENCED_LEADER_EPOCH,
        Error.UNKNOWN_LEADER_EPOCH,
        Error.OFFSET_NOT_AVAILABLE,
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.UNKNOWN_TOPIC_ID,
        Error.INCONSISTENT_TOPIC_ID,
    }
)


class NoOffsetForPartitionError(SlackwaterError):
    """A partition has no committed offset, and auto.offset.reset is none."""


class OffsetOutOfRangeError(SlackwaterError):
    """A partition's position is not in its log, and auto.offset.reset is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchConfig:
    """What a consumer may set about fetching; `reset_to` gives None for auto.offset.reset=none."""

    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 52_428_800
    fetch_max_wait_ms: int = 500
    max_partition_fetch_bytes: int = 1_048_576
    read_committed: bool = False
    client_rack: str = ""
    create_topics: bool = False
    reset_to: Callable[[], int | None] = lambda: LATEST


class Fetcher:
    """The fetching side of one consumer."""

    def __init__(
        self,
        config: FetchConfig,
        cluster: Cluster,
        network: NetworkThread,
        changed: threading.Condition,
        positions: Positions,
    ) -> None:
        self.metrics = FetchMetrics()
        self.reset_to = config.reset_to
        self.refresh: Callable[[Iterable[str]], Awaitable[object]] = self._refresh_topics
        self._errors: deque[SlackwaterError] = deque()
        self._config = config
        self._cluster = cluster
        self._network = network
        self._changed = changed
        self._positions = positions
        self._sessions: dict[int, FetchSession] = defaultdict(FetchSession)
        self._busy: set[int] = set()  # brokers that have a fetch of ours
        self._not_before: dict[int, float] = {}
        self._resets_after = 0.0
        self._kicked = False
        self._timer: asyncio.TimerHandle | None = None
        self._wake_at = 0.0
        self._refresh_later = MetadataRefresher(cluster, network, lambda topics: self.refresh(topics), self._run)
        self._closed = False

    def kick(self) -> None:
        """Something may be worth fetching; callable from any thread, under the lock."""
        if not self._kicked:
            self._kicked = True
            self._network.call_soon(self._run)

    def close(self) -> None:
        """Fetch nothing more."""
        self._closed = True

    def fail(self, error: SlackwaterError, stuck: Iterable[PartitionState] = ()) -> None:
        """The application must hear of this; under the lock."""
        self._errors.append(error)
        for state in stuck:
            state.stuck = True
        self._changed.notify_all()

    @property
    def failed(self) -> bool:
        """Whether there is something to raise."""
        return bool(self._errors)

    def next_error(self) -> SlackwaterError | None:
        """What to raise; the partitions it stands for are tried again afterwards. Under the lock."""
        if not self._errors:
            return None
        error = self._errors.popleft()
        if not self._errors:
            for state in self._positions:
                state.stuck = False
            self.kick()
        return error

    # --- on the network's thread --------------------------------------------------------------------------------------

    def _run(self) -> None:
        with self._changed:
            self._kicked = False
            if self._closed:
                return
            self._reset()
            self._fetch()

    def _later(self, seconds: float) -> None:
        """Look again in a while; the soonest look counts."""
        loop = self._network.loop
        when = loop.time() + seconds
        if self._timer is not None:
            if self._wake_at <= when:
                return
            self._timer.cancel()
        self._wake_at = when  # a uvloop's timer that is due at once cannot be asked for it
        self._timer = loop.call_at(when, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self._run()

    async def _refresh_topics(self, topics: Iterable[str]) -> None:
        await self._cluster.refresh(topics, create=self._config.create_topics)

    # Where partitions begin

    def _reset(self) -> None:
        if (wait_s := self._resets_after - self._network.loop.time()) > 0:
            self._later(wait_s)
            return
        wanted: dict[TopicPartition, int] = {}
        stamps: dict[TopicPartition, int] = {}
        for state in self._positions:
            if state.reset_to is not None and not state.resetting and not state.stuck:
                state.resetting = True
                wanted[state.partition] = state.reset_to
                stamps[state.partition] = state.stamp
        if wanted:
            self._network.create_task(self._find(wanted, stamps))

    async def _find(self, wanted: dict[TopicPartition, int], stamps: dict[TopicPartition, int]) -> None:
        """Ask once; whoever got no answer is asked about again after a while."""
        found: dict[TopicPartition, OffsetAndTimestamp | None] = {}
        fatal: SlackwaterError | None = None
        read_committed = self._config.read_committed
        try:
            found, failed = await ask_leaders(self._cluster, wanted, read_committed=read_committed)
            if newer := {partition: LATEST for partition, offset in found.items() if offset is None}:
                more, failed = await ask_leaders(self._cluster, newer, read_committed=read_committed)
                found |= more  # nothing is as new: go on at the end
            if failed is not None:
                log.debug("Offsets to start from could not be had: %s", failed)
        except NetworkError as error:
            log.debug("Offsets to start from could not be had: %s", error)
        except SlackwaterError as error:
            fatal = error
        with self._changed:
            states = [self._positions.get(partition) for partition in wanted]
            valid = [state for state in states if state is not None and state.stamp == stamps[state.partition]]
            for state in valid:
                state.resetting = False
                offset = found.get(state.partition)
                if offset is not None:
                    log.info("Resetting offset for partition %s to position %d.", state.partition, offset.offset)
                    self._positions.seek(state, offset.offset, offset.leader_epoch)
            if fatal is not None:
                self.fail(fatal, valid)
            self._changed.notify_all()
            left = {state.partition.topic for state in valid if state.reset_to is not None}
            if left:
                self._resets_after = self._network.loop.time() + self._cluster.config.retry_backoff_ms / 1000
                self._refresh_later(left)
        self._run()

    # Fetching

    def _fetch(self) -> None:
        now = self._network.loop.time()
        room = self._positions.buffered_bytes < self._config.fetch_max_bytes
        by_node: dict[int, list[PartitionState]] = defaultdict(list)
        lost: set[str] = set()
        for state in self._positions:
            if not room or not state.wants_data():
                continue
            node = self._node_for(state, now)
            if node is None:
                lost.add(state.partition.topic)
            else:
                by_node[node].append(state)
        self._refresh_later(lost)
        for node, states in by_node.items():
            if node in self._busy:
                continue
            if (wait_s := self._not_before.get(node, 0.0) - now) > 0:
                self._later(wait_s)
                continue
            self._busy.add(node)
            self._network.create_task(self._ask(node, states))

    def _node_for(self, state: PartitionState, now: float) -> int | None:
        preferred = state.preferred_replica
        if preferred is not None and preferred[1] > now and preferred[0] in self._cluster.brokers:
            return preferred[0]
        leader = self._cluster.leader(*state.partition)
        return leader.leader if leader is not None else None

    async def _ask(self, node: int, states: list[PartitionState]) -> None:
        session = self._sessions[node]
        topics = {state.partition.topic for state in states}
        stamps: dict[TopicPartition, tuple[int, int]] = {}
        moved: set[str] = set()
        try:
            connection = await self._cluster.connection_to(node)
            version = connection.version_of(FETCH)
            with self._changed:  # whatever was sought or lost since is asked for as it is now, or not at all
                states = [state for state in states if self._positions.get(state.partition) is state]
                states = [state for state in states if state.wants_data()]
                for state in states:
                    state.fetching = True
                stamps = {state.partition: (state.stamp, state.ahead) for state in states}
                wanted = {state.partition: self._wanted(state) for state in states}
            if any(wish.topic_id == NO_UUID for wish in wanted.values()):
                version = min(version, BY_NAME)
            if wanted:
                sent = self._network.loop.time()
                answer = await connection.send(
                    self._request(session.ask(wanted), version),
                    timeout_s=(self._cluster.config.request_timeout_ms + self._config.fetch_max_wait_ms) / 1000,
                    version=version,
                )
                assert isinstance(answer, FetchResponse)
                with self._changed:
                    moved = self._take(node, session, answer, stamps)
                    self._measure(answer, sent)
        except NetworkError as error:
            log.debug("A fetch failed: %s", error)
            self._back_off(node, session)
            moved = topics
        except Exception as error:
            self._back_off(node, session)
            if not isinstance(error, SlackwaterError):
                log.exception("A fetch failed.")
                error = PeerError(f"A fetch failed: {error!r}")
            with self._changed:
                self.fail(error, states)
        finally:
            with self._changed:
                self._busy.discard(node)
                for state in states:
                    if state.partition in stamps and state.stamp == stamps[state.partition][0]:
                        state.fetching = False
                self._changed.notify_all()
        if moved:
            self._refresh_later(moved)
        else:
            self._run()

    def _back_off(self, node: int, session: FetchSession) -> None:
        session.failed()
        self._not_before[node] = self._network.loop.time() + self._cluster.config.reconnect_backoff_ms / 1000

    def _measure(self, answer: FetchResponse, sent: float) -> None:
        now = self._network.loop.time()
        size = sum(len(data.records or b"") for topic in answer.responses for data in topic.partitions)
        self.metrics.fetched(round((now - sent) * 1000), size, round(now * 1000))

    def _wanted(self, state: PartitionState) -> Wanted:
        topic = self._cluster.topics.get(state.partition.topic)
        leader = self._cluster.leader(*state.partition)
        return Wanted(
            topic.topic_id if topic is not None else NO_UUID,
            state.ahead,
            leader.leader_epoch if leader is not None else -1,
            self._config.max_partition_fetch_bytes,
        )

    def _request(self, ask: Ask, version: int) -> FetchRequest:
        config = self._config
        topics: dict[str, FetchTopic] = {}
        for partition, wish in ask.wanted.items():
            topic = topics.get(partition.topic)
            if topic is None:
                topic = topics[partition.topic] = FetchTopic(topic=partition.topic, topic_id=wish.topic_id)
            topic.partitions.append(
                FetchPartition(
                    partition=partition.partition,
                    current_leader_epoch=wish.leader_epoch,
                    fetch_offset=wish.offset,
                    partition_max_bytes=wish.max_bytes,
                )
            )
        forgotten: dict[str, ForgottenTopic] = {}
        for partition in ask.forgotten:
            gone = forgotten.get(partition.topic)
            if gone is None:
                known = self._cluster.topics.get(partition.topic)
                gone = forgotten[partition.topic] = ForgottenTopic(
                    topic=partition.topic, topic_id=known.topic_id if known is not None else NO_UUID
                )
            gone.partitions.append(partition.partition)
        return FetchRequest(
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            isolation_level=int(config.read_committed),
            session_id=ask.session_id,
            session_epoch=ask.epoch,
            topics=list(topics.values()),
            forgotten_topics_data=list(forgotten.values()) if version >= 7 else [],
            rack_id=config.client_rack,
        )

    # Answers

    def _take(
        self,
        node: int,
        session: FetchSession,
        answer: FetchResponse,
        stamps: dict[TopicPartition, tuple[int, int]],
    ) -> set[str]:
        """Keep what came; the answer is the topics whose metadata is old."""
        if answer.error_code:
            self._back_off(node, session)
            log.debug("The fetch session with broker %d ended: %s.", node, Error(answer.error_code).name)
            return set()
        session.answered(answer.session_id)
        moved: set[str] = set()
        for topic in answer.responses:
            name = topic.topic or self._cluster.names_by_id.get(topic.topic_id, "")
            for data in topic.partitions:
                partition = TopicPartition(name, data.partition_index)
                state = self._positions.get(partition)
                asked = stamps.get(partition)
                if state is None or asked is None or state.stamp != asked[0] or state.ahead != asked[1]:
                    continue
                error = Error(data.error_code)
                if error is Error.NONE:
                    self._keep(state, data)
                elif error is Error.OFFSET_OUT_OF_RANGE:
                    self._out_of_range(state, node)
                elif error in _MOVED:
                    state.preferred_replica = None
                    moved.add(name)
                elif error.retriable or error is Error.UNKNOWN_SERVER_ERROR:
                    log.warning("Fetching %s failed and is tried again: %s.", partition, error.name)
                    moved.add(name)
                else:
                    self.fail(BrokerError(error, f"Fetching {partition} failed: {error.name}."), [state])
        return moved

    def _keep(self, state: PartitionState, data: PartitionData) -> None:
        state.high_watermark = data.high_watermark
        state.last_stable_offset = data.last_stable_offset
        state.log_start_offset = data.log_start_offset
        if data.preferred_read_replica >= 0:
            until = self._network.loop.time() + self._cluster.config.metadata_max_age_ms / 1000
            state.preferred_replica = (data.preferred_read_replica, until)
        if not data.records:
            return
        aborted = None
        if self._config.read_committed:
            aborted = [(one.producer_id, one.first_offset) for one in data.aborted_transactions or ()]
        end = end_offset(data.records)
        if end is not None and end > state.ahead:
            state.chunks.append(Chunk(state.ahead, data.records, aborted, state.leader_epoch))
            state.ahead = end

    def _out_of_range(self, state: PartitionState, node: int) -> None:
        if state.preferred_replica is not None:
            state.preferred_replica = None
        elif state.chunks or state.opened is not None:
            # What was read ahead is given out first; a later fetch sees whether it is still so.
            self._back_off(node, self._sessions[node])
        elif (reset_to := self.reset_to()) is not None:
            log.info("Fetch position %s of %s is out of range, resetting offset.", state.position, state.partition)
            self._positions.reset(state, reset_to)
        else:
            error = OffsetOutOfRangeError(
                f"The position {state.position} of {state.partition} is not in its log, and auto.offset.reset is "
                "none; seek, or set auto.offset.reset to earliest or latest."
            )
            self.fail(error, [state])
