"""OffsetDelete, v0.

Unknown partitions get an error here; the others go to the coordinator (AD-05). The response lists the unknown ones
first, then the others in the order of the request, merged by topic if there are unknown ones.
"""

from itertools import islice

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.request_context import RequestContext
from slackwater.group import messages
from slackwater.group.errors import Error
from slackwater.security.acls import AclOperation, AclResourceType
from slackwater.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(broker: BrokerState, context: RequestContext, request: OffsetDeleteRequest) -> None:
    """Delete offsets of topics that no member is subscribed to."""
    if not broker.allows(context, AclOperation.DELETE, AclResourceType.GROUP, request.group_id):
        context.respond(error_response(request, context.version, Error.GROUP_AUTHORIZATION_FAILED))
        return
    partitions: list[tuple[str, int]] = []
    accepted: list[tuple[str, int]] = []  # topics with the number of their existing partitions
    rejected: dict[str, OffsetDeleteResponseTopic] = {}
    for requested in request.topics:
        error = Error.UNKNOWN_TOPIC_OR_PARTITION
        topic = broker.topics.get(requested.name)
        if not broker.allows(context, AclOperation.READ, AclResourceType.TOPIC, requested.name):
            topic, error = None, Error.TOPIC_AUTHORIZATION_FAILED
        partition_count, before = len(topic.partitions) if topic is not None else 0, len(partitions)
        unknown: list[int] = []
        for partition in requested.partitions:
            if 0 <= partition.partition_index < partition_count:
                partitions.append((requested.name, partition.partition_index))
            else:
                unknown.append(partition.partition_index)
        if unknown or topic is None:
            results = [OffsetDeleteResponsePartition(index, error) for index in unknown]
            rejected.setdefault(requested.name, OffsetDeleteResponseTopic(requested.name)).partitions.extend(results)
        if len(partitions) > before:
            accepted.append((requested.name, len(partitions) - before))

    def on_response(response: messages.OffsetDeleteResponse) -> None:
        if response.error is not Error.NONE:
            context.respond(OffsetDeleteResponse(error_code=response.error))
            return
        results = iter(response.partitions)
        topics = [
            OffsetDeleteResponseTopic(
                name,
                [OffsetDeleteResponsePartition(result.partition, result.error) for result in islice(results, count)],
            )
            for name, count in accepted
        ]
        context.respond(OffsetDeleteResponse(topics=_merge(rejected, topics) if rejected else topics))

    broker.group_coordinator.submit(messages.OffsetDelete(request.group_id, tuple(partitions)), on_response)


def error_response(request: OffsetDeleteRequest, version: int, error: Error) -> OffsetDeleteResponse:
    """Return a response with only the error."""
    return OffsetDeleteResponse(error_code=error)


def _merge(
    rejected: dict[str, OffsetDeleteResponseTopic], topics: list[OffsetDeleteResponseTopic]
) -> list[OffsetDeleteResponseTopic]:
    for topic in topics:
        merged = rejected.setdefault(topic.name, topic)
        if merged is not topic:
            merged.partitions.extend(topic.partitions)
    return list(rejected.values())
