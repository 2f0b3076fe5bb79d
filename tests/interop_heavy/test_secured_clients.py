"""Stock clients on a secured broker: every protocol and mechanism, and Kafka's own command-line tools."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from slackwater import Broker
from tests.interop.secured_clients import ROUND_TRIPS
from tests.java import SMALL_JVM, jars, needs_jars

DEADLINE_S = 60.0
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
COMBINATIONS = [
    ("SSL", "PLAIN"),
    *((protocol, name) for protocol in ("SASL_PLAINTEXT", "SASL_SSL") for name in MECHANISMS),
]


@pytest.mark.parametrize("client", ROUND_TRIPS)
@pytest.mark.parametrize(("protocol", "mechanism"), COMBINATIONS)
def test_python_clients_with_every_mechanism(client: str, protocol: str, mechanism: str) -> None:
    with Broker(security=protocol, settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        broker.create_topic("orders")
        config = broker.client_config("alice", mechanism=mechanism)
        assert ROUND_TRIPS[client](config, "orders") == client.removesuffix("-kafka").encode()


def _tool(directory: Path, config: Mapping[str, str], tool: str, *arguments: str, text: str = "") -> str:
    """Run one of Kafka's command-line tools, and return its output."""
    properties = directory / "client.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
    command = ["java", *SMALL_JVM, "-cp", f"{jars()}/*", tool, "--bootstrap-server", config["bootstrap.servers"]]
    done = subprocess.run(
        [*command, "--command-config", str(properties), *arguments],
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
@pytest.mark.parametrize(("protocol", "mechanism"), COMBINATIONS)
def test_java_client_with_every_mechanism(tmp_path: Path, protocol: str, mechanism: str) -> None:
    with Broker(security=protocol, settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        config = broker.client_config("alice", mechanism=mechanism, java=True)
        topic = ("--topic", "orders")
        _tool(tmp_path, config, "org.apache.kafka.tools.TopicCommand", "--create", *topic)
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
