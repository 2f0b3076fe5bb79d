"""`slackwater produce` and `slackwater consume`: formats, offsets, signals and errors."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater import Admin, Broker, Producer
from slackwater.group.errors import Error
from slackwater.group.topic_partition import TopicPartition
from slackwater.testing import Kafka
from tests.waiting import wait_until

from .conftest import Command

TIMEOUT_S = 60.0


@pytest.fixture
def topic(admin: Admin, request: pytest.FixtureRequest) -> str:
    """A new topic with one partition."""
    name = f"lines-{abs(hash(request.node.name))}"
    admin.create_topic(name, 1)
    return name


def test_produced_lines_are_consumed(slackwater: Command, topic: str) -> None:
    result = slackwater("produce", topic, stdin="one\ntwo\r\n\nlast")
    assert result == (0, f"Wrote 4 records to {topic}.\n", "")
    assert slackwater("consume", topic, "--from-beginning", "--max", 4).out == "one\ntwo\n\nlast\n"
    assert slackwater("consume", topic, "--from-beginning", "--to-end").out == "one\ntwo\n\nlast\n"
    assert slackwater("consume", topic, "--partition", 0, "--offset", 3, "--to-end").out == "last\n"


def test_keys_headers_and_formats(slackwater: Command, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "records.txt"
    file.write_text("a\tone\nb\ttwo\tmore\n")
    result = slackwater("produce", topic, "--file", file, "-k", r"\t", "--header", "from=test", "--json")
    assert [(row["partition"], row["offset"]) for row in map(json.loads, result.out.splitlines())] == [(0, 0), (0, 1)]
    formatted = slackwater("consume", topic, "--from-beginning", "--to-end", "--format", r"%t/%p/%o %k=%v [%h] 100%%\n")
    assert formatted.out == f"{topic}/0/0 a=one [from=test] 100%\n{topic}/0/1 b=two\tmore [from=test] 100%\n"
    assert slackwater("produce", topic, "--key", "k", stdin="v").code == 0
    assert slackwater("consume", topic, "--partition", 0, "--offset", 2, "--to-end", "-f", "%k:%v").out == "k:v"


def test_consume_json_is_produce_input(slackwater: Command, topic: str, admin: Admin) -> None:
    lines = [
        {"key": "k", "value": "grüße", "headers": [{"name": "h", "value": "x"}, {"name": "none", "value": None}]},
        {"key": None, "value_base64": "/w==", "timestamp": 12345},
        {"value": {"nested": [1, 2]}},
        {"key": "deleted", "value": None},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    assert slackwater("produce", topic, "--from-json", stdin=text).code == 0
    first = slackwater("consume", topic, "--from-beginning", "--to-end", "--json").out
    rows = [json.loads(line) for line in first.splitlines()]
    assert [row["key"] for row in rows] == ["k", None, None, "deleted"]
    assert rows[0]["headers"] == [{"name": "h", "value": "x"}, {"name": "none", "value": None}]
    assert (rows[1]["value_base64"], rows[1]["timestamp"]) == ("/w==", 12345)
    assert rows[2]["value"] == '{"nested": [1, 2]}'
    assert rows[3]["value"] is None

    admin.create_topic(f"{topic}-copied", 1)
    assert slackwater("produce", f"{topic}-copied", "--from-json", stdin=first).code == 0
    copied = slackwater("consume", f"{topic}-copied", "--from-beginning", "--to-end", "--json").out
    assert copied.replace("-copied", "") == first


def test_group_commits_printed_records(slackwater: Command, topic: str, admin: Admin) -> None:
    slackwater("produce", topic, stdin="".join(f"{number}\n" for number in range(10)))
    command = ["consume", topic, "--group", topic, "--from-beginning"]
    assert slackwater(*command, "--max", 3).out == "0\n1\n2\n"
    assert admin.committed(topic)[TopicPartition(topic, 0)].offset == 3
    assert slackwater(*command, "--max", 7).out == "".join(f"{number}\n" for number in range(3, 10))
    result = slackwater(*command, "--max", 1, "--timeout", 0.2)
    assert (result.code, result.out) == (1, "")
    assert slackwater(*command, "--timeout", 0.2).code == 0


@pytest.fixture
def endless(broker: Broker, topic: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A consumer process that has printed ten lines and waits for more."""
    command = [sys.executable, "-m", "slackwater", "consume", topic, "--group", topic, "--from-beginning"]
    environment = os.environ | {"SLACKWATER_BOOTSTRAP": broker.bootstrap_servers}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        try:
            assert process.stdout is not None
            for number in range(10):
                assert process.stdout.readline() == b"%d\n" % number
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["INT", "TERM"])
def test_stopped_consumer_commits_and_leaves(
    slackwater: Command,
    topic: str,
    admin: Admin,
    request: pytest.FixtureRequest,
    number: signal.Signals,
    code: int,
) -> None:
    slackwater("produce", topic, stdin="".join(f"{value}\n" for value in range(10)))
    process: subprocess.Popen[bytes] = request.getfixturevalue("endless")
    process.send_signal(number)
    assert process.wait(TIMEOUT_S) == code
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert admin.committed(topic)[TopicPartition(topic, 0)].offset == 10
    assert admin.describe_groups([topic])[0].members == ()


