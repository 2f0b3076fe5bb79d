"""CreateDelegationToken (key 38), v1 to v3.

v2   flexible
v3   a token for another user, and the user who requested it (KIP-373)
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from slackwater.wire.apis import CREATE_DELEGATION_TOKEN
from slackwater.wire.schema import Bytes, Int16, Int32, Int64, Request, Response, String, Struct, Versions


@dataclass(slots=True)
class CreatableRenewers(Struct):
    """A user who may renew the token."""

    principal_type: String = ""
    principal_name: String = ""


@dataclass(slots=True)
class CreateDelegationTokenRequest(Request):
    """Creates a delegation token."""

    API: ClassVar = CREATE_DELEGATION_TOKEN

    owner_principal_type: Annotated[String | None, Versions("3+")] = ""
    owner_principal_name: Annotated[String | None, Versions("3+")] = ""
    renewers: list[CreatableRenewers] = field(default_factory=list)
    max_lifetime_ms: Int64 = 0


@dataclass(slots=True)
class CreateDelegationTokenResponse(Response):
    """The new token."""

    API: ClassVar = CREATE_DELEGATION_TOKEN

    error_code: Int16 = 0
    principal_type: String = ""
    principal_name: String = ""
    token_requester_principal_type: Annotated[String, Versions("3+")] = ""
    token_requester_principal_name: Annotated[String, Versions("3+")] = ""
    issue_timestamp_ms: Int64 = 0
    expiry_timestamp_ms: Int64 = 0
    max_timestamp_ms: Int64 = 0
    token_id: String = ""
    hmac: Bytes = b""
    throttle_time_ms: Int32 = 0
