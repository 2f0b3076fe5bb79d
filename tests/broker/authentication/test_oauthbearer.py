"""OAUTHBEARER on a listener: tokens become principals, and their expiry ends the session."""

import http.server
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from confluent_kafka.admin import AdminClient
from cryptography.hazmat.primitives.asymmetric import ec

from slackwater import Broker, UsageError
from slackwater.broker.server import Server
from slackwater.group.errors import Error

from .secured_server import Scenario, authenticate, connect, handshake, is_served, with_secured_server

KEY = ec.generate_private_key(ec.SECP256R1())
JWKS = json.dumps({"keys": [{**json.loads(jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key())), "kid": "1"}]})


def token(name: str = "alice", lifetime_s: float = 600) -> str:
    now = time.time()
    claims = {"sub": name, "aud": "kafka", "iss": "https://issuer", "iat": int(now), "exp": now + lifetime_s}
    return jwt.encode(claims, KEY, "ES256", headers={"kid": "1"})


def message(text: str) -> bytes:
    return f"n,,\x01auth=Bearer {text}\x01\x01".encode()


@pytest.fixture
def keys(tmp_path: Path) -> str:
    path = tmp_path / "keys.json"
    path.write_text(JWKS)
    return path.as_uri()


@pytest.fixture
def key_server() -> Iterator[str]:
    """The URL of a server with the keys."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(JWKS.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/keys"
        server.shutdown()
        thread.join()


def run(directory: Path, scenario: Scenario, url: str) -> None:
    with_secured_server(
        directory,
        "SASL_PLAINTEXT",
        scenario,
        sasl_enabled_mechanisms="OAUTHBEARER",
        sasl_oauthbearer_jwks_endpoint_url=url,
        sasl_oauthbearer_expected_issuer="https://issuer",
        sasl_oauthbearer_expected_audience="kafka",
        sasl_oauthbearer_clock_skew_seconds="0",
        connection_failed_authentication_delay_ms="1",
    )


def test_token_names_the_principal_until_it_expires(tmp_path: Path, keys: str) -> None:
    async def scenario(server: Server) -> None:
        client = await connect(server, "SASL_PLAINTEXT")
        await handshake(client, "OAUTHBEARER")
        response = await authenticate(client, message(token()))
        assert response.error_code == Error.NONE
        assert 0 < response.session_lifetime_ms <= 600_000
        assert await is_served(client)
        assert server.principals == ["User:alice"]

    run(tmp_path, scenario, keys)


def test_unreadable_keys_file_is_logged(tmp_path: Path, keys: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(server: Server) -> None:
        (tmp_path / "keys.json").write_text("not the keys")
        client = await connect(server, "SASL_PLAINTEXT")
        await handshake(client, "OAUTHBEARER")
        assert (await authenticate(client, message(token()))).error_code == Error.NONE

    run(tmp_path, scenario, keys)
    assert "The token keys were not reloaded; the previous ones stay in use: " in caplog.text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (token(lifetime_s=-1), "the token has expired"),
        ("a.b.c", "the token cannot be read"),
        (token()[:-4] + "AAAA", "the signature of the token is wrong"),
    ],
    ids=["expired", "unreadable", "forged"],
)
def test_invalid_token_is_refused_as_in_kafka(
    tmp_path: Path, keys: str, text: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(server: Server) -> None:
        client = await connect(server, "SASL_PLAINTEXT")
        await handshake(client, "OAUTHBEARER")
        response = await authenticate(client, message(text))
        assert (response.error_code, response.auth_bytes) == (Error.NONE, b'{"status":"invalid_token"}')
        response = await authenticate(client, b"\x01")
        assert (response.error_code, response.error_message) == (
            Error.SASL_AUTHENTICATION_FAILED,
            '{"status":"invalid_token"}',
        )
        assert await client.is_closed()

    with caplog.at_level("INFO", "slackwater.broker"):
        run(tmp_path, scenario, keys)
    assert reason in caplog.text


def test_keys_come_from_a_url(tmp_path: Path, key_server: str) -> None:
    async def scenario(server: Server) -> None:
        client = await connect(server, "SASL_PLAINTEXT")
        await handshake(client, "OAUTHBEARER")
        assert (await authenticate(client, message(token()))).error_code == Error.NONE

    run(tmp_path, scenario, key_server)


def test_new_keys_of_a_file_apply_at_once(tmp_path: Path, keys: str) -> None:
    (tmp_path / "keys.json").write_text('{"keys": []}')

    async def scenario(server: Server) -> None:
        for document, error in (('{"keys": [], "x": 1}', Error.SASL_AUTHENTICATION_FAILED), (JWKS, Error.NONE)):
            (tmp_path / "keys.json").write_text(document)
            client = await connect(server, "SASL_PLAINTEXT")
            await handshake(client, "OAUTHBEARER")
            response = await authenticate(client, message(token()))
            if response.auth_bytes:
                response = await authenticate(client, b"\x01")
            assert response.error_code == error

    run(tmp_path, scenario, keys)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("", "is not a URL of keys"),
        ("file:/no/keys.json", "cannot be read"),
        ("http://127.0.0.1:1/keys", "cannot be read"),
    ],
)
def test_missing_keys_are_one_sentence(tmp_path: Path, url: str, text: str) -> None:
    async def scenario(server: Server) -> None:
        raise AssertionError("the listener must not open")

    with pytest.raises(UsageError, match=text):
        run(tmp_path, scenario, url)


def test_confluent_kafka_authenticates_with_a_token(keys: str) -> None:
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": keys,
    }
    with Broker(settings=settings) as broker:
        config: dict[str, Any] = {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _config: (token(), time.time() + 600),
        }
        admin = AdminClient(config)
        admin.poll(0)
        assert admin.list_topics(timeout=30).brokers