@pytest.fixture
def open_transaction(broker: Broker, topic: str, admin: Admin) -> Iterator["subprocess.Popen[bytes]"]:
    """A producer process that has written two lines in a transaction and waits for more."""
    command = [sys.executable, "-m", "slackwater", "produce", topic, "--set", f"transactional.id={topic}"]
    environment = os.environ | {"SLACKWATER_BOOTSTRAP": broker.bootstrap_servers}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment) as process:
        try:
            assert process.stdin is not None
            process.stdin.write(b"one\ntwo\n")
            process.stdin.flush()
            wait_until(lambda: end_offset(admin, topic) == 2, process.poll, TIMEOUT_S)
            yield process
        finally:
            process.kill()


def end_offset(admin: Admin, topic: str) -> int:
    """The end of partition 0, with records of open transactions."""
    end = admin.list_offsets({TopicPartition(topic, 0): -1})[TopicPartition(topic, 0)]
    assert end is not None
    return end.offset


def committed_lines(slackwater: Command, topic: str) -> str:
    """The records of a topic that are not in aborted transactions."""
    return slackwater("consume", topic, "--from-beginning", "--to-end", "--set", "isolation.level=read_committed").out


def test_end_of_input_commits_the_transaction(slackwater: Command, topic: str) -> None:
    command = ["produce", topic, "--set", f"transactional.id={topic}"]
    assert slackwater(*command, stdin="one\ntwo\n") == (0, f"Wrote 2 records to {topic}.\n", "")
    assert slackwater(*command, "--from-json", stdin='{"value": "three"}\nwrong\n').code == 2
    assert committed_lines(slackwater, topic) == "one\ntwo\n"


