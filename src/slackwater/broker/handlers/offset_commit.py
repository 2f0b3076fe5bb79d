"""OffsetCommit, v2 to v10.

v0 and v1, from before Kafka 0.9, are gone in 4.0.

v2   retention time, for all offsets together (OC-13)
v3   throttle time in the answer
v5   no retention time any more
v6   leader epoch
v7   instance id
v8   flexible
v9   a generation of a group that does not exist is GROUP_ID_NOT_FOUND, before it is ILLEGAL_GENERATION (OC-02); the
     generation may be a KIP-848 member's epoch
v10  topics by their ids, in the answer too; an unknown one is UNKNOWN_TOPIC_ID

Partitions that do not exist are refused here, the others go to the coordinator (OC-10). The answer has the refused
ones first, then the others in the order asked. Kafka joins them under one topic only if something was refused.

A member commits the same partitions again and again, and mostly all is well: that answer is encoded once. Its requests
differ in the offsets and their leader epochs, which are all that is read of them then.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import islice, repeat
from typing import Any, Final

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.broker.repeats import Cut, Run
from slackwater.broker.storage.topics import Topic
from slackwater.group.errors import Error
from slackwater.group.messages import OffsetCommit, OffsetToCommit
from slackwater.group.messages import OffsetCommitResponse as Committed
from slackwater.wire.apis import OFFSET_COMMIT
from slackwater.wire.envelope import PreencodedResponse, RequestHeader, encode_request
from slackwater.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from slackwater.wire.repeats import NumberedFrames

KEPT_ANSWERS: Final = 1024
_LEADER_EPOCH_SINCE: Final = 6
_MISSING_GROUP_SINCE: Final = 9
_BY_ID_SINCE: Final = 10
_NUMBERS: Final = "qi"  # offset, leader epoch
_SIZE: Final = 4
_offset_to_commit: Final = partial(tuple.__new__, OffsetToCommit)  # of its fields, without the class's slower `__new__`
Refused = dict[str | bytes, OffsetCommitResponseTopic]
Asked = tuple[str, bytes, tuple[int, ...]]  # a topic's name or id, and those of its partitions that are committed


def handle(broker: Broker, context: RequestContext, request: OffsetCommitRequest) -> None:
    """Store offsets, and answer when they are written (OC-12)."""
    offsets: list[OffsetToCommit] = []
    asked: list[Asked] = []
    refused: Refused = {}
    by_id = context.version >= _BY_ID_SINCE
    for topic in request.topics:
        found = broker.topics.by_id(topic.topic_id) if by_id else broker.topics.get(topic.name)
        if found is None:
            unknown = Error.UNKNOWN_TOPIC_ID if by_id else Error.UNKNOWN_TOPIC_OR_PARTITION
            _refuse(refused, topic, [one.partition_index for one in topic.partitions], unknown)
            continue
        name, end = found.name, len(found.partitions)
        indexes: list[int] = []
        for one in topic.partitions:
            index = one.partition_index
            if 0 <= index < end:
                offset = (name, index, one.committed_offset, one.committed_leader_epoch, one.committed_metadata)
                offsets.append(tuple.__new__(OffsetToCommit, offset))  # without the class's slower `__new__`
                indexes.append(index)
            else:
                _refuse(refused, topic, [index], Error.UNKNOWN_TOPIC_OR_PARTITION)
        if indexes:
            asked.append((topic.name, topic.topic_id, tuple(indexes)))
    if not offsets:
        context.respond(OffsetCommitResponse(topics=list(refused.values())))
        return

    def on_response(answer: Committed) -> None:
        if not refused and not any(one.error for one in answer.partitions):
            context.respond_encoded(_all_stored(context.version, tuple(asked)).frame(context.correlation_id))
            return
        topics = _answered(asked, answer)
        context.respond(OffsetCommitResponse(topics=_merged(refused, topics) if refused else topics))

    broker.groups.submit(
        OffsetCommit(
            request.group_id,
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
            tuple(offsets),
            request.retention_time_ms,
            context.version >= _MISSING_GROUP_SINCE,
        ),
        on_response,
    )


def error_response(request: OffsetCommitRequest, version: int, error: Error) -> OffsetCommitResponse:
    """An error on every partition."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                [OffsetCommitResponsePartition(one.partition_index, error) for one in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def repeats(header: RequestHeader, request: OffsetCommitRequest, frame: bytes) -> "Again | None":
    """What takes commits of the same partitions by the same member, with the same metadata."""
    version = header.api_version
    again = _numbers_turned_over(request)
    if not again.topics or encode_request(request, version, header.correlation_id, header.client_id)[_SIZE:] != frame:
        return None
    other = encode_request(again, version, header.correlation_id, header.client_id)[_SIZE:]
    frames = NumberedFrames.learn(frame, other, _NUMBERS if version >= _LEADER_EPOCH_SINCE else _NUMBERS[:1])
    return None if frames is None else Again(frames, request, version)


