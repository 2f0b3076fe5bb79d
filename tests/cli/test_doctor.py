"""`slackwater doctor`: what it prints, its exit codes, and what it says to wrong input. Spark is not needed here."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from slackwater import Admin
from slackwater.cli.app import app
from slackwater.cli.doctor import escape_local_path, list_files, to_json, with_cluster_id
from slackwater.cli.spark_session import java_error
from slackwater.doctor.causes.finding import EvidenceLine
from slackwater.doctor.diagnosis import Diagnosis, DiagnosisRequest, exit_code
from slackwater.doctor.prescriptions import prescribe
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
def examined(monkeypatch: pytest.MonkeyPatch) -> list[DiagnosisRequest]:
    """Give the command a storm and a calm group, and note what it was asked."""
    asked: list[DiagnosisRequest] = []

    def diagnose(patient: DiagnosisRequest, master: str, conf: dict[str, str]) -> Diagnosis:
        asked.append(patient)
        return Diagnosis([healthy(), stormy()], [("server.log", 2, "what is this")])

    monkeypatch.setattr("slackwater.cli.doctor.run_diagnosis", diagnose)
    return asked


def run(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["doctor", *words])
    return result.exit_code, result.stdout, result.stderr


def test_verdict_has_cause_culprit_evidence_and_remedy(examined: list[DiagnosisRequest]) -> None:
    code, out, err = run("server.log")
    assert code == 1
    assert "orders: poll_delay, caused by b" in out
    assert "left the group: max.poll.interval.ms exceeded" in out
    assert "healthy: calm" in out
    assert "2 lines about groups not recognised" in err


def test_json_has_the_verdicts_by_cluster_and_group(examined: list[DiagnosisRequest]) -> None:
    code, out, _ = run("server.log", "--json")
    found = json.loads(out)["clusters"]["cluster"]["groups"]
    assert code == 1
    assert set(found) == {"calm", "orders"}
    assert list(found["orders"])[: len(KEYS)] == KEYS
    assert found["orders"]["culprits"] == ["b"]


def test_the_options_reach_the_job(examined: list[DiagnosisRequest], tmp_path: Path) -> None:
    run("a.log", "--group", "g", "--group", "h", "--since", "2026-01-01T00:00:00", "--clusters", str(tmp_path))
    patient = examined[0]
    assert list(patient.groups) == ["g", "h"]
    assert patient.since_ms == 1_767_225_600_000
    assert patient.clusters_dir == str(tmp_path.resolve())
    assert list(patient.paths) == ["a.log", str(tmp_path.resolve())]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Nothing to read"),
        (("--clusters", "/nowhere/at/all"), "is not a directory"),
        (("a.log", "--since", "yesterday"), "is not a time"),
        (("a.log", "--since", "2026-01-02", "--until", "2026-01-01"), "is later than"),
        (("a.log", "--conf", "spark.x"), "is not NAME=VALUE"),
        (("a.log", "--conf", "max.poll.records=1"), "is not a Spark setting"),
        (("a.log", ""), "--group is empty"),
        (("a.log", "--group", ""), "--group is empty"),
        (("a.log", "--zone", "+25:00"), "is not a time zone"),
        (("a.log", "--zone", "Mars/Olympus"), "is not a time zone"),
        (("a.log", "--zone", "eu/=Mars"), "is not a time zone"),
        (("a.log", "--html", "/nowhere/at/all/report.html"), "cannot be written"),
        (("a.log", "--html", "/"), "cannot be written"),
        (("/nowhere/server.log",), "/nowhere/server.log does not exist"),
        (("EMPTY_FILE",), "no file, or only empty files"),
        (("EMPTY_DIRECTORY",), "no file, or only empty files"),
        (("EMPTY_FILE", "EMPTY_DIRECTORY"), "no file, or only empty files"),
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
def test_exit_codes(verdicts: list[Verdict], code: int) -> None:
    assert exit_code(verdicts) == code


def test_unreachable_cluster_fails_before_spark_starts() -> None:
    code, out, err = run("--bootstrap", "127.0.0.1:1")
    assert (code, out) == (2, "")
    assert "127.0.0.1:1 could not be reached" in err
    assert err.count("\n") == 1


def test_missing_authorization_fails_before_spark_starts() -> None:
    with Kafka() as kafka, Admin({"bootstrap.servers": kafka.bootstrap_servers}) as admin:
        kafka.create_topic("t", 1)
        admin.alter_offsets("g", {TopicPartition("t", 0): 0})
        kafka.fail("Fetch", "TOPIC_AUTHORIZATION_FAILED", times=None)
        code, out, err = run("--bootstrap", kafka.bootstrap_servers, "--group", "g")
    assert (code, out) == (2, "")
    assert "not authorized to read __consumer_offsets" in err
    assert err.count("\n") == 1


def test_a_running_cluster_is_called_by_its_id() -> None:
    with Kafka() as kafka, Admin({"bootstrap.servers": kafka.bootstrap_servers}) as admin:
        patient = with_cluster_id(DiagnosisRequest(bootstrap=kafka.bootstrap_servers))
        assert patient.cluster == admin.cluster_id


def test_nothing_found_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slackwater.cli.doctor.run_diagnosis", lambda patient, master, conf: Diagnosis([]))
    code, _, err = run("--bootstrap", "localhost:9092", "--group", "ordres")
    assert code == 3
    assert err.startswith("slackwater: localhost:9092 contains nothing about group ordres")
    code, _, err = run("--bootstrap", "localhost:9092")
    assert code == 2
    assert "nothing about a consumer group" in err


def test_absent_group_is_reported(examined: list[DiagnosisRequest]) -> None:
    code, out, err = run("logs", "--group", "orders", "--group", "ordres")
    assert code == 1
    assert "orders: poll_delay" in out
    assert "The input contains nothing about group ordres" in err


def test_zones_for_all_files_or_by_path(examined: list[DiagnosisRequest]) -> None:
    run("a.log", "--zone", "Europe/Berlin", "--zone", "us-east/=America/New_York", "--zone", "b2.log=+02:00")
    assert examined[0].zone == "Europe/Berlin"
    assert examined[0].zones == {"us-east/": "America/New_York", "b2.log": "+02:00"}


def test_spark_start_error_is_one_line() -> None:
    printed = """An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
