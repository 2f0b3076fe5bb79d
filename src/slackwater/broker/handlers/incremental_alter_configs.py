"""IncrementalAlterConfigs, v0 to v1: set, delete, append to or subtract from settings (KIP-339).

All versions behave the same.
"""

from slackwater.broker.broker import Broker
from slackwater.broker.config.changes import ConfigChange, ResourceChanges, alter_all
from slackwater.broker.connection import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def handle(broker: Broker, context: RequestContext, request: IncrementalAlterConfigsRequest) -> None:
    """Change settings, or only validate them."""
    outcomes = alter_all(broker, [_target(one) for one in request.resources], validate_only=request.validate_only)
    context.respond(
        IncrementalAlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(error, message, target.resource_type, target.resource_name)
                for target, error, message in outcomes
            ]
        )
    )


def error_response(
    request: IncrementalAlterConfigsRequest, version: int, error: Error
) -> IncrementalAlterConfigsResponse:
    """Return the error for every resource."""
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(error, None, one.resource_type, one.resource_name) for one in request.resources
        ]
    )


def _target(resource: AlterConfigsResource) -> ResourceChanges:
    changes = [ConfigChange(one.name, one.config_operation, one.value) for one in resource.configs]
    return ResourceChanges(resource.resource_type, resource.resource_name, changes, replaces=False)
