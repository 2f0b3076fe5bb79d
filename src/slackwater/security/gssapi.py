"""SASL GSSAPI (RFC 4752): the messages after the security context is established.

Kafka uses GSSAPI only to authenticate. Encryption is the task of TLS, so no security layer is negotiated.
"""

from typing import Final

from slackwater.security.errors import SaslAuthenticationError

_NO_LAYER: Final = 1
_OFFER_BYTES: Final = 4  # a bit for each layer, and the largest message of a layer


def choose_no_layer(offer: bytes) -> bytes:
    """Return the answer to the server's offer of security layers: none, and no other user name."""
    if len(offer) != _OFFER_BYTES:
        raise SaslAuthenticationError("the broker's offer of GSSAPI security layers is invalid")
    if not offer[0] & _NO_LAYER:
        raise SaslAuthenticationError("the broker requires a GSSAPI security layer, which Kafka does not use")
    return bytes((_NO_LAYER, 0, 0, 0))
