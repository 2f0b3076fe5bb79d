"""`slackwater broker`: start, stop, log lines and errors."""

import asyncio
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slackwater.broker.config.describe import ConfigSource
from slackwater.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from slackwater.wire.messages.metadata import MetadataRequest, MetadataResponse
from slackwater.wire.records.record import Record, encode_batch
from tests.broker.server_client import Client

DEADLINE_S = 60.0
PROGRAM = [sys.executable, "-m", "slackwater", "broker"]
LOG_LINE = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] (INFO|WARNING) .* \([a-z.]+\)")


class BrokerProgram:
    """A running broker process; `stderr` is its log."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.process = process
        self._log = log

    def lines(self, count: int) -> list[str]:
        """The first lines of standard output."""
        assert self.process.stdout is not None
        output, deadline = b"", time.monotonic() + DEADLINE_S
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while output.count(b"\n") < count and selector.select(max(0.0, deadline - time.monotonic())):
                received = os.read(self.process.stdout.fileno(), 4096)
                if not received:
                    break
                output += received
        return output.decode().splitlines()

    def stop(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(DEADLINE_S)

    @property
    def stderr(self) -> str:
        return self._log.read_text()


@contextmanager
def _running(directory: Path, *arguments: str, listen: str = "127.0.0.1:0") -> Iterator[BrokerProgram]:
    log = directory / "log.txt"
    command = [*PROGRAM, "--listen", listen, "--data", str(directory / "data"), *arguments]
    with (
        log.open("wb") as stderr,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr) as process,
    ):
        try:
            yield BrokerProgram(process, log)
        finally:
            process.kill()


def _fail(*arguments: str) -> str:
    """Start the broker with arguments that must fail, and return its standard error."""
    result = subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, check=False, timeout=DEADLINE_S)
    assert (result.returncode, result.stdout) == (2, ""), result
    assert "Traceback" not in result.stderr
    return result.stderr


# --- start and stop -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_broker_prints_its_address_and_stops_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with _running(tmp_path) as program:
        (line,) = program.lines(1)
        match = re.fullmatch(r"Slackwater broker listening on 127\.0\.0\.1:(\d+)", line)
        assert match is not None
        socket.create_connection(("127.0.0.1", int(match[1])), DEADLINE_S).close()
        assert program.stop(number) == 0
        assert program.lines(1) == []
        assert "Traceback" not in program.stderr
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_second_ctrl_c_ends_a_blocked_stop() -> None:
    program = """
import asyncio, os, signal, time
from slackwater.cli.broker import _stop_at_signals

async def main():
    stop = asyncio.Event()
    _stop_at_signals(stop)
    os.kill(os.getpid(), signal.SIGINT)
    await stop.wait()
    print("stopping", flush=True)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)

