"""`slackwater doctor`: what it prints, its exit codes, and what it says to wrong input. Spark is not needed here."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from slackwater.cli.app import app
from slackwater.cli.doctor import to_json
from slackwater.doctor.examination import Diagnosis, Patient, exit_code
from slackwater.doctor.verdict import Verdict
from tests.doctor.scene import Scene

KEYS = [
    "cause",
    "action_needed",
    "storm",
    "culprits",
    "rebalances",
    "changes",
    "confidence",
    "evidence",
    "prescriptions",
    "episodes",
]


def healthy() -> Verdict:
    return Scene("calm").start("a", "b").verdict()


def stormy() -> Verdict:
    scene = Scene("orders").start("a", "b", "c")
    for at in (20, 40):
        scene.leave("b", at, "consumer poll timeout has expired.")
        scene.form(at + 0.5)
        scene.join("b", at + 3)
        scene.form(at + 3.5)
    return scene.verdict()


def untold() -> Verdict:
    scene = Scene("odd").start("a", "b", "c")
    for at in (20, 40):
        scene.leave("b", at)
        scene.form(at + 0.5)
        scene.join("b", at + 3)
        scene.form(at + 3.5)
    return scene.verdict()


@pytest.fixture
def examined(monkeypatch: pytest.MonkeyPatch) -> list[Patient]:
    """Give the command a storm and a calm group, and note what it was asked."""
    asked: list[Patient] = []

    def examine(patient: Patient, master: str, conf: dict[str, str]) -> Diagnosis:
        asked.append(patient)
        return Diagnosis([healthy(), stormy()], [("server.log", 2, "what is this")])

    monkeypatch.setattr("slackwater.cli.doctor._examined", examine)
    return asked


def run(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["doctor", *words])
    return result.exit_code, result.stdout, result.stderr


def test_the_verdict_names_cause_and_culprit_with_its_evidence_and_what_to_do(examined: list[Patient]) -> None:
    code, out, err = run("server.log")
    assert code == 1
    assert "orders: poll_delay, by b" in out
    assert "left the group, put out by its poll timer" in out
    assert "healthy: calm" in out
    assert "2 lines about groups not understood" in err


def test_json_has_the_verdicts_by_cluster_and_group(examined: list[Patient]) -> None:
    code, out, _ = run("server.log", "--json")
    found = json.loads(out)["clusters"]["cluster"]["groups"]
    assert code == 1
    assert set(found) == {"calm", "orders"}
    assert list(found["orders"])[: len(KEYS)] == KEYS
    assert found["orders"]["culprits"] == ["b"]


def test_the_options_reach_the_job(examined: list[Patient], tmp_path: Path) -> None:
    run("a.log", "--group", "g", "--group", "h", "--since", "2026-01-01T00:00:00", "--clusters", str(tmp_path))
    patient = examined[0]
    assert list(patient.groups) == ["g", "h"]
    assert patient.since_ms == 1_767_225_600_000
    assert patient.below == str(tmp_path.resolve())
    assert list(patient.paths) == ["a.log", str(tmp_path.resolve())]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Nothing to read"),
        (("--clusters", "/nowhere/at/all"), "is no directory"),
        (("a.log", "--since", "yesterday"), "is no time"),
        (("a.log", "--since", "2026-01-02", "--until", "2026-01-01"), "is later than"),
        (("a.log", "--conf", "spark.x"), "is no NAME=VALUE"),
    ],
)
def test_wrong_input_is_one_sentence_and_exit_code_3(words: tuple[str, ...], said: str) -> None:
    code, out, err = run(*words)
    assert (code, out) == (3, "")
    assert err.startswith("slackwater: ")
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [([healthy()], 0), ([healthy(), stormy()], 1), ([healthy(), untold()], 2), ([untold(), stormy()], 1), ([], 2)],
)
def test_exit_codes_tell_calm_from_action_and_from_not_knowing(verdicts: list[Verdict], code: int) -> None:
    assert exit_code(verdicts) == code


def test_verdicts_are_plain_values() -> None:
    json.dumps(to_json([stormy()]))
