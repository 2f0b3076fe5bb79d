"""DescribeCluster, v0 to v2.

v1   endpoint type: brokers (1) or controllers (2) (KIP-919); this is a broker's endpoint
v2   fenced brokers, of which there are none
"""

from typing import Final

from slackwater.broker.broker import Node
from slackwater.broker.connection import Call
from slackwater.broker.operations import CLUSTER_OPERATIONS, NOT_ASKED
from slackwater.group.errors import Error
from slackwater.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


def handle(node: Node, call: Call, request: DescribeClusterRequest) -> None:
    """Tell who is in the cluster."""
    if request.endpoint_type != _BROKERS:
        call.answer(_wrong_endpoint(request.endpoint_type))
        return
    host, port = node.address(call)
    call.answer(
        DescribeClusterResponse(
            cluster_id=node.cluster_id,
            controller_id=node.node_id,
            brokers=[DescribeClusterBroker(node.node_id, host, port, node.settings.text("broker.rack") or None)],
            cluster_authorized_operations=(
                CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
            ),
        )
    )


def refuse(request: DescribeClusterRequest, version: int, error: Error) -> DescribeClusterResponse:
    """Nothing but an error."""
    return DescribeClusterResponse(error_code=error)


def _wrong_endpoint(wanted: int) -> DescribeClusterResponse:
    if wanted == _CONTROLLERS:
        return DescribeClusterResponse(
            error_code=Error.MISMATCHED_ENDPOINT_TYPE,
            error_message=(
                "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
            ),
        )
    return DescribeClusterResponse(
        error_code=Error.UNSUPPORTED_ENDPOINT_TYPE, error_message=f"Unsupported endpoint type {wanted}"
    )
