"""ListTransactions, v0 to v2.

v1   filter by duration (KIP-994)
v2   filter by a pattern for the transactional id (KIP-1152)

Only ids that the client may describe are listed. Unknown names of states are returned. The ids are compared with a
pattern in slices.
"""

from collections.abc import Callable
from typing import Final

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.handlers.sliced_handling import handle_in_slices
from slackwater.broker.request_context import RequestContext
from slackwater.broker.slices import Sliced
from slackwater.broker.transactions.id_pattern import IdPattern, compile_pattern
from slackwater.group.errors import Error
from slackwater.group.transactions import TransactionState
from slackwater.group.transactions.messages import ListTransactions
from slackwater.group.transactions.messages import ListTransactionsResponse as Listed
from slackwater.security.acls import AclOperation, AclResourceType
from slackwater.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from slackwater.wire.messages.list_transactions import TransactionState as ListedState

_STATES: Final = {state.value: state for state in TransactionState}
_NEVER_STORED: Final = "PrepareEpochFence"  # a state of Kafka that it never writes


def handle(broker: BrokerState, context: RequestContext, request: ListTransactionsRequest) -> None:
    """List the transactional ids that match every filter."""
    if not request.transactional_id_pattern:
        _list(broker, context, request, None)
    elif (pattern := compile_pattern(request.transactional_id_pattern)) is None:
        context.respond(error_response(request, context.version, Error.INVALID_REGULAR_EXPRESSION))
    else:
        work = _list_matching(broker, context, request, pattern)
        handle_in_slices(broker, context, request, work, error_response, is_read_only=True)


def _list_matching(
    broker: BrokerState, context: RequestContext, request: ListTransactionsRequest, pattern: IdPattern
) -> Sliced[None]:
    matching: set[str] = set()
    for transactional_id in list(broker.transaction_coordinator.coordinator.transactions):
        if (yield from pattern.matches(transactional_id)):
            matching.add(transactional_id)
        yield None
    _list(broker, context, request, matching.__contains__)


def _list(
    broker: BrokerState,
    context: RequestContext,
    request: ListTransactionsRequest,
    matches_id: Callable[[str], bool] | None,
) -> None:
    names = request.state_filters
    unknown = [name for name in names if name not in _STATES and name != _NEVER_STORED]

    def on_response(response: Listed) -> None:
        context.respond(
            ListTransactionsResponse(
                error_code=response.error,
                unknown_state_filters=unknown,
                transaction_states=[
                    ListedState(row.transactional_id, row.producer_id, row.state.value)
                    for row in response.transactions
                    if broker.allows(
                        context, AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, row.transactional_id
                    )
                ],
            )
        )

    broker.transaction_coordinator.submit(
        ListTransactions(
            states=frozenset(_STATES[name] for name in names if name in _STATES) if names else None,
            producer_ids=frozenset(request.producer_id_filters) or None,
            longer_than_ms=request.duration_filter,
            matches_id=matches_id,
        ),
        on_response,
    )


def error_response(request: ListTransactionsRequest, version: int, error: Error) -> ListTransactionsResponse:
    """Return a response with only the error."""
    return ListTransactionsResponse(error_code=error)
