"""DescribeClientQuotas, v0 to v1: there are no quotas.

Invalid filters are rejected as in Kafka.
"""

from typing import Final

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.group.errors import BrokerError, Error
from slackwater.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

_TYPES: Final = ("user", "client-id", "ip")
_EXACT, _DEFAULT, _ANY = 0, 1, 2


def handle(broker: Broker, context: RequestContext, request: DescribeClientQuotasRequest) -> None:
    """No quota matches."""
    try:
        _check(request.components)
    except BrokerError as error:
        context.respond(DescribeClientQuotasResponse(error_code=error.error, error_message=str(error), entries=None))
        return
    context.respond(DescribeClientQuotasResponse(error_message=None))


def error_response(request: DescribeClientQuotasRequest, version: int, error: Error) -> DescribeClientQuotasResponse:
    """Return a response with only the error."""
    return DescribeClientQuotasResponse(error_code=error, error_message=None, entries=None)


def _check(components: list[ComponentData]) -> None:
    types = [one.entity_type for one in components]
    for one in components:
        if not one.entity_type:
            raise BrokerError(Error.INVALID_REQUEST, "Invalid empty entity type.")
        if types.count(one.entity_type) > 1:
            raise BrokerError(
                Error.INVALID_REQUEST, f"Entity type {one.entity_type} cannot appear more than once in the filter."
            )
        if one.entity_type not in _TYPES:
            raise BrokerError(Error.UNSUPPORTED_VERSION, f"Unsupported entity type {one.entity_type}")
        if one.match_type not in (_EXACT, _DEFAULT, _ANY):
            raise BrokerError(Error.INVALID_REQUEST, f"Unknown match type {one.match_type}")
        if one.match_type == _EXACT and one.match is None:
            raise BrokerError(
                Error.INVALID_REQUEST, "Request specified MATCH_TYPE_EXACT, but set match string to null."
            )
    if "ip" in types and len(types) > 1:
        raise BrokerError(
            Error.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId "
            "filter component.",
        )
