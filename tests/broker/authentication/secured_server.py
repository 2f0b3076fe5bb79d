"""A broker with secured listeners on the event loop of the test, and clients that authenticate step by step."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop

from slackwater.broker.config import Settings
from slackwater.broker.config.listeners import configured_endpoints
from slackwater.broker.embedded.certificates import LOCAL_HOSTS, TestAuthority
from slackwater.broker.server import Server
from slackwater.group.errors import Error
from slackwater.security.scram import ScramAlgorithm, ScramClient, make_credential
from slackwater.wire.messages.metadata import MetadataRequest, MetadataResponse
from slackwater.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from slackwater.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

from ..server_client import Client

Scenario = Callable[[Server], Awaitable[None]]
PLAIN_USERS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret" user_bob="other";'
ALICE = b"\0alice\0secret"
HALF_OPEN = 2_000  # connections whose handshake or authentication does not end


def with_secured_server(directory: Path, listeners: str, scenario: Scenario, **settings: str) -> None:
    """Run a scenario with these listeners; in setting names, two underscores stand for one, and one for a dot."""

    async def run() -> None:
        values = {"listeners": ",".join(f"{name}://127.0.0.1:0" for name in listeners.split())}
        values |= {
            name.replace("__", "\0").replace("_", ".").replace("\0", "_"): text for name, text in settings.items()
        }
        parsed = Settings(values)
        server = Server(directory / "data", parsed)
        await server.listen(configured_endpoints(parsed))
        try:
            await scenario(server)
        finally:
            await Client.close_all()
            await server.stop()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


def certificates(directory: Path) -> tuple[TestAuthority, dict[str, str]]:
    """Create an authority, and the settings of a broker with a certificate of it."""
    authority = TestAuthority(directory)
    broker = authority.issue("broker", hosts=LOCAL_HOSTS)
    return authority, {"ssl_keystore_location": str(broker), "ssl_truststore_location": str(authority.path)}


def client_context(authority: TestAuthority, certificate: Path | None = None) -> ssl.SSLContext:
    """The TLS context of a client, with or without a certificate."""
    context = ssl.create_default_context(cafile=str(authority.path))
    if certificate is not None:
        context.load_cert_chain(certificate)
    return context


async def connect(server: Server, listener: str, context: ssl.SSLContext | None = None) -> Client:
    """Connect to a listener, with TLS if there is a context."""
    return await Client.connect_to(server.ports[listener], context)


async def handshake(client: Client, mechanism: str, version: int = 1) -> SaslHandshakeResponse:
    return await client.request(SaslHandshakeRequest(mechanism), SaslHandshakeResponse, version)


async def authenticate(client: Client, message: bytes, version: int = 2) -> SaslAuthenticateResponse:
    return await client.request(SaslAuthenticateRequest(message), SaslAuthenticateResponse, version)


async def plain(client: Client, message: bytes = ALICE) -> SaslAuthenticateResponse:
    """Authenticate with PLAIN."""
    assert (await handshake(client, "PLAIN")).error_code == Error.NONE
    return await authenticate(client, message)


async def scram(
    client: Client, user: str, password: str, mechanism: ScramAlgorithm = ScramAlgorithm.SHA_512
) -> SaslAuthenticateResponse:
    """Authenticate with SCRAM; return the last response."""
    assert (await handshake(client, mechanism.value)).error_code == Error.NONE
    exchange = ScramClient(mechanism, user, password)
    first = await authenticate(client, exchange.first())
    if first.error_code:
        return first
    last = await authenticate(client, exchange.final(first.auth_bytes))
    if not last.error_code:
        exchange.verify(last.auth_bytes)
    return last


def add_scram_user(
    server: Server, user: str, password: str, mechanism: ScramAlgorithm = ScramAlgorithm.SHA_512
) -> None:
    server.broker.credentials.change({(user, mechanism): make_credential(mechanism, password)})


async def is_served(client: Client) -> bool:
    """Whether the broker answers an ordinary request."""
    return (await client.request(MetadataRequest(topics=[]), MetadataResponse)).controller_id == 1
