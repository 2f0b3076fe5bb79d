"""Options that are read without Typer mean what Typer makes of them; what is not understood is left to it."""

import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from slackwater.cli.app import app
from slackwater.cli.broker import broker
from slackwater.cli.options import for_typer, read


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", {}),
        ("--listen h:1 --data d", {"listen": "h:1", "data": Path("d")}),
        ("--listen=h:1 --config=a=b", {"listen": "h:1", "config": Path("a=b")}),
        ("--set a=1 --set b=2", {"set_": ["a=1", "b=2"]}),
        ("--set=a=1 -q --until-eof", {"set_": ["a=1"], "quiet": True, "until_eof": True}),
        ("--listen h:1 --listen h:2", {"listen": "h:2"}),
    ],
)
def test_both_ways_of_reading_agree(line: str, expected: dict[str, object]) -> None:
    heard: list[dict[str, object]] = []

    def command(**arguments: object) -> None:
        heard.append(arguments)

    assert read(broker, line.split()) == expected
    command.__signature__ = for_typer(broker).__signature__  # type: ignore[attr-defined]
    program = typer.Typer()
    program.command()(command)
    assert CliRunner().invoke(program, line.split()).exit_code == 0
    defaults = {name: value for name, value in heard[0].items() if name not in expected}
    assert heard[0] == defaults | expected


@pytest.mark.parametrize(
    "line", ["--help", "--listen", "--listen --quiet", "--nope", "word", "--quiet=1", "-x", "-q=1"]
)
def test_what_is_not_understood_is_left_to_typer(line: str) -> None:
    assert read(broker, line.split()) is None


def test_typer_has_the_help_and_the_complaints() -> None:
    told = CliRunner().invoke(app, ["broker", "--help"]).output
    assert "--set NAME=VALUE" in told
    assert "Where to listen, HOST:PORT" in told
    assert CliRunner().invoke(app, ["broker", "--nope"]).exit_code == 2


def test_a_broker_starts_without_what_takes_long_to_load() -> None:
    """A broker listens after a fifth of a second, of which numpy or Typer alone would take more than half."""
    code = (
        "import sys; from slackwater.cli import main; import slackwater.cli.broker, slackwater.broker.process; "
        "print([name for name in ('numpy', 'typer', 'rich', 'crc32c', 'cramjam', 'prometheus_client') "
        "if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
