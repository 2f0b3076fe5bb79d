"""The TLS context of a listener.

Invariants:
- The alert that tells a client why its handshake failed is part of the error: neither asyncio nor uvloop sends it.
"""

import ssl
from typing import Any, Final

from slackwater.group.errors import UsageError
from slackwater.security.tls import KeyMaterial, limit_versions, load_certificate, load_trust

_CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


class _ServerSession(ssl.SSLObject):
    """The server's half of a TLS connection."""

    outgoing: ssl.MemoryBIO

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            error.alert = self.outgoing.read()  # type: ignore[attr-defined]
            raise


class _ServerContext(ssl.SSLContext):
    sslobject_class = _ServerSession

    def wrap_bio(
        self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *arguments: Any, **named: Any
    ) -> ssl.SSLObject:
        session = super().wrap_bio(incoming, outgoing, *arguments, **named)
        assert isinstance(session, _ServerSession)
        session.outgoing = outgoing
        return session


def alert_of(error: BaseException) -> bytes:
    """Return the bytes that tell the client why its handshake failed; empty if there are none."""
    alert = getattr(error, "alert", b"")
    assert isinstance(alert, bytes)
    return alert


def server_context(
    certificate: KeyMaterial, key: KeyMaterial, trust: KeyMaterial, *, client_auth: str, versions: tuple[str, ...]
) -> ssl.SSLContext:
    """Build the context of a server; without `trust`, the system's certificates sign those of clients."""
    if not certificate.given:
        raise UsageError(
            "A listener with TLS needs a certificate. Set ssl.keystore.location, or ssl.keystore.key and "
            "ssl.keystore.certificate.chain."
        )
    context = _ServerContext(ssl.PROTOCOL_TLS_SERVER)
    limit_versions(context, versions)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    load_certificate(context, certificate, key)
    context.verify_mode = _CLIENT_AUTH[client_auth]
    if trust.given:
        load_trust(context, trust)
    elif client_auth != "none":
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
    return context
