"""A broker for the commands, and the program as a function."""

import io
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from slackwater import Admin, Broker, Producer
from slackwater.cli import main


class CommandResult(NamedTuple):
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str


Command = Callable[..., CommandResult]


class Terminal(io.TextIOWrapper):
    """Standard input that is a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker with the topics `orders` (three partitions of ten records) and `payments` (one empty partition)."""
    with Broker(settings={"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 500}) as running:
        running.create_topic("orders", 3)
        running.create_topic("payments", 1)
        with Producer({"bootstrap.servers": running.bootstrap_servers}) as producer:
            for number in range(30):
                producer.send("orders", f"v{number}", partition=number % 3, timestamp_ms=1000 * number)
        yield running


@pytest.fixture(scope="module")
def admin(broker: Broker) -> Iterator[Admin]:
    with Admin({"bootstrap.servers": broker.bootstrap_servers}) as connected:
        yield connected


@pytest.fixture
def slackwater(broker: Broker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Returns a function that runs a command line in this process, on the broker."""
    monkeypatch.setenv("SLACKWATER_BOOTSTRAP", broker.bootstrap_servers)

    def run(*arguments: object, stdin: str = "", kind: type[io.TextIOWrapper] = io.TextIOWrapper) -> CommandResult:
        monkeypatch.setattr(sys, "argv", ["slackwater", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", kind(io.BytesIO(stdin.encode())))
        capsys.readouterr()
        with pytest.raises(SystemExit) as exited:
            main()
        captured = capsys.readouterr()
        code = exited.value.code
        assert code is None or isinstance(code, int)
        return CommandResult(code or 0, captured.out, captured.err)

    return run
