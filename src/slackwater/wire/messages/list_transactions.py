"""ListTransactions (key 66), v0 to v2.

v1   filter by duration (KIP-994)
v2   filter by a pattern for the transactional id (KIP-1152)
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from slackwater.wire.apis import LIST_TRANSACTIONS
from slackwater.wire.schema import Int16, Int32, Int64, Request, Response, String, Struct, Versions


@dataclass(slots=True)
class ListTransactionsRequest(Request):
    """Filters; empty ones match everything."""

    API: ClassVar = LIST_TRANSACTIONS

    state_filters: list[String] = field(default_factory=list)
    producer_id_filters: list[Int64] = field(default_factory=list)
    duration_filter: Annotated[Int64, Versions("1+")] = -1
    transactional_id_pattern: Annotated[String | None, Versions("2+")] = None


@dataclass(slots=True)
class TransactionState(Struct):
    """One entry of `transaction_states`."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    transaction_state: String = ""


@dataclass(slots=True)
class ListTransactionsResponse(Response):
    """Transactions of this coordinator."""

    API: ClassVar = LIST_TRANSACTIONS

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: list[String] = field(default_factory=list)
    transaction_states: list[TransactionState] = field(default_factory=list)
