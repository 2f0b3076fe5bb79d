"""DescribeAcls, v1 to v3: always SECURITY_DISABLED, as in Kafka without an authorizer."""

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


def handle(broker: Broker, context: RequestContext, request: DescribeAclsRequest) -> None:
    """Respond with SECURITY_DISABLED."""
    context.respond(
        DescribeAclsResponse(
            error_code=Error.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
        )
    )


def error_response(request: DescribeAclsRequest, version: int, error: Error) -> DescribeAclsResponse:
    """Return a response with only the error."""
    return DescribeAclsResponse(error_code=error, error_message=None)
