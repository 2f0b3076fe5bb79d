"""Metadata, v0 to v13: brokers, topics, partitions and their leaders.

v0   no topics means all of them
v1   null means all of them, none means none
v4   whether an unknown topic may be created; before, it may
v8   authorized operations of topics, and up to v10 of the cluster, if requested
v10  topic ids in the response
v12  topics may be requested by id

A topic that is created by the request is returned at once, because there is no leader election. Topics are returned in
the order of the request, each once.
"""

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.broker.operations import CLUSTER_OPERATIONS, NOT_REQUESTED, TOPIC_OPERATIONS
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
    if context.version < 12 and any(one.name is None or one.topic_id != NO_UUID for one in request.topics or ()):
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
        return [_known(broker, topic, operations) for topic in broker.topics]
    may_create = request.allow_auto_topic_creation and broker.settings.flag("auto.create.topics.enable")
    return [_requested(broker, one, may_create, operations) for one in _distinct(requested)]


def _distinct(requested: list[MetadataRequestTopic]) -> list[MetadataRequestTopic]:
    return list({(one.name, one.topic_id): one for one in requested}.values()) if len(requested) > 1 else requested


def _requested(broker: Broker, one: MetadataRequestTopic, may_create: bool, operations: int) -> MetadataResponseTopic:
    if one.name is None or one.topic_id != NO_UUID:
        found = broker.topics.by_id(one.topic_id)
        if found is None:
            return MetadataResponseTopic(Error.UNKNOWN_TOPIC_ID, None, one.topic_id)
        return _known(broker, found, operations)
    found = broker.topics.get(one.name)
    if found is None and may_create:
        try:
            found = broker.auto_create(one.name)
        except BrokerError as error:
            return _failed(error.error, one.name, operations)
        except OSError:
            return _failed(Error.KAFKA_STORAGE_ERROR, one.name, operations)
    if found is not None:
        return _known(broker, found, operations)
    legal = is_legal_name(one.name)
    return _failed(Error.UNKNOWN_TOPIC_OR_PARTITION if legal else Error.INVALID_TOPIC_EXCEPTION, one.name, operations)


def _failed(error: Error, name: str, operations: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(error, name, is_internal=name in INTERNAL, topic_authorized_operations=operations)


def _known(broker: Broker, topic: Topic, operations: int) -> MetadataResponseTopic:
    me = [broker.node_id]
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            MetadataResponsePartition(0, index, broker.node_id, 0, me, me, []) for index in range(len(topic.partitions))
        ],
        topic_authorized_operations=operations,
    )
