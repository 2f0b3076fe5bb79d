"""Refused SASL requests and SCRAM credentials get the same answers as from Apache Kafka 4.3.1."""

import asyncio
import struct
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path
from typing import Any, Final

import pytest
from scripts.apache_kafka import apache_kafka, free_ports

from slackwater.broker.config import Settings
from slackwater.broker.config.listeners import configured_endpoints
from slackwater.broker.server import Server
from slackwater.security.scram import ScramAlgorithm, ScramClient, salted_password
from slackwater.wire.frames import frame
from slackwater.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from slackwater.wire.messages.api_versions import ApiVersionsRequest
from slackwater.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from slackwater.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from slackwater.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from slackwater.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from slackwater.wire.messages.metadata import MetadataRequest
from slackwater.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from slackwater.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from slackwater.wire.messages.sasl_handshake import SaslHandshakeRequest
from slackwater.wire.schema import Request
from tests.broker.server_client import Client
from tests.java import needs_jars

JAAS: Final = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret" user_bob="other";'
SCRAM_JAAS: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
SETTINGS: Final = {
    "listener.security.protocol.map": ",".join(
        ("CONTROLLER:PLAINTEXT", "PLAINTEXT:PLAINTEXT", "SASL:SASL_PLAINTEXT", "SHORT:SASL_PLAINTEXT")
    ),
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "listener.name.sasl.plain.sasl.jaas.config": JAAS,
    "listener.name.short.plain.sasl.jaas.config": JAAS,
    "listener.name.sasl.scram-sha-512.sasl.jaas.config": SCRAM_JAAS,
    "listener.name.short.scram-sha-512.sasl.jaas.config": SCRAM_JAAS,
    "listener.name.short.connections.max.reauth.ms": "60000",
    "sasl.server.max.receive.size": "10000",
}
PLAIN, SCRAM = SaslHandshakeRequest("PLAIN"), SaslHandshakeRequest("SCRAM-SHA-512")
VERSIONS = ApiVersionsRequest("test", "1")


def token(message: bytes) -> SaslAuthenticateRequest:
    return SaslAuthenticateRequest(message)


ALICE, BOB = token(b"\0alice\0secret"), token(b"\0bob\0other")
# By listener: requests of one connection with their versions. The first response that is missing ends it.
EXCHANGES: Final[list[tuple[str, list[tuple[Request, int]]]]] = [
    ("SASL", [(SaslHandshakeRequest("GSSAPI"), 1)]),
    ("SASL", [(SaslHandshakeRequest("plain"), 1)]),
    ("SASL", [(SaslHandshakeRequest("GSSAPI"), 0)]),
    *(
        ("SASL", [(PLAIN, 1), (token(message), 2)])
        for message in (
            b"\0alice\0secret",
            b"\0alice\0wrong",
            b"\0mallory\0secret",
            b"bob\0alice\0secret",
            b"alice\0alice\0secret",
            b"\0alice\0",
            b"\0\0secret",
            b"alice",
            b"\0a\0b\0c",
            b"",
        )
    ),
    ("SASL", [(PLAIN, 1), (token(b"\0alice\0wrong"), 0)]),
    ("SASL", [(SCRAM, 1), (token(b"n,,n=mallory,r=abc"), 2)]),
    ("SASL", [(SCRAM, 1), (token(b"n,a=bob,n=carol,r=abc"), 2)]),
    ("SASL", [(SCRAM, 1), (token(b"p=tls-unique,,n=carol,r=abc"), 2)]),
    ("SASL", [(SCRAM, 1), (token(b"\0alice\0secret"), 2)]),
    ("SASL", [(VERSIONS, 4), (VERSIONS, 4)]),
    ("SASL", [(ApiVersionsRequest("no good name!", "1"), 4), (VERSIONS, 4), (PLAIN, 1), (ALICE, 2)]),
    ("SASL", [(PLAIN, 1), (PLAIN, 1)]),
    ("SASL", [(PLAIN, 1), (VERSIONS, 4)]),
    ("SASL", [(MetadataRequest(topics=[]), 9)]),
    ("SASL", [(ALICE, 2)]),
    ("SASL", [(PLAIN, 1), (ALICE, 2), (PLAIN, 1), (ALICE, 2)]),
    ("PLAINTEXT", [(PLAIN, 1), (ALICE, 2)]),
    ("SHORT", [(PLAIN, 1), (ALICE, 2), (PLAIN, 1), (ALICE, 2), (PLAIN, 1), (ALICE, 2)]),
    ("SHORT", [(PLAIN, 1), (ALICE, 2), (PLAIN, 1), (BOB, 2)]),
    ("SHORT", [(PLAIN, 1), (ALICE, 2), (PLAIN, 1), (token(b"\0alice\0wrong"), 2)]),
    ("SHORT", [(PLAIN, 1), (ALICE, 2), (SCRAM, 1), (token(b"n,,n=carol,r=abc"), 2)]),
    ("SHORT", [(PLAIN, 1), (ALICE, 2), (SaslHandshakeRequest("GSSAPI"), 1)]),
    ("SHORT", [(PLAIN, 1), (ALICE, 2), (PLAIN, 1), (PLAIN, 1), (ALICE, 2)]),
    *(
        ("SASL", [(SCRAM, 1), (token(message), 2)])
        for message in (
            b"n,,n=mallory",
            b"n,,m=1,n=mallory,r=abc",
            b"y,,n=mallory,r=abc",
            b"n,,n=mal=lory,r=abc",
            b"n,,n=,r=abc",
            b"n,,n=carol,r=",
            b"n,,n=\xff,r=abc",
            b"n,,n=carol,r=abc,tokenauth=true",
        )
    ),
    ("SASL", [(PLAIN, 1), (token(b"\0al\xff\0secret"), 2)]),
    *(
        ("SASL", [(PLAIN, 1), (ALICE, 2), (request, version)])
        for request, version in (
            (CreateDelegationTokenRequest(), 3),
            (CreateDelegationTokenRequest(), 2),
            (DescribeDelegationTokenRequest(), 3),
            (RenewDelegationTokenRequest(b"abc", 1), 2),
            (ExpireDelegationTokenRequest(b"abc", 1), 2),
        )
    ),
]


