"""DescribeUserScramCredentials and AlterUserScramCredentials: what is stored, and Kafka's errors."""

import base64
import stat
from pathlib import Path

import pytest

from slackwater.broker.server import Server
from slackwater.group.errors import Error, UsageError
from slackwater.security.scram import ScramAlgorithm, make_credential
from slackwater.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from slackwater.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)

from ..server_client import Client, with_server

SHA_256, SHA_512 = 1, 2
SALTED = b"salted password of 32 bytes long"


async def _alter(
    client: Client, deletions: list[ScramCredentialDeletion], upsertions: list[ScramCredentialUpsertion]
) -> list[tuple[str, Error, str | None]]:
    request = AlterUserScramCredentialsRequest(deletions, upsertions)
    response = await client.request(request, AlterUserScramCredentialsResponse)
    return [(result.user, Error(result.error_code), result.error_message) for result in response.results]


async def _describe(client: Client, *users: str) -> dict[str, tuple[Error, list[tuple[int, int]]]]:
    request = DescribeUserScramCredentialsRequest([UserName(user) for user in users] or None)
    response = await client.request(request, DescribeUserScramCredentialsResponse)
    return {
        result.user: (
            Error(result.error_code),
            [(info.mechanism, info.iterations) for info in result.credential_infos],
        )
        for result in response.results
    }


def _upsertion(user: str, mechanism: int = SHA_512, iterations: int = 4_096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(user, mechanism, iterations, b"salt", SALTED)


def test_credentials_survive_a_restart_without_the_password(tmp_path: Path) -> None:
    async def create(server: Server) -> None:
        client = await Client.connect(server)
        upsertions = [_upsertion("alice"), _upsertion("bob")]
        await _alter(client, [], [_upsertion("alice", SHA_256, 8_192)])
        assert await _alter(client, [], upsertions) == [("alice", Error.NONE, None), ("bob", Error.NONE, None)]
        await _check(server)

    async def _check(server: Server) -> None:
        client = await Client.connect(server)
        expected = {"alice": (Error.NONE, [(1, 8_192), (2, 4_096)]), "bob": (Error.NONE, [(2, 4_096)])}
        assert await _describe(client) == expected
        assert await _describe(client, "bob") == {"bob": expected["bob"]}

    with_server(tmp_path, create)
    file = tmp_path / "credentials.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert base64.b64encode(SALTED) not in file.read_bytes()
    with_server(tmp_path, _check)


def test_deleted_credential_is_gone(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        client = await Client.connect(server)
        await _alter(client, [], [_upsertion("alice")])
        await _alter(client, [], [_upsertion("alice", SHA_256)])
        assert await _alter(client, [ScramCredentialDeletion("alice", SHA_256)], []) == [("alice", Error.NONE, None)]
        assert await _describe(client) == {"alice": (Error.NONE, [(2, 4_096)])}
        assert await _alter(client, [ScramCredentialDeletion("alice", SHA_256)], []) == [
            ("alice", Error.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
        ]

    with_server(tmp_path, scenario)


@pytest.mark.parametrize(
    ("deletions", "upsertions", "error", "message"),
    [
        ([], [_upsertion("a", iterations=4_095)], Error.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        ([], [_upsertion("a", iterations=16_385)], Error.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        ([], [_upsertion("")], Error.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        ([], [_upsertion("a", 3)], Error.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        ([ScramCredentialDeletion("a", 0)], [], Error.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (
            [ScramCredentialDeletion("a", SHA_512)],
            [_upsertion("a", SHA_256)],
            Error.DUPLICATE_RESOURCE,
            "A user credential cannot be altered twice in the same request",
        ),
    ],
)
def test_invalid_change_of_a_user_changes_nothing(
    tmp_path: Path,
    deletions: list[ScramCredentialDeletion],
    upsertions: list[ScramCredentialUpsertion],
    error: Error,
    message: str,
) -> None:
    async def scenario(server: Server) -> None:
        client = await Client.connect(server)
        user = deletions[0].name if deletions else upsertions[0].name
        results = await _alter(client, deletions, [*upsertions, _upsertion("bob")])
        assert sorted(results) == sorted([(user, error, message), ("bob", Error.NONE, None)])
        assert await _describe(client) == {"bob": (Error.NONE, [(2, 4_096)])}

    with_server(tmp_path, scenario)


def test_damaged_credentials_are_one_sentence(tmp_path: Path) -> None:
    async def create(server: Server) -> None:
        server.broker.credentials.change({("a", ScramAlgorithm.SHA_256): make_credential(ScramAlgorithm.SHA_256, "pw")})

    with_server(tmp_path, create)
    (tmp_path / "credentials.json").write_text("[{}]")
    with pytest.raises(UsageError, match=r"Cannot parse the credentials in .* Repair it"):
        with_server(tmp_path, create)
