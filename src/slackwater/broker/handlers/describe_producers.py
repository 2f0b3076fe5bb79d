"""DescribeProducers, v0: the active producers of a partition, with the start of an open transaction.

A partition is described as often as it appears in the request, up to `MAX_REPEATS` times.
"""

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.handlers.repeats import limit_repeats
from slackwater.broker.request_context import RequestContext
from slackwater.broker.storage.topics import is_legal_name
from slackwater.group.errors import Error
from slackwater.security.acls import AclOperation, AclResourceType
from slackwater.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


def handle(broker: BrokerState, context: RequestContext, request: DescribeProducersRequest) -> None:
    """Describe the producers of every partition."""
    broker.appends.write_pending()
    context.respond(
        DescribeProducersResponse(
            topics=[
                TopicResponse(
                    name=topic.name,
                    partitions=[
                        _producers(broker, context, topic.name, index)
                        for index in limit_repeats(topic.partition_indexes, int)
                    ],
                )
                for topic in request.topics
            ]
        )
    )


def error_response(request: DescribeProducersRequest, version: int, error: Error) -> DescribeProducersResponse:
    """Return the error for every partition."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[
                    PartitionResponse(partition_index=index, error_code=error) for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


def _producers(broker: BrokerState, context: RequestContext, topic: str, index: int) -> PartitionResponse:
    if not broker.allows(context, AclOperation.READ, AclResourceType.TOPIC, topic):
        error, message = Error.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."
        return PartitionResponse(partition_index=index, error_code=error, error_message=message)
    partition = broker.topics.partition(topic, index)
    if partition is None:
        error = Error.UNKNOWN_TOPIC_OR_PARTITION if is_legal_name(topic) else Error.INVALID_TOPIC_EXCEPTION
        return PartitionResponse(partition_index=index, error_code=error)
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=producer_id,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.transaction_start,
            )
            for producer_id, producer in partition.log.producers.producers.items()
        ],
    )
