"""A broker for the commands to work on, and the program as a function."""

import io
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from slackwater import Admin, Broker, Producer
from slackwater.cli import main


class Done(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str


Command = Callable[..., Done]


class Terminal(io.TextIOWrapper):
    """Standard input with a person in front of it."""

    def isatty(self) -> bool:
        """Yes."""
        return True


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker with topics `orders` (three partitions of ten records) and `payments` (one, empty)."""
    with Broker(settings={"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 500}) as one:
        one.create_topic("orders", 3)
        one.create_topic("payments", 1)
        with Producer({"bootstrap.servers": one.bootstrap_servers}) as producer:
            for number in range(30):
                producer.send("orders", f"v{number}", partition=number % 3, timestamp_ms=1000 * number)
        yield one


@pytest.fixture(scope="module")
def admin(broker: Broker) -> Iterator[Admin]:
    with Admin({"bootstrap.servers": broker.bootstrap_servers}) as one:
        yield one


@pytest.fixture
def slackwater(broker: Broker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command line in this process, on the broker."""
    monkeypatch.setenv("SLACKWATER_BOOTSTRAP", broker.bootstrap_servers)

    def run(*words: object, stdin: str = "", kind: type[io.TextIOWrapper] = io.TextIOWrapper) -> Done:
        monkeypatch.setattr(sys, "argv", ["slackwater", *map(str, words)])
        monkeypatch.setattr(sys, "stdin", kind(io.BytesIO(stdin.encode())))
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        code = ended.value.code
        assert code is None or isinstance(code, int)
        return Done(code or 0, said.out, said.err)

    return run
