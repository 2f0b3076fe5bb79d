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

from slackwater.broker.authorization import NOT_REQUESTED
from slackwater.broker.broker_state import BrokerState
from slackwater.broker.request_context import RequestContext
from slackwater.broker.storage.topics import INTERNAL, Topic, is_legal_name
from slackwater.group.errors import BrokerError, Error
from slackwater.security.acls import AclOperation, AclResourceType
from slackwater.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from slackwater.wire.schema import NO_UUID


def handle(broker: BrokerState, context: RequestContext, request: MetadataRequest) -> None:
    """Describe the requested topics."""
    if context.version < 12 and any(topic.name is None or topic.topic_id != NO_UUID for topic in request.topics or ()):
        context.respond(error_response(request, context.version, Error.INVALID_REQUEST))
        return
    host, port = broker.address(context)
    context.respond(
        MetadataResponse(
            brokers=[MetadataResponseBroker(broker.node_id, host, port, broker.settings.text("broker.rack") or None)],
            cluster_id=broker.cluster_id,
            controller_id=broker.node_id,
            topics=_topics(broker, context, request),
            cluster_authorized_operations=(
                broker.authorized_cluster_operations(context)
                if request.include_cluster_authorized_operations
                else NOT_REQUESTED
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


def _topics(broker: BrokerState, context: RequestContext, request: MetadataRequest) -> list[MetadataResponseTopic]:
    requested = request.topics
    if requested is None or (context.version == 0 and not requested):
        topics = [
            _topic_metadata(broker, topic) for topic in broker.topics if _may_describe(broker, context, topic.name)
        ]
    else:
        may_create = request.allow_auto_topic_creation and broker.settings.flag("auto.create.topics.enable")
        topics = [_requested_topic(broker, context, topic, may_create) for topic in _distinct(requested)]
    if request.include_topic_authorized_operations:
        for topic in topics:
            if topic.name is not None and topic.error_code != Error.TOPIC_AUTHORIZATION_FAILED:
                topic.topic_authorized_operations = broker.authorized_operations(
                    context, AclResourceType.TOPIC, topic.name
                )
    return topics


def _may_describe(broker: BrokerState, context: RequestContext, name: str) -> bool:
    return broker.allows(context, AclOperation.DESCRIBE, AclResourceType.TOPIC, name)


def _distinct(requested: list[MetadataRequestTopic]) -> list[MetadataRequestTopic]:
    return (
        list({(topic.name, topic.topic_id): topic for topic in requested}.values()) if len(requested) > 1 else requested
    )


def _requested_topic(
    broker: BrokerState, context: RequestContext, requested: MetadataRequestTopic, may_create: bool
) -> MetadataResponseTopic:
    if requested.name is None or requested.topic_id != NO_UUID:
        topic = broker.topics.by_id(requested.topic_id)
        if topic is None:
            return MetadataResponseTopic(Error.UNKNOWN_TOPIC_ID, None, requested.topic_id)
        if not _may_describe(broker, context, topic.name):
            return MetadataResponseTopic(Error.TOPIC_AUTHORIZATION_FAILED, None, requested.topic_id)
        return _topic_metadata(broker, topic)
    name = requested.name
    if not _may_describe(broker, context, name):
        return MetadataResponseTopic(Error.TOPIC_AUTHORIZATION_FAILED, name)  # as if it did not exist
    topic = broker.topics.get(name)
    if topic is None and may_create and not _may_create(broker, context, name):
        return MetadataResponseTopic(Error.TOPIC_AUTHORIZATION_FAILED, name, is_internal=name in INTERNAL)
    is_changing = broker.was_deleted(name) or broker.topics.is_being_created(name)
    if topic is None and may_create and not is_changing:
        try:
            topic = broker.auto_create(name)
        except BrokerError as error:
            return _topic_error(error.error, name)
        except OSError:
            return _topic_error(Error.KAFKA_STORAGE_ERROR, name)
    if topic is not None:
        return _topic_metadata(broker, topic)
    return _topic_error(
        Error.UNKNOWN_TOPIC_OR_PARTITION if is_legal_name(name) else Error.INVALID_TOPIC_EXCEPTION, name
    )


def _may_create(broker: BrokerState, context: RequestContext, name: str) -> bool:
    return broker.allows_cluster(context, AclOperation.CREATE) or broker.allows(
        context, AclOperation.CREATE, AclResourceType.TOPIC, name
    )


def _topic_error(error: Error, name: str) -> MetadataResponseTopic:
    return MetadataResponseTopic(error, name, is_internal=name in INTERNAL)


def _topic_metadata(broker: BrokerState, topic: Topic) -> MetadataResponseTopic:
    replicas = [broker.node_id]
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            MetadataResponsePartition(0, index, broker.node_id, 0, replicas, replicas, [])
            for index in range(len(topic.partitions))
        ],
    )
