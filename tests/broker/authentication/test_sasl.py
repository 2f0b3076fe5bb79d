"""SASL on a listener: what is refused, with which error, and what an authenticated client may do."""

import asyncio
import struct
from pathlib import Path

import pytest

from slackwater.broker.handlers import SUPPORTED_APIS
from slackwater.broker.server import Server
from slackwater.group.errors import Error
from slackwater.security.scram import ScramAlgorithm, ScramClient
from slackwater.wire.apis import Api
from slackwater.wire.frames import frame
from slackwater.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from slackwater.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from slackwater.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from slackwater.wire.messages.sasl_handshake import SaslHandshakeRequest

from ..server_client import DEADLINE_S, Client
from .secured_server import (
    ALICE,
    HALF_OPEN,
    PLAIN_USERS,
    Scenario,
    add_scram_user,
    authenticate,
    connect,
    handshake,
    is_served,
    plain,
    scram,
    with_secured_server,
)

SASL = "SASL_PLAINTEXT"
BEFORE_AUTHENTICATION = ("ApiVersions", "SaslHandshake", "SaslAuthenticate")
INVALID = "Authentication failed during authentication due to invalid credentials with SASL mechanism {}"


def run(directory: Path, scenario: Scenario, **settings: str) -> None:
    values = {
        "sasl_enabled_mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener_name_sasl__plaintext_plain_sasl_jaas_config": PLAIN_USERS,
        "connection_failed_authentication_delay_ms": "1",
    }
    with_secured_server(directory, SASL, scenario, **values | settings)


# --- who gets in ------------------------------------------------------------------------------------------------------


