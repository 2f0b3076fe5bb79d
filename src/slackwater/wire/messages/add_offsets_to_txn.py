"""AddOffsetsToTxn (key 25), v0 to v4.

v1   throttling by the client: the response is sent at once
v2   PRODUCER_FENCED may be returned
v3   flexible
v4   TRANSACTION_ABORTABLE (KIP-890)
"""

from dataclasses import dataclass
from typing import ClassVar

from slackwater.wire.apis import ADD_OFFSETS_TO_TXN
from slackwater.wire.schema import Int16, Int32, Int64, Request, Response, String


@dataclass(slots=True)
class AddOffsetsToTxnRequest(Request):
    """Adds a group to a transaction."""

    API: ClassVar = ADD_OFFSETS_TO_TXN

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: String = ""


@dataclass(slots=True)
class AddOffsetsToTxnResponse(Response):
    """The result."""

    API: ClassVar = ADD_OFFSETS_TO_TXN

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
