"""DescribeTopicPartitions, v0: topics and partitions, page by page (KIP-966).

Topics are sorted by name, unknown ones included; an empty request means all topics. A page has as many partitions as
the client and `max.request.partition.size.limit` allow, and its cursor is the start of the next page.
"""

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.request_context import RequestContext
from slackwater.broker.storage.topics import INTERNAL, Topic, is_legal_name
from slackwater.group.errors import Error
from slackwater.security.acls import AclOperation, AclResourceType
from slackwater.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    ResponseCursor,
)


def handle(broker: BrokerState, context: RequestContext, request: DescribeTopicPartitionsRequest) -> None:
    """Describe one page."""
    cursor = request.cursor
    names = {topic.name for topic in request.topics} or {topic.name for topic in broker.topics}
    allowed = {name for name in names if broker.allows(context, AclOperation.DESCRIBE, AclResourceType.TOPIC, name)}
    denied = names - allowed if request.topics else set()
    first_name, first_index = ("", 0) if cursor is None else (cursor.topic_name, cursor.partition_index)
    if cursor is not None and (first_index < 0 or (request.topics and first_name not in names)):
        context.respond(error_response(request, context.version, Error.INVALID_REQUEST))
        return
    partitions_left = max(
        min(request.response_partition_limit, broker.settings.number("max.request.partition.size.limit")), 1
    )
    response = DescribeTopicPartitionsResponse()
    for name in sorted(name for name in allowed if name >= first_name):
        topic = broker.topics.get(name)
        if topic is None:
            response.topics.append(_unknown(name))
            continue
        start = first_index if name == first_name else 0
        if partitions_left == 0:
            response.next_cursor = ResponseCursor(name, start)
            break
        end = min(start + partitions_left, len(topic.partitions))
        response.topics.append(_page(broker, topic, range(start, end)))
        partitions_left -= max(end - start, 0)
        if end < len(topic.partitions):
            response.next_cursor = ResponseCursor(name, end)
            break
    for described in response.topics:
        described.topic_authorized_operations = broker.authorized_operations(
            context, AclResourceType.TOPIC, described.name or ""
        )
    response.topics += [
        DescribeTopicPartitionsResponseTopic(Error.TOPIC_AUTHORIZATION_FAILED, name) for name in sorted(denied)
    ]
    context.respond(response)


def error_response(
    request: DescribeTopicPartitionsRequest, version: int, error: Error
) -> DescribeTopicPartitionsResponse:
    """Return the error for every topic."""
    return DescribeTopicPartitionsResponse(
        topics=[DescribeTopicPartitionsResponseTopic(error, topic.name) for topic in request.topics]
    )


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        Error.UNKNOWN_TOPIC_OR_PARTITION if is_legal_name(name) else Error.INVALID_TOPIC_EXCEPTION,
        name,
        is_internal=name in INTERNAL,
    )


def _page(broker: BrokerState, topic: Topic, indexes: range) -> DescribeTopicPartitionsResponseTopic:
    replicas = [broker.node_id]
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            DescribeTopicPartitionsResponsePartition(0, index, broker.node_id, 0, replicas, replicas, [], [], [])
            for index in indexes
        ],
    )
