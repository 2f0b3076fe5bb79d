"""SaslAuthenticate (key 36), v0 to v2.

v1   session lifetime (KIP-368)
v2   flexible
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from slackwater.wire.apis import SASL_AUTHENTICATE
from slackwater.wire.schema import Bytes, Int16, Int64, Request, Response, String, Versions


@dataclass(slots=True)
class SaslAuthenticateRequest(Request):
    """One authentication step of the client."""

    API: ClassVar = SASL_AUTHENTICATE

    auth_bytes: Bytes = b""


@dataclass(slots=True)
class SaslAuthenticateResponse(Response):
    """The next step of the server."""

    API: ClassVar = SASL_AUTHENTICATE

    error_code: Int16 = 0
    error_message: String | None = ""
    auth_bytes: Bytes = b""
    session_lifetime_ms: Annotated[Int64, Versions("1+", ignorable=True)] = 0
