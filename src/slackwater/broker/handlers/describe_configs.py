"""DescribeConfigs, v1 to v4: settings of topics, of this broker and of its loggers.

v3   types, and documentation if requested

The name of a broker is its node id; the empty name means the settings for all brokers of the cluster. Groups and client
metrics have no settings, which is not an error. A resource is described as often as it appears in the
request, up to `MAX_REPEATS` times.
"""

from collections.abc import Iterable
from operator import attrgetter
from typing import Final

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.config import loggers
from slackwater.broker.config.describe import ConfigDescription, describe_broker, describe_default, describe_topic
from slackwater.broker.config.resources import ConfigResourceType
from slackwater.broker.handlers.config_changes import AUTHORIZATION_ERRORS, check_broker_name, check_rights
from slackwater.broker.handlers.repeats import limit_repeats
from slackwater.broker.request_context import RequestContext
from slackwater.broker.storage.topics import is_legal_name
from slackwater.group.errors import BrokerError, Error
from slackwater.security.acls import AclOperation
from slackwater.settings import SettingType
from slackwater.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

_LOGGER_SOURCE: Final = 6  # DYNAMIC_BROKER_LOGGER_CONFIG


def handle(broker: BrokerState, context: RequestContext, request: DescribeConfigsRequest) -> None:
    """Describe settings and their sources."""
    resources = limit_repeats(request.resources, attrgetter("resource_type", "resource_name"))
    results = [_result(broker, context, request, resource) for resource in resources]
    results.sort(key=lambda result: result.error_code in AUTHORIZATION_ERRORS)  # those come last, as in Kafka
    context.respond(DescribeConfigsResponse(results=results))


def error_response(request: DescribeConfigsRequest, version: int, error: Error) -> DescribeConfigsResponse:
    """Return the error for every resource."""
    return DescribeConfigsResponse(results=[_failed(resource, error, None) for resource in request.resources])


def _result(
    broker: BrokerState, context: RequestContext, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    try:
        check_rights(broker, context, AclOperation.DESCRIBE_CONFIGS, resource.resource_type, resource.resource_name)
        configs = _configs(broker, request, resource)
    except BrokerError as error:
        return _failed(resource, error.error, str(error))
    requested = set(resource.configuration_keys or ())
    return DescribeConfigsResult(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[config for config in configs if not requested or config.name in requested],
    )


def _failed(resource: DescribeConfigsResource, error: Error, message: str | None) -> DescribeConfigsResult:
    return DescribeConfigsResult(error, message, resource.resource_type, resource.resource_name)


def _configs(
    broker: BrokerState, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> Iterable[DescribeConfigsResourceResult]:
    name = resource.resource_name
    match resource.resource_type:
        case ConfigResourceType.TOPIC:
            topic = broker.topics.get(name)
            if topic is None:
                error = Error.UNKNOWN_TOPIC_OR_PARTITION if is_legal_name(name) else Error.INVALID_TOPIC_EXCEPTION
                raise BrokerError(error, f"There is no topic {name!r}.")
            return (_config_result(request, config) for config in describe_topic(broker.settings, topic.overrides))
        case ConfigResourceType.BROKER if not name:
            return (_config_result(request, config) for config in describe_default(broker.settings))
        case ConfigResourceType.BROKER:
            check_broker_name(broker, name)
            return (_config_result(request, config) for config in describe_broker(broker.settings))
        case ConfigResourceType.BROKER_LOGGER:
            check_broker_name(broker, name)
            return (
                DescribeConfigsResourceResult(logger, level, config_source=_LOGGER_SOURCE)
                for logger, level in loggers.levels()
            )
        case ConfigResourceType.GROUP | ConfigResourceType.CLIENT_METRICS if name:
            return ()
        case _:
            raise BrokerError(
                Error.INVALID_REQUEST, f"Resource {name!r} of type {resource.resource_type} has no settings."
            )


def _config_result(request: DescribeConfigsRequest, config: ConfigDescription) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=config.setting.name,
        value=config.value,
        read_only=config.read_only,
        config_source=config.source,
        is_sensitive=config.setting.kind is SettingType.PASSWORD,
        synonyms=[DescribeConfigsSynonym(*synonym) for synonym in config.synonyms] if request.include_synonyms else [],
        config_type=config.setting.kind,
        documentation=config.setting.doc if request.include_documentation else None,
    )
