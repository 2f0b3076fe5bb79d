"""DeleteAcls, v1 to v3: SECURITY_DISABLED without an authorizer.

v3   users as resources

A rule that several filters select is reported for each of them.
"""

from slackwater.broker.authorization import needs
from slackwater.broker.broker_state import BrokerState
from slackwater.broker.handlers.acl_bindings import has_unknown, to_filter
from slackwater.broker.request_context import RequestContext
from slackwater.group.errors import Error
from slackwater.security.acls import Acl, AclOperation
from slackwater.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


def handle(broker: BrokerState, context: RequestContext, request: DeleteAclsRequest) -> None:
    """Delete the rules that the filters select."""
    if any(has_unknown(sent, sent.resource_type_filter, sent.pattern_type_filter) for sent in request.filters):
        context.skip_response()
        context.connection.close()
        return
    if broker.authorizer is None:
        context.respond(_error_for_all(request, Error.SECURITY_DISABLED, "No Authorizer is configured."))
        return
    if not broker.allows_cluster(context, AclOperation.ALTER):
        context.respond(_error_for_all(request, Error.CLUSTER_AUTHORIZATION_FAILED, needs(AclOperation.ALTER)))
        return
    results = []
    deleted: dict[Acl, None] = {}
    for requested in request.filters:
        acl_filter = to_filter(requested)
        if acl_filter is None:
            results.append(DeleteAclsFilterResult(Error.INVALID_REQUEST, "Unknown element of a filter."))
            continue
        selected = broker.authorizer.select(acl_filter)
        deleted |= dict.fromkeys(selected)
        results.append(DeleteAclsFilterResult(Error.NONE, None, [_matching(acl) for acl in selected]))
    try:
        broker.authorizer.remove(deleted)
    except OSError as error:
        context.respond(_error_for_all(request, Error.KAFKA_STORAGE_ERROR, f"Disk error: {error.strerror}."))
        return
    context.respond(DeleteAclsResponse(filter_results=results))


def error_response(request: DeleteAclsRequest, version: int, error: Error) -> DeleteAclsResponse:
    """Return the error for every filter."""
    return _error_for_all(request, error, None)


def _matching(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        Error.NONE,
        None,
        acl.resource,
        acl.name,
        acl.pattern,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission,
    )


def _error_for_all(request: DeleteAclsRequest, error: Error, message: str | None) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=[DeleteAclsFilterResult(error, message) for _ in request.filters])
