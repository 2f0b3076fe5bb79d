"""One Apache Kafka with a listener for each way of securing it.

Invariants:
- Users: `alice` may do everything; `bob` may do nothing. Without a name (PLAINTEXT, and SSL without a certificate) a
  client may do everything. A client with a certificate is `CN=client`, which may do nothing.
- Tokens for OAUTHBEARER are unsigned, which Kafka accepts for tests; the subject is the user.
"""

import asyncio
import base64
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from scripts.apache_kafka import KAFKA, formatted_nodes, free_ports

from slackwater.client.network.connection import BrokerConnection
from slackwater.security.scram import ScramAlgorithm, salted_password
from slackwater.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialUpsertion,
)
from slackwater.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from tests.client.security.certificates import Authority, Issued

PASSWORDS: Final = {"alice": "alice-secret", "bob": "bob-secret"}
LISTENERS: Final = {
    "OPEN": "PLAINTEXT",
    "TLS": "SSL",
    "MTLS": "SSL",
    "EXPIRED": "SSL",
    "FUTURE": "SSL",
    "OTHER": "SSL",
    "SASL": "SASL_SSL",
    "SCRAM": "SASL_PLAINTEXT",
    "SHORT": "SASL_PLAINTEXT",
}
RESOURCES: Final = {"topic": 2, "group": 3, "transactional_id": 5}
OPERATIONS: Final = {"Read": 3, "Write": 4, "Describe": 8}
ALLOW: Final = 3
SESSION_MS: Final = 1500
_WIRE_NUMBERS: Final = {ScramAlgorithm.SHA_256: 1, ScramAlgorithm.SHA_512: 2}
_SALT: Final = b"salt of the tests"


class SecuredKafka:
    """The running broker, its certificates, and settings for clients."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory / "ca")
        self.other_authority = Authority(directory / "other", "Other CA")
        self.client: Issued = self.authority.issue("client", "client")
        self.ports = dict(zip([*LISTENERS, "CONTROLLER"], free_ports(len(LISTENERS) + 1), strict=True))

    def servers(self, listener: str, host: str = "127.0.0.1") -> dict[str, object]:
        """The settings for a listener, without security."""
        return {"bootstrap.servers": f"{host}:{self.ports[listener]}"}

    def tls(self, listener: str = "TLS") -> dict[str, object]:
        """The settings for a listener with TLS."""
        return self.servers(listener) | {
            "security.protocol": "SSL",
            "ssl.truststore.location": str(self.authority.path),
        }

    def mtls(self) -> dict[str, object]:
        """The settings for mutual TLS."""
        return self.tls("MTLS") | {"ssl.keystore.location": str(self.client.combined())}

    def sasl(self, mechanism: str, user: str = "alice", listener: str = "SASL") -> dict[str, object]:
        """The settings for a mechanism."""
        settings = self.tls(listener) | {"security.protocol": LISTENERS[listener], "sasl.mechanism": mechanism}
        if mechanism == "OAUTHBEARER":
            return settings | {"sasl.oauthbearer.token.provider": lambda: unsigned_token(user)}
        return settings | {"sasl.username": user, "sasl.password": PASSWORDS[user]}

    def settings(self) -> dict[str, object]:
        """The settings of the broker."""
        names = ("localhost", "127.0.0.1")
        keys = {
            "": self.authority.issue("broker", "broker", *names),
            "listener.name.expired.": self.authority.issue(
                "expired", "broker", *names, begins_in_days=-9, ends_in_days=-1
            ),
            "listener.name.future.": self.authority.issue("future", "broker", *names, begins_in_days=1),
            "listener.name.other.": self.authority.issue("elsewhere", "broker", "broker.example"),
        }
        settings: dict[str, object] = {
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items()),
            "advertised.listeners": ",".join(f"{name}://127.0.0.1:{self.ports[name]}" for name in LISTENERS),
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, protocol in (LISTENERS | {"CONTROLLER": "PLAINTEXT"}).items()
            ),
            "inter.broker.listener.name": "OPEN",
            "controller.quorum.voters": f"1@127.0.0.1:{self.ports['CONTROLLER']}",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:alice",
            "group.initial.rebalance.delay.ms": 0,
            "offsets.topic.num.partitions": 2,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.authority.path,
            "listener.name.mtls.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.short.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.short.plain.connections.max.reauth.ms": SESSION_MS,
        }
        for prefix, issued in keys.items():
            settings |= {f"{prefix}ssl.keystore.type": "PEM", f"{prefix}ssl.keystore.location": issued.combined()}
        plain = "org.apache.kafka.common.security.plain.PlainLoginModule required " + " ".join(
            f'user_{name}="{password}"' for name, password in PASSWORDS.items()
        )
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule required"
        bearer = (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
            'unsecuredLoginStringClaim_sub="broker"'
        )
        for listener in ("sasl", "scram", "short"):
            for mechanism, module in (
                ("plain", plain),
                ("scram-sha-256", scram),
                ("scram-sha-512", scram),
                ("oauthbearer", bearer),
            ):
                settings[f"listener.name.{listener}.{mechanism}.sasl.jaas.config"] = f"{module};"
        return settings


@contextmanager
def secured_kafka(directory: Path) -> Iterator[SecuredKafka]:
    """Start the broker, with the users in SCRAM as well."""
    kafka = SecuredKafka(directory)
    with formatted_nodes(KAFKA, settings=kafka.settings()) as (node,):
        node.port = kafka.ports["OPEN"]
        node.start()
        node.wait_until_up()
        asyncio.run(_add_scram_users(node.port))
        yield kafka


def grant(kafka: SecuredKafka, principal: str, operations: list[str], **resources: str) -> None:
    """Allow operations on resources, such as `topic="orders"`."""
    asyncio.run(_grant(kafka.ports["OPEN"], principal, operations, resources))


async def _grant(port: int, principal: str, operations: list[str], resources: Mapping[str, str]) -> None:
    connection = await BrokerConnection.connect("127.0.0.1", port, client_id="acls", timeout_s=30)
    creations = [
        AclCreation(
            resource_type=RESOURCES[kind],
            resource_name=name,
            principal=principal,
            host="*",
            operation=OPERATIONS[operation],
            permission_type=ALLOW,
        )
        for kind, name in resources.items()
        for operation in operations
    ]
    response = await connection.request(CreateAclsRequest(creations=creations), CreateAclsResponse, timeout_s=30)
    assert not any(result.error_code for result in response.results), response
    connection.close()


async def _add_scram_users(port: int) -> None:
    connection = await BrokerConnection.connect("127.0.0.1", port, client_id="users", timeout_s=30)
    for mechanism, number in _WIRE_NUMBERS.items():  # a request may change only one mechanism of a user
        upsertions = [
            ScramCredentialUpsertion(
                name=user,
                mechanism=number,
                iterations=4096,
                salt=_SALT,
                salted_password=salted_password(mechanism, password, _SALT, 4096),
            )
            for user, password in PASSWORDS.items()
        ]
        request = AlterUserScramCredentialsRequest(upsertions=upsertions)
        response = await connection.request(request, AlterUserScramCredentialsResponse, timeout_s=30)
        assert not any(result.error_code for result in response.results), response
    connection.close()


def unsigned_token(subject: str, seconds: float = 3600) -> tuple[str, int]:
    """A token of Kafka's test mechanism, and its expiry."""
    now = time.time()
    claims = {"sub": subject, "iat": int(now), "exp": int(now + seconds)}
    header, body = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({"alg": "none"}, claims)
    )
    return f"{header}.{body}.", int((now + seconds) * 1000)
