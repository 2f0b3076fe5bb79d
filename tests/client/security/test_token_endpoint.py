"""Token endpoints and functions that give no token: one sentence, and the secret goes nowhere else."""

import asyncio
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from slackwater import Admin, SaslAuthenticationError, UsageError
from slackwater.client.network.authentication import OAuthBearerMechanism
from slackwater.client.network.oidc import ClientCredentials


@contextmanager
def web_server(
    status: int, body: bytes = b"", headers: Mapping[str, str] | None = None
) -> Iterator[tuple[str, list[str]]]:
    """A server with one answer; its address, and the Authorization of each request that it gets."""
    received: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(self.headers.get("Authorization", ""))
            if not status:
                self.wfile.write(b"no HTTP\r\n\r\n")
                return
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/token", received
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirection_does_not_get_the_secret(status: int) -> None:
    with (
        web_server(200, b'{"access_token": "t"}') as (target, received),
        web_server(status, headers={"Location": target}) as (url, _),
        pytest.raises(SaslAuthenticationError, match=f"HTTP status {status} .*; set the final address"),
    ):
        ClientCredentials(url, "orders", "canary")()
    assert received == []


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (200, b"<html>", "gave no token: JSONDecodeError"),
        (200, b"[]", "answered without an access_token"),
        (200, b'{"access_token": 5}', "answered without an access_token"),
        (200, b'{"access_token": "canary", "expires_in": null}', "answered with an invalid expires_in"),
        (200, b'{"access_token": "canary", "expires_in": "soon"}', "answered with an invalid expires_in"),
        (200, b'{"access_token": "canary", "expires_in": 1e999}', "answered with an invalid expires_in"),
        (500, b"oops", r"HTTP status 500 \(Internal Server Error\)"),
        (0, b"", "gave no token: BadStatusLine"),
    ],
)
def test_answer_without_a_token_is_one_sentence(status: int, body: bytes, reason: str) -> None:
    with web_server(status, body) as (url, _), pytest.raises(SaslAuthenticationError, match=reason) as raised:
        ClientCredentials(url, "orders", "canary")()
    assert "canary" not in str(raised.value)


def test_token_function_that_does_not_return_is_named() -> None:
    may_end = threading.Event()

    async def exchange(message: bytes) -> bytes:
        raise AssertionError("there is no token to send")

    async def authenticate() -> None:
        try:
            await OAuthBearerMechanism(may_end.wait, {}, timeout_s=0.01).run(exchange, "localhost")
        finally:
            may_end.set()

    with pytest.raises(SaslAuthenticationError, match=r"token\.provider gave no token within 0\.01 s"):
        asyncio.run(authenticate())


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (None, "No module named 'my_token'. Add the directory of my_token.py to PYTHONPATH."),
        ("import no_such_package", "No module named 'no_such_package'."),
        ("token = 1 / 0", "ZeroDivisionError."),
        ("", "module 'my_token' has no attribute 'token'."),
    ],
)
def test_token_function_that_cannot_be_imported_is_one_sentence(
    code: str | None, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if code is not None:
        (tmp_path / "my_token.py").write_text(code)
        monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_token", raising=False)
    settings = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    with pytest.raises(UsageError) as raised:
        Admin(settings | {"sasl.oauthbearer.token.provider": "my_token:token"})
    assert str(raised.value) == f"sasl.oauthbearer.token.provider = my_token:token cannot be imported: {reason}"
