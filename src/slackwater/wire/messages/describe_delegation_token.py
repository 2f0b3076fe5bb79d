"""DescribeDelegationToken (key 41), v1 to v3.

v2   flexible
v3   the user who requested the token (KIP-373)
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from slackwater.wire.apis import DESCRIBE_DELEGATION_TOKEN
from slackwater.wire.schema import Bytes, Int16, Int32, Int64, Request, Response, String, Struct, Versions


@dataclass(slots=True)
class DescribeDelegationTokenOwner(Struct):
    """A user."""

    principal_type: String = ""
    principal_name: String = ""


@dataclass(slots=True)
class DescribeDelegationTokenRequest(Request):
    """The users whose tokens are requested; null means all tokens."""

    API: ClassVar = DESCRIBE_DELEGATION_TOKEN

    owners: list[DescribeDelegationTokenOwner] | None = field(default_factory=list)


@dataclass(slots=True)
class DescribedDelegationTokenRenewer(Struct):
    """A user who may renew the token."""

    principal_type: String = ""
    principal_name: String = ""


@dataclass(slots=True)
class DescribedDelegationToken(Struct):
    """One token."""

    principal_type: String = ""
    principal_name: String = ""
    token_requester_principal_type: Annotated[String, Versions("3+")] = ""
    token_requester_principal_name: Annotated[String, Versions("3+")] = ""
    issue_timestamp: Int64 = 0
    expiry_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    token_id: String = ""
    hmac: Bytes = b""
    renewers: list[DescribedDelegationTokenRenewer] = field(default_factory=list)


@dataclass(slots=True)
class DescribeDelegationTokenResponse(Response):
    """The tokens."""

    API: ClassVar = DESCRIBE_DELEGATION_TOKEN

    error_code: Int16 = 0
    tokens: list[DescribedDelegationToken] = field(default_factory=list)
    throttle_time_ms: Int32 = 0
