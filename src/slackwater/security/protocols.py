"""Kafka's security protocols and SASL mechanisms, by their names in settings."""

from enum import Enum
from typing import Final

PASSWORD_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SASL_MECHANISMS: Final = (*PASSWORD_MECHANISMS, "OAUTHBEARER")  # those of the broker
CLIENT_SASL_MECHANISMS: Final = (*SASL_MECHANISMS, "GSSAPI")


class SecurityProtocol(Enum):
    """Kafka's security protocols."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        """Whether clients authenticate with SASL."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)
