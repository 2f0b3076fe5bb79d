"""DescribeClientQuotas, v0 to v1: there are no quotas.

Invalid filters are rejected as in Kafka.
"""

from typing import Final

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.request_context import RequestContext
from slackwater.group.errors import BrokerError, Error
from slackwater.security.acls import AclOperation
from slackwater.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

_TYPES: Final = ("user", "client-id", "ip")
_EXACT, _DEFAULT, _ANY = 0, 1, 2


def handle(broker: BrokerState, context: RequestContext, request: DescribeClientQuotasRequest) -> None:
    """Return no quotas, or an error for an invalid filter."""
    if not broker.allows_cluster(context, AclOperation.DESCRIBE_CONFIGS):
        context.respond(error_response(request, context.version, Error.CLUSTER_AUTHORIZATION_FAILED))
        return
    try:
        _check_filter(request.components)
    except BrokerError as error:
        context.respond(DescribeClientQuotasResponse(error_code=error.error, error_message=str(error), entries=None))
        return
    context.respond(DescribeClientQuotasResponse(error_message=None))


def error_response(request: DescribeClientQuotasRequest, version: int, error: Error) -> DescribeClientQuotasResponse:
    """Return a response with only the error."""
    return DescribeClientQuotasResponse(error_code=error, error_message=None, entries=None)


def _check_filter(components: list[ComponentData]) -> None:
    types = [component.entity_type for component in components]
    for component in components:
        if not component.entity_type:
            raise BrokerError(Error.INVALID_REQUEST, "Invalid empty entity type.")
        if types.count(component.entity_type) > 1:
            raise BrokerError(
                Error.INVALID_REQUEST,
                f"Entity type {component.entity_type} cannot appear more than once in the filter.",
            )
        if component.entity_type not in _TYPES:
            raise BrokerError(Error.UNSUPPORTED_VERSION, f"Unsupported entity type {component.entity_type}")
        if component.match_type not in (_EXACT, _DEFAULT, _ANY):
            raise BrokerError(Error.INVALID_REQUEST, f"Unknown match type {component.match_type}")
        if component.match_type == _EXACT and component.match is None:
            raise BrokerError(
                Error.INVALID_REQUEST, "Request specified MATCH_TYPE_EXACT, but set match string to null."
            )
    if "ip" in types and len(types) > 1:
        raise BrokerError(
            Error.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId "
            "filter component.",
        )
