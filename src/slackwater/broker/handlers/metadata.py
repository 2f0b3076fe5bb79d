"""Metadata, v0 to v13: brokers, topics, partitions and their leaders.

v0   an empty list means all topics
v1   null means all topics, an empty list means no topics
v4   allow_auto_topic_creation; older versions always allow it
v8   authorized operations of topics, and up to v10 of the cluster, if requested
v10  topic ids in the response
v12  topics may be requested by id

A topic that is created by the request is returned at once, because there is no leader election. Only the first request
after its deletion gets UNKNOWN_TOPIC_OR_PARTITION, as in Kafka: a client that has deleted a topic sees that it is gone.
Topics are returned in the order of the request, each once.
"""

from slackwater.broker.authorized_operations import CLUSTER_OPERATIONS, NOT_REQUESTED, TOPIC_OPERATIONS
from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.broker.storage.topics import INTERNAL, Topic, is_legal_name
from slackwater.group.errors import BrokerError, Error
from slackwater.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from slackwater.wire.schema import NO_UUID


def handle(broker: Broker, context: RequestContext, request: MetadataRequest) -> None:
    """Describe the requested topics."""
    if context.version < 12 and any(topic.name is None or topic.topic_id != NO_UUID for topic in request.topics or ()):
        context.respond(error_response(request, context.version, Error.INVALID_REQUEST))
        return
    host, port = broker.address(context)
    operations = TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_REQUESTED
    context.respond(
        MetadataResponse(
            brokers=[MetadataResponseBroker(broker.node_id, host, port, broker.settings.text("broker.rack") or None)],
            cluster_id=broker.cluster_id,
            controller_id=broker.node_id,
            topics=_topics(broker, context.version, request, operations),
            cluster_authorized_operations=(
                CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_REQUESTED
            ),
        )
    )


def error_response(request: MetadataRequest, version: int, error: Error) -> MetadataResponse:
    """Return the error for every topic, and from v13 for the whole response."""
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(error, topic.name if version >= 12 else topic.name or "", topic.topic_id)
            for topic in request.topics or ()
        ],
        error_code=error,
    )


def _topics(broker: Broker, version: int, request: MetadataRequest, operations: int) -> list[MetadataResponseTopic]:
    requested = request.topics
    if requested is None or (version == 0 and not requested):
        return [_topic_metadata(broker, topic, operations) for topic in broker.topics]
    may_create = request.allow_auto_topic_creation and broker.settings.flag("auto.create.topics.enable")
    return [_requested_topic(broker, topic, may_create, operations) for topic in _distinct(requested)]


def _distinct(requested: list[MetadataRequestTopic]) -> list[MetadataRequestTopic]:
    return (
        list({(topic.name, topic.topic_id): topic for topic in requested}.values()) if len(requested) > 1 else requested
    )


def _requested_topic(
    broker: Broker, requested: MetadataRequestTopic, may_create: bool, operations: int
) -> MetadataResponseTopic:
    if requested.name is None or requested.topic_id != NO_UUID:
        topic = broker.topics.by_id(requested.topic_id)
        if topic is None:
            return MetadataResponseTopic(Error.UNKNOWN_TOPIC_ID, None, requested.topic_id)
        return _topic_metadata(broker, topic, operations)
    topic = broker.topics.get(requested.name)
    is_changing = broker.was_deleted(requested.name) or broker.topics.is_being_created(requested.name)
    if topic is None and may_create and not is_changing:
        try:
            topic = broker.auto_create(requested.name)
        except BrokerError as error:
            return _topic_error(error.error, requested.name, operations)
        except OSError:
            return _topic_error(Error.KAFKA_STORAGE_ERROR, requested.name, operations)
    if topic is not None:
        return _topic_metadata(broker, topic, operations)
    is_legal = is_legal_name(requested.name)
    return _topic_error(
        Error.UNKNOWN_TOPIC_OR_PARTITION if is_legal else Error.INVALID_TOPIC_EXCEPTION, requested.name, operations
    )


def _topic_error(error: Error, name: str, operations: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(error, name, is_internal=name in INTERNAL, topic_authorized_operations=operations)


def _topic_metadata(broker: Broker, topic: Topic, operations: int) -> MetadataResponseTopic:
    replicas = [broker.node_id]
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            MetadataResponsePartition(0, index, broker.node_id, 0, replicas, replicas, [])
            for index in range(len(topic.partitions))
        ],
        topic_authorized_operations=operations,
    )
