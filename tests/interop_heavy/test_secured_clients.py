"""Clients on a secured broker with ACLs: every protocol and mechanism, and Kafka's own command-line tools."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import jwt
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from cryptography.hazmat.primitives.asymmetric import ec

from slackwater import Broker, Consumer, Producer
from tests.interop.clients import FRANZ_GO, Driver, require, wait_for_records
from tests.interop.secured_clients import ROUND_TRIPS
from tests.interop_heavy.client_process import PEERS, ROOT, require_installed
from tests.java import SMALL_JVM, jars, needs_jars

DEADLINE_S = 60.0
OWNER: Final = "slackwater"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
COMBINATIONS = [
    ("SSL", ""),
    *((protocol, name) for protocol in ("SASL_PLAINTEXT", "SASL_SSL") for name in MECHANISMS),
]
SIGNING_KEY = ec.generate_private_key(ec.SECP256R1())
Config = dict[str, str]


class SecuredBroker:
    """A broker with an authorizer: alice may use the topic `orders` and the group `readers`, others nothing."""

    def __init__(self, broker: Broker, protocol: str, mechanism: str) -> None:
        self.broker = broker
        self._protocol, self._mechanism = protocol, mechanism
        broker.create_topic("orders")

    def config(self, user: str) -> Config:
        """The settings of a user under librdkafka's names."""
        if self._mechanism != "OAUTHBEARER":
            return self.broker.client_config(user, mechanism=self._mechanism or "PLAIN")
        trusted = self.broker.client_config(OWNER)
        settings = {name: value for name, value in trusted.items() if not name.startswith("sasl.")}
        return settings | {"sasl.mechanism": "OAUTHBEARER", "token": token(user)}

    def java_config(self, user: str, directory: Path) -> Config:
        """The settings of a user for the Java client."""
        if self._mechanism != "OAUTHBEARER":
            return self.broker.client_config(user, mechanism=self._mechanism or "PLAIN", java=True)
        path = directory / f"{user}.jwt"
        path.write_text(token(user))
        trusted = self.broker.client_config(OWNER, java=True)
        module = "org.apache.kafka.common.security.oauthbearer"
        return {name: value for name, value in trusted.items() if not name.startswith("sasl.")} | {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": path.as_uri(),
            "sasl.login.callback.handler.class": f"{module}.OAuthBearerLoginCallbackHandler",
            "sasl.jaas.config": f"{module}.OAuthBearerLoginModule required;",
        }

    def allow_alice(self) -> None:
        """Add the rules for alice, as the owner of the broker."""
        rights = [
            (ResourceType.TOPIC, "orders", AclOperation.READ),
            (ResourceType.TOPIC, "orders", AclOperation.WRITE),
            (ResourceType.GROUP, "readers", AclOperation.READ),
        ]
        rules = [
            AclBinding(kind, name, ResourcePatternType.LITERAL, "User:alice", "*", operation, AclPermissionType.ALLOW)
            for kind, name, operation in rights
        ]
        admin = AdminClient({**self.broker.client_config(OWNER)})
        for result in admin.create_acls(rules).values():
            result.result(DEADLINE_S)


def token(user: str) -> str:
    """A token of this user."""
    now = time.time()
    claims = {"sub": user, "aud": "kafka", "iss": "https://issuer", "iat": int(now), "exp": int(now) + 600}
    return jwt.encode(claims, SIGNING_KEY, "ES256", headers={"kid": "1"})


@contextmanager
def secured_broker(protocol: str, mechanism: str, directory: Path) -> Iterator[SecuredBroker]:
    """A broker with this way to authenticate."""
    key = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(SIGNING_KEY.public_key()))
    (directory / "keys.json").write_text(json.dumps({"keys": [{**key, "kid": "1"}]}))
    settings: dict[str, int | str] = {
        "group.initial.rebalance.delay.ms": 0,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{OWNER}",
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
    }
    if protocol.startswith("SASL"):
        settings |= {
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "sasl.oauthbearer.jwks.endpoint.url": (directory / "keys.json").as_uri(),
        }
    with Broker(security=protocol, settings=settings) as broker:
        yield SecuredBroker(broker, protocol, mechanism)


@pytest.fixture(params=COMBINATIONS, ids=lambda combination: "-".join(filter(None, combination)))
def secured(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SecuredBroker]:
    """A broker with each way to authenticate in turn."""
    protocol, mechanism = request.param
    with secured_broker(protocol, mechanism, tmp_path) as broker:
        broker.allow_alice()
        yield broker


# --- a record through each client -------------------------------------------------------------------------------------