def test_interrupt_aborts_the_transaction(
    slackwater: Command, topic: str, open_transaction: "subprocess.Popen[bytes]"
) -> None:
    open_transaction.send_signal(signal.SIGINT)
    assert open_transaction.wait(TIMEOUT_S) == 130
    assert open_transaction.stdout is not None
    assert open_transaction.stderr is not None
    assert open_transaction.stdout.read() == b""
    assert open_transaction.stderr.read() == (
        b"slackwater: Interrupted: the transaction was aborted, so read_committed consumers get none of its records.\n"
    )
    assert committed_lines(slackwater, topic) == ""


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["consume", "order"], 1, "There is no topic order; did you mean orders?"),
        (["consume", "order", "--group", "g"], 1, "There is no topic order; did you mean orders?"),
        (["consume", "orders", "--format", "%x"], 2, "--format has %x; use %k key"),
        (["consume", "orders", "--json", "--format", "%v"], 2, "use --json or --format, not both."),
        (["consume", "orders", "--offset", "3"], 2, "--offset needs one topic and one --partition."),
        (["consume", "orders", "--partition", "9"], 2, "orders has no partition 9; it has 3, starting at 0."),
        (["consume", "orders", "-g", "g", "--to-end"], 2, "--partition, --offset and --to-end are for reading"),
        (["consume", "orders", "--max", "0"], 2, "--max is 0; use 1 or more."),
        (["consume", "orders", "--bootstrap", "127.0.0.1:1"], 1, "No broker can be reached. "),
        (["produce", "orders", "--bootstrap", "127.0.0.1:1"], 1, "No broker can be reached. "),
        (["produce", "orders", "--file", "/absent"], 2, "/absent cannot be read: "),
        (["produce", "orders", "--key", "k", "-k", ":"], 2, "use --key or --key-separator, not both."),
        (["produce", "orders", "--set", "acks"], 2, "--set acks is not a setting. Use --set name=value."),
        (["produce", "orders", "--set", "ack=all"], 2, "ack is not a setting of this client; did you mean acks?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_invalid_arguments_are_one_sentence(slackwater: Command, arguments: list[str], code: int, message: str) -> None:
    result = slackwater(*arguments)
    assert (result.code, result.out) == (code, "")
    assert result.err.startswith(f"slackwater: {message}")
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "line", "message"),
    [
        (["-k", ":"], "no separator", "line 2 has no ':' between key and value."),
        (["--from-json"], "{", "line 2 is not JSON: "),
        (["--from-json"], "[]", "line 2 is not a JSON object"),
        (["--from-json"], '{"vlaue": 1}', "line 2 has 'vlaue', which no record has"),
        (["--from-json"], '{"key_base64": "*"}', "line 2: key_base64 is not base64."),
        (["--from-json"], '{"partition": "x"}', "line 2: partition is 'x', which is not a whole number."),
        (["--from-json"], '{"headers": [1]}', "line 2: headers must be a list of objects"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_invalid_line_is_named_after_writing_earlier_ones(
    slackwater: Command, topic: str, arguments: list[str], line: str, message: str
) -> None:
    good = "k:v" if "-k" in arguments else '{"value": "v"}'
    result = slackwater("produce", topic, *arguments, stdin=f"{good}\n{line}\n{good}\n")
    assert (result.code, result.out) == (2, f"Wrote 1 record to {topic}.\n")
    assert result.err.startswith(f"slackwater: {message}")


def test_failed_records_are_counted(slackwater: Command, topic: str, admin: Admin) -> None:
    admin.alter_configs("topic", topic, {"max.message.bytes": "200"})
    result = slackwater("produce", topic, "--set", "linger.ms=0", stdin="x" * 500 + "\n")
    assert (result.code, result.out) == (1, f"Wrote 0 records to {topic}.\n")
    assert result.err.startswith("slackwater: 1 record was not written: ")


def test_verbose_consumer_logs_to_standard_error(broker: Broker, slackwater: Command, topic: str) -> None:
    slackwater("produce", topic, stdin="one\n")
    command = [sys.executable, "-m", "slackwater", "consume", topic, "--group", topic, "--from-beginning", "--max", "1"]
    environment = os.environ | {"SLACKWATER_BOOTSTRAP": broker.bootstrap_servers}

    def log(*more: str) -> str:
        process = subprocess.run(
            [*command, *more, "--timeout", "30"], capture_output=True, text=True, env=environment, timeout=TIMEOUT_S
        )
        assert (process.returncode, process.stdout) == (0, "one\n")
        return process.stderr

    lines = log("-v")
    assert " INFO [Consumer clientId=" in lines
    assert "Successfully joined group with generation" in lines
    slackwater("groups", "reset-offsets", topic, "--topic", topic, "--to-earliest", "--yes")
    assert log() == ""


def test_timeout_before_the_end_is_exit_code_1(kafka: Kafka) -> None:
    kafka.create_topic("t", 1)
    with Producer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
        producer.send("t", b"unread")
    kafka.fail("Fetch", Error.KAFKA_STORAGE_ERROR, times=None)
    command = [sys.executable, "-m", "slackwater", "consume", "t", "--from-beginning", "--to-end", "--timeout", "0.3"]
    result = subprocess.run(
        [*command, "--bootstrap", kafka.bootstrap_servers], capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert (result.returncode, result.stdout) == (1, "")
