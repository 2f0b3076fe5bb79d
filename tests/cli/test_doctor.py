"""`slackwater doctor`: its output, its exit codes and its errors. These tests do not need Spark."""

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
from tests.doctor.scenario import Scenario

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
    return Scenario("calm").start("a", "b").verdict()


def stormy() -> Verdict:
    scenario = Scenario("orders").start("a", "b", "c")
    for second in (20, 40):
        scenario.leave("b", second, "consumer poll timeout has expired.")
        scenario.form(second + 0.5)
        scenario.join("b", second + 3)
        scenario.form(second + 3.5)
    return scenario.verdict()


def unknown_cause() -> Verdict:
    scenario = Scenario("odd").start("a", "b", "c")
    for second in (20, 40):
        scenario.leave("b", second)
        scenario.form(second + 0.5)
        scenario.join("b", second + 3)
        scenario.form(second + 3.5)
    return scenario.verdict()


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[DiagnosisRequest]:
    """Makes the command diagnose a storm and a healthy group, and returns the requests it sends."""
    requests: list[DiagnosisRequest] = []

    def diagnose(request: DiagnosisRequest, master: str, conf: dict[str, str]) -> Diagnosis:
        requests.append(request)
        return Diagnosis([healthy(), stormy()], [("server.log", 2, "an unknown line")])

    monkeypatch.setattr("slackwater.cli.doctor.run_diagnosis", diagnose)
    return requests


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["doctor", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_verdict_has_cause_culprit_evidence_and_remedy(requests: list[DiagnosisRequest]) -> None:
    code, out, err = run("server.log")
    assert code == 1
    assert "orders: poll_delay, caused by b" in out
    assert "left the group: max.poll.interval.ms exceeded" in out
    assert "healthy: calm" in out
    assert "2 lines about groups not recognised" in err


def test_json_has_the_verdicts_by_cluster_and_group(requests: list[DiagnosisRequest]) -> None:
    code, out, _ = run("server.log", "--json")
    groups = json.loads(out)["clusters"]["cluster"]["groups"]
    assert code == 1
    assert set(groups) == {"calm", "orders"}
    assert list(groups["orders"])[: len(KEYS)] == KEYS
    assert groups["orders"]["culprits"] == ["b"]


def test_options_are_passed_to_the_job(requests: list[DiagnosisRequest], tmp_path: Path) -> None:
    run("a.log", "--group", "g", "--group", "h", "--since", "2026-01-01T00:00:00", "--clusters", str(tmp_path))
    request = requests[0]
    assert list(request.groups) == ["g", "h"]
    assert request.since_ms == 1_767_225_600_000
    assert request.clusters_dir == str(tmp_path.resolve())
    assert list(request.paths) == ["a.log", str(tmp_path.resolve())]


@pytest.mark.parametrize(
    ("arguments", "message"),
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
        (("/nowhere/server.log",), "No such file or directory: /nowhere/server.log."),
        (("EMPTY_FILE",), "no file, or only empty files"),
        (("EMPTY_DIRECTORY",), "no file, or only empty files"),
        (("EMPTY_FILE", "EMPTY_DIRECTORY"), "no file, or only empty files"),
        (("--bootstrap", "no port"), "no port"),
    ],
)
def test_wrong_input_is_one_sentence_and_exit_code_3(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    (tmp_path / "empty.log").touch()
    (tmp_path / "empty").mkdir()
    paths = {"EMPTY_FILE": tmp_path / "empty.log", "EMPTY_DIRECTORY": tmp_path / "empty"}
    code, out, err = run(*(str(paths.get(argument, argument)) for argument in arguments))
    assert (code, out) == (3, "")
    assert err.startswith("slackwater: ")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        ([healthy()], 0),
        ([healthy(), stormy()], 1),
        ([healthy(), unknown_cause()], 2),
        ([unknown_cause(), stormy()], 1),
        ([], 2),
    ],
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


def test_running_cluster_is_named_by_its_id() -> None:
    with Kafka() as kafka, Admin({"bootstrap.servers": kafka.bootstrap_servers}) as admin:
        request = with_cluster_id(DiagnosisRequest(bootstrap=kafka.bootstrap_servers))
        assert request.cluster == admin.cluster_id


def test_nothing_found_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slackwater.cli.doctor.run_diagnosis", lambda request, master, conf: Diagnosis([]))
    code, _, err = run("--bootstrap", "localhost:9092", "--group", "ordres")
    assert code == 3
    assert err.startswith("slackwater: localhost:9092 contains nothing about group ordres")
    code, _, err = run("--bootstrap", "localhost:9092")
    assert code == 2
    assert "nothing about a consumer group" in err


def test_absent_group_is_reported(requests: list[DiagnosisRequest]) -> None:
    code, out, err = run("logs", "--group", "orders", "--group", "ordres")
    assert code == 1
    assert "orders: poll_delay" in out
    assert "The input contains nothing about group ordres" in err


