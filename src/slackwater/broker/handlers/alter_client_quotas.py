"""AlterClientQuotas, v0 to v1: there are no quotas, so none can be set.

A quota that is removed is not there, which is no error.
"""

from typing import Final

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryData,
    EntryResult,
)

NO_QUOTAS: Final = "This broker has no quotas. It limits connections (max.connections) and the size of requests."


def handle(broker: Broker, context: RequestContext, request: AlterClientQuotasRequest) -> None:
    """Reject every entry that sets a quota."""
    context.respond(AlterClientQuotasResponse(entries=[_result(entry) for entry in request.entries]))


def error_response(request: AlterClientQuotasRequest, version: int, error: Error) -> AlterClientQuotasResponse:
    """Return the error for every entry."""
    return AlterClientQuotasResponse(entries=[EntryResult(error, None, entry.entity) for entry in request.entries])


def _result(entry: EntryData) -> EntryResult:
    if all(operation.remove for operation in entry.ops):
        return EntryResult(Error.NONE, None, entry.entity)
    return EntryResult(Error.INVALID_REQUEST, NO_QUOTAS, entry.entity)