: org.apache.spark.SparkException: Could not parse Master URL: 'sparkk://x'
\tat org.apache.spark.SparkContext$.org$apache$spark$SparkContext$$createTaskScheduler(SparkContext.scala:3234)
"""
    assert java_error(printed) == "Could not parse Master URL: 'sparkk://x'"
    assert java_error("") == "Java gives no reason"


def test_verdicts_are_plain_values() -> None:
    json.dumps(to_json([stormy()]))


def test_sub_directories_that_are_links_are_clusters_too(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "server.log").write_text("a line")
    (tmp_path / "clusters").mkdir()
    (tmp_path / "clusters" / "east").symlink_to(tmp_path / "logs")
    (tmp_path / "clusters" / "round").symlink_to(tmp_path / "clusters")
    assert [file.name for file in list_files(tmp_path / "clusters")] == ["server.log"]


def test_verdict_is_printed_if_the_page_fails(examined: list[DiagnosisRequest]) -> None:
    code, out, err = run("server.log", "--html", "/dev/full")
    assert code == 3
    assert "orders: poll_delay, caused by b" in out
    assert "--html /dev/full cannot be written: No space left on device." in err


def test_unrecognised_lines_are_reported_with_json(monkeypatch: pytest.MonkeyPatch) -> None:
    unread = [(f"server-{at}.log", 2, "what is this") for at in range(5)]
    found = Diagnosis([healthy()], unread)
    monkeypatch.setattr("slackwater.cli.doctor.run_diagnosis", lambda patient, master, conf: found)
    code, out, err = run("logs", "--json")
    assert code == 0
    assert list(json.loads(out)) == ["clusters"]
    assert "server-2.log: 2 lines about groups not recognised" in err
    assert "4 lines about groups not recognised in 2 more files" in err


def test_settings_use_the_names_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    line = "2026-11-15 19:15:58,706 WARNING kafka.coordinator.base Consumer poll timeout has expired."
    seen = EvidenceLine(1, "client_log", "b polled late", "b.log:1", line)
    cures = prescribe("poll_delay", {"limit_ms": 4_000, "longest_ms": 6_000})
    found = Diagnosis([replace(stormy(), evidence=(seen,), prescriptions=cures)])
    monkeypatch.setattr("slackwater.cli.doctor.run_diagnosis", lambda patient, master, conf: found)
    _, out, _ = run("logs")
    assert "       max_poll_interval_ms=9000\n" in out
    assert "caution: max.poll.interval.ms is also the rebalance timeout" in out
    assert "setting names are those of kafka-python" in out


def test_missing_sources_of_healthy_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    calm = replace(healthy(), missing=("add the clients' logs",))
    monkeypatch.setattr("slackwater.cli.doctor.run_diagnosis", lambda patient, master, conf: Diagnosis([calm]))
    _, out, _ = run("logs")
    assert out == "healthy: calm\n  not certain for calm: add the clients' logs\n"


def test_root_cause_of_spark_error_is_reported() -> None:
    printed = """16:31:06 ERROR Backend: Application has been killed. Reason: All masters are unresponsive! Giving up.
: java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.
"""
    assert java_error(printed) == "All masters are unresponsive! Giving up."
    printed = "Invalid maximum heap size: -Xmxbanana\nError: Could not create the Java Virtual Machine.\n"
    assert java_error(printed) == "Invalid maximum heap size: -Xmxbanana"


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_full_disk_and_closed_reader(words: list[str]) -> None:
    code = (
        "import sys; from slackwater.cli import doctor, main; from slackwater.doctor.diagnosis import Diagnosis; "
        "from tests.doctor.scene import Scene; found = Diagnosis([Scene('calm').start('a', 'b').verdict()]); "
        f"doctor.run_diagnosis = lambda *_: found; sys.argv = ['slackwater', 'doctor', 'logs', *{words}]; main()"
    )
    root = Path(__file__).parents[2]

    def told(out: int) -> tuple[int, str]:
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, cwd=root, stdout=out, stderr=subprocess.PIPE, text=True, timeout=60)
        return done.returncode, done.stderr

    with Path("/dev/full").open("w") as full:
        said = "slackwater: The verdict cannot be written to standard output: No space left on device.\n"
        assert told(full.fileno()) == (3, said)
    read, write = os.pipe()
    os.close(read)
    try:
        assert told(write) == (0, "")
    finally:
        os.close(write)


def test_existing_path_is_not_a_pattern(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("b[1].log", "server:19.log"):
        (tmp_path / name).write_text("a line")
    assert escape_local_path("b[1].log") == r"b\[1\].log"
    assert escape_local_path("server:19.log") == str(tmp_path / "server:19.log")
    assert escape_local_path("b*.log") == "b*.log"
    assert escape_local_path("hdfs://namenode/logs") == "hdfs://namenode/logs"
