"""CreateAcls, v1 to v3: SECURITY_DISABLED without an authorizer.

v3   users as resources

A rule that exists already is created again without an effect. Every valid rule of a request is created, also if others
are invalid. As in Kafka, a value that only filters may have fails the whole request with UNKNOWN_SERVER_ERROR, and the
number 0 (UNKNOWN) closes the connection.
"""

from slackwater.broker.authorization import needs
from slackwater.broker.broker_state import BrokerState
from slackwater.broker.handlers.acl_bindings import has_unknown, is_for_filters, to_acl
from slackwater.broker.request_context import RequestContext
from slackwater.group.errors import BrokerError, Error
from slackwater.security.acls import Acl, AclOperation
from slackwater.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


def handle(broker: BrokerState, context: RequestContext, request: CreateAclsRequest) -> None:
    """Store the rules."""
    if any(has_unknown(new, new.resource_type, new.resource_pattern_type) for new in request.creations):
        context.skip_response()
        context.connection.close()
        return
    if broker.authorizer is None:
        context.respond(_error_for_all(request, Error.SECURITY_DISABLED, "No Authorizer is configured."))
        return
    if not broker.allows_cluster(context, AclOperation.ALTER):
        context.respond(_error_for_all(request, Error.CLUSTER_AUTHORIZATION_FAILED, needs(AclOperation.ALTER)))
        return
    if any(is_for_filters(creation) for creation in request.creations):
        context.respond(_error_for_all(request, Error.UNKNOWN_SERVER_ERROR, None))
        return
    results: list[AclCreationResult] = []
    acls: list[Acl] = []
    for creation in request.creations:
        try:
            acls.append(to_acl(creation))
            results.append(AclCreationResult())
        except BrokerError as error:
            results.append(AclCreationResult(error.error, str(error)))
    try:
        broker.authorizer.add(acls)
    except OSError as error:
        context.respond(_error_for_all(request, Error.KAFKA_STORAGE_ERROR, f"Disk error: {error.strerror}."))
        return
    context.respond(CreateAclsResponse(results=results))


def error_response(request: CreateAclsRequest, version: int, error: Error) -> CreateAclsResponse:
    """Return the error for every rule."""
    return _error_for_all(request, error, None)


def _error_for_all(request: CreateAclsRequest, error: Error, message: str | None) -> CreateAclsResponse:
    return CreateAclsResponse(results=[AclCreationResult(error, message) for _ in request.creations])
