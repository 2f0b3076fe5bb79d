"""AlterUserScramCredentials (key 51), v0."""

from dataclasses import dataclass, field
from typing import ClassVar

from slackwater.wire.apis import ALTER_USER_SCRAM_CREDENTIALS
from slackwater.wire.schema import Bytes, Int8, Int16, Int32, Request, Response, String, Struct


@dataclass(slots=True)
class ScramCredentialDeletion(Struct):
    """A credential to delete."""

    name: String = ""
    mechanism: Int8 = 0


@dataclass(slots=True)
class ScramCredentialUpsertion(Struct):
    """A credential to set."""

    name: String = ""
    mechanism: Int8 = 0
    iterations: Int32 = 0
    salt: Bytes = b""
    salted_password: Bytes = b""


@dataclass(slots=True)
class AlterUserScramCredentialsRequest(Request):
    """Changes SCRAM credentials."""

    API: ClassVar = ALTER_USER_SCRAM_CREDENTIALS

    deletions: list[ScramCredentialDeletion] = field(default_factory=list)
    upsertions: list[ScramCredentialUpsertion] = field(default_factory=list)


@dataclass(slots=True)
class AlterUserScramCredentialsResult(Struct):
    """The result for one user."""

    user: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""


@dataclass(slots=True)
class AlterUserScramCredentialsResponse(Response):
    """The result for each user."""

    API: ClassVar = ALTER_USER_SCRAM_CREDENTIALS

    throttle_time_ms: Int32 = 0
    results: list[AlterUserScramCredentialsResult] = field(default_factory=list)
