"""The TLS context of a listener."""

import ssl
from typing import Final

from slackwater.group.errors import UsageError
from slackwater.security.tls import KeyMaterial, limit_versions, load_certificate, load_trust

_CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def server_context(
    certificate: KeyMaterial, key: KeyMaterial, trust: KeyMaterial, *, client_auth: str, versions: tuple[str, ...]
) -> ssl.SSLContext:
    """Build the context of a server; without `trust`, the system's certificates sign those of clients."""
    if not certificate.given:
        raise UsageError(
            "A listener with TLS needs a certificate. Set ssl.keystore.location, or ssl.keystore.key and "
            "ssl.keystore.certificate.chain."
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    limit_versions(context, versions)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    load_certificate(context, certificate, key)
    context.verify_mode = _CLIENT_AUTH[client_auth]
    if trust.given:
        load_trust(context, trust)
    elif client_auth != "none":
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
    return context
