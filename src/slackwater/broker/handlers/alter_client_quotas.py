"""AlterClientQuotas, v0 to v1: there are no quotas, so none can be set.

Removing a quota that does not exist is not an error.
"""

from typing import Final

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.request_context import RequestContext
from slackwater.group.errors import Error
from slackwater.security.acls import AclOperation
from slackwater.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryData,
    EntryResult,
)

NO_QUOTAS: Final = "This broker has no quotas. It limits connections (max.connections) and the size of requests."


def handle(broker: BrokerState, context: RequestContext, request: AlterClientQuotasRequest) -> None:
    """Reject every entry that sets a quota."""
    if not broker.allows_cluster(context, AclOperation.ALTER_CONFIGS):
        context.respond(
            AlterClientQuotasResponse(
                entries=[
                    EntryResult(Error.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.", entry.entity)
                    for entry in request.entries
                ]
            )
        )
        return
    context.respond(AlterClientQuotasResponse(entries=[_result(entry) for entry in request.entries]))


def error_response(request: AlterClientQuotasRequest, version: int, error: Error) -> AlterClientQuotasResponse:
    """Return the error for every entry."""
    return AlterClientQuotasResponse(entries=[EntryResult(error, None, entry.entity) for entry in request.entries])


def _result(entry: EntryData) -> EntryResult:
    if all(operation.remove for operation in entry.ops):
        return EntryResult(Error.NONE, None, entry.entity)
    return EntryResult(Error.INVALID_REQUEST, NO_QUOTAS, entry.entity)
