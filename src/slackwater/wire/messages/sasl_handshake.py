"""SaslHandshake (key 17), v0 to v1.

v0   raw bytes of the mechanism follow, in frames without headers
v1   SaslAuthenticate requests follow

It stays at v1 and is not flexible: clients up to 2.4 negotiate it wrongly (KAFKA-9577).
"""

from dataclasses import dataclass, field
from typing import ClassVar

from slackwater.wire.apis import SASL_HANDSHAKE
from slackwater.wire.schema import Int16, Request, Response, String


@dataclass(slots=True)
class SaslHandshakeRequest(Request):
    """The SASL mechanism that the client selects."""

    API: ClassVar = SASL_HANDSHAKE

    mechanism: String = ""


@dataclass(slots=True)
class SaslHandshakeResponse(Response):
    """The result, and the enabled mechanisms."""

    API: ClassVar = SASL_HANDSHAKE

    error_code: Int16 = 0
    mechanisms: list[String] = field(default_factory=list)