async def exchange(port: int, requests: list[tuple[Request, int]]) -> list[Any]:
    """The responses of one connection; "closed" is the end of it."""
    client = await Client.connect_to(port)
    responses: list[Any] = []
    try:
        for request, version in requests:
            response = await _answer(client, request, version)
            is_list = isinstance(request, ApiVersionsRequest)
            responses.append(response.error_code if is_list else astuple(response))
        if responses[-1] and await _closes(client):
            responses.append("closed")
    except (asyncio.IncompleteReadError, ConnectionError):
        responses.append("closed")
    return responses


async def _answer(client: Client, request: Request, version: int) -> Any:
    client.send(request, version)
    return await client.next_response()


async def _closes(client: Client) -> bool:
    try:
        async with asyncio.timeout(1):
            return await client.is_gone()
    except TimeoutError:
        return False


async def scram_exchange(port: int, tamper: Callable[[bytes], bytes], change: Callable[[bytes], bytes]) -> list[Any]:
    """The last response of a SCRAM exchange whose messages are changed."""
    client = await Client.connect_to(port)
    await _answer(client, SCRAM, 1)
    scram = ScramClient(ScramAlgorithm.SHA_512, "carol", "pw")
    first = await _answer(client, token(scram.first()), 2)
    try:
        last = await _answer(client, token(change(scram.final(tamper(first.auth_bytes)))), 2)
    except (asyncio.IncompleteReadError, ConnectionError):
        return ["closed"]
    return [last.error_code, last.error_message]


async def raw_tokens(port: int, message: bytes) -> list[Any]:
    """What follows SaslHandshake v0."""
    client = await Client.connect_to(port)
    await _answer(client, PLAIN, 0)
    client.send_bytes(frame(message))
    try:
        return [await client.read_frame()]
    except (asyncio.IncompleteReadError, ConnectionError):
        return ["closed"]


async def oversized(port: int) -> list[Any]:
    client = await Client.connect_to(port)
    client.send_bytes(struct.pack(">i", 10_001))
    return ["closed" if await client.is_gone() else "open"]


def upsertion(
    name: str, mechanism: int = 2, iterations: int = 4_096, salt: bytes = b"salt"
) -> ScramCredentialUpsertion:
    kind = ScramAlgorithm.SHA_256 if mechanism == 1 else ScramAlgorithm.SHA_512
    return ScramCredentialUpsertion(name, mechanism, iterations, salt, salted_password(kind, "pw", salt, 4_096))


