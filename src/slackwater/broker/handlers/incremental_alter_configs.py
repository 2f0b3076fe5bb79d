"""IncrementalAlterConfigs, v0 to v1: set, delete, append to or subtract from settings (KIP-339).

All versions behave the same.
"""

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.handlers.config_changes import ConfigChange, ResourceChanges, alter_all
from slackwater.broker.request_context import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def handle(broker: BrokerState, context: RequestContext, request: IncrementalAlterConfigsRequest) -> None:
    """Change settings, or only validate them."""
    outcomes = alter_all(
        broker, context, [_changes(resource) for resource in request.resources], validate_only=request.validate_only
    )
    context.respond(
        IncrementalAlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(error, message, changes.resource_type, changes.resource_name)
                for changes, error, message in outcomes
            ]
        )
    )


def error_response(
    request: IncrementalAlterConfigsRequest, version: int, error: Error
) -> IncrementalAlterConfigsResponse:
    """Return the error for every resource."""
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(error, None, resource.resource_type, resource.resource_name)
            for resource in request.resources
        ]
    )


def _changes(resource: AlterConfigsResource) -> ResourceChanges:
    changes = [ConfigChange(config.name, config.config_operation, config.value) for config in resource.configs]
    return ResourceChanges(resource.resource_type, resource.resource_name, changes, replaces=False)
