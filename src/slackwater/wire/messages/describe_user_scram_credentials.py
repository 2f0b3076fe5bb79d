"""DescribeUserScramCredentials (key 50), v0."""

from dataclasses import dataclass, field
from typing import ClassVar

from slackwater.wire.apis import DESCRIBE_USER_SCRAM_CREDENTIALS
from slackwater.wire.schema import Int8, Int16, Int32, Request, Response, String, Struct


@dataclass(slots=True)
class UserName(Struct):
    """One entry of `users`."""

    name: String = ""


@dataclass(slots=True)
class DescribeUserScramCredentialsRequest(Request):
    """The users; null or empty means all."""

    API: ClassVar = DESCRIBE_USER_SCRAM_CREDENTIALS

    users: list[UserName] | None = field(default_factory=list)


@dataclass(slots=True)
class CredentialInfo(Struct):
    """One entry of `credential_infos`."""

    mechanism: Int8 = 0
    iterations: Int32 = 0


@dataclass(slots=True)
class DescribeUserScramCredentialsResult(Struct):
    """One entry of `results`."""

    user: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""
    credential_infos: list[CredentialInfo] = field(default_factory=list)


@dataclass(slots=True)
class DescribeUserScramCredentialsResponse(Response):
    """Mechanisms and iterations, without secrets."""

    API: ClassVar = DESCRIBE_USER_SCRAM_CREDENTIALS

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    results: list[DescribeUserScramCredentialsResult] = field(default_factory=list)
