"""`--config client.properties` of the commands, on a secured cluster."""

import subprocess
import sys
from pathlib import Path

import pytest

from slackwater import Admin
from tests.client.security.secured_kafka import PASSWORDS, SecuredKafka

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("secured_kafka")]
PROGRAM = Path(sys.executable).with_name("slackwater")
SECONDS = 60.0


def run(*words: object, text: str = "", password: str = PASSWORDS["alice"]) -> "subprocess.CompletedProcess[str]":
    """Run a command with the password in the environment."""
    return subprocess.run(
        [str(PROGRAM), *map(str, words)],
        input=text,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env={"KAFKA_PASSWORD": password, "PATH": ""},
    )


@pytest.fixture
def config(secured: SecuredKafka, tmp_path: Path) -> Path:
    """A file as it is used with Java's tools."""
    path = tmp_path / "client.properties"
    path.write_text(
        f"""bootstrap.servers={secured.servers("SASL")["bootstrap.servers"]}
security.protocol=SASL_SSL
ssl.truststore.location = {secured.authority.path}
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
    username="alice" password="${{KAFKA_PASSWORD}}";
"""
    )
    return path


def test_commands_read_the_file(secured: SecuredKafka, config: Path) -> None:
    with Admin(secured.servers("OPEN")) as admin:
        admin.create_topic("from-the-shell", 1)
    assert "from-the-shell" in run("topics", "list", "--config", config).stdout
    assert run("groups", "list", "--config", config).returncode == 0
    sent = run("produce", "from-the-shell", "--config", config, text="hello\n")
    assert sent.returncode == 0, sent.stderr
    read = run("consume", "from-the-shell", "--config", config, "--from-beginning", "--max", 1)
    assert read.stdout == "hello\n", read.stderr


def test_wrong_password_is_one_sentence(config: Path) -> None:
    failed = run("topics", "list", "--config", config, password="canary")
    assert failed.returncode != 0
    assert failed.stdout == ""
    assert failed.stderr.count("\n") == 1
    assert "rejected the SCRAM-SHA-512 authentication as alice" in failed.stderr
    assert "canary" not in failed.stderr
