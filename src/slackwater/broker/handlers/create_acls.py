"""CreateAcls, v1 to v3: always SECURITY_DISABLED, as in Kafka without an authorizer."""

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


def handle(broker: Broker, context: RequestContext, request: CreateAclsRequest) -> None:
    """Respond with SECURITY_DISABLED."""
    context.respond(_error_for_all(request, Error.SECURITY_DISABLED, "No Authorizer is configured."))


def error_response(request: CreateAclsRequest, version: int, error: Error) -> CreateAclsResponse:
    """Return the error for every rule."""
    return _error_for_all(request, error, None)


def _error_for_all(request: CreateAclsRequest, error: Error, message: str | None) -> CreateAclsResponse:
    return CreateAclsResponse(results=[AclCreationResult(error, message) for _ in request.creations])
