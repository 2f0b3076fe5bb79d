"""What one listener requires of its clients: certificates, SASL mechanisms, limits; built from its settings."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, TypeVar

from slackwater.broker.authentication.issuer_keys import IssuerKeys
from slackwater.broker.authentication.plain_users import PlainUsers
from slackwater.broker.authentication.sasl import EnabledMechanism, SaslOptions
from slackwater.broker.authentication.scram_credentials import ScramCredentials
from slackwater.broker.authentication.tls_context import ListenerTlsContext
from slackwater.broker.config import Settings
from slackwater.broker.config.listeners import Endpoint
from slackwater.broker.handlers import api_versions
from slackwater.group.errors import UsageError
from slackwater.security.principal_mapping import PrincipalMapping
from slackwater.security.protocols import SASL_MECHANISMS
from slackwater.security.scram import ScramAlgorithm
from slackwater.security.server_mechanisms import (
    OAuthBearerServerMechanism,
    PlainServerMechanism,
    ScramServerMechanism,
    ServerMechanism,
)
from slackwater.security.tokens import TokenRules, require_library
from slackwater.wire.apis import Api

_T = TypeVar("_T")
_SCRAM: Final = {mechanism.value: mechanism for mechanism in ScramAlgorithm}


class ListenerSecurity:
    """The security of one listener; the constructor raises `UsageError` if its settings are not sufficient."""

    def __init__(
        self,
        endpoint: Endpoint,
        settings: Settings,
        credentials: ScramCredentials,
        *,
        apis: Iterable[Api],
        wall_ms: Callable[[], int],
    ) -> None:
        self.endpoint = endpoint
        self._settings = settings
        self.max_receive_bytes = self._get("sasl.server.max.receive.size", int)
        self.timeout_s = self._get("connection.authentication.timeout.ms", int) / 1000
        self.failure_delay_s = self._get("connection.failed.authentication.delay.ms", int) / 1000
        self.mapping = PrincipalMapping(self._get("ssl.principal.mapping.rules", str))
        self.tls = ListenerTlsContext(endpoint, settings) if endpoint.protocol.has_tls else None
        self.sasl: SaslOptions | None = None
        if not endpoint.protocol.has_sasl:
            return
        names = self._get("sasl.enabled.mechanisms", tuple)
        if not names:
            raise UsageError(
                f"The listener {endpoint.name} has no SASL mechanism. Set sasl.enabled.mechanisms to some of "
                f"{', '.join(SASL_MECHANISMS)}."
            )
        self.sasl = SaslOptions(
            {name: self._mechanism(name, credentials, wall_ms) for name in names},
            lambda request, version: api_versions.response(request, version, apis),
            wall_ms,
            self.failure_delay_s,
        )

    def _mechanism(self, name: str, credentials: ScramCredentials, wall_ms: Callable[[], int]) -> EnabledMechanism:
        start: Callable[[], ServerMechanism]
        match name:
            case "PLAIN":
                users = PlainUsers(self._jaas(), self._get("sasl.plain.users.file", str))
                if users.is_empty:
                    raise UsageError(
                        f"The listener {self.endpoint.name} has no users for PLAIN. Set sasl.plain.users.file, or "
                        f"listener.name.{self.endpoint.name.lower()}.plain.sasl.jaas.config with user_NAME entries."
                    )
                start = partial(PlainServerMechanism, users.password_of)
            case "OAUTHBEARER":
                start = partial(OAuthBearerServerMechanism, self._issuer_keys(wall_ms).validate)
            case _:
                start = partial(ScramServerMechanism, _SCRAM[name], credentials.find)
        max_session_ms = self._settings.for_listener(self.endpoint.name, "connections.max.reauth.ms", name)
        assert isinstance(max_session_ms, int)
        return EnabledMechanism(start, max_session_ms)

    def _issuer_keys(self, wall_ms: Callable[[], int]) -> IssuerKeys:
        require_library()
        url = self._get("sasl.oauthbearer.jwks.endpoint.url", str)
        if not url.startswith(("https://", "http://", "file:")):
            raise UsageError(
                f"sasl.oauthbearer.jwks.endpoint.url = {url} is not a URL of keys; use https://… or file:…"
            )
        rules = TokenRules(
            issuer=self._get("sasl.oauthbearer.expected.issuer", str),
            audiences=self._get("sasl.oauthbearer.expected.audience", tuple),
            clock_skew_s=self._get("sasl.oauthbearer.clock.skew.seconds", int),
            name_claim=self._get("sasl.oauthbearer.sub.claim.name", str),
        )
        refresh_s = self._get("sasl.oauthbearer.jwks.endpoint.refresh.ms", int) / 1000
        return IssuerKeys(url, rules, refresh_s, lambda: wall_ms() / 1000)

    def _jaas(self) -> str:
        name = f"listener.name.{self.endpoint.name.lower()}.plain.sasl.jaas.config"
        return self._settings.text(name) if name in self._settings.listener_names() else ""

    def _get(self, name: str, kind: type[_T]) -> _T:
        value = self._settings.for_listener(self.endpoint.name, name)
        assert isinstance(value, kind)
        return value
