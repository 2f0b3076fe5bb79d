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


def test_late_flush_error_is_reported() -> None:
    """A command that only fills the buffer fails at the flush, not at interpreter exit."""
    code = "import sys; from slackwater.cli import app, entry_point; app.app = lambda: print('x'); entry_point.main()"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, env=environment
        )
    assert (result.returncode, result.stderr) == (1, FULL)


def test_broker_help_and_usage_errors() -> None:
    output = CliRunner().invoke(app, ["broker", "--help"]).output
    assert "--set NAME=VALUE" in output
    assert CliRunner().invoke(app, ["broker", "--nope"]).exit_code == 2


def test_program_does_not_import_slow_libraries() -> None:
    code = (
        "import sys; import slackwater.cli.app, slackwater.broker.process; "
        "print([name for name in ('numpy', 'rich', 'crc32c', 'cramjam', 'prometheus_client', 'pyarrow') "
        "if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"
