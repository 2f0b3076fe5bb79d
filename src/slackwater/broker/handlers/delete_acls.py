"""DeleteAcls, v1 to v3: SECURITY_DISABLED, as Kafka answers without an authorizer."""

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse


def handle(broker: Broker, context: RequestContext, request: DeleteAclsRequest) -> None:
    """Respond with SECURITY_DISABLED."""
    context.respond(_every(request, Error.SECURITY_DISABLED, "No Authorizer is configured."))


def error_response(request: DeleteAclsRequest, version: int, error: Error) -> DeleteAclsResponse:
    """Return the error for every filter."""
    return _every(request, error, None)


def _every(request: DeleteAclsRequest, error: Error, message: str | None) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=[DeleteAclsFilterResult(error, message) for _ in request.filters])
