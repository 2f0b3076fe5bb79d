"""ACLs with Kafka's own tools: kafka-acls.sh makes rules on our broker, and the Java clients obey them."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.clients import JAVA, Driver
from tests.interop.conftest import START_S, Start, listening_address

pytestmark = pytest.mark.java
ACLS = "org.apache.kafka.tools.AclCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
    "group.initial.rebalance.delay.ms": "0",
}


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The address of a broker with SASL PLAIN and an authorizer."""
    users = tmp_path / "users.properties"
    users.write_text("admin=secret\nalice=secret\n")
    command = [sys.executable, "-m", "slackwater", "broker", "--listen", "SASL_PLAINTEXT://127.0.0.1:0"]
    command += ["--data", str(tmp_path / "data")]
    for name, value in (SETTINGS | {"sasl.plain.users.file": str(users)}).items():
        command += ["--set", f"{name}={value}"]
    log = tmp_path / "log.txt"
    with log.open("wb") as stderr, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr) as process:
        try:
            yield listening_address(process, log)
            process.terminate()
            assert process.wait(START_S) == 0, log.read_text()[-4000:]
        finally:
            process.kill()


class Tools:
    """Runs Kafka's tools as one of the users."""

    def __init__(self, driver: Driver, address: str, directory: Path) -> None:
        self._driver, self._address, self._directory = driver, address, directory

    def __call__(self, user: str, main: str, *arguments: object, stdin: str = "") -> tuple[int, str]:
        """Return the exit code, and the output with that of standard error."""
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        config = self._directory / f"{user}.properties"
        config.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            f'sasl.jaas.config={module} required username="{user}" password="secret";\n'
        )
        given = ["--bootstrap-server", self._address, "--command-config", str(config), *map(str, arguments)]
        result = self._driver.call("tool", main=main, arguments=given, input=stdin)
        return int(result["code"]), f"{result['out']}{result['err']}"


@pytest.fixture
def tools(running: Start, address: str, tmp_path: Path) -> Tools:
    return Tools(running(JAVA), address, tmp_path)


def test_kafka_acls_adds_lists_and_removes_rules(tools: Tools) -> None:
    code, output = tools("admin", ACLS, "--list")
    assert (code, output.strip()) == (0, "")
    alice = ("--allow-principal", "User:alice")
    assert tools("admin", ACLS, "--add", *alice, "--producer", "--topic", "orders")[0] == 0
    consumer = ("--consumer", "--topic", "ord", "--group", "shop", "--resource-pattern-type", "prefixed")
    assert tools("admin", ACLS, "--add", *alice, *consumer)[0] == 0
    assert tools("admin", ACLS, "--add", "--deny-principal", "User:bob", "--operation", "All", "--topic", "*")[0] == 0

    _, listed = tools("admin", ACLS, "--list")
    resources = [line.split("`")[1] for line in listed.splitlines() if line.startswith("Current ACLs")]
    assert sorted(resources) == [
        "ResourcePattern(resourceType=GROUP, name=shop, patternType=PREFIXED)",
        "ResourcePattern(resourceType=TOPIC, name=*, patternType=LITERAL)",
        "ResourcePattern(resourceType=TOPIC, name=ord, patternType=PREFIXED)",
        "ResourcePattern(resourceType=TOPIC, name=orders, patternType=LITERAL)",
    ]
    assert "(principal=User:bob, host=*, operation=ALL, permissionType=DENY)" in listed
    _, matching = tools("admin", ACLS, "--list", "--topic", "orders", "--resource-pattern-type", "match")
    assert matching.count("Current ACLs") == 3
    code, output = tools("alice", ACLS, "--list")
    assert (code, "ClusterAuthorizationException" in output) == (1, True), output

    assert tools("admin", ACLS, "--remove", "--force", *alice, *consumer)[0] == 0
    assert tools("admin", ACLS, "--remove", "--force", "--topic", "*")[0] == 0
    _, listed = tools("admin", ACLS, "--list")
    assert [line.split("`")[1] for line in listed.splitlines() if line.startswith("Current ACLs")] == [
        "ResourcePattern(resourceType=TOPIC, name=orders, patternType=LITERAL)"
    ]


def test_java_clients_obey_the_rules(tools: Tools) -> None:
    produce = ("alice", PRODUCER, "--topic", "orders", "--max-block-ms", 20_000)
    tools(*produce, stdin="first\n")
    assert "orders" not in tools("admin", TOPICS, "--list")[1]  # the producer reports its error only in its log
    alice = ("--allow-principal", "User:alice")
    tools("admin", ACLS, "--add", *alice, "--producer", "--topic", "orders")
    assert tools(*produce, stdin="second\n")[0] == 0

    consume = ("alice", CONSUMER, "--topic", "orders", "--from-beginning", "--group", "shop", "--timeout-ms", 20_000)
    _, output = tools(*consume, "--max-messages", 1)
    assert "Processed a total of 0 messages" in output
    tools("admin", ACLS, "--add", *alice, "--consumer", "--topic", "orders", "--group", "shop")
    code, output = tools(*consume, "--max-messages", 1)
    assert (code, output.split()[0]) == (0, "second"), output
