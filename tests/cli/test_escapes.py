"""Ids and records with control characters and markup do not reach a terminal as such."""

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from slackwater import Admin, Broker, Producer
from slackwater.cli.app import app
from slackwater.doctor.diagnosis import Diagnosis
from slackwater.group.topic_partition import TopicPartition
from tests.cli.conftest import Command
from tests.client.consumer_pool import ConsumerPool
from tests.client.helpers import consumer, poll_until
from tests.doctor.scenario import Scenario
from tests.properties.test_log_line_escapes import UNSAFE

HOSTILE = "".join(UNSAFE[1:]) + "[bold]x[/] \x1b]0;title\x07 \x1b[2J"  # an argument has no NUL
ESCAPED = r"\x1f\x7f\u0080"  # from the middle of it
SHOWN = r"[bold]x[/] \x1b]0;title\x07 \x1b[2J"
STYLES = re.compile(rb"\x1b\[[0-9;]*m|\r\x1b\[K")  # what the commands themselves send to a terminal


@pytest.fixture
def group(broker: Broker, admin: Admin) -> Iterator[str]:
    """A group with a hostile id, and a member with a hostile client id that owns all partitions."""
    with consumer(broker, HOSTILE, client_id=f"c\0{HOSTILE}") as member:
        member.subscribe(["orders"])
        poll_until(member, lambda: member.assignment, "the assignment")
        member.commit({TopicPartition("orders", 0): 3})
        yield HOSTILE
    admin.delete_group(HOSTILE)


def run_on_terminal(broker: Broker, *arguments: str) -> bytes:
    """What a command writes to a terminal of 1000 columns."""
    ours, theirs = pty.openpty()
    environment = os.environ | {
        "SLACKWATER_BOOTSTRAP": broker.bootstrap_servers,
        "COLUMNS": "1000",
        "TERM": "xterm",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-m", "slackwater", *arguments]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment):
        os.close(theirs)
        chunks = []
        while True:
            try:
                chunk = os.read(ours, 65_536)
            except OSError:  # EIO: the command has ended
                break
            if not chunk:
                break
            chunks.append(chunk)
    os.close(ours)
    return b"".join(chunks)


def check(output: bytes) -> str:
    """Return the text of an output that contains nothing unsafe but line ends and our own styles."""
    text = STYLES.sub(b"", output).decode()
    assert not set(text) & set(UNSAFE) - set("\r\n")
    return text


@pytest.mark.parametrize(
    "arguments",
    [["groups", "list"], ["groups", "describe", HOSTILE], ["groups", "remove-members", HOSTILE, "--all", "--dry-run"]],
)
def test_group_ids_are_escaped_on_a_terminal(broker: Broker, group: str, arguments: list[str]) -> None:
    text = check(run_on_terminal(broker, *arguments))

    assert ESCAPED in text
    assert SHOWN in text


def test_watch_is_escaped_on_a_terminal(broker: Broker, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text("[IdleMembers]\nfor_s = 0\n")
    with ConsumerPool(broker.bootstrap_servers, HOSTILE, ["payments"]) as pool:
        pool.join(2, {"client.id": f"c{HOSTILE}"})
        pool.settle(1)
        text = check(run_on_terminal(broker, "watch", "--once", "--rules", str(rules)))

    assert "IdleMembers: 1 of 2 members" in text
    assert text.count(SHOWN) >= 3  # the group, its member, and the group in the summary


def test_json_has_the_ids_unchanged(slackwater: Command, group: str) -> None:
    result = slackwater("groups", "describe", group, "--json")
    assert not set(result.out) & set(UNSAFE) - {"\n"}
    described = json.loads(result.out)
    assert described["group"] == HOSTILE
    assert described["members"][0]["client"] == f"c\0{HOSTILE}"


def test_errors_are_escaped(slackwater: Command) -> None:
    result = slackwater("groups", "describe", f"no{HOSTILE}")

    assert result.code == 1
    assert ESCAPED in result.err
    assert not set(result.err) & set(UNSAFE) - {"\n"}


def test_records_are_escaped_on_a_terminal_and_raw_in_a_pipe(broker: Broker, slackwater: Command) -> None:
    value = f"v\0{HOSTILE}".encode() + b"\xff\x80 \\x41"
    broker.create_topic("hostile", 1)
    with Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        producer.send("hostile", value, key=b"k\n\x1b[2J")
    arguments = ["consume", "hostile", "--from-beginning", "--to-end", "--format", r"%k=%v\n"]

    text = check(run_on_terminal(broker, *arguments))
    assert text.startswith(r"k\x0a\x1b[2J=v\x00\x01")
    assert text.endswith(SHOWN + "\\xff\\x80 \\x5cx41\r\n")
    piped = subprocess.run(
        [sys.executable, "-m", "slackwater", *arguments, "--bootstrap", broker.bootstrap_servers],
        capture_output=True,
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert piped.stdout == b"k\n\x1b[2J=" + value + b"\n"


def test_doctor_escapes_its_reports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scenario = Scenario(HOSTILE).start("a", f"b{HOSTILE}", "c")
    for second in (20, 40):
        scenario.leave(f"b{HOSTILE}", second, "consumer poll timeout has expired.")
        scenario.form(second + 0.5)
        scenario.join(f"b{HOSTILE}", second + 3)
        scenario.form(second + 3.5)
    verdict = replace(scenario.verdict(), cluster=f"cluster{HOSTILE}")
    diagnosis = Diagnosis([verdict], [(f"server{HOSTILE}.log", 2, f"an unknown line{HOSTILE}")])
    monkeypatch.setattr("slackwater.cli.doctor.run_diagnosis", lambda *_: diagnosis)
    page = tmp_path / "report.html"
    result = CliRunner().invoke(app, ["doctor", "server.log", "--html", str(page)])

    for text in (result.stdout, result.stderr, page.read_text()):
        assert ESCAPED in text
        assert not set(text) & set(UNSAFE) - {"\n"}
