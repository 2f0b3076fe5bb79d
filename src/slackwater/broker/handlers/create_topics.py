"""CreateTopics, v2 to v7.

v4   -1 partitions or replicas mean the broker's default (KIP-464)
v5   partitions, replicas and settings of the new topic in the response (KIP-525)
v7   topic id in the response

There is one broker, so a topic has one replica. A topic that appears twice in a request is not created.
"""

from collections import Counter
from typing import Final

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.config.describe import describe_topic
from slackwater.broker.config.store import parse_topic_settings
from slackwater.broker.handlers.sliced_handling import handle_in_slices
from slackwater.broker.request_context import RequestContext
from slackwater.broker.slices import Sliced
from slackwater.broker.storage.replica_assignment import check_assignment
from slackwater.broker.storage.topics import MAX_PARTITIONS
from slackwater.group.errors import BrokerError, Error
from slackwater.group.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from slackwater.security.acls import AclOperation, AclResourceType
from slackwater.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from slackwater.wire.schema import NO_UUID

DEFAULT: Final = -1
_PARTITION_SETTINGS: Final = {
    OFFSETS_TOPIC: "offsets.topic.num.partitions",
    TRANSACTIONS_TOPIC: "transaction.state.log.num.partitions",
}


def handle(broker: BrokerState, context: RequestContext, request: CreateTopicsRequest) -> None:
    """Create topics, or only validate the request."""
    counts = Counter(topic.name for topic in request.topics)
    creates_all = broker.allows_cluster(context, AclOperation.CREATE)
    too_many = sum(max(topic.num_partitions, len(topic.assignments)) for topic in request.topics) > MAX_PARTITIONS

    def create() -> Sliced[None]:
        results = []
        for topic in topics:
            if creates_all or broker.allows(context, AclOperation.CREATE, AclResourceType.TOPIC, topic.name):
                result = yield from _result(broker, topic, request, counts[topic.name], too_many=too_many)
                if not broker.allows(context, AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC, topic.name):
                    _hide_configs(result)
                results.append(result)
            else:
                results.append(_failed(topic.name, Error.TOPIC_AUTHORIZATION_FAILED, "Authorization failed."))
            yield None
        context.respond(CreateTopicsResponse(topics=results))

    topics = list({topic.name: topic for topic in request.topics}.values())
    handle_in_slices(broker, context, request, create(), error_response)


def error_response(request: CreateTopicsRequest, version: int, error: Error) -> CreateTopicsResponse:
    """Return the error for every topic."""
    return CreateTopicsResponse(topics=[_failed(topic.name, error, None) for topic in request.topics])


def _result(
    broker: BrokerState, topic: CreatableTopic, request: CreateTopicsRequest, count: int, *, too_many: bool
) -> Sliced[CreatableTopicResult]:
    try:
        if count > 1:
            raise BrokerError(Error.INVALID_REQUEST, "Duplicate topic name.")
        if too_many:
            raise BrokerError(Error.POLICY_VIOLATION, "Excessively large number of partitions per request.")
        return (yield from _create(broker, topic, validate_only=request.validate_only))
    except BrokerError as error:
        return _failed(topic.name, error.error, str(error))
    except OSError as error:
        return _failed(topic.name, Error.KAFKA_STORAGE_ERROR, f"Disk error: {error.strerror}.")


def _hide_configs(result: CreatableTopicResult) -> None:
    if result.error_code == Error.NONE:
        result.topic_config_error_code = Error.TOPIC_AUTHORIZATION_FAILED
        result.num_partitions = result.replication_factor = -1
        result.configs = []


def _create(broker: BrokerState, requested: CreatableTopic, *, validate_only: bool) -> Sliced[CreatableTopicResult]:
    partitions = _partitions(broker, requested)
    settings = _settings(requested)
    broker.topics.check(requested.name, partitions, settings)
    topic_id = NO_UUID
    if not validate_only:
        if requested.name == OFFSETS_TOPIC:
            topic_id = broker.create_offsets_topic(settings).topic_id
        elif requested.name == TRANSACTIONS_TOPIC:
            topic_id = broker.create_transactions_topic(settings).topic_id
        else:
            topic_id = (yield from broker.topics.create_in_slices(requested.name, partitions, settings)).topic_id
    return CreatableTopicResult(
        name=requested.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=partitions,
        replication_factor=1,
        configs=[
            CreatableTopicConfigs(config.setting.name, config.value, config.read_only, config.source)
            for config in describe_topic(broker.settings, parse_topic_settings(settings))
        ],
    )


def _partitions(broker: BrokerState, requested: CreatableTopic) -> int:
    """Return the number of partitions, if the replicas can be placed."""
    replicas = requested.replication_factor
    if requested.assignments:
        return _assigned_partitions(broker, requested)
    if replicas != DEFAULT and replicas < 1:
        raise BrokerError(
            Error.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if requested.num_partitions != DEFAULT and requested.num_partitions < 1:
        raise BrokerError(Error.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    if replicas > 1:
        raise BrokerError(
            Error.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replicas} time(s): The target replication factor of {replicas} "
            "cannot be reached because only 1 broker(s) are registered.",
        )
    if requested.name in _PARTITION_SETTINGS:
        return _coordinator_partitions(broker, requested.name, requested.num_partitions)
    return broker.settings.number("num.partitions") if requested.num_partitions == DEFAULT else requested.num_partitions


def _coordinator_partitions(broker: BrokerState, name: str, requested: int) -> int:
    """Return the partitions of a coordinator's topic, which must match its setting."""
    setting = _PARTITION_SETTINGS[name]
    needed = broker.settings.number(setting)
    if requested not in (DEFAULT, needed):
        raise BrokerError(
            Error.INVALID_PARTITIONS, f"{name} cannot have {requested} partitions; it has {setting} = {needed}."
        )
    return needed


def _assigned_partitions(broker: BrokerState, requested: CreatableTopic) -> int:
    if requested.replication_factor != DEFAULT:
        raise BrokerError(
            Error.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        )
    if requested.num_partitions != DEFAULT:
        raise BrokerError(
            Error.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        )
    partitions = check_assignment(
        ((assignment.partition_index, assignment.broker_ids) for assignment in requested.assignments), broker.node_id
    )
    is_coordinators = requested.name in _PARTITION_SETTINGS
    return _coordinator_partitions(broker, requested.name, partitions) if is_coordinators else partitions


def _settings(requested: CreatableTopic) -> dict[str, str]:
    settings: dict[str, str] = {}
    for config in requested.configs:
        if config.value is None:
            raise BrokerError(Error.INVALID_CONFIG, f"Null value not supported for topic configs: {config.name}")
        settings[config.name] = config.value
    return settings


def _failed(name: str, error: Error, message: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error, error_message=message)
