"""OffsetCommit, v2 to v10.

v0 and v1, from before Kafka 0.9, do not exist in Kafka 4.

v2   retention time, for all offsets together (OC-13)
v3   throttle time in the response
v5   no retention time
v6   leader epoch
v7   instance id
v8   flexible
v9   a generation for a group that does not exist is GROUP_ID_NOT_FOUND instead of ILLEGAL_GENERATION (OC-02); the
     generation may be a KIP-848 member epoch
v10  topic ids in request and response; an unknown id is UNKNOWN_TOPIC_ID

The handler rejects partitions that do not exist; the coordinator gets the others (OC-10). The response lists rejected
partitions first, then the others in the order of the request. If any are rejected, it has one entry per topic, as in
Kafka.
"""

from typing import Final

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.request_context import RequestContext
from slackwater.group import messages
from slackwater.group.errors import Error
from slackwater.security.acls import AclOperation, AclResourceType
from slackwater.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

_MISSING_GROUP_SINCE: Final = 9
_TOPIC_IDS_SINCE: Final = 10
_Rejected = dict[str | bytes, OffsetCommitResponseTopic]


def handle(broker: BrokerState, context: RequestContext, request: OffsetCommitRequest) -> None:
    """Store offsets; the response follows when they are written (OC-12)."""
    if not broker.allows(context, AclOperation.READ, AclResourceType.GROUP, request.group_id):
        context.respond(error_response(request, context.version, Error.GROUP_AUTHORIZATION_FAILED))
        return
    offsets: list[messages.OffsetToCommit] = []
    results: list[OffsetCommitResponsePartition] = []  # of `offsets`, in the same order
    topics: list[OffsetCommitResponseTopic] = []
    rejected: _Rejected = {}
    by_id = context.version >= _TOPIC_IDS_SINCE
    for requested in request.topics:
        topic = broker.topics.by_id(requested.topic_id) if by_id else broker.topics.get(requested.name)
        name = requested.name if topic is None else topic.name
        if name and not broker.allows(context, AclOperation.READ, AclResourceType.TOPIC, name):
            indexes = [partition.partition_index for partition in requested.partitions]
            _reject(rejected, requested, indexes, Error.TOPIC_AUTHORIZATION_FAILED)
            continue
        if topic is None:
            unknown = Error.UNKNOWN_TOPIC_ID if by_id else Error.UNKNOWN_TOPIC_OR_PARTITION
            _reject(rejected, requested, [partition.partition_index for partition in requested.partitions], unknown)
            continue
        partition_count = len(topic.partitions)
        accepted: list[OffsetCommitResponsePartition] = []
        for partition in requested.partitions:
            index = partition.partition_index
            if 0 <= index < partition_count:
                offsets.append(
                    messages.OffsetToCommit(
                        name,
                        index,
                        partition.committed_offset,
                        partition.committed_leader_epoch,
                        partition.committed_metadata,
                    )
                )
                accepted.append(OffsetCommitResponsePartition(index))
            else:
                _reject(rejected, requested, [index], Error.UNKNOWN_TOPIC_OR_PARTITION)
        if accepted:
            topics.append(OffsetCommitResponseTopic(requested.name, requested.topic_id, accepted))
            results += accepted
    if not offsets:
        context.respond(OffsetCommitResponse(topics=list(rejected.values())))
        return

    def on_response(response: messages.OffsetCommitResponse) -> None:
        for result, committed in zip(results, response.partitions, strict=True):
            result.error_code = committed.error
        context.respond(OffsetCommitResponse(topics=_merge(rejected, topics) if rejected else topics))

    broker.group_coordinator.submit(
        messages.OffsetCommit(
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
    """Report an error on every partition."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                [OffsetCommitResponsePartition(partition.partition_index, error) for partition in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _reject(rejected: _Rejected, requested: OffsetCommitRequestTopic, indexes: list[int], error: Error) -> None:
    topic = rejected.setdefault(
        requested.name or requested.topic_id, OffsetCommitResponseTopic(requested.name, requested.topic_id)
    )
    topic.partitions.extend([OffsetCommitResponsePartition(index, error) for index in indexes])


def _merge(rejected: _Rejected, topics: list[OffsetCommitResponseTopic]) -> list[OffsetCommitResponseTopic]:
    for topic in topics:
        merged = rejected.setdefault(topic.name or topic.topic_id, topic)
        if merged is not topic:
            merged.partitions.extend(topic.partitions)
    return list(rejected.values())
