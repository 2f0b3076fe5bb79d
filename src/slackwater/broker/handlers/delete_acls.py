"""DeleteAcls, v1 to v3: SECURITY_DISABLED, as Kafka answers without an authorizer."""

from slackwater.broker.broker import Node
from slackwater.broker.connection import Call
from slackwater.group.errors import Error
from slackwater.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse


def handle(node: Node, call: Call, request: DeleteAclsRequest) -> None:
    """There is nobody to keep rules."""
    call.answer(_every(request, Error.SECURITY_DISABLED, "No Authorizer is configured."))


def refuse(request: DeleteAclsRequest, version: int, error: Error) -> DeleteAclsResponse:
    """An error on every filter."""
    return _every(request, error, None)


def _every(request: DeleteAclsRequest, error: Error, message: str | None) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=[DeleteAclsFilterResult(error, message) for _ in request.filters])
