"""The entry point: exit codes and output that cannot be written."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from slackwater.cli.app import app

FULL = "slackwater: The output cannot be written: No space left on device.\n"


def _run(arguments: list[str], stdout: int, *, buffered: bool) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    if not buffered:
        environment["PYTHONUNBUFFERED"] = "1"
    return subprocess.run(
        [sys.executable, "-m", "slackwater", *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        env=environment,
    )


@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize(("arguments", "code"), [(["watch", "--prometheus"], 3), (["--version"], 1), (["--help"], 1)])
def test_full_disk_prints_one_sentence(arguments: list[str], code: int, buffered: bool) -> None:
    with Path("/dev/full").open("w") as full:
        result = _run(arguments, full.fileno(), buffered=buffered)
    assert (result.returncode, result.stderr) == (code, FULL)


@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize(("arguments", "code"), [(["watch", "--prometheus"], 2), (["--version"], 1)])
def test_closed_reader_is_silent(arguments: list[str], code: int, buffered: bool) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        result = _run(arguments, write, buffered=buffered)
    finally:
        os.close(write)
    assert (result.returncode, result.stderr) == (code, "")


@pytest.mark.parametrize(("stream", "code"), [("0<&-", 3), ("1>&-", 1), ("2>&-", 1)])
def test_closed_standard_stream_is_the_null_device(stream: str, code: int, tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text(
        "%4|1763234567.1|MAXPOLL|a#consumer-1| [thrd:main]: Application maximum poll interval (5000ms) "
        "exceeded by 195ms (adjust max.poll.interval.ms for long-running message processing): leaving group\n"
    )
    paths = "-" if code == 3 else str(log)
    result = subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" -m slackwater doctor "$1" {stream}', sys.executable, paths],
        capture_output=True,
        text=True,
        timeout=120,
    )
    empty = "slackwater: Standard input is empty. Pipe log lines into it.\n"
    assert (result.returncode, result.stderr) == (code, empty if code == 3 else "")


def test_late_flush_error_is_reported() -> None:
    """A command that only fills the buffer fails at the flush, not at interpreter exit."""
    code = "import sys; from slackwater.cli import app, entry_point; app.app = lambda: print('x'); entry_point.main()"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, env=environment
        )
    assert (result.returncode, result.stderr) == (1, FULL)


@pytest.mark.parametrize("program", [["-m", "slackwater"], ["-c", "from slackwater.cli.app import app; app()"]])
def test_broker_help_and_usage_errors(program: list[str]) -> None:
    """The command has the same help with and without Typer."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *program, "broker", *arguments], capture_output=True, text=True, timeout=120
        )

    shown = run("--help")
    assert shown.returncode == 0
    assert "--set NAME=VALUE" in shown.stdout
    rejected = run("--nope")
    assert (rejected.returncode, rejected.stdout) == (2, "")
    assert "unrecognized arguments: --nope" in rejected.stderr


def test_help_lists_all_commands() -> None:
    output = CliRunner().invoke(app, ["--help"]).output
    listed = [line.split()[0] for line in output.partition("Commands:\n")[2].splitlines() if line.strip()]
    assert sorted(listed) == [
        "broker",
        "consume",
        "demo",
        "doctor",
        "groups",
        "produce",
        "soak",
        "topics",
        "watch",
    ]
    assert "Run a broker that any Kafka client can use." in output


def test_unknown_command_is_a_usage_error() -> None:
    result = _run(["brokr"], subprocess.PIPE, buffered=True)
    assert result.returncode == 2
    assert "No such command 'brokr'" in result.stderr


def _imported(code: str, names: tuple[str, ...]) -> str:
    """Run the code in a new interpreter; return which of the modules it has imported."""
    code += f"; print([name for name in {names!r} if name in sys.modules])"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_program_does_not_import_slow_libraries() -> None:
    names = ("numpy", "rich", "crc32c", "cramjam", "prometheus_client", "pyarrow")
    assert _imported("import sys, slackwater.cli.app, slackwater.broker.startup", names) == "[]\n"


def test_broker_imports_no_other_command() -> None:
    code = (
        "import sys, unittest; from slackwater.cli import broker, main; "
        "broker.run = lambda serving: serving.close(); sys.argv = ['slackwater', 'broker']; "
        "unittest.TestCase().assertRaises(SystemExit, main)"
    )
    names = ("typer", "pydantic", "rich", "numpy", "pyarrow", "slackwater.cli.app", "slackwater.cli.topics")
    assert _imported(code, ("slackwater.broker.startup", *names)) == "['slackwater.broker.startup']\n"