asyncio.run(main())
"""
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_S / 2)
    assert (result.returncode, result.stdout, result.stderr) == (-signal.SIGINT, "stopping\n", "")


def test_until_eof_stops_at_end_of_input(tmp_path: Path) -> None:
    with _running(tmp_path, "--until-eof") as program:
        assert program.lines(1)
        assert program.process.stdin is not None
        program.process.stdin.write(b"not the end\n")
        program.process.stdin.close()
        assert program.process.wait(DEADLINE_S) == 0
        assert "Stopping: standard input was closed." in program.stderr


@pytest.mark.parametrize("redirection", ["</dev/null", "<FILE", "<&-"])
def test_until_eof_needs_a_pipe_or_a_terminal(tmp_path: Path, redirection: str) -> None:
    file = tmp_path / "input"
    file.touch()
    shell = f'exec "$@" {redirection.replace("FILE", str(file))}'
    command = ["sh", "-c", shell, "sh", *PROGRAM, "--until-eof", "--data", str(tmp_path / "data")]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_S)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        "slackwater: --until-eof needs a pipe or a terminal as standard input. Remove the option, or start the broker "
        "with a pipe.\n"
    )
    assert not (tmp_path / "data").exists()


def test_metrics_are_served_on_the_printed_address(tmp_path: Path) -> None:
    with _running(tmp_path, "--metrics", "127.0.0.1:0") as program:
        _, line = program.lines(2)
        assert line.startswith("Slackwater metrics at http://127.0.0.1:")
        with urllib.request.urlopen(line.removeprefix("Slackwater metrics at "), timeout=DEADLINE_S) as page:
            assert b"# HELP slackwater_groups Groups, by state." in page.read()
        assert program.stop(signal.SIGTERM) == 0


def test_advertised_address_is_a_setting(tmp_path: Path) -> None:
    request = DescribeConfigsRequest([DescribeConfigsResource(4, "1", ["advertised.listeners"])])

    async def describe(port: int) -> tuple[MetadataResponse, DescribeConfigsResponse]:
        client = Client(*await asyncio.open_connection("127.0.0.1", port), "client")
        metadata = await client.request(MetadataRequest([]), MetadataResponse)
        configs = await client.request(request, DescribeConfigsResponse)
        client.close()
        return metadata, configs

    with _running(tmp_path, "--advertise", "kafka.example:9093") as program:
        (line,) = program.lines(1)
        metadata, configs = asyncio.run(describe(int(line.rpartition(":")[2])))
        assert program.stop(signal.SIGTERM) == 0
    assert (metadata.brokers[0].host, metadata.brokers[0].port) == ("kafka.example", 9093)
    (setting,) = configs.results[0].configs
    assert (setting.value, setting.config_source) == (
        "PLAINTEXT://kafka.example:9093",
        ConfigSource.STATIC_BROKER_CONFIG,
    )


# --- the log --------------------------------------------------------------------------------------------------------


def test_log_has_kafkas_format_and_counts_topics(tmp_path: Path) -> None:
    for _ in range(2):
        with _running(tmp_path) as program:
            program.lines(1)
            assert program.stop(signal.SIGTERM) == 0
        lines = program.stderr.splitlines()
        assert all(LOG_LINE.fullmatch(line) for line in lines), lines
    text = program.stderr
    assert re.search(r"INFO Slackwater 0\.\S+, node 1, data in \S+data\. \(slackwater\.broker\)", text)
    assert "INFO The data directory holds no topics yet. (slackwater.broker)" in text
    assert re.search(r"INFO Listening on 127\.0\.0\.1:\d+ for clients\. \(slackwater\.broker\)", text)
    assert "INFO Stopping: received SIGTERM. (slackwater.broker)" in text
    assert "WARNING" not in text


def test_truncated_tail_is_logged(tmp_path: Path) -> None:
    from slackwater import Broker

    data = tmp_path / "data"
    batch = encode_batch([Record(b"key", b"value")])
    with Broker(data=data) as broker:
        broker.create_topic("orders")
        broker.kill()
    segment = data / "orders-0" / "00000000000000000000.log"
    segment.write_bytes(bytes(batch) + bytes(batch)[:20])
    with _running(tmp_path) as program:
        program.lines(1)
        assert program.stop(signal.SIGTERM) == 0
    line = rf"WARNING Truncated 20 bytes of {segment} at byte {len(batch)}: the log ends before offset 1; "
    assert re.search(line, program.stderr)
    assert "Loaded topics: 1, partitions: 1, groups: 0; the last shutdown was not clean" in program.stderr


def test_ignored_kafka_settings_are_logged_once(tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_text("# a real one\nprocess.roles=broker\nnum.io.threads = 8\nnode.id=3\n")
    with _running(tmp_path, "--config", str(tmp_path / "server.properties"), "--set", "node.id=4") as program:
        program.lines(1)
        program.stop(signal.SIGTERM)
    ignored = [line for line in program.stderr.splitlines() if "Ignored Kafka settings" in line]
    assert len(ignored) == 1
    assert "WARNING Ignored Kafka settings that have no effect here: process.roles, num.io.threads." in ignored[0]
    assert ", node 4," in program.stderr


def test_listening_beyond_loopback_logs_a_warning(tmp_path: Path) -> None:
    with _running(tmp_path, "--allow-anonymous", listen="0.0.0.0:0") as program:
        (line,) = program.lines(1)
        assert line.startswith("Slackwater broker listening on 0.0.0.0:")
        program.stop(signal.SIGTERM)
    assert "is reachable from other machines without authentication" in program.stderr


def test_quiet_broker_logs_only_warnings(tmp_path: Path) -> None:
    with _running(tmp_path, "--quiet") as program:
        program.lines(1)
        program.stop(signal.SIGTERM)
    assert program.stderr == ""


# --- errors -------------------------------------------------------------------------------------------------------


def test_port_in_use_is_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        message = f"slackwater: cannot listen on {address}: address already in use. "
        message += "Stop the process that listens there, or use another port.\n"
        assert _fail("--listen", address, "--data", str(tmp_path / "a")) == message
        arguments = ("--listen", "127.0.0.1:0", "--data", str(tmp_path / "a"), "--metrics", address)
        assert _fail(*arguments) == message


def test_locked_directory_is_one_sentence(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with _running(tmp_path) as program:
        program.lines(1)
        assert _fail("--listen", "127.0.0.1:0", "--data", str(data)) == (
            f"slackwater: The data directory {data} is in use by another broker. "
            "Stop that broker, or use another directory.\n"
        )
        program.stop(signal.SIGTERM)
    error = _fail("--listen", "127.0.0.1:0", "--data", str(data), "--set", "node.id=2")
    assert re.fullmatch(
        rf"slackwater: The data directory {data} belongs to node 1 of cluster \S+; this is node 2\. "
        r"Use another directory, or node\.id=1\.\n",
        error,
    )


def test_unusable_directory_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    use = "Use a directory with read and write access."
    assert _fail("--data", str(file)) == f"slackwater: Cannot use the data directory {file}: it is a file. {use}\n"
    below = file / "data"
    assert _fail("--data", str(below)) == (
        f"slackwater: Cannot use the data directory {below}: Not a directory. {use}\n"
    )


def test_foreign_directory_is_one_sentence(tmp_path: Path) -> None:
    for name in ("photos-2024", "thesis-1", "backup-delete"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("content")
    assert _fail("--listen", "127.0.0.1:0", "--data", str(tmp_path)) == (
        f"slackwater: The data directory {tmp_path} was not created by Slackwater: it contains 'backup-delete', "
        "'photos-2024', 'thesis-1', but no meta.properties. "
        "Use a new or empty directory; if this is Slackwater's, restore its meta.properties.\n"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup-delete", "photos-2024", "thesis-1"]
    assert all((path / "file").read_text() == "content" for path in tmp_path.iterdir())


def test_unreadable_partition_is_one_sentence(tmp_path: Path) -> None:
    from slackwater import Broker

    with Broker(data=tmp_path / "data") as broker:
        broker.create_topic("orders")
    segment = tmp_path / "data" / "orders-0" / "00000000000000000000.log"
    segment.unlink()
    segment.symlink_to(segment)  # a path that even root cannot open
    error = _fail("--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"))
    assert error.startswith(f"slackwater: The data directory {tmp_path / 'data'} cannot be opened: ")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--listen", "127.0.0.1"), "--listen 127.0.0.1 is not an address. Use HOST:PORT, for example 127.0.0.1:9092."),
        (("--listen", ":9092"), "--listen :9092 is not an address. Use HOST:PORT, for example 127.0.0.1:9092."),
        (("--listen", "::1:9092"), "--listen ::1:9092 is not an address. Use HOST:PORT, for example 127.0.0.1:9092."),
        (("--listen", "h:65536"), "--listen h:65536 is not an address. Use HOST:PORT, for example 127.0.0.1:9092."),
        (("--advertise", "h"), "--advertise h is not an address. Use HOST:PORT, for example 127.0.0.1:9092."),
        (("--metrics", "9404"), "--metrics 9404 is not an address. Use HOST:PORT, for example 127.0.0.1:9092."),
        (
            ("--listen", "nowhere.invalid:0", "--allow-anonymous"),
            (
                "cannot listen on nowhere.invalid:0: nowhere.invalid cannot be resolved to an address. "
                "Use an IP address of this machine."
            ),
        ),
        (("--set", "num.partitions"), "--set num.partitions is not a setting. Use --set name=value."),
        (("--set", "=3"), "--set =3 is not a setting. Use --set name=value."),
        (
            ("--set", "num.partition=3"),
            "num.partition is not a broker setting; did you mean num.partitions?",
        ),
        (("--set", "num.partitions=many"), "num.partitions = 'many' is not a whole number."),
        (("--set", "num.partitions=0"), "num.partitions = 0 is too small; use 1 or more."),
        (("--set", "flush=never"), "flush = never is unknown; use one of os, always."),
        (("--config", "nowhere"), "The file nowhere cannot be read: No such file or directory."),
    ],
)
def test_invalid_argument_is_one_sentence(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    assert _fail("--data", str(tmp_path / "data"), *arguments) == f"slackwater: {message}\n"


def test_invalid_config_file_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "wrong.properties"
    file.write_text("node.id=1\nwhatisthis\n")
    assert _fail("--config", str(file)) == (f"slackwater: {file}, line 2 is not a setting; use name=value.\n")
    file.write_bytes(b"\xff\xfe\x00")
    assert _fail("--config", str(file)) == (f"slackwater: The file {file} is not UTF-8 text. Use a properties file.\n")


def test_anonymous_clients_of_other_machines_are_refused(tmp_path: Path) -> None:
    assert _fail("--listen", "0.0.0.0:9092", "--data", str(tmp_path / "data")) == (
        "slackwater: 0.0.0.0:9092 is reachable from other machines, and the listener PLAINTEXT does not authenticate "
        "clients. Use SASL or client certificates, an address of 127.0.0.1, or --allow-anonymous.\n"
    )
    assert not (tmp_path / "data").exists()


def test_named_listeners_have_a_line_each(tmp_path: Path) -> None:
    more = ("--listen", "INTERNAL://127.0.0.1:0", "--set", "listener.security.protocol.map=INTERNAL:PLAINTEXT")
    with _running(tmp_path, *more, listen="PLAINTEXT://127.0.0.1:0") as program:
        first, second = program.lines(2)
        program.stop(signal.SIGTERM)
    assert first.startswith("Slackwater broker listening on 127.0.0.1:")
    assert second.startswith("Slackwater broker listening on 127.0.0.1:")
    assert first != second
    assert "for clients, listener INTERNAL with PLAINTEXT." in program.stderr
