"""AddOffsetsToTxn (key 25), v0 to v4.

v1   a throttled answer is sent at once, and the client waits
v2   PRODUCER_FENCED may be answered
v3   flexible
v4   TRANSACTION_ABORTABLE (KIP-890)
"""

from dataclasses import dataclass
from typing import ClassVar

from slackwater.wire.apis import ADD_OFFSETS_TO_TXN
from slackwater.wire.schema import Int16, Int32, Int64, Request, Response, String


@dataclass(slots=True)
class AddOffsetsToTxnRequest(Request):
    """A group whose offsets are about to be committed in a transaction."""

    API: ClassVar = ADD_OFFSETS_TO_TXN

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: String = ""


@dataclass(slots=True)
class AddOffsetsToTxnResponse(Response):
    """Whether that is noted."""

    API: ClassVar = ADD_OFFSETS_TO_TXN

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
