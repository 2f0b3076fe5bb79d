"""DescribeAcls, v1 to v3: SECURITY_DISABLED, as Kafka answers without an authorizer."""

from slackwater.broker.broker import Node
from slackwater.broker.connection import Call
from slackwater.group.errors import Error
from slackwater.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


def handle(node: Node, call: Call, request: DescribeAclsRequest) -> None:
    """There is nobody to keep rules."""
    call.answer(
        DescribeAclsResponse(
            error_code=Error.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
        )
    )


def refuse(request: DescribeAclsRequest, version: int, error: Error) -> DescribeAclsResponse:
    """Nothing but an error."""
    return DescribeAclsResponse(error_code=error, error_message=None)
