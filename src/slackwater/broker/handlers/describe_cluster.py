"""DescribeCluster, v0 to v2.

v1   endpoint type: brokers (1) or controllers (2) (KIP-919); this is a broker's endpoint
v2   fenced brokers (there are none)
"""

from typing import Final

from slackwater.broker.authorization import NOT_REQUESTED
from slackwater.broker.broker_state import BrokerState
from slackwater.broker.request_context import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


def handle(broker: BrokerState, context: RequestContext, request: DescribeClusterRequest) -> None:
    """Describe the cluster."""
    if request.endpoint_type != _BROKERS:
        context.respond(_wrong_endpoint(request.endpoint_type))
        return
    host, port = broker.address(context)
    context.respond(
        DescribeClusterResponse(
            cluster_id=broker.cluster_id,
            controller_id=broker.node_id,
            brokers=[DescribeClusterBroker(broker.node_id, host, port, broker.settings.text("broker.rack") or None)],
            cluster_authorized_operations=(
                broker.authorized_cluster_operations(context)
                if request.include_cluster_authorized_operations
                else NOT_REQUESTED
            ),
        )
    )


def error_response(request: DescribeClusterRequest, version: int, error: Error) -> DescribeClusterResponse:
    """Return a response with only the error."""
    return DescribeClusterResponse(error_code=error)


def _wrong_endpoint(requested: int) -> DescribeClusterResponse:
    if requested == _CONTROLLERS:
        return DescribeClusterResponse(
            error_code=Error.MISMATCHED_ENDPOINT_TYPE,
            error_message=(
                "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
            ),
        )
    return DescribeClusterResponse(
        error_code=Error.UNSUPPORTED_ENDPOINT_TYPE, error_message=f"Unsupported endpoint type {requested}"
    )
