"""`slackwater doctor`: what it prints, its exit codes, and what it says to wrong input. Spark is not needed here."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from slackwater import Admin
from slackwater.cli.app import app
from slackwater.cli.doctor import _named, _why, to_json
from slackwater.doctor.examination import Diagnosis, Patient, exit_code
from slackwater.doctor.verdict import Verdict
from slackwater.group.topic_partition import TopicPartition
from slackwater.testing.kafka import Kafka
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
        (("a.log", "--zone", "Mars/Olympus"), "names no zone"),
        (("a.log", "--zone", "eu/=Mars"), "names no zone"),
        (("a.log", "--html", "/nowhere/at/all/report.html"), "cannot be written"),
        (("a.log", "--html", "/"), "cannot be written"),
        (("/nowhere/server.log",), "Nothing is at /nowhere/server.log"),
        (("EMPTY_FILE",), "no file, or only empty ones"),
        (("EMPTY_DIRECTORY",), "no file, or only empty ones"),
        (("EMPTY_FILE", "EMPTY_DIRECTORY"), "no file, or only empty ones"),
        (("--bootstrap", "no port"), "no port"),
    ],
)
def test_wrong_input_is_one_sentence_and_exit_code_3(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    (tmp_path / "empty.log").touch()
    (tmp_path / "empty").mkdir()
    places = {"EMPTY_FILE": tmp_path / "empty.log", "EMPTY_DIRECTORY": tmp_path / "empty"}
    code, out, err = run(*(str(places.get(word, word)) for word in words))
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


def test_a_cluster_that_cannot_be_reached_is_told_before_spark_is_started() -> None:
    code, out, err = run("--bootstrap", "127.0.0.1:1")
    assert (code, out) == (2, "")
    assert "127.0.0.1:1 could not be reached" in err
    assert err.count("\n") == 1


def test_no_right_to_read_the_offsets_is_told_before_spark_is_started() -> None:
    with Kafka() as kafka, Admin({"bootstrap.servers": kafka.bootstrap_servers}) as admin:
        kafka.create_topic("t", 1)
        admin.alter_offsets("g", {TopicPartition("t", 0): 0})
        kafka.fail("Fetch", "TOPIC_AUTHORIZATION_FAILED", times=None)
        code, out, err = run("--bootstrap", kafka.bootstrap_servers, "--group", "g")
    assert (code, out) == (2, "")
    assert "does not let this user read __consumer_offsets. Ask for the right to read it" in err
    assert err.count("\n") == 1


def test_a_running_cluster_is_called_by_its_id() -> None:
    with Kafka() as kafka, Admin({"bootstrap.servers": kafka.bootstrap_servers}) as admin:
        patient = _named(Patient(bootstrap=kafka.bootstrap_servers))
        assert patient.cluster == admin.cluster_id


def test_what_is_found_nowhere_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slackwater.cli.doctor._examined", lambda patient, master, conf: Diagnosis([]))
    code, _, err = run("--bootstrap", "localhost:9092", "--group", "ordres")
    assert code == 3
    assert err.startswith("slackwater: Nothing at localhost:9092 is about the group ordres")
    code, _, err = run("--bootstrap", "localhost:9092")
    assert code == 2
    assert "is about a consumer group" in err


def test_zones_are_given_for_all_files_or_by_a_part_of_their_path(examined: list[Patient]) -> None:
    run("a.log", "--zone", "Europe/Berlin", "--zone", "us-east/=America/New_York", "--zone", "b2.log=+02:00")
    assert examined[0].zone == "Europe/Berlin"
    assert examined[0].zones == {"us-east/": "America/New_York", "b2.log": "+02:00"}


def test_why_spark_does_not_start_is_one_line_of_what_java_says() -> None:
    printed = """An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
: org.apache.spark.SparkException: Could not parse Master URL: 'sparkk://x'
\tat org.apache.spark.SparkContext$.org$apache$spark$SparkContext$$createTaskScheduler(SparkContext.scala:3234)
"""
    assert _why(printed) == "Could not parse Master URL: 'sparkk://x'"
    assert _why("") == "Java does not say why"


def test_verdicts_are_plain_values() -> None:
    json.dumps(to_json([stormy()]))
