"""ListConfigResources, v0 to v1: what has settings that can be described.

v0   client metrics only, of which there are none
v1   resource types; none means all (KIP-1142)
"""

from slackwater.broker.broker import Node
from slackwater.broker.config.resources import ResourceType
from slackwater.broker.connection import Call
from slackwater.group.errors import Error
from slackwater.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)


def handle(node: Node, call: Call, request: ListConfigResourcesRequest) -> None:
    """List them, type by type."""
    asked = set(request.resource_types) or set(ResourceType)
    if call.version == 0:
        asked = {ResourceType.CLIENT_METRICS}
    elif not asked <= set(ResourceType):
        call.answer(refuse(request, call.version, Error.UNSUPPORTED_VERSION))
        return
    me = str(node.node_id)
    names = {
        ResourceType.TOPIC: [topic.name for topic in node.topics],
        ResourceType.BROKER: [me],
        ResourceType.BROKER_LOGGER: [me],
    }
    call.answer(
        ListConfigResourcesResponse(
            config_resources=[
                ConfigResource(name, kind) for kind in ResourceType if kind in asked for name in names.get(kind, ())
            ]
        )
    )


def refuse(request: ListConfigResourcesRequest, version: int, error: Error) -> ListConfigResourcesResponse:
    """Nothing but an error."""
    return ListConfigResourcesResponse(error_code=error)
