"""ExpireDelegationToken (key 40), v1 to v2.

v2   flexible
"""

from dataclasses import dataclass
from typing import ClassVar

from slackwater.wire.apis import EXPIRE_DELEGATION_TOKEN
from slackwater.wire.schema import Bytes, Int16, Int32, Int64, Request, Response


@dataclass(slots=True)
class ExpireDelegationTokenRequest(Request):
    """Changes the expiry time of a delegation token."""

    API: ClassVar = EXPIRE_DELEGATION_TOKEN

    hmac: Bytes = b""
    expiry_time_period_ms: Int64 = 0


@dataclass(slots=True)
class ExpireDelegationTokenResponse(Response):
    """The new expiry time."""

    API: ClassVar = EXPIRE_DELEGATION_TOKEN

    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0
