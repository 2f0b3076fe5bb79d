"""InitProducerId (key 22), v0 to v6.

v1   throttling by the client: the response is sent at once
v2   flexible
v3   producer id and epoch to continue with after INVALID_PRODUCER_EPOCH (KIP-360)
v4   PRODUCER_FENCED may be returned
v5   TRANSACTION_ABORTABLE (KIP-890)
v6   two-phase commit (KIP-939); not stable yet
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from slackwater.wire.apis import INIT_PRODUCER_ID
from slackwater.wire.schema import Boolean, Int16, Int32, Int64, Request, Response, String, Versions


@dataclass(slots=True)
class InitProducerIdRequest(Request):
    """Requests a producer id, and fences older producers with the same transactional id."""

    API: ClassVar = INIT_PRODUCER_ID

    transactional_id: String | None = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Annotated[Int64, Versions("3+")] = -1
    producer_epoch: Annotated[Int16, Versions("3+")] = -1
    enable2_pc: Annotated[Boolean, Versions("6+")] = False
    keep_prepared_txn: Annotated[Boolean, Versions("6+")] = False


@dataclass(slots=True)
class InitProducerIdResponse(Response):
    """Producer id and epoch."""

    API: ClassVar = INIT_PRODUCER_ID

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
    ongoing_txn_producer_id: Annotated[Int64, Versions("6+")] = -1
    ongoing_txn_producer_epoch: Annotated[Int16, Versions("6+")] = -1
