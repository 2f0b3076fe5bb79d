"""`slackwater soak`: reports, replay and errors."""

import json
import subprocess
import sys

import pytest

from slackwater.cli.app import app
from slackwater.sim import soak
from slackwater.sim.simulation import Simulation
from slackwater.sim.soak import Failure

from ..sim.broken_machines import BROKEN


def _slackwater(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from slackwater.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_soak_without_failures_exits_0() -> None:
    result = _slackwater("soak", "--runs", "3")

    assert result.returncode == 0
    assert result.stdout.startswith("3 runs, 0 failed: ")


def test_soak_report_as_json() -> None:
    report = json.loads(_slackwater("soak", "--runs", "2", "--seed", "5", "--json").stdout)

    assert report["runs"] == 2
    assert report["failures"] == []


def test_replay_prints_the_events_of_a_seed() -> None:
    result = _slackwater("soak", "--replay", "3")

    assert result.returncode == 0
    assert "rebalance_completed" in result.stdout
    assert result.stdout.endswith("seed 3: all checks passed\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--runs", "0"), "slackwater: --runs is 0; use 1 or more.\n"),
        (("--keep-going", "0"), "slackwater: --keep-going is 0; use 1 or more.\n"),
    ],
)
def test_invalid_number_is_exit_code_2(arguments: tuple[str, ...], message: str) -> None:
    result = _slackwater("soak", *arguments)

    assert (result.returncode, result.stderr, result.stdout) == (2, message, "")


def test_ctrl_c_prints_the_report_and_exits_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    original = soak.run_seed

    def interrupt_seed_2(seed: int) -> tuple[Simulation, Failure | None]:
        if seed == 2:
            raise KeyboardInterrupt
        return original(seed)

    monkeypatch.setattr(soak, "run_seed", interrupt_seed_2)
    with pytest.raises(SystemExit) as exited:
        app(["soak", "--runs", "50"])

    assert exited.value.code == 130
    assert capsys.readouterr().out.startswith("2 runs, 0 failed: ")


def test_version_option() -> None:
    assert _slackwater("--version").stdout.startswith("slackwater 0.")


def test_failed_check_is_reported_with_its_replay(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    BROKEN["generation_is_not_counted_up"](monkeypatch)
    with pytest.raises(SystemExit) as exited:
        app(["soak", "--runs", "50"])

    assert exited.value.code == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("seed ")
    assert any(line.startswith("replay: .venv/bin/slackwater soak --replay ") for line in lines)
    with pytest.raises(SystemExit) as replayed:
        app(["soak", "--replay", lines[0].split()[1].rstrip(":")])
    assert replayed.value.code == 1
