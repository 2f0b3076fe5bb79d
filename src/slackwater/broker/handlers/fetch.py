"""Fetch, v4 to v18.

v5   log start offset
v7   sessions (`fetch_sessions`)
v9   leader epoch (KIP-320)
v12  flexible; the last fetched epoch, and where the logs part (KIP-595)
v13  topic ids: UNKNOWN_TOPIC_ID, and INCONSISTENT_TOPIC_ID where a session's topic was made anew

Partitions are read in their order, until `max_bytes` are full; the first that has records gives one batch at least,
however large. If there are fewer than `min_bytes`, the fetch waits (`fetch_waits`), and then reads again. An error
found in reading is answered at once. A topic that nobody knows is no such error, as in Kafka: it is told when the
others have something to tell, or at once if there are no others.

A fetch that ended without news is likely to come again, unchanged, for as long as nobody writes: `idle_fetches`.

There are no followers: whoever says that it is a replica is answered like a consumer. There are no transactions: the
last stable offset is the high watermark, and read_committed reads the same.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.broker.fetching.idle_fetches import IdleFetch
from slackwater.broker.fetching.sessions import Fetch, Key, Session, Wanted
from slackwater.broker.repeats import MOST_WASTED
from slackwater.broker.storage.log.segment import Segment
from slackwater.broker.storage.log.validation import Rejection
from slackwater.broker.storage.topics import Partition, Topic, Topics
from slackwater.group.errors import Error
from slackwater.wire.envelope import PreencodedResponse
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

IDLES: Final = True
_IDS_SINCE: Final = 13
_READ_COMMITTED: Final = 1
_NOTHING: Final = b""
Found = list[tuple[Wanted, PartitionData]]


class _End(NamedTuple):
    """Where a partition ended when it was read, to see what it has gained since."""

    partition: Partition
    active: Segment
    active_size: int
    size: int  # what was read of it
    most: int  # what the client takes of it


class _Reading:
    """One request: what it asks for, and what has been found so far."""

    __slots__ = (
        "_broker",
        "_committed",
        "_context",
        "_ends",
        "_fetch",
        "_found",
        "_is_wrong",
        "_max_bytes",
        "_min_bytes",
        "_request",
        "_size",
        "_was_woken",
        "partitions",
    )

    def __init__(self, broker: Broker, context: RequestContext, request: FetchRequest, fetch: Fetch) -> None:
        self._broker = broker
        self._context = context
        self._request = request
        self._fetch = fetch
        self._committed = request.isolation_level == _READ_COMMITTED
        self._max_bytes = min(request.max_bytes, broker.fetch_max_bytes)
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._was_woken = False
        self.read()

    @property
    def is_done(self) -> bool:
        """Whether there is nothing to wait for."""
        return self._is_wrong or not self.partitions or self._size >= self._min_bytes

    def read(self) -> None:
        """Read every partition."""
        topics, left, in_session = self._broker.topics, self._max_bytes, self._fetch.session is not None
        self._found: Found = []
        self._size = 0
        self._is_wrong = False
        self._ends: list[_End] = []  # if it may matter how much they grow
        self.partitions: list[Partition] = []  # which may grow
        unknown: Found = []
        for wanted in self._fetch.partitions:
            partition = find(topics, wanted)
            if isinstance(partition, Error):
                if partition is Error.INCONSISTENT_TOPIC_ID:
                    self._is_wrong = True
                    self._found.append((wanted, _error(wanted, partition)))
                else:
                    unknown.append((wanted, _error(wanted, partition, aborted=[])))
                continue
            size = 0
            # So it is with most partitions of a consumer that waits, and there may be many.
            if not (in_session and _is_told(partition, wanted)):
                data = self._read_one(partition, wanted, left)
                if data.error_code or data.diverging_epoch.epoch >= 0:
                    self._is_wrong = True
                size = len(data.records or _NOTHING)
                self._size += size
                left = max(left - size, 0)
                self._found.append((wanted, data))
            self.partitions.append(partition)
            if self._min_bytes > 1:
                active = partition.log.active
                self._ends.append(_End(partition, active, active.size, size, wanted.max_bytes))
        self._found += unknown

    def _read_one(self, partition: Partition, wanted: Wanted, left: int) -> PartitionData:
        log, offset = partition.log, wanted.fetch_offset
        if error := partition.leader_epoch_error(wanted.current_leader_epoch):
            return _error(wanted, error)
        end = log.log_end_offset
        data = PartitionData(
            wanted.index,
            0,
            end,
            end,
            log.log_start_offset,
            aborted_transactions=[] if self._committed else None,
            records=_NOTHING,
        )
        if wanted.last_fetched_epoch >= 0:
            if wanted.last_fetched_epoch > log.leader_epoch:
                return _error(wanted, Error.OFFSET_OUT_OF_RANGE)
            if offset > end:
                data.diverging_epoch = EpochEndOffset(log.leader_epoch, end)
                return data
        if offset == end:
            return data
        if left or not self._size or not log.log_start_offset <= offset < end:
            records = log.read(offset, min(left, wanted.max_bytes), min_one=not self._size)
            if isinstance(records, Rejection):
                return _error(wanted, records.error)
            data.records = records
        return data

    def has_enough(self) -> bool:
        """Whether so much was appended that it is worth to read again; segments are looked at as in Kafka."""
        self._was_woken = True
        size = 0
        for partition, active, active_size, before, most in self._ends:
            topic = partition.topic
            if partition.log.active is not active or self._broker.topics.get(topic.name) is not topic:
                return True
            size += min(before + active.size - active_size, max(most, before))
        return size >= self._min_bytes or self._min_bytes <= 1

    def end(self) -> None:
        """The wait is over: answer with what there is now."""
        try:
            if self._was_woken:
                self.read()
            self.respond()
        except Exception:
            self._context.respond(FetchResponse(error_code=Error.UNKNOWN_SERVER_ERROR))
            raise

    def respond(self) -> None:
        """Answer with what was found."""
        ids = self._context.version >= _IDS_SINCE
        ended = self._broker.fetch_sessions.end(self._fetch, self._found, uses_topic_ids=ids)
        if isinstance(ended, Error):
            self._context.respond(FetchResponse(error_code=ended))
            return
        session_id, told = ended
        context, session = self._context, self._fetch.session
        if session is not None and not told:
            nothing_new = _nothing_new(session, context.version)
            context.respond_encoded(nothing_new.frame(context.correlation_id))
            if not self._found and _may_come_again(self._request) and session.kept_in_vain < MOST_WASTED:
                self._keep_idle(session, nothing_new)
        else:
            context.respond_with_records(FetchResponse(session_id=session_id, responses=_by_topic(told)))

    def _keep_idle(self, session: Session, nothing_new: PreencodedResponse) -> None:
        """What will take this request when it comes again and there is still nothing."""
        broker, request = self._broker, self._request
        session.kept_in_vain += 1

        def read(context: RequestContext, epoch: int) -> None:
            try:
                fetch = Fetch(list(session.partitions.values()), session, epoch=epoch)
                _Reading(broker, context, request, fetch).respond()
            except Exception:
                if not context.has_response:
                    context.respond(FetchResponse(error_code=Error.UNKNOWN_SERVER_ERROR))
                raise

        idle = IdleFetch(
            self._context,
            request,
            session,
            nothing_new,
            self.partitions,
            sessions=broker.fetch_sessions,
            waits=broker.fetch_waits,
            read=read,
        )
        self._context.connection.keep_idle(idle)


def handle(broker: Broker, context: RequestContext, request: FetchRequest) -> None:
    """Answer with records, now or when there are some."""
    broker.appends.flush_pending()
    context.connection.forget_idle()
    ids = context.version >= _IDS_SINCE
    fetch = broker.fetch_sessions.begin(
        request.session_id,
        request.session_epoch,
        [one for topic in request.topics for one in _wanted(topic, ids=ids)] if request.topics else [],
        [key for topic in request.forgotten_topics_data for key in _keys(topic, ids=ids)],
        uses_topic_ids=ids,
    )
    if isinstance(fetch, Error):
        context.respond(FetchResponse(error_code=fetch))
        return
    reading = _Reading(broker, context, request, fetch)
    if request.max_wait_ms <= 0 or reading.is_done:
        reading.respond()
        return
    broker.fetch_waits.park(
        context.connection, reading.partitions, request.max_wait_ms, enough=reading.has_enough, end=reading.end
    )


def error_response(request: FetchRequest, version: int, error: Error) -> FetchResponse:
    """An error: of the whole, and on every partition for versions that have none of the whole."""
    return FetchResponse(
        error_code=error,
        responses=[
            FetchableTopicResponse(
                topic.topic,
                topic.topic_id,
                [
                    PartitionData(one.partition, error, -1, aborted_transactions=None, records=_NOTHING)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _may_come_again(request: FetchRequest) -> bool:
    """Whether a consumer that hears of nothing new will ask for the same, and may be made to wait for any byte."""
    return (
        request.max_wait_ms > 0 and request.min_bytes <= 1 and not request.topics and not request.forgotten_topics_data
    )


def _nothing_new(session: Session, version: int) -> PreencodedResponse:
    """What a consumer that waits in vain hears twice a second; encoded once in its session."""
    if session.nothing_new is None or session.nothing_new[0] != version:
        session.nothing_new = version, PreencodedResponse(FetchResponse(session_id=session.session_id), version)
    return session.nothing_new[1]


def find(topics: Topics, wanted: Wanted) -> Partition | Error:
    """The partition that is asked for."""
    topic: Topic | None
    if wanted.topic_id is None:
        topic = topics.get(wanted.topic or "")
    else:
        topic = topics.by_id(wanted.topic_id)
        if topic is None:
            if wanted.topic is None:
                return Error.UNKNOWN_TOPIC_ID
            # The session knew the topic. If there is another of that name now, the id is the one of its predecessor.
            return Error.INCONSISTENT_TOPIC_ID if topics.get(wanted.topic) else Error.UNKNOWN_TOPIC_OR_PARTITION
        wanted.topic = topic.name
    if topic is None or not 0 <= wanted.index < len(topic.partitions):
        return Error.UNKNOWN_TOPIC_OR_PARTITION
    return topic.partitions[wanted.index]


def _wanted(topic: FetchTopic, *, ids: bool) -> list[Wanted]:
    name, topic_id = (None, topic.topic_id) if ids else (topic.topic, None)
    return [
        Wanted(
            name,
            topic_id,
            one.partition,
            one.fetch_offset,
            one.partition_max_bytes,
            one.current_leader_epoch,
            one.last_fetched_epoch,
        )
        for one in topic.partitions
    ]


def _keys(topic: ForgottenTopic, *, ids: bool) -> list[Key]:
    return [(topic.topic_id if ids else topic.topic, index) for index in topic.partitions]


def _is_told(partition: Partition, wanted: Wanted) -> bool:
    """Whether the client of a session has read all of this partition, and knows it."""
    log = partition.log
    return (
        wanted.fetch_offset == wanted.high_watermark == log.log_end_offset
        and wanted.log_start_offset == log.log_start_offset
        and wanted.last_fetched_epoch < 0
        and not partition.leader_epoch_error(wanted.current_leader_epoch)
    )


def _error(wanted: Wanted, error: Error, aborted: list[AbortedTransaction] | None = None) -> PartitionData:
    return PartitionData(wanted.index, error, -1, aborted_transactions=aborted, records=_NOTHING)


def _by_topic(told: Sequence[tuple[Wanted, PartitionData]]) -> list[FetchableTopicResponse]:
    """Neighbours of one topic stand together."""
    topics: list[FetchableTopicResponse] = []
    last: tuple[str | None, bytes | None] = (None, None)
    for wanted, data in told:
        this = (wanted.topic, wanted.topic_id)
        if not topics or this != last:
            topics.append(FetchableTopicResponse(wanted.topic or "", wanted.topic_id or NO_UUID))
            last = this
        topics[-1].partitions.append(data)
    return topics