CHANGES: Final[list[tuple[list[ScramCredentialDeletion], list[ScramCredentialUpsertion]]]] = [
    ([], [upsertion("carol")]),
    ([], [upsertion("dave", iterations=4_095)]),
    ([], [upsertion("dave", iterations=16_385)]),
    ([], [upsertion("", iterations=4_096)]),
    ([], [upsertion("dave", mechanism=3)]),
    ([ScramCredentialDeletion("dave", 0)], []),
    ([ScramCredentialDeletion("dave", 2)], []),
    ([ScramCredentialDeletion("", 2)], []),
    ([ScramCredentialDeletion("carol", 2)], [upsertion("carol")]),
    ([], [upsertion("dave"), upsertion("dave")]),
    ([], [upsertion("dave"), upsertion("dave", mechanism=1, iterations=1), upsertion("erin")]),
    ([ScramCredentialDeletion("erin", 2)], [upsertion("erin", mechanism=1)]),
]


async def alter(port: int) -> list[Any]:
    """The results of changes of credentials, and the credentials in the end."""
    client = await Client.connect_to(port)
    results: list[Any] = []
    for deletions, upsertions in CHANGES:
        request = AlterUserScramCredentialsRequest(deletions, upsertions)
        response = await client.request(request, AlterUserScramCredentialsResponse)
        results.append(sorted(map(astuple, response.results)))
    # Kafka has applied a change when a later describe shows it.
    for users in (["carol", "dave", "erin"], None, ["carol", "carol"], [""]):
        described = DescribeUserScramCredentialsRequest([UserName(name) for name in users] if users else None)
        answer = await client.request(described, DescribeUserScramCredentialsResponse)
        results.append((answer.error_code, sorted(map(astuple, answer.results))))
    return results


async def answers(ports: dict[str, int]) -> dict[str, Any]:
    """All answers of a broker, by the question."""
    result: dict[str, Any] = {"credentials": await alter(ports["PLAINTEXT"])}
    for number, (listener, requests) in enumerate(EXCHANGES):
        result[f"{number} {listener} {requests}"] = await exchange(ports[listener], requests)

    def same(message: bytes) -> bytes:
        return message

    scrams: dict[str, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
        "another nonce": (lambda message: message.replace(b",s=", b"x,s=", 1), same),
        "another salt": (lambda message: message.replace(b",s=", b",s=AAAA", 1), same),
        "another proof": (same, lambda message: message[:-12] + b"AAAAAAAAAA" + message[-2:]),
        "no proof": (same, lambda message: message.partition(b",p=")[0]),
        "another header": (same, lambda message: message.replace(b"c=biws", b"c=eSws", 1)),
    }
    for name, (tamper, change) in scrams.items():
        result[name] = await scram_exchange(ports["SASL"], tamper, change)
    for message in (b"\0alice\0secret", b"\0alice\0wrong"):
        result[f"raw {message!r}"] = await raw_tokens(ports["SASL"], message)
    result["oversized"] = await oversized(ports["SASL"])
    await Client.close_all()
    return result


async def _ours(directory: Path) -> dict[str, Any]:
    settings = Settings({**SETTINGS, "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0,SHORT://127.0.0.1:0"})
    server = Server(directory / "data", settings)
    await server.listen(configured_endpoints(settings))
    try:
        return await answers(server.ports)
    finally:
        await server.stop()


@pytest.mark.java
@needs_jars
def test_answers_are_those_of_apache_kafka(tmp_path: Path) -> None:
    sasl, short = free_ports(2)
    with apache_kafka(settings=SETTINGS, listeners={"SASL": sasl, "SHORT": short}) as cluster:
        port = cluster.brokers[1].port
        assert port is not None
        kafka = asyncio.run(answers({"PLAINTEXT": port, "SASL": sasl, "SHORT": short}))
    ours = asyncio.run(_ours(tmp_path))
    different = {name: (kafka[name], ours[name]) for name in kafka if kafka[name] != ours[name]}
    assert not different, "\n".join(f"{name}\n  Kafka: {them}\n  ours:  {us}" for name, (them, us) in different.items())
