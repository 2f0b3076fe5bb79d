"""ListConfigResources, v0 to v1: the resources that have settings.

v0   client metrics only (there are none)
v1   filter by resource type; an empty filter means all types (KIP-1142)
"""

from slackwater.broker.broker import Broker
from slackwater.broker.config.resources import ResourceType
from slackwater.broker.connection import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)


def handle(broker: Broker, context: RequestContext, request: ListConfigResourcesRequest) -> None:
    """List the resources by type."""
    requested = set(request.resource_types) or set(ResourceType)
    if context.version == 0:
        requested = {ResourceType.CLIENT_METRICS}
    elif not requested <= set(ResourceType):
        context.respond(error_response(request, context.version, Error.UNSUPPORTED_VERSION))
        return
    node_id = str(broker.node_id)
    names = {
        ResourceType.TOPIC: [topic.name for topic in broker.topics],
        ResourceType.BROKER: [node_id],
        ResourceType.BROKER_LOGGER: [node_id],
    }
    context.respond(
        ListConfigResourcesResponse(
            config_resources=[
                ConfigResource(name, kind) for kind in ResourceType if kind in requested for name in names.get(kind, ())
            ]
        )
    )


def error_response(request: ListConfigResourcesRequest, version: int, error: Error) -> ListConfigResourcesResponse:
    """Return a response with only the error."""
    return ListConfigResourcesResponse(error_code=error)