def test_plain_user_becomes_the_principal(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        client = await connect(server, SASL)
        await client.request(ApiVersionsRequest("test", "1"), ApiVersionsResponse)
        assert (await handshake(client, "PLAIN")).mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
        response = await authenticate(client, ALICE)
        assert (response.error_code, response.error_message, response.auth_bytes) == (Error.NONE, "", b"")
        assert response.session_lifetime_ms == 0
        assert await is_served(client)
        assert server.principals == ["User:alice"]

    run(tmp_path, scenario)


@pytest.mark.parametrize("mechanism", ScramAlgorithm)
def test_scram_user_becomes_the_principal(tmp_path: Path, mechanism: ScramAlgorithm) -> None:
    async def scenario(server: Server) -> None:
        add_scram_user(server, "carol", "pw", mechanism)
        client = await connect(server, SASL)
        assert (await scram(client, "carol", "pw", mechanism)).error_code == Error.NONE
        assert await is_served(client)
        assert server.principals == ["User:carol"]

    run(tmp_path, scenario)


@pytest.mark.parametrize("name", ["a,b=c", 'quote"s', "ünïcode", "User:root", "a b", "x" * 300, "CN=a,O=b", "*"])
def test_names_with_odd_characters_stay_as_they_are(tmp_path: Path, name: str) -> None:
    async def scenario(server: Server) -> None:
        add_scram_user(server, name, "pässword,=")
        client = await connect(server, SASL)
        assert (await scram(client, name, "pässword,=")).error_code == Error.NONE
        assert await is_served(client)
        assert server.principals == [f"User:{name}"]

    run(tmp_path, scenario)


def test_users_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    users = tmp_path / "users.properties"
    users.write_text("# the users\ndora=first\n")

    async def scenario(server: Server) -> None:
        assert (await plain(await connect(server, SASL), b"\0dora\0first")).error_code == Error.NONE
        assert (await plain(await connect(server, SASL))).error_code == Error.NONE  # of the JAAS configuration
        users.write_text("dora=second, and longer\n")
        client = await connect(server, SASL)
        assert (await plain(client, b"\0dora\0first")).error_code == Error.SASL_AUTHENTICATION_FAILED
        assert (await plain(await connect(server, SASL), b"\0dora\0second, and longer")).error_code == Error.NONE

    run(tmp_path, scenario, sasl_plain_users_file=str(users))


def test_invalid_users_file_is_logged_without_its_lines(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    users = tmp_path / "users.properties"
    users.write_text("dora=first\n")

    async def scenario(server: Server) -> None:
        users.write_text("# the users\ncanary-password\n")
        assert (await plain(await connect(server, SASL), b"\0dora\0first")).error_code == Error.NONE
        assert (
            "The PLAIN users were not reloaded; the previous ones stay in use: "
            f"{users}, line 2 is not a setting; use name=value."
        ) in caplog.text
        assert "canary" not in caplog.text

    run(tmp_path, scenario, sasl_plain_users_file=str(users))


def test_handshake_v0_is_followed_by_raw_tokens(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        client = await connect(server, SASL)
        assert (await handshake(client, "PLAIN", version=0)).error_code == Error.NONE
        client.send_bytes(frame(ALICE))
        assert await client.read_frame() == b""
        assert await is_served(client)

    run(tmp_path, scenario)


def test_requests_may_follow_in_the_same_segment(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        client = await connect(server, SASL)
        client.send(SaslHandshakeRequest("PLAIN"), 1)
        client.send(SaslAuthenticateRequest(ALICE), 2)
        client.send(ApiVersionsRequest("test", "1"), 4)
        codes = [(await client.next_response()).error_code for _ in range(3)]  # type: ignore[attr-defined]
        assert codes == [0, 0, 0]

    run(tmp_path, scenario)


# --- who does not -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["new", "after the handshake"])
def test_no_other_api_before_authentication(tmp_path: Path, state: str) -> None:
    async def refused(server: Server, api: Api) -> None:
        client = await connect(server, SASL)
        if state != "new":
            await handshake(client, "PLAIN")
        header = struct.pack(">hhih", api.key, api.latest_stable, 1, -1)
        client.send_bytes(frame(header + bytes(64)))
        assert await client.is_closed(), api

    async def scenario(server: Server) -> None:
        for api in SUPPORTED_APIS:
            if api.name not in BEFORE_AUTHENTICATION:
                await refused(server, api)
        assert server.principals == []

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0mallory\0secret", "Authentication failed: Invalid username or password"),
        (
            b"bob\0alice\0secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0alice\0secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0alice\0\xff", "Authentication failed: Invalid username or password"),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
    ],
)
def test_wrong_plain_message_gets_kafkas_error(tmp_path: Path, message: bytes, text: str) -> None:
    async def scenario(server: Server) -> None:
        client = await connect(server, SASL)
        response = await plain(client, message)
        assert (response.error_code, response.error_message) == (Error.SASL_AUTHENTICATION_FAILED, text)
        assert await client.is_closed()

    run(tmp_path, scenario)


@pytest.mark.parametrize(("user", "password"), [("carol", "wrong"), ("mallory", "pw")])
def test_wrong_scram_credentials_get_kafkas_error(tmp_path: Path, user: str, password: str) -> None:
    async def scenario(server: Server) -> None:
        add_scram_user(server, "carol", "pw")
        client = await connect(server, SASL)
        response = await scram(client, user, password)
        assert response.error_code == Error.SASL_AUTHENTICATION_FAILED
        assert response.error_message == INVALID.format("SCRAM-SHA-512")
        assert await client.is_closed()

    run(tmp_path, scenario)


def test_replayed_scram_exchange_is_refused(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        add_scram_user(server, "carol", "pw")
        recorded = ScramClient(ScramAlgorithm.SHA_512, "carol", "pw")
        first = await connect(server, SASL)
        await handshake(first, "SCRAM-SHA-512")
        proof = recorded.final((await authenticate(first, recorded.first())).auth_bytes)
        assert (await authenticate(first, proof)).error_code == Error.NONE
        second = await connect(server, SASL)
        await handshake(second, "SCRAM-SHA-512")
        await authenticate(second, recorded.first())
        assert (await authenticate(second, proof)).error_code == Error.SASL_AUTHENTICATION_FAILED
        assert await second.is_closed()

    run(tmp_path, scenario)


def test_changed_scram_nonce_is_refused(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        add_scram_user(server, "carol", "pw")
        client = await connect(server, SASL)
        await handshake(client, "SCRAM-SHA-512")
        exchange = ScramClient(ScramAlgorithm.SHA_512, "carol", "pw")
        first = (await authenticate(client, exchange.first())).auth_bytes
        changed = first.replace(b",s=", b"x,s=", 1)
        response = await authenticate(client, exchange.final(changed))
        assert response.error_code == Error.SASL_AUTHENTICATION_FAILED
        assert await client.is_closed()

    run(tmp_path, scenario)


def test_mechanism_that_is_not_enabled_is_refused(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        for name in ("PLAIN", "plain", "GSSAPI", "", "SCRAM-SHA-1"):
            client = await connect(server, SASL)
            response = await handshake(client, name)
            assert response.error_code == Error.UNSUPPORTED_SASL_MECHANISM, name
            assert response.mechanisms == ["SCRAM-SHA-512"]
            assert await client.is_closed()

    run(tmp_path, scenario, sasl_enabled_mechanisms="SCRAM-SHA-512")


def test_log_line_of_a_failure_is_short(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(server: Server) -> None:
        client = await connect(server, SASL)
        await handshake(client, "x" * 30_000)
        assert await client.is_closed()

    with caplog.at_level("INFO", "slackwater.broker"):
        run(tmp_path, scenario)
    (line,) = (line for line in caplog.messages if "Unsupported SASL mechanism xxx" in line)
    assert len(line) < 400


def test_message_of_a_weaker_mechanism_is_refused(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        add_scram_user(server, "alice", "secret")
        client = await connect(server, SASL)
        await handshake(client, "SCRAM-SHA-512")
        assert (await authenticate(client, ALICE)).error_code == Error.SASL_AUTHENTICATION_FAILED
        assert await client.is_closed()

    run(tmp_path, scenario)


def test_second_handshake_is_refused(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        client = await connect(server, SASL)
        await handshake(client, "SCRAM-SHA-512")
        assert (await handshake(client, "PLAIN")).error_code == Error.ILLEGAL_SASL_STATE
        assert await client.is_closed()

    run(tmp_path, scenario)


def test_authentication_without_handshake_is_closed(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        client = await connect(server, SASL)
        client.send_bytes(b"")
        client.send(SaslAuthenticateRequest(ALICE), 2)
        assert await client.is_closed()

    run(tmp_path, scenario)


def test_sasl_after_authentication_is_illegal(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        client = await connect(server, SASL)
        await plain(client)
        assert (await handshake(client, "PLAIN")).error_code == Error.ILLEGAL_SASL_STATE
        assert (await authenticate(client, ALICE)).error_code == Error.ILLEGAL_SASL_STATE
        assert await is_served(client)

    run(tmp_path, scenario)


# --- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1_001, 2**31 - 1, -1])
def test_oversized_frame_before_authentication_is_closed(tmp_path: Path, size: int) -> None:
    async def scenario(server: Server) -> None:
        client = await connect(server, SASL)
        client.send_bytes(struct.pack(">i", size))
        assert await client.is_closed()

    run(tmp_path, scenario, sasl_server_max_receive_size="1000")


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0\0\x20", b"\0\0\0\x20\0\x12\0\x03"])
def test_half_a_frame_is_closed_at_the_deadline(tmp_path: Path, data: bytes) -> None:
    async def scenario(server: Server) -> None:
        client = await connect(server, SASL)
        client.send_bytes(data)
        assert await client.is_closed()
        assert server.unauthenticated_connections == 0

    run(tmp_path, scenario, connection_authentication_timeout_ms="50")


def test_half_open_authentications_do_not_delay_others(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        half_open = [await connect(server, SASL) for _ in range(HALF_OPEN)]
        for client in half_open:
            client.send(SaslHandshakeRequest("PLAIN"), 1)
        async with asyncio.timeout(DEADLINE_S):
            client = await connect(server, SASL)
            await plain(client)
            assert await is_served(client)
        assert server.unauthenticated_connections == HALF_OPEN

    run(tmp_path, scenario)


def test_connections_per_address_are_limited(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        first, second = await connect(server, SASL), await connect(server, SASL)
        await plain(first)
        assert await (await connect(server, SASL)).is_closed()
        await plain(second)
        assert await is_served(first)
        assert await is_served(second)

    run(tmp_path, scenario, max_connections_per_ip="2")


def test_limit_of_one_address_overrides_the_others(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        await plain(await connect(server, SASL))
        assert await (await connect(server, SASL)).is_closed()

    run(tmp_path, scenario, max_connections_per_ip_overrides="10.0.0.1:5,127.0.0.1:1")


def test_delegation_tokens_are_disabled(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        client = await connect(server, SASL)
        await plain(client)
        response = await client.request(CreateDelegationTokenRequest(), CreateDelegationTokenResponse, 3)
        assert response == CreateDelegationTokenResponse(
            Error.DELEGATION_TOKEN_AUTH_DISABLED, "User", "alice", "User", "alice"
        )

    run(tmp_path, scenario)


# --- sessions that end ------------------------------------------------------------------------------------------------


def test_client_authenticates_again_before_its_session_ends(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        client = await connect(server, SASL)
        assert (await plain(client)).session_lifetime_ms == 60_000
        assert (await plain(client)).session_lifetime_ms == 60_000
        assert await is_served(client)

    run(tmp_path, scenario, connections_max_reauth_ms="60000")


def test_another_principal_is_refused_in_a_reauthentication(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        client = await connect(server, SASL)
        await plain(client)
        response = await plain(client, b"\0bob\0other")
        assert (response.error_code, response.error_message) == (
            Error.SASL_AUTHENTICATION_FAILED,
            "Cannot change principals during re-authentication from User.alice: User.bob",
        )
        assert await client.is_closed()

    run(tmp_path, scenario, connections_max_reauth_ms="60000")


def test_another_mechanism_is_refused_in_a_reauthentication(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        add_scram_user(server, "alice", "secret")
        client = await connect(server, SASL)
        await plain(client)
        assert (await handshake(client, "SCRAM-SHA-512")).error_code == Error.NONE
        client.send(SaslAuthenticateRequest(b"n,,n=alice,r=abc"), 2)
        assert await client.is_closed()

    run(tmp_path, scenario, connections_max_reauth_ms="60000")


@pytest.mark.parametrize("steps", [0, 1])
def test_other_request_during_a_reauthentication_is_closed(tmp_path: Path, steps: int) -> None:
    async def scenario(server: Server) -> None:
        add_scram_user(server, "alice", "secret")
        client = await connect(server, SASL)
        await scram(client, "alice", "secret")
        assert (await handshake(client, "SCRAM-SHA-512")).error_code == Error.NONE
        if steps:
            assert (await authenticate(client, b"n,,n=alice,r=abc")).error_code == Error.NONE
        client.send(ApiVersionsRequest("test", "1"), 3)
        assert await client.is_closed()

    run(tmp_path, scenario, connections_max_reauth_ms="60000")


def test_second_handshake_of_a_reauthentication_is_refused(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        client = await connect(server, SASL)
        await plain(client)
        assert (await handshake(client, "PLAIN")).error_code == Error.NONE
        assert (await handshake(client, "PLAIN")).error_code == Error.ILLEGAL_SASL_STATE
        assert await client.is_closed()

    run(tmp_path, scenario, connections_max_reauth_ms="60000")


def test_request_after_the_end_of_the_session_is_closed(tmp_path: Path) -> None:
    async def serve_until_closed(client: Client) -> None:
        try:
            while await is_served(client):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            return

    async def scenario(server: Server) -> None:
        client = await connect(server, SASL)
        assert (await plain(client)).session_lifetime_ms == 50
        async with asyncio.timeout(DEADLINE_S):
            await serve_until_closed(client)
        assert server.principals == []

    run(tmp_path, scenario, connections_max_reauth_ms="50")
