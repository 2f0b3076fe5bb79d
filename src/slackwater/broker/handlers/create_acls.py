"""CreateAcls, v1 to v3: SECURITY_DISABLED, as Kafka answers without an authorizer."""

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


def handle(broker: Broker, context: RequestContext, request: CreateAclsRequest) -> None:
    """Respond with SECURITY_DISABLED."""
    context.respond(_every(request, Error.SECURITY_DISABLED, "No Authorizer is configured."))


def error_response(request: CreateAclsRequest, version: int, error: Error) -> CreateAclsResponse:
    """Return the error for every rule."""
    return _every(request, error, None)


def _every(request: CreateAclsRequest, error: Error, message: str | None) -> CreateAclsResponse:
    return CreateAclsResponse(results=[AclCreationResult(error, message) for _ in request.creations])
