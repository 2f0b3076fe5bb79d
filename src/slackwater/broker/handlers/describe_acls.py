"""DescribeAcls, v1 to v3: SECURITY_DISABLED without an authorizer.

v3   users as resources
"""

from itertools import groupby
from operator import attrgetter

from slackwater.broker.authorization import needs
from slackwater.broker.broker_state import BrokerState
from slackwater.broker.handlers.acl_bindings import has_unknown, to_filter
from slackwater.broker.request_context import RequestContext
from slackwater.group.errors import Error
from slackwater.security.acls import AclOperation
from slackwater.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)


def handle(broker: BrokerState, context: RequestContext, request: DescribeAclsRequest) -> None:
    """Return the rules that the filter selects, by resource."""
    if has_unknown(request, request.resource_type_filter, request.pattern_type_filter):
        context.skip_response()
        context.connection.close()
        return
    if broker.authorizer is None:
        error, message = Error.SECURITY_DISABLED, "No Authorizer is configured on the broker"
        context.respond(DescribeAclsResponse(error_code=error, error_message=message))
        return
    if not broker.allows_cluster(context, AclOperation.DESCRIBE):
        error, message = Error.CLUSTER_AUTHORIZATION_FAILED, needs(AclOperation.DESCRIBE)
        context.respond(DescribeAclsResponse(error_code=error, error_message=message))
        return
    acl_filter = to_filter(request)
    acls = [] if acl_filter is None else broker.authorizer.select(acl_filter)
    context.respond(
        DescribeAclsResponse(
            resources=[
                DescribeAclsResource(
                    *pattern, [AclDescription(acl.principal, acl.host, acl.operation, acl.permission) for acl in rows]
                )
                for pattern, rows in groupby(acls, attrgetter("resource", "name", "pattern"))
            ]
        )
    )


def error_response(request: DescribeAclsRequest, version: int, error: Error) -> DescribeAclsResponse:
    """Return a response with only the error."""
    return DescribeAclsResponse(error_code=error, error_message=None)
