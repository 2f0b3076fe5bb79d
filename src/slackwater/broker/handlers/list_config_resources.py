"""ListConfigResources, v0 to v1: the resources that have settings.

v0   client metrics only (there are none)
v1   filter by resource type; an empty filter means all types (KIP-1142)
"""

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.config.resources import ConfigResourceType
from slackwater.broker.request_context import RequestContext
from slackwater.group.errors import Error
from slackwater.security.acls import AclOperation
from slackwater.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)


def handle(broker: BrokerState, context: RequestContext, request: ListConfigResourcesRequest) -> None:
    """List the resources by type."""
    if not broker.allows_cluster(context, AclOperation.DESCRIBE_CONFIGS):
        context.respond(error_response(request, context.version, Error.CLUSTER_AUTHORIZATION_FAILED))
        return
    requested = set(request.resource_types) or set(ConfigResourceType)
    if context.version == 0:
        requested = {ConfigResourceType.CLIENT_METRICS}
    elif not requested <= set(ConfigResourceType):
        context.respond(error_response(request, context.version, Error.UNSUPPORTED_VERSION))
        return
    node_id = str(broker.node_id)
    names = {
        ConfigResourceType.TOPIC: [topic.name for topic in broker.topics],
        ConfigResourceType.BROKER: [node_id],
        ConfigResourceType.BROKER_LOGGER: [node_id],
    }
    context.respond(
        ListConfigResourcesResponse(
            config_resources=[
                ConfigResource(name, kind)
                for kind in ConfigResourceType
                if kind in requested
                for name in names.get(kind, ())
            ]
        )
    )


def error_response(request: ListConfigResourcesRequest, version: int, error: Error) -> ListConfigResourcesResponse:
    """Return a response with only the error."""
    return ListConfigResourcesResponse(error_code=error)
