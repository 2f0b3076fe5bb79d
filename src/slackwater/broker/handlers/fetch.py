"""Fetch, v4 to v18.

v5   log start offset
v7   sessions (`fetching.sessions`)
v9   leader epoch (KIP-320)
v12  flexible; last fetched epoch and diverging epoch (KIP-595)
v13  topic ids: an unknown id is UNKNOWN_TOPIC_ID, or INCONSISTENT_TOPIC_ID if the session's topic was recreated

Partitions are read in order until `max_bytes` are used up. The first partition with records returns at least one batch,
however large.

With fewer than `min_bytes` the fetch waits (`delayed_fetches`) and then reads again. Bytes count as in Kafka:
- A read counts with all bytes up to its limit, although the response contains only complete batches.
- Otherwise every partition counts with its bytes up to its own limit, also if `max_bytes` leaves no room for them.
- A position in an older segment ends the wait, because a read never continues in the next segment.
- An error ends the wait. An unknown topic does not: it is reported together with the other partitions, or at once if
  there are no others.

With read_committed a partition ends at its last stable offset, and the response lists the aborted transactions of the
range that was read. A transactional batch does not end the wait, the end of its transaction does. A position beyond the
last stable offset ends the wait, as in Kafka, where such a position means that the log was truncated.

This broker has no followers: a request with a replica id is processed like a consumer's.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, cast

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.fetching.sessions import CachedPartition, FetchContext, PartitionKey, ReadPartition
from slackwater.broker.request_context import RequestContext
from slackwater.broker.storage.log.partition_log import LogPosition
from slackwater.broker.storage.log.validation import Rejection
from slackwater.broker.storage.topics import Partition, Topic, Topics
from slackwater.group.errors import Error
from slackwater.security.acls import AclOperation, AclResourceType
from slackwater.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from slackwater.wire.schema import NO_UUID

_TOPIC_IDS_SINCE: Final = 13
_READ_COMMITTED: Final = 1
_NO_RECORDS: Final = b""


class _FetchPosition(NamedTuple):
    """Where the fetch of a partition starts."""

    partition: Partition
    offset: int
    start: LogPosition
    max_bytes: int


class _FetchRead:
    """One request: its partitions and the data read so far."""

    __slots__ = (
        "_broker",
        "_bytes_left",
        "_committed",
        "_context",
        "_fetch",
        "_has_error",
        "_is_changed",
        "_max_bytes",
        "_may_read",
        "_min_bytes",
        "_positions",
        "_read",
        "_readable_bytes",
        "partitions",
    )

    def __init__(
        self, broker: BrokerState, context: RequestContext, request: FetchRequest, fetch: FetchContext
    ) -> None:
        self._broker = broker
        self._context = context
        self._fetch = fetch
        self._may_read = _may_read(broker, context, request)
        self._committed = request.isolation_level == _READ_COMMITTED
        self._max_bytes = min(request.max_bytes, broker.fetch_max_bytes)
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._is_changed = False
        self.read()

    @property
    def _counts_bytes(self) -> bool:
        """Whether a change of a partition may be too little to end the wait."""
        return self._min_bytes > 1 or self._committed

    @property
    def is_complete(self) -> bool:
        """Whether the response can be sent without waiting."""
        return (
            self._has_error
            or not self.partitions
            or self._readable_bytes >= self._min_bytes
            or self._has_available_bytes()
        )

    def read(self) -> None:
        """Read all partitions."""
        topics, in_session = self._broker.topics, self._fetch.session is not None
        self._read: list[ReadPartition] = []
        self._readable_bytes = 0  # up to the limits, including an incomplete batch at the end
        self._bytes_left = self._max_bytes
        self._has_error = False
        self._positions: list[_FetchPosition] = []  # empty if any new record is enough
        self.partitions: list[Partition] = []  # existing partitions, which may grow
        unknown: list[ReadPartition] = []
        for requested in self._fetch.partitions:
            partition = find_partition(topics, requested)
            if self._may_read is not None and not self._may_read(requested.topic):
                partition = Error.TOPIC_AUTHORIZATION_FAILED
            if isinstance(partition, Error):
                if partition is Error.INCONSISTENT_TOPIC_ID:
                    self._has_error = True
                    self._read.append((requested, _error_data(requested, partition)))
                else:
                    unknown.append((requested, _error_data(requested, partition, aborted=[])))
                continue
            self.partitions.append(partition)
            # An idle consumer may have many partitions without any change.
            if in_session and _is_unchanged(partition, requested):
                if self._counts_bytes:
                    end = partition.log.end_position
                    self._positions.append(_FetchPosition(partition, requested.fetch_offset, end, requested.max_bytes))
                continue
            data = self._read_partition(partition, requested)
            if data.error_code or data.diverging_epoch.epoch >= 0:
                self._has_error = True
            self._read.append((requested, data))
        self._read += unknown

    def _read_partition(self, partition: Partition, requested: CachedPartition) -> PartitionData:
        log, offset = partition.log, requested.fetch_offset
        if error := partition.leader_epoch_error(requested.current_leader_epoch):
            return _error_data(requested, error)
        end = log.log_end_offset
        data = PartitionData(
            requested.index,
            0,
            end,
            log.last_stable_offset,
            log.log_start_offset,
            aborted_transactions=[] if self._committed else None,
            records=_NO_RECORDS,
        )
        if requested.last_fetched_epoch >= 0:
            if requested.last_fetched_epoch > log.leader_epoch:
                return _error_data(requested, Error.OFFSET_OUT_OF_RANGE)
            if offset > end:
                data.diverging_epoch = EpochEndOffset(log.leader_epoch, end)
                return data
        is_full = self._readable_bytes > 0 and not self._bytes_left
        if is_full and log.log_start_offset <= offset <= end:
            return data
        start = log.find(offset)
        if isinstance(start, Rejection):
            return _error_data(requested, start.error)
        if self._counts_bytes:
            self._positions.append(_FetchPosition(partition, offset, start, requested.max_bytes))
        limit = min(self._bytes_left, requested.max_bytes)
        stable_end = log.find_stable_end() if self._committed else None
        if isinstance(stable_end, Rejection):
            return _error_data(requested, stable_end.error)
        records = log.read_at(start, limit, min_one=not self._readable_bytes, end=stable_end)
        if isinstance(records, Rejection):
            return _error_data(requested, records.error)
        if records:
            data.records = cast("bytes", records)  # the encoder needs only the length of a range
            if self._committed:
                data.aborted_transactions = [
                    AbortedTransaction(aborted.producer_id, aborted.first_offset)
                    for aborted in log.aborted_transactions(offset, start, len(records))
                ]
            readable = max(len(records), min(limit, _bytes_between(start, stable_end)))
            self._readable_bytes += readable
            self._bytes_left = max(self._bytes_left - readable, 0)
        return data

    def _has_available_bytes(self) -> bool:
        """Whether the partitions have `min_bytes`, each up to its limit, or a position ends the wait."""
        available_bytes = 0
        for partition, offset, start, max_bytes in self._positions:
            topic, log = partition.topic, partition.log
            if self._broker.topics.get(topic.name) is not topic:
                return True
            readable_end = log.last_stable_offset if self._committed else log.log_end_offset
            if offset > readable_end:
                return True
            if offset < readable_end:
                end = log.find_stable_end() if self._committed else log.end_position
                if isinstance(end, Rejection) or start.segment.base_offset < end.segment.base_offset:
                    return True
                available_bytes += min(end.position - start.position, max_bytes)
        return available_bytes >= max(self._min_bytes, 1)

    def has_enough(self) -> bool:
        """Whether the change of a partition ends the wait."""
        self._is_changed = True
        return not self._counts_bytes or self._has_available_bytes()

    def end_wait(self) -> None:
        """Send the response after the wait."""
        try:
            if self._is_changed:
                self.read()
            self.respond()
        except Exception:
            self._context.respond(FetchResponse(error_code=Error.UNKNOWN_SERVER_ERROR))
            raise

    def respond(self) -> None:
        """Send the data that was read."""
        context = self._context
        by_id = context.version >= _TOPIC_IDS_SINCE
        completed = self._broker.fetch_sessions.complete(self._fetch, self._read, uses_topic_ids=by_id)
        if isinstance(completed, Error):
            context.respond(FetchResponse(error_code=completed))
            return
        session_id, partitions = completed
        context.respond_with_records(FetchResponse(session_id=session_id, responses=_by_topic(partitions)))


def handle(broker: BrokerState, context: RequestContext, request: FetchRequest) -> None:
    """Return records now, or wait until there are enough."""
    broker.appends.write_pending()
    by_id = context.version >= _TOPIC_IDS_SINCE
    fetch = broker.fetch_sessions.create_context(
        request.session_id,
        request.session_epoch,
        [partition for topic in request.topics for partition in _requested(topic, by_id=by_id)],
        [key for topic in request.forgotten_topics_data for key in _keys(topic, by_id=by_id)],
        uses_topic_ids=by_id,
    )
    if isinstance(fetch, Error):
        context.respond(FetchResponse(error_code=fetch))
        return
    read = _FetchRead(broker, context, request, fetch)
    if request.max_wait_ms <= 0 or read.is_complete:
        read.respond()
        return
    broker.delayed_fetches.add(
        context.connection, read.partitions, request.max_wait_ms, is_satisfied=read.has_enough, end=read.end_wait
    )


def error_response(request: FetchRequest, version: int, error: Error) -> FetchResponse:
    """Report an error at the top level and on every partition, because old versions have no top-level error."""
    return FetchResponse(
        error_code=error,
        responses=[
            FetchableTopicResponse(
                topic.topic,
                topic.topic_id,
                [
                    PartitionData(partition.partition, error, -1, aborted_transactions=None, records=_NO_RECORDS)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _may_read(
    broker: BrokerState, context: RequestContext, request: FetchRequest
) -> Callable[[str | None], bool] | None:
    """Return whether the client may read a topic, which has no name if its id is unknown; None without authorizer."""
    if broker.authorizer is None:
        return None
    if request.replica_id >= 0 or request.replica_state.replica_id >= 0:
        is_replica = broker.allows_cluster(context, AclOperation.CLUSTER_ACTION)
        return lambda topic: is_replica
    return lambda topic: topic is None or broker.allows(context, AclOperation.READ, AclResourceType.TOPIC, topic)


def find_partition(topics: Topics, requested: CachedPartition) -> Partition | Error:
    """Find a requested partition."""
    topic: Topic | None
    if requested.topic_id is None:
        topic = topics.get(requested.topic or "")
    else:
        topic = topics.by_id(requested.topic_id)
        if topic is None:
            if requested.topic is None:
                return Error.UNKNOWN_TOPIC_ID
            # The session has the topic's name. If a topic with that name exists, the id belongs to a deleted topic.
            return Error.INCONSISTENT_TOPIC_ID if topics.get(requested.topic) else Error.UNKNOWN_TOPIC_OR_PARTITION
        requested.topic = topic.name
    if topic is None or not 0 <= requested.index < len(topic.partitions):
        return Error.UNKNOWN_TOPIC_OR_PARTITION
    return topic.partitions[requested.index]


def _requested(topic: FetchTopic, *, by_id: bool) -> list[CachedPartition]:
    name, topic_id = (None, topic.topic_id) if by_id else (topic.topic, None)
    return [
        CachedPartition(
            name,
            topic_id,
            partition.partition,
            partition.fetch_offset,
            partition.partition_max_bytes,
            partition.current_leader_epoch,
            partition.last_fetched_epoch,
        )
        for partition in topic.partitions
    ]


def _keys(topic: ForgottenTopic, *, by_id: bool) -> list[PartitionKey]:
    return [(topic.topic_id if by_id else topic.topic, index) for index in topic.partitions]


def _bytes_between(start: LogPosition, end: LogPosition | None) -> int:
    """Return the bytes from a position to another one, or to the end of the segment."""
    if end is not None and end.segment is start.segment:
        return end.position - start.position
    return start.segment.size - start.position


def _is_unchanged(partition: Partition, requested: CachedPartition) -> bool:
    """Whether a session's client has read the whole partition and has its current offsets."""
    log = partition.log
    return (
        requested.fetch_offset == requested.high_watermark == log.log_end_offset
        and requested.log_start_offset == log.log_start_offset
        and requested.last_fetched_epoch < 0
        and not partition.leader_epoch_error(requested.current_leader_epoch)
    )


def _error_data(
    requested: CachedPartition, error: Error, aborted: list[AbortedTransaction] | None = None
) -> PartitionData:
    return PartitionData(requested.index, error, -1, aborted_transactions=aborted, records=_NO_RECORDS)


def _by_topic(partitions: Sequence[ReadPartition]) -> list[FetchableTopicResponse]:
    """Group consecutive partitions of one topic."""
    topics: list[FetchableTopicResponse] = []
    previous: tuple[str | None, bytes | None] = (None, None)
    for requested, data in partitions:
        topic = (requested.topic, requested.topic_id)
        if not topics or topic != previous:
            topics.append(FetchableTopicResponse(requested.topic or "", requested.topic_id or NO_UUID))
            previous = topic
        topics[-1].partitions.append(data)
    return topics
