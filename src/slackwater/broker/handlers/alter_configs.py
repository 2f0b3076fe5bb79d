"""AlterConfigs, v0 to v2: replace all settings of a resource; missing ones return to their defaults.

All versions behave the same.
"""

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.handlers.config_changes import ConfigChange, ConfigOperation, ResourceChanges, alter_all
from slackwater.broker.request_context import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def handle(broker: BrokerState, context: RequestContext, request: AlterConfigsRequest) -> None:
    """Replace settings, or only validate them."""
    outcomes = alter_all(
        broker, context, [_changes(resource) for resource in request.resources], validate_only=request.validate_only
    )
    context.respond(
        AlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(error, message, changes.resource_type, changes.resource_name)
                for changes, error, message in outcomes
            ]
        )
    )


def error_response(request: AlterConfigsRequest, version: int, error: Error) -> AlterConfigsResponse:
    """Return the error for every resource."""
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(error, None, resource.resource_type, resource.resource_name)
            for resource in request.resources
        ]
    )


def _changes(resource: AlterConfigsResource) -> ResourceChanges:
    changes = [ConfigChange(config.name, ConfigOperation.SET, config.value) for config in resource.configs]
    return ResourceChanges(resource.resource_type, resource.resource_name, changes, replaces=True)