def _slackwater(config: Mapping[str, str], topic: str) -> bytes | None:
    settings: dict[str, object] = {**config}
    if (given := settings.pop("token", None)) is not None:
        settings["sasl.oauthbearer.token.provider"] = lambda: given
    with Producer(settings) as producer:
        producer.send(topic, b"slackwater").result(DEADLINE_S)
    with Consumer({**settings, "group.id": "readers", "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe([topic])
        value: bytes | None = next(iter(consumer.poll(DEADLINE_S))).value
    return value


def _franz_go(config: Mapping[str, str], topic: str) -> bytes | None:
    require(FRANZ_GO)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KAFKA_SECURITY", json.dumps(config))
        driver = Driver(FRANZ_GO, config["bootstrap.servers"])
    try:
        driver.produce(topic, [{"value": "franz-go"}])
        (record,) = wait_for_records([driver.join("a", "readers", [topic])], 1)
    finally:
        driver.stop()
    return str(record["value"]).encode()


def _program(name: str, command: list[Path | str], *needed: Path) -> Callable[[Mapping[str, str], str], bytes | None]:
    def round_trip(config: Mapping[str, str], topic: str) -> bytes | None:
        require_installed(name, *needed)

        def run(*arguments: str) -> dict[str, Any]:
            words = map(str, (command[0], *command[1:]))
            first, *rest = [word if word != "BOOTSTRAP" else config["bootstrap.servers"] for word in words]
            done = subprocess.run(
                [first, *rest, *arguments],
                capture_output=True,
                text=True,
                timeout=DEADLINE_S,
                check=False,
                env={
                    **os.environ,
                    "KAFKA_SECURITY": json.dumps({**config}),
                    "NODE_PATH": str(PEERS / "kafkajs" / "node_modules"),
                },
            )
            assert done.returncode == 0, done.stdout + done.stderr
            lines = [json.loads(line) for line in done.stdout.splitlines()]
            return {name: value for line in lines for name, value in line.items()}

        assert run("produce", topic, name, "1", "none")["acked"] == 1
        value: str = run("seek", "readers", topic, "0", "0", "1")["record"][3]
        return value.removesuffix("-0").encode()

    return round_trip


SARAMA: Final = PEERS / "sarama"
KAFKAJS: Final = ROOT / "interop" / "kafkajs" / "client.js"
CLIENTS: Final = ROUND_TRIPS | {
    "slackwater": _slackwater,
    "franz-go": _franz_go,
    "sarama": _program("sarama", [SARAMA, "BOOTSTRAP", "4.2.1"], SARAMA),
    "kafkajs": _program("kafkajs", ["node", KAFKAJS, "BOOTSTRAP"], PEERS / "kafkajs" / "node_modules"),
}


@pytest.mark.parametrize("client", CLIENTS)
def test_client_with_every_mechanism_and_acls(client: str, secured: SecuredBroker) -> None:
    assert CLIENTS[client](secured.config("alice"), "orders") == client.removesuffix("-kafka").encode()


@pytest.mark.parametrize("client", CLIENTS)
def test_client_without_acls_is_refused(client: str, tmp_path: Path) -> None:
    with secured_broker("SASL_SSL", "SCRAM-SHA-512", tmp_path) as broker:
        broker.allow_alice()
        with pytest.raises(Exception, match=r"(?i)authori[sz]") as raised:
            CLIENTS[client](broker.config("mallory"), "orders")
        if isinstance(raised.value, pytest.skip.Exception):
            raise raised.value
        assert CLIENTS[client](broker.config("alice"), "orders") is not None


# --- Java -------------------------------------------------------------------------------------------------------------


def _tool(directory: Path, config: Mapping[str, str], tool: str, *arguments: str, text: str = "") -> str:
    """Run one of Kafka's command-line tools, and return its output."""
    properties = directory / "client.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
    tokens = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={config.get('sasl.oauthbearer.token.endpoint.url')}"
    command = ["java", *SMALL_JVM, tokens, "-cp", f"{jars()}/*", tool, "--bootstrap-server"]
    done = subprocess.run(
        [*command, config["bootstrap.servers"], "--command-config", str(properties), *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.java
@needs_jars
def test_java_client_with_every_mechanism_and_acls(secured: SecuredBroker, tmp_path: Path) -> None:
    config = secured.java_config("alice", tmp_path)
    topic = ("--topic", "orders")
    assert _tool(tmp_path, config, "org.apache.kafka.tools.TopicCommand", "--list") == "orders\n"
    _tool(tmp_path, config, "org.apache.kafka.tools.ConsoleProducer", *topic, text="one\n")
    consumer = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    limits = ("--from-beginning", "--max-messages", "1", "--timeout-ms", "30000", "--group", "readers")
    assert _tool(tmp_path, config, consumer, *topic, *limits) == "one\n"


@pytest.mark.java
@needs_jars
def test_kafka_configs_creates_a_scram_user(tmp_path: Path) -> None:
    with Broker(security="SASL_SSL") as broker:
        admin = broker.client_config("admin", java=True)
        user = ("--entity-type", "users", "--entity-name", "carol")
        password = "SCRAM-SHA-512=[iterations=8192,password=a password of carol]"
        _tool(tmp_path, admin, "kafka.admin.ConfigCommand", "--alter", *user, "--add-config", password)
        described = _tool(tmp_path, admin, "kafka.admin.ConfigCommand", "--describe", *user)
        assert "SCRAM credential configs for user-principal 'carol' are SCRAM-SHA-512=iterations=8192" in described
        config = broker.client_config("nobody")
        broker.create_topic("orders")
        own = {**config, "sasl.username": "carol", "sasl.password": "a password of carol"}
        assert ROUND_TRIPS["confluent-kafka"](own, "orders") == b"confluent"
