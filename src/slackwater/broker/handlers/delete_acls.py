"""DeleteAcls, v1 to v3: always SECURITY_DISABLED, as in Kafka without an authorizer."""

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse


def handle(broker: Broker, context: RequestContext, request: DeleteAclsRequest) -> None:
    """Respond with SECURITY_DISABLED."""
    context.respond(_error_for_all(request, Error.SECURITY_DISABLED, "No Authorizer is configured."))


def error_response(request: DeleteAclsRequest, version: int, error: Error) -> DeleteAclsResponse:
    """Return the error for every filter."""
    return _error_for_all(request, error, None)


def _error_for_all(request: DeleteAclsRequest, error: Error, message: str | None) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=[DeleteAclsFilterResult(error, message) for _ in request.filters])
