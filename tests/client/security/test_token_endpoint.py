"""Token endpoints that answer with something else than a token: one sentence, and the secret goes nowhere else."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from slackwater import SaslAuthenticationError
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
