"""EndTxn (key 26), v0 to v5.

v1   throttling by the client: the response is sent at once
v2   PRODUCER_FENCED may be returned
v3   flexible
v4   TRANSACTION_ABORTABLE (KIP-890)
v5   every transaction has its own epoch; the response contains the next one (KIP-890)
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from slackwater.wire.apis import END_TXN
from slackwater.wire.schema import Boolean, Int16, Int32, Int64, Request, Response, String, Versions


@dataclass(slots=True)
class EndTxnRequest(Request):
    """Commits or aborts a transaction."""

    API: ClassVar = END_TXN

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: Boolean = False


@dataclass(slots=True)
class EndTxnResponse(Response):
    """The result."""

    API: ClassVar = END_TXN

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Annotated[Int64, Versions("5+", ignorable=True)] = -1
    producer_epoch: Annotated[Int16, Versions("5+", ignorable=True)] = -1
