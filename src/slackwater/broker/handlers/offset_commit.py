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

A member commits the same partitions again and again, and mostly all is well: that answer is encoded once.
"""

from functools import lru_cache
from itertools import islice
from typing import Final

from slackwater.broker.connection import Call
from slackwater.broker.node import Node
from slackwater.group.errors import Error
from slackwater.group.messages import OffsetCommit, OffsetToCommit
from slackwater.group.messages import OffsetCommitResponse as Committed
from slackwater.wire.envelope import FixedAnswer
from slackwater.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

KEPT_ANSWERS: Final = 1024
Refused = dict[str | bytes, OffsetCommitResponseTopic]
Asked = tuple[str, bytes, tuple[int, ...]]  # a topic's name or id, and those of its partitions that are committed


def handle(node: Node, call: Call, request: OffsetCommitRequest) -> None:
    """Store offsets, and answer when they are written (OC-12)."""
    offsets: list[OffsetToCommit] = []
    asked: list[Asked] = []
    refused: Refused = {}
    by_id = call.version >= 10
    for topic in request.topics:
        found = node.topics.by_id(topic.topic_id) if by_id else node.topics.get(topic.name)
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
        call.answer(OffsetCommitResponse(topics=list(refused.values())))
        return

    def heard(answer: Committed) -> None:
        if not refused and not any(one.error for one in answer.partitions):
            call.answer_frame(_all_stored(call.version, tuple(asked)).frame(call.correlation_id))
            return
        results = iter(answer.partitions)
        topics = [
            OffsetCommitResponseTopic(
                name,
                topic_id,
                [OffsetCommitResponsePartition(one.partition, one.error) for one in islice(results, len(indexes))],
            )
            for name, topic_id, indexes in asked
        ]
        call.answer(OffsetCommitResponse(topics=_merged(refused, topics) if refused else topics))

    node.groups.ask(
        OffsetCommit(
            request.group_id,
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
            tuple(offsets),
            request.retention_time_ms,
            call.version >= 9,
        ),
        heard,
    )


def refuse(request: OffsetCommitRequest, version: int, error: Error) -> OffsetCommitResponse:
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


@lru_cache(maxsize=KEPT_ANSWERS)
def _all_stored(version: int, asked: tuple[Asked, ...]) -> FixedAnswer:
    topics = [
        OffsetCommitResponseTopic(name, topic_id, [OffsetCommitResponsePartition(index) for index in indexes])
        for name, topic_id, indexes in asked
    ]
    return FixedAnswer(OffsetCommitResponse(topics=topics), version)


def _refuse(refused: Refused, topic: OffsetCommitRequestTopic, indexes: list[int], error: Error) -> None:
    answer = refused.setdefault(topic.name or topic.topic_id, OffsetCommitResponseTopic(topic.name, topic.topic_id))
    answer.partitions.extend([OffsetCommitResponsePartition(index, error) for index in indexes])


def _merged(refused: Refused, topics: list[OffsetCommitResponseTopic]) -> list[OffsetCommitResponseTopic]:
    for topic in topics:
        known = refused.setdefault(topic.name or topic.topic_id, topic)
        if known is not topic:
            known.partitions.extend(topic.partitions)
    return list(refused.values())
