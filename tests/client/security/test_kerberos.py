"""GSSAPI without a KDC: the messages, the settings, and errors of the Kerberos library."""

import asyncio
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slackwater import Admin, SaslAuthenticationError, UsageError
from slackwater.client.config import ADMIN_SETTINGS, parse_settings
from slackwater.client.config.security import connection_security
from slackwater.client.network.authentication import TlsSaslSecurity
from slackwater.client.network.kerberos import GssapiMechanism

SETTINGS = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SASL_PLAINTEXT"}
OFFER = b"\x01\x00\x00\x00"


class Context:
    """A client's security context that needs two tokens of the server, and signs messages by a prefix."""

    initiator_name = "alice@EXAMPLE.COM"

    def __init__(self) -> None:
        self.received: list[bytes | None] = []

    @property
    def complete(self) -> bool:
        return len(self.received) == 3

    def step(self, token: bytes | None) -> bytes | None:
        self.received.append(token)
        return None if self.complete else b"client %d" % len(self.received)

    def wrap(self, message: bytes) -> bytes:
        return b"signed:" + message

    def unwrap(self, message: bytes) -> bytes:
        assert message.startswith(b"signed:")
        return message.removeprefix(b"signed:")


def authenticate(context: Context, offer: bytes) -> list[bytes]:
    """Run the mechanism with a server that makes this offer; return the messages of the client."""
    sent: list[bytes] = []
    answers = [b"server 1", b"server 2", b"signed:" + offer, b""]

    async def exchange(message: bytes) -> bytes:
        sent.append(message)
        return answers[len(sent) - 1]

    asyncio.run(GssapiMechanism(lambda host: context, "alice").run(exchange, "broker"))
    return sent


def test_context_is_established_and_layers_are_declined() -> None:
    context = Context()
    sent = authenticate(context, b"\x07\x00\x10\x00")
    assert context.received == [None, b"server 1", b"server 2"]
    assert sent == [b"client 1", b"client 2", b"", b"signed:" + OFFER]


@pytest.mark.parametrize(
    ("offer", "reason"), [(b"\x06\x00\x10\x00", "requires a GSSAPI security layer"), (b"\x01", "offer .* is invalid")]
)
def test_offer_without_the_choice_of_no_layer_is_refused(offer: bytes, reason: str) -> None:
    with pytest.raises(SaslAuthenticationError, match=reason):
        authenticate(Context(), offer)


def test_kdc_that_does_not_answer_is_named() -> None:
    may_end = threading.Event()

    def open_context(host: str) -> Context:
        may_end.wait()
        return Context()

    async def exchange(message: bytes) -> bytes:
        raise AssertionError("there is no ticket to send")

    async def authenticate() -> None:
        try:
            await GssapiMechanism(open_context, "alice", timeout_s=0.01).run(exchange, "broker")
        finally:
            may_end.set()

    with pytest.raises(SaslAuthenticationError, match=r"no KDC answered within 0\.01 s\. Check the address of the KDC"):
        asyncio.run(authenticate())


class GSSError(Exception):
    """An error of the library, with its messages."""

    maj_code, min_code = 1, 2

    def get_all_statuses(self, code: int, is_major: bool) -> list[str]:
        return ["Unspecified GSS failure"] if is_major else [str(self)]


@pytest.fixture
def acquired(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The credentials that a replacement of the package `gssapi` was asked for."""
    asked: list[dict[str, Any]] = []

    def credentials(**arguments: Any) -> object:
        asked.append(arguments)
        return object()

    class FailingContext:
        complete = False

        def __init__(self, **arguments: Any) -> None:
            self.target = arguments["name"]

        def step(self, token: bytes | None) -> bytes:
            raise GSSError(f"Server {self.target} not found in Kerberos database")

    library = SimpleNamespace(
        Name=lambda text, _kind: text,
        NameType=SimpleNamespace(kerberos_principal=1, hostbased_service=2),
        MechType=SimpleNamespace(kerberos=3),
        RequirementFlag=SimpleNamespace(mutual_authentication=4, integrity=5),
        Credentials=credentials,
        SecurityContext=FailingContext,
        exceptions=SimpleNamespace(GSSError=GSSError),
    )
    monkeypatch.setitem(sys.modules, "gssapi", library)
    return asked


def of_librdkafka(keytab: Path) -> dict[str, str]:
    return {"sasl.mechanism": "GSSAPI", "sasl.kerberos.principal": "alice", "sasl.kerberos.keytab": str(keytab)}


def of_java(keytab: Path) -> dict[str, str]:
    module = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
    return {"sasl.jaas.config": f'{module} keyTab="{keytab}" principal="alice" serviceName="kafka";'}


def first_message(settings: dict[str, str]) -> str:
    """Begin an authentication with these settings; return the error."""
    security = connection_security(parse_settings(SETTINGS | settings, ADMIN_SETTINGS, ignored=lambda _name: None))
    assert isinstance(security, TlsSaslSecurity)
    assert security.mechanism is not None

    async def exchange(message: bytes) -> bytes:
        raise AssertionError

    with pytest.raises(SaslAuthenticationError) as raised:
        asyncio.run(security.mechanism.run(exchange, "broker"))
    return str(raised.value)


@pytest.mark.parametrize("settings", [of_librdkafka, of_java])
def test_keytab_gives_tickets_in_memory(
    tmp_path: Path, acquired: list[dict[str, Any]], settings: Callable[[Path], dict[str, str]]
) -> None:
    keytab = tmp_path / "alice.keytab"
    keytab.write_bytes(b"key")
    assert first_message(settings(keytab)) == (
        "sasl.mechanism = GSSAPI: Server kafka@broker not found in Kerberos database. sasl.kerberos.service.name = "
        "kafka and the host name broker must be those of the broker's principal."
    )
    (asked,) = acquired
    assert asked["name"] == "alice"
    assert asked["store"]["client_keytab"] == f"FILE:{keytab}"
    assert asked["store"]["ccache"].startswith("MEMORY:")


def test_tickets_of_kinit_are_used_without_a_keytab(acquired: list[dict[str, Any]]) -> None:
    first_message({"sasl.mechanism": "GSSAPI"})
    module = "com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true"
    java = first_message({"sasl.jaas.config": f'{module} ticketCache="/tmp/tickets" serviceName="other";'})
    assert "sasl.kerberos.service.name = other" in java
    assert [(asked["name"], asked["store"]) for asked in acquired] == [(None, None), (None, {"ccache": "/tmp/tickets"})]


def test_missing_package_and_keytab_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gssapi = SETTINGS | {"sasl.mechanism": "GSSAPI"}
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(UsageError, match=r"the package `gssapi`, which is missing; install slackwater\[kerberos\]"):
        Admin(gssapi)
    with pytest.raises(UsageError, match=r"sasl\.kerberos\.keytab = /none cannot be read: No such file"):
        Admin(gssapi | {"sasl.kerberos.keytab": "/none"})
