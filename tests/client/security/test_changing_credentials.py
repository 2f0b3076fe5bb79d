"""Credentials that change while a client runs: renewed certificates, and tokens of a token endpoint."""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from slackwater import Admin, SaslAuthenticationError, SslAuthenticationError
from tests.client.security.secured_kafka import SecuredKafka, unsigned_token

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("secured_kafka")]


def test_renewed_certificate_is_read_again(secured: SecuredKafka, tmp_path: Path) -> None:
    path = tmp_path / "client.pem"
    path.write_bytes(secured.other_authority.issue("client", "client").combined().read_bytes())
    with Admin(secured.mtls() | {"ssl.keystore.location": str(path)}) as admin:
        with pytest.raises(SslAuthenticationError, match="rejected this client's certificate"):
            admin.brokers()
        path.write_bytes(secured.client.combined().read_bytes())
        assert len(admin.brokers()) == 1


class _TokenEndpoint(BaseHTTPRequestHandler):
    """Gives tokens of alice to the client `orders` with the secret `client-secret`."""

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        expected = "Basic " + base64.b64encode(b"orders:client-secret").decode()
        if self.headers["Authorization"] != expected:
            self._answer(401, {"error": "invalid_client"})
        elif form != "grant_type=client_credentials&scope=kafka":
            self._answer(400, {"error": "invalid_scope"})
        else:
            self._answer(200, {"access_token": unsigned_token("alice")[0], "expires_in": 3600})

    def _answer(self, status: int, answer: dict[str, object]) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@contextmanager
def token_endpoint() -> Iterator[str]:
    """The address of a token endpoint."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _TokenEndpoint) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/token"
        server.shutdown()
        thread.join()


def test_token_of_a_token_endpoint_is_accepted(secured: SecuredKafka) -> None:
    with token_endpoint() as url:
        settings = secured.tls("SASL") | {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": url,
            "sasl.oauthbearer.client.credentials.client.id": "orders",
            "sasl.oauthbearer.client.credentials.client.secret": "client-secret",
            "sasl.oauthbearer.scope": "kafka",
        }
        with Admin(settings) as admin:
            assert len(admin.brokers()) == 1
        wrong = settings | {"sasl.oauthbearer.client.credentials.client.secret": "canary"}
        with (
            Admin(wrong) as admin,
            pytest.raises(SaslAuthenticationError, match=r"HTTP status 401 \(invalid_client\)") as raised,
        ):
            admin.brokers()
    assert "canary" not in str(raised.value)


def test_failing_token_function_is_named(secured: SecuredKafka) -> None:
    def provider() -> str:
        raise OSError("no network")

    settings = secured.sasl("OAUTHBEARER") | {"sasl.oauthbearer.token.provider": provider}
    with Admin(settings) as admin, pytest.raises(SaslAuthenticationError, match=r"token\.provider raised OSError"):
        admin.brokers()
