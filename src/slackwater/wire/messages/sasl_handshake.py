"""SaslHandshake (key 17), v0 to v1.

v0   what follows are the mechanism's own bytes, in bare frames
v1   what follows are SaslAuthenticate requests

It stays at v1 and inflexible: clients up to 2.4 negotiate it wrongly (KAFKA-9577).
"""

from dataclasses import dataclass, field
from typing import ClassVar

from slackwater.wire.apis import SASL_HANDSHAKE
from slackwater.wire.schema import Int16, Request, Response, String


@dataclass(slots=True)
class SaslHandshakeRequest(Request):
    """How a client wants to prove who it is."""

    API: ClassVar = SASL_HANDSHAKE

    mechanism: String = ""


@dataclass(slots=True)
class SaslHandshakeResponse(Response):
    """Whether that will do, and what would."""

    API: ClassVar = SASL_HANDSHAKE

    error_code: Int16 = 0
    mechanisms: list[String] = field(default_factory=list)
