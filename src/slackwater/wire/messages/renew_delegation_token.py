"""RenewDelegationToken (key 39), v1 to v2.

v2   flexible
"""

from dataclasses import dataclass
from typing import ClassVar

from slackwater.wire.apis import RENEW_DELEGATION_TOKEN
from slackwater.wire.schema import Bytes, Int16, Int32, Int64, Request, Response


@dataclass(slots=True)
class RenewDelegationTokenRequest(Request):
    """Renews a delegation token."""

    API: ClassVar = RENEW_DELEGATION_TOKEN

    hmac: Bytes = b""
    renew_period_ms: Int64 = 0


@dataclass(slots=True)
class RenewDelegationTokenResponse(Response):
    """The new expiry time."""

    API: ClassVar = RENEW_DELEGATION_TOKEN

    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0
