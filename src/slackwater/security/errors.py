"""Errors of the security layer."""

from slackwater.group.errors import SlackwaterError


class AuthenticationError(SlackwaterError):
    """An authentication failed. A retry with the same credentials fails again."""


class SaslAuthenticationError(AuthenticationError):
    """The broker rejected the SASL credentials, or could not prove that it knows them."""


class UnsupportedSaslMechanismError(SaslAuthenticationError):
    """The broker has not enabled this SASL mechanism."""


class IllegalSaslStateError(AuthenticationError):
    """The broker did not expect SASL, or not this request of it."""


class SslAuthenticationError(AuthenticationError):
    """The TLS handshake failed."""
