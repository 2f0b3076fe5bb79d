"""Security of a broker for tests: certificates and users are made when they are needed.

Invariants:
- All files are in one temporary directory that only this user can read.
- The broker's own requests (`describe_group` and others of a broker in a separate process) authenticate as `OWNER`.
"""

import re
import secrets
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from slackwater.broker.embedded.certificates import LOCAL_HOSTS, TestAuthority
from slackwater.broker.startup import Address, show_address
from slackwater.broker.storage.log.files import replace_file
from slackwater.group.errors import BrokerError, Error, UsageError
from slackwater.security.plain import plain_message
from slackwater.security.protocols import PASSWORD_MECHANISMS, SecurityProtocol
from slackwater.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from slackwater.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from slackwater.wire.request_response import decode_response, encode_request
from slackwater.wire.schema import Request, Response

OWNER: Final = "slackwater"
_SPECIAL: Final = re.compile(r"[\\: \t\f]")  # in a name of a properties file
_ESCAPED: Final = r"\\\g<0>"
_R = TypeVar("_R", bound=Response)


@dataclass(slots=True)
class BrokerSecurity:
    """The security of one broker."""

    protocol: SecurityProtocol
    directory: Path
    users: dict[str, str] = field(default_factory=dict)
    _authority: TestAuthority | None = None
    _broker_certificate: Path | None = None

    def prepare(self) -> None:
        """Make the certificate of the broker, and its first user."""
        if self.protocol.has_tls and self._authority is None:
            self._authority = TestAuthority(self.directory)
            self._broker_certificate = self._authority.issue("broker", hosts=LOCAL_HOSTS)
        if self.protocol.has_sasl:
            self.password(OWNER)

    def settings(self, listen: Address) -> dict[str, str]:
        """Return the settings of the broker."""
        settings = {"listeners": f"{self.protocol.value}://{show_address(*listen)}"}
        if self._authority is not None:
            settings["ssl.keystore.location"] = str(self._broker_certificate)
            settings["ssl.truststore.location"] = str(self._authority.path)
            settings["ssl.client.auth"] = "required"  # without SASL
        if self.protocol.has_sasl:
            settings["sasl.enabled.mechanisms"] = ",".join(PASSWORD_MECHANISMS)
            settings["sasl.plain.users.file"] = str(self._users_file)
        return settings

    @property
    def _users_file(self) -> Path:
        return self.directory / "users.properties"

    def password(self, user: str) -> str:
        """Return the password of a user; a new user gets one."""
        if any(letter in user for letter in "=\n\r#!") or user.strip() != user or not user:
            raise UsageError(f"{user!r} is not a user name for tests; use letters, digits, dots and hyphens.")
        if user not in self.users:
            self.users[user] = secrets.token_urlsafe(12)
        lines = "".join(f"{_SPECIAL.sub(_ESCAPED, name)}={password}\n" for name, password in self.users.items())
        replace_file(self._users_file, lines.encode(), mode=0o600)
        return self.users[user]

    def client_config(
        self, user: str, mechanism: str, *, java: bool, set_scram_password: Callable[[str, str, str], None]
    ) -> dict[str, str]:
        """Return the security settings of a client, under librdkafka's or Java's names."""
        config = {"security.protocol": self.protocol.value}
        if self._authority is not None:
            config |= _trust(self._authority.path, java=java)
        if self.protocol is SecurityProtocol.SSL:
            assert self._authority is not None
            config |= _certificate(self._authority.issue(user), java=java)
        if self.protocol.has_sasl:
            if mechanism not in PASSWORD_MECHANISMS:
                raise UsageError(
                    f"{mechanism} is not a mechanism for tests; use one of {', '.join(PASSWORD_MECHANISMS)}."
                )
            password = self.password(user)
            if mechanism != "PLAIN":
                set_scram_password(user, password, mechanism)
            config |= _login(user, password, mechanism, java=java)
        return config

    def connect(self, address: Address, timeout_s: float) -> socket.socket:
        """Open an authenticated connection of the owner."""
        connection = socket.create_connection(address, timeout_s)
        try:
            if self._authority is not None:
                context = ssl.create_default_context(cafile=str(self._authority.path))
                if self.protocol is SecurityProtocol.SSL:
                    context.load_cert_chain(self._authority.issue(OWNER))
                connection = context.wrap_socket(connection, server_hostname=LOCAL_HOSTS[0])
            if self.protocol.has_sasl:
                handshake = send_request(connection, SaslHandshakeRequest("PLAIN"), SaslHandshakeResponse, 1)
                if handshake.error_code:
                    raise BrokerError(Error(handshake.error_code), "The broker has no SASL mechanism PLAIN.")
                message = plain_message(OWNER, self.password(OWNER))
                response = send_request(connection, SaslAuthenticateRequest(message), SaslAuthenticateResponse, 2)
                if response.error_code:
                    raise BrokerError(Error(response.error_code), response.error_message or "")
        except BaseException:
            connection.close()
            raise
        return connection


def send_request(connection: socket.socket, message: Request, kind: type[_R], version: int) -> _R:
    """Send a request on a blocking connection and return its response."""
    connection.sendall(encode_request(message, version, 1, "slackwater-embedded"))
    with connection.makefile("rb") as reader:
        size = int.from_bytes(reader.read(4), "big")
        _, response = decode_response(kind, version, reader.read(size))
    return response


def parse_protocol(text: str) -> SecurityProtocol:
    """Return the protocol with this name."""
    if text not in SecurityProtocol.__members__:
        raise UsageError(f"security={text!r} is not a protocol; use one of {', '.join(SecurityProtocol.__members__)}.")
    return SecurityProtocol[text]


def _trust(authority: Path, *, java: bool) -> dict[str, str]:
    if java:
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority)}
    return {"ssl.ca.location": str(authority)}


def _certificate(path: Path, *, java: bool) -> dict[str, str]:
    if java:
        return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)}
    return {"ssl.certificate.location": str(path), "ssl.key.location": str(path)}


def _login(user: str, password: str, mechanism: str, *, java: bool) -> dict[str, str]:
    if java:
        name = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        module = f"org.apache.kafka.common.security.{name}"
        login = f'{module} required username="{user}" password="{password}";'
        return {"sasl.mechanism": mechanism, "sasl.jaas.config": login}
    return {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password}