def test_zones_for_all_files_or_by_path(requests: list[DiagnosisRequest]) -> None:
    run("a.log", "--zone", "Europe/Berlin", "--zone", "us-east/=America/New_York", "--zone", "b2.log=+02:00")
    assert requests[0].zone == "Europe/Berlin"
    assert requests[0].zones == {"us-east/": "America/New_York", "b2.log": "+02:00"}


def test_spark_start_error_is_one_line() -> None:
    printed = """An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
: org.apache.spark.SparkException: Could not parse Master URL: 'sparkk://x'
\tat org.apache.spark.SparkContext$.org$apache$spark$SparkContext$$createTaskScheduler(SparkContext.scala:3234)
"""
    assert java_error(printed) == "Could not parse Master URL: 'sparkk://x'"
    assert java_error("") == "Java gives no reason"


def test_verdicts_are_plain_values() -> None:
    json.dumps(to_json([stormy()]))


def test_linked_sub_directories_are_clusters(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "server.log").write_text("a line")
    (tmp_path / "clusters").mkdir()
    (tmp_path / "clusters" / "east").symlink_to(tmp_path / "logs")
    (tmp_path / "clusters" / "round").symlink_to(tmp_path / "clusters")
    assert [file.name for file in list_files(tmp_path / "clusters")] == ["server.log"]


def test_verdict_is_printed_if_the_page_fails(requests: list[DiagnosisRequest]) -> None:
    code, out, err = run("server.log", "--html", "/dev/full")
    assert code == 3
    assert "orders: poll_delay, caused by b" in out
    assert "--html /dev/full cannot be written: No space left on device." in err


def test_unrecognised_lines_are_reported_with_json(monkeypatch: pytest.MonkeyPatch) -> None:
    unrecognized = [(f"server-{number}.log", 2, "an unknown line") for number in range(5)]
    diagnosis = Diagnosis([healthy()], unrecognized)
    monkeypatch.setattr("slackwater.cli.doctor.run_diagnosis", lambda request, master, conf: diagnosis)
    code, out, err = run("logs", "--json")
    assert code == 0
    assert list(json.loads(out)) == ["clusters"]
    assert "server-2.log: 2 lines about groups not recognised" in err
    assert "4 lines about groups not recognised in 2 more files" in err


def test_settings_use_the_names_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    line = "2026-11-15 19:15:58,706 WARNING kafka.coordinator.base Consumer poll timeout has expired."
    evidence = EvidenceLine(1, "client_log", "b polled late", "b.log:1", line)
    prescriptions = prescribe("poll_delay", {"limit_ms": 4_000, "longest_ms": 6_000})
    diagnosis = Diagnosis([replace(stormy(), evidence=(evidence,), prescriptions=prescriptions)])
    monkeypatch.setattr("slackwater.cli.doctor.run_diagnosis", lambda request, master, conf: diagnosis)
    _, out, _ = run("logs")
    assert "       max_poll_interval_ms=9000\n" in out
    assert "caution: max.poll.interval.ms is also the rebalance timeout" in out
    assert "setting names are those of kafka-python" in out


def test_missing_sources_of_healthy_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    calm = replace(healthy(), missing=("add the clients' logs",))
    monkeypatch.setattr("slackwater.cli.doctor.run_diagnosis", lambda request, master, conf: Diagnosis([calm]))
    _, out, _ = run("logs")
    assert out == "healthy: calm\n  not certain for calm: add the clients' logs\n"


def test_root_cause_of_spark_error_is_reported() -> None:
    printed = """16:31:06 ERROR Backend: Application has been killed. Reason: All masters are unresponsive! Giving up.
: java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.
"""
    assert java_error(printed) == "All masters are unresponsive! Giving up."
    printed = "Invalid maximum heap size: -Xmxbanana\nError: Could not create the Java Virtual Machine.\n"
    assert java_error(printed) == "Invalid maximum heap size: -Xmxbanana"


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_full_disk_and_closed_reader(options: list[str]) -> None:
    code = (
        "import sys; from slackwater.cli import doctor, main; from slackwater.doctor.diagnosis import Diagnosis; "
        "from tests.doctor.scenario import Scenario; "
        "diagnosis = Diagnosis([Scenario('calm').start('a', 'b').verdict()]); "
        f"doctor.run_diagnosis = lambda *_: diagnosis; sys.argv = ['slackwater', 'doctor', 'logs', *{options}]; main()"
    )
    root = Path(__file__).parents[2]

    def run_with_stdout(out: int) -> tuple[int, str]:
        command = [sys.executable, "-c", code]
        result = subprocess.run(command, cwd=root, stdout=out, stderr=subprocess.PIPE, text=True, timeout=60)
        return result.returncode, result.stderr

    with Path("/dev/full").open("w") as full:
        error = "slackwater: The verdict cannot be written to standard output: No space left on device.\n"
        assert run_with_stdout(full.fileno()) == (3, error)
    read, write = os.pipe()
    os.close(read)
    try:
        assert run_with_stdout(write) == (0, "")
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
