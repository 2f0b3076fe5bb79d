"""The TLS context of a listener; it follows its files and settings while the broker runs.

Invariants:
- A connection has the context that was current when it was accepted; established connections stay as they are.
- A changed file that cannot be loaded is logged once, and the last context stays in use.
"""

import ssl
from time import monotonic
from typing import Final

from slackwater.broker.config import Settings
from slackwater.broker.config.listeners import Endpoint
from slackwater.escaping import get_logger
from slackwater.group.errors import UsageError
from slackwater.security.file_state import FileState, file_state
from slackwater.security.server_tls import server_context
from slackwater.security.tls import KeyMaterial

log = get_logger("slackwater.broker")
CHECK_S: Final = 1.0


class ListenerTlsContext:
    """The current TLS context of one listener."""

    def __init__(self, endpoint: Endpoint, settings: Settings) -> None:
        self._endpoint = endpoint
        self._settings = settings
        self._states = self._file_states()
        self._context = build_context(endpoint, settings)
        self._checked_at = monotonic()
        self._is_stale = False
        settings.watch(self._settings_changed)

    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection."""
        now = monotonic()
        if self._is_stale or now - self._checked_at > CHECK_S:
            self._checked_at = now
            self._reload()
        return self._context

    def _settings_changed(self) -> None:
        self._is_stale = True

    def _reload(self) -> None:
        states = self._file_states()
        if states == self._states and not self._is_stale:
            return
        self._states, self._is_stale = states, False
        try:
            self._context = build_context(self._endpoint, self._settings)
        except UsageError as error:
            log.warning(
                "The certificates of listener %s were not reloaded; the previous ones stay in use: %s",
                self._endpoint.name,
                error,
            )
        else:
            log.info("The listener %s has loaded its certificates again.", self._endpoint.name)

    def _file_states(self) -> list[FileState | None]:
        names = ("ssl.keystore.location", "ssl.truststore.location")
        return [file_state(str(self._settings.for_listener(self._endpoint.name, name))) for name in names]


def build_context(endpoint: Endpoint, settings: Settings) -> ssl.SSLContext:
    """Build the TLS context of a listener from its settings."""

    def text(name: str) -> str:
        return str(settings.for_listener(endpoint.name, name))

    versions = settings.for_listener(endpoint.name, "ssl.enabled.protocols")
    assert isinstance(versions, tuple)
    return server_context(
        KeyMaterial(
            "ssl.keystore.location",
            text("ssl.keystore.location"),
            text("ssl.keystore.certificate.chain"),
            text("ssl.keystore.password"),
        ),
        KeyMaterial("ssl.keystore.key", "", text("ssl.keystore.key"), text("ssl.key.password")),
        KeyMaterial(
            "ssl.truststore.location",
            text("ssl.truststore.location"),
            text("ssl.truststore.certificates"),
            text("ssl.truststore.password"),
        ),
        client_auth=settings.client_auth(endpoint.name, has_sasl=endpoint.protocol.has_sasl),
        versions=versions,
    )
