"""CreateAcls, v1 to v3: SECURITY_DISABLED, as Kafka answers without an authorizer."""

from slackwater.broker.broker import Node
from slackwater.broker.connection import Call
from slackwater.group.errors import Error
from slackwater.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


def handle(node: Node, call: Call, request: CreateAclsRequest) -> None:
    """There is nobody to keep rules."""
    call.answer(_every(request, Error.SECURITY_DISABLED, "No Authorizer is configured."))


def refuse(request: CreateAclsRequest, version: int, error: Error) -> CreateAclsResponse:
    """An error on every rule."""
    return _every(request, error, None)


def _every(request: CreateAclsRequest, error: Error, message: str | None) -> CreateAclsResponse:
    return CreateAclsResponse(results=[AclCreationResult(error, message) for _ in request.creations])