class Again:
    """A commit that comes again and again, with other offsets."""

    __slots__ = (
        "_all_stored",
        "_asked",
        "_encoded_last",
        "_frames",
        "_heard_last",
        "_indexes",
        "_metadata",
        "_names",
        "_request",
        "_topics",
        "_version",
        "api_key",
    )

    def __init__(self, frames: NumberedFrames, request: OffsetCommitRequest, version: int) -> None:
        self.api_key = OFFSET_COMMIT.key
        self._frames = frames
        self._request = request
        self._version = version
        self._asked = tuple(
            (topic.name, topic.topic_id, tuple(one.partition_index for one in topic.partitions))
            for topic in request.topics
        )
        self._all_stored = self._encoded_last = _all_stored(version, self._asked)
        self._heard_last: Committed | None = None
        self._topics: list[Topic] = []  # found when they were last looked for
        # For each partition, in the order asked:
        self._names: list[str] = []
        self._indexes = [one.partition_index for topic in request.topics for one in topic.partitions]
        self._metadata = [one.committed_metadata for topic in request.topics for one in topic.partitions]

    @property
    def size(self) -> int:
        """The bytes of one of them."""
        return self._frames.size

    def cut(self, broker: Broker, data: bytes) -> Cut | None:
        """The commits there, unless one of the partitions is gone."""
        if not self._topics_are_there(broker):
            return None
        found = self._frames.cut(data)
        return Cut(self._frames.correlation_ids(found), found, len(found) * self._frames.size) if found else None

    def _topics_are_there(self, broker: Broker) -> bool:
        topics = broker.topics
        by_id = self._version >= _BY_ID_SINCE
        found = [topics.by_id(topic_id) if by_id else topics.get(name) for name, topic_id, _ in self._asked]
        if found == self._topics:  # a topic is equal to itself alone
            return True
        names: list[str] = []
        for topic, (_, _, indexes) in zip(found, self._asked, strict=True):
            if topic is None or not all(0 <= index < len(topic.partitions) for index in indexes):
                return False
            names += [topic.name] * len(indexes)
        self._topics = [topic for topic in found if topic is not None]
        self._names = names
        return True

    def handle(self, broker: Broker, run: Run, found: list[tuple[Any, ...]]) -> None:
        """Store offsets, and answer each when they are written."""
        request, on_response = self._request, self._heard
        group_id, member_id, instance_id = request.group_id, request.member_id, request.group_instance_id
        generation_id, retention_ms = request.generation_id_or_member_epoch, request.retention_time_ms
        reports_missing_group = self._version >= _MISSING_GROUP_SINCE
        names, indexes, metadata = self._names, self._indexes, self._metadata
        offsets_at = self._frames.numbers(0)
        epochs_at = self._frames.numbers(1) if self._version >= _LEADER_EPOCH_SINCE else None
        asked = []
        for place, one in enumerate(found):
            epochs = repeat(-1) if epochs_at is None else one[epochs_at]
            offsets = tuple(map(_offset_to_commit, zip(names, indexes, one[offsets_at], epochs, metadata)))  # noqa: B905
            commit = OffsetCommit(
                group_id, member_id, instance_id, generation_id, offsets, retention_ms, reports_missing_group
            )
            asked.append((commit, partial(on_response, run, place)))
        broker.groups.submit_all(asked)

    def _heard(self, run: Run, place: int, answer: Committed) -> None:
        if answer is not self._heard_last:  # the coordinator says the same to many
            self._heard_last, self._encoded_last = answer, self._encoded(answer)
        run.answer(place, self._encoded_last)

    def _encoded(self, answer: Committed) -> PreencodedResponse:
        if any(one.error for one in answer.partitions):
            return PreencodedResponse(OffsetCommitResponse(topics=_answered(self._asked, answer)), self._version)
        return self._all_stored

    def refusal(self) -> PreencodedResponse:
        """The answer where that failed."""
        return PreencodedResponse(
            error_response(self._request, self._version, Error.UNKNOWN_SERVER_ERROR), self._version
        )


def _numbers_turned_over(request: OffsetCommitRequest) -> OffsetCommitRequest:
    topics = [
        replace(
            topic,
            partitions=[
                replace(one, committed_offset=~one.committed_offset, committed_leader_epoch=~one.committed_leader_epoch)
                for one in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return replace(request, topics=topics)


@lru_cache(maxsize=KEPT_ANSWERS)
def _all_stored(version: int, asked: tuple[Asked, ...]) -> PreencodedResponse:
    topics = [
        OffsetCommitResponseTopic(name, topic_id, [OffsetCommitResponsePartition(index) for index in indexes])
        for name, topic_id, indexes in asked
    ]
    return PreencodedResponse(OffsetCommitResponse(topics=topics), version)


def _answered(asked: Sequence[Asked], answer: Committed) -> list[OffsetCommitResponseTopic]:
    results = iter(answer.partitions)
    return [
        OffsetCommitResponseTopic(
            name,
            topic_id,
            [OffsetCommitResponsePartition(one.partition, one.error) for one in islice(results, len(indexes))],
        )
        for name, topic_id, indexes in asked
    ]


def _refuse(refused: Refused, topic: OffsetCommitRequestTopic, indexes: list[int], error: Error) -> None:
    answer = refused.setdefault(topic.name or topic.topic_id, OffsetCommitResponseTopic(topic.name, topic.topic_id))
    answer.partitions.extend([OffsetCommitResponsePartition(index, error) for index in indexes])


def _merged(refused: Refused, topics: list[OffsetCommitResponseTopic]) -> list[OffsetCommitResponseTopic]:
    for topic in topics:
        known = refused.setdefault(topic.name or topic.topic_id, topic)
        if known is not topic:
            known.partitions.extend(topic.partitions)
    return list(refused.values())
