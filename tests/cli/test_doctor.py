"""`slackwater doctor`: its output, its exit codes and its errors. These tests do not need Spark."""

import bz2
import fcntl
import gzip
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import cramjam
import pytest
from typer.testing import CliRunner

from slackwater import Admin
from slackwater.cli.app import app
from slackwater.cli.doctor import escape_local_path, needs_spark, to_json, with_cluster_id
from slackwater.cli.doctor_output import shorten_log_line
from slackwater.cli.spark_session import java_error
from slackwater.doctor.causes.finding import EvidenceLine, Finding
from slackwater.doctor.diagnosis import Diagnosis, DiagnosisRequest, exit_code
from slackwater.doctor.history.files import list_local_files
from slackwater.doctor.prescriptions.choice import choose_remedies
from slackwater.doctor.prescriptions.prescription import Prescription
from slackwater.doctor.prescriptions.rendering import render
from slackwater.doctor.verdict import Verdict, with_library
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


def prescribe(cause: str, figures: Mapping[str, int]) -> tuple[Prescription, ...]:
    return render(choose_remedies(cause, figures), None, figures)


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
        (
            ("a.log", "--html", "/nowhere/at/all/report.html"),
            "cannot be written: its directory does not exist. Create the directory /nowhere/at/all first.",
        ),
        (("a.log", "--html", "/"), "--html / cannot be written: it is a directory. Choose another file."),
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
    assert "User:ANONYMOUS needs an ACL for Read on topic __consumer_offsets" in err
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
    assert [Path(file.path).name for file in list_local_files([str(tmp_path / "clusters")])] == ["server.log"]


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


def test_unknown_lines_are_printed_without_names(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_text("12:00:01 group orders-7 is rebalancing slowly\n" * 2)
    code, out, _ = run("--unknown", str(tmp_path))
    assert code == 0
    assert "2 x, first at app.log:1\n    <time> group <name> is rebalancing slowly\n" in out


def test_unknown_lines_of_standard_input() -> None:
    result = CliRunner().invoke(app, ["doctor", "--unknown", "-"], input="12:00:01 group a-7 is rebalancing slowly\n")
    assert result.exit_code == 0
    assert "1 x, first at standard input:1\n    <time> group <name> is rebalancing slowly\n" in result.stdout


def test_files_that_are_not_read_need_no_spark(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_text(STORM)
    (tmp_path / ".old.log.lz4").write_text(STORM)
    with (tmp_path / "_large.log").open("w") as large:
        large.truncate(65_000_000)
    assert needs_spark(DiagnosisRequest(paths=[str(tmp_path)])) is None


def test_directory_with_hidden_files_only_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / ".app.log").write_text(STORM)
    code, out, err = run(str(tmp_path))
    assert (code, out) == (3, "")
    assert "names begin with . or _ are not read" in err


def test_settings_use_the_names_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    line = "2026-11-15 19:15:58,706 WARNING kafka.coordinator.base Consumer poll timeout has expired."
    evidence = EvidenceLine(1, "client_log", "b polled late", "b.log:1", line)
    remedies = choose_remedies("poll_delay", {"limit_ms": 4_000, "longest_ms": 6_000})
    diagnosis = Diagnosis([with_library(replace(stormy(), evidence=(evidence,), remedies=remedies))])
    monkeypatch.setattr("slackwater.cli.doctor.run_diagnosis", lambda request, master, conf: diagnosis)
    _, out, _ = run("logs")
    assert "       max_poll_interval_ms=9000,\n" in out
    assert "caution: max_poll_interval_ms is also the rebalance timeout" in out
    assert "setting names are those of kafka-python" in out


def test_unknown_library_gets_the_settings_of_java(monkeypatch: pytest.MonkeyPatch) -> None:
    diagnosis = Diagnosis([replace(stormy(), library=None, prescriptions=prescribe("scale_out", {}))])
    monkeypatch.setattr("slackwater.cli.doctor.run_diagnosis", lambda request, master, conf: diagnosis)
    _, out, _ = run("logs")
    assert "# second deploy, after all members have the first\n" in out
    assert "     set in the configuration of every consumer of the group; then restart them:\n       #" in out
    assert "the client library is not known; settings as for Java" in out


def printed(monkeypatch: pytest.MonkeyPatch, *verdicts: Verdict) -> str:
    monkeypatch.setattr("slackwater.cli.doctor.run_diagnosis", lambda request, master, conf: Diagnosis(verdicts))
    return run("logs")[1]


def grown(group: str, *, members: int = 1) -> Verdict:
    scenario = Scenario(group).start("a", "b")
    for number in range(members):
        scenario.join(f"c{number}", 60 + number)
    scenario.form(64)
    return scenario.verdict()


def test_expected_change_says_why_nothing_is_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    why = "a rebalance is expected when members are added; the last rebalance completed"
    verdict = grown("orders")
    assert f"nothing to do: {why}\n" in printed(monkeypatch, verdict)
    assert verdict.to_json()["no_action"] == why
    assert "nothing to do" not in printed(monkeypatch, stormy(), unknown_cause())


def test_names_are_printed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert printed(monkeypatch, grown("g", members=2)).startswith("g: scale_out: 2 members joined: ")


def test_healthy_groups_of_several_clusters_have_their_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = [replace(healthy(), cluster=name) for name in ("eu", "us")]
    assert "healthy: calm (eu), calm (us)\n" in printed(monkeypatch, *verdicts)


def test_blocked_heartbeats_are_not_called_a_poll_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = replace(stormy(), figures={"handler_blocks": 1, "session_ms": 4_000})
    assert "  a handler blocks heartbeats for longer than session.timeout.ms" in printed(monkeypatch, verdict)


def test_few_rebalances_are_no_storm(monkeypatch: pytest.MonkeyPatch) -> None:
    assert " (a rebalance storm); " in printed(monkeypatch, stormy())
    assert " (it recurs); " in printed(monkeypatch, replace(stormy(), rebalances=2))


def test_other_causes_say_where_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    out = printed(monkeypatch, replace(stormy(), alternatives=("crash_loop", "known_bug")))
    assert "causes: crash_loop (look at the exit codes and restart counts of the processes), known_bug\n" in out


def test_other_findings_are_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    eager = Finding("eager_stop_the_world", (), (1, 2), 0.8, figures={"stopped_ms": 2_044, "rounds": 2})
    loop = Finding("crash_loop", ("b-1",), (1, 2, 3), 0.8, figures={"uptime_ms": 7_514})
    out = printed(monkeypatch, replace(stormy(), other_findings=(eager, loop)))
    assert "  also: every rebalance stops all members (eager protocol), 2.0 s in 2 rebalances\n" in out
    ran = "b-1: stopped and restarted 3 times; the shortest run was 7.5 s"
    assert f"  also: a process crashes and restarts repeatedly: {ran}\n" in out
    conflict = replace(stormy(), cause="instance_id_conflict", culprits=("b-1", "x"), other_findings=(loop,))
    assert f"{ran} (most likely the same problem: two processes that replace each other look like that)\n" in printed(
        monkeypatch, conflict
    )


@pytest.mark.parametrize(
    ("cause", "relation"),
    [
        ("crash_loop", "caused by"),
        ("rolling_restart", "members"),
        ("shared_group_id", "rebalances triggered by"),
    ],
)
def test_title_says_what_the_named_members_did(monkeypatch: pytest.MonkeyPatch, cause: str, relation: str) -> None:
    verdict = replace(stormy(), cause=cause, culprits=("x",), headline="5 rebalances")
    assert f"orders: {cause}, {relation} x; 5 rebalances\n" in printed(monkeypatch, verdict)


def test_library_is_named_without_a_line_to_paste(monkeypatch: pytest.MonkeyPatch) -> None:
    advised = replace(stormy(), prescriptions=prescribe("crash_loop", {}))
    assert "client library" not in printed(monkeypatch, advised)
    assert "  the client library is kafkajs\n" in printed(monkeypatch, replace(advised, library="kafkajs"))


def test_second_cause_needs_advice_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    advised = replace(stormy(), prescriptions=prescribe("crash_loop", {}))
    assert "  what to do; try in this order, stop when it helps:\n" in printed(monkeypatch, advised)
    two_causes = replace(advised, other_findings=(Finding("poll_delay", ("a",), (1,), 0.8),))
    assert "  what to do, in this order:\n" in printed(monkeypatch, two_causes)


def test_missing_source_of_some_healthy_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    some, other = (
        replace(healthy(), missing_input=("add the logs",)),
        replace(healthy(), group="still", missing_input=()),
    )
    assert "  not certain for calm: add the logs\n" in printed(monkeypatch, some, other)


def test_groups_with_the_same_evidence_share_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    first, other = grown("orders"), grown("bills", members=2)
    second = replace(first, group="payments", rebalances=first.rebalances + 1)
    out = printed(monkeypatch, first, other, second)
    assert "orders, payments: scale_out" in out
    assert f"{first.rebalances} to {second.rebalances} rebalances per group" in out
    assert out.count("evidence:") == 2
    assert "bills: scale_out" in out


def test_incident_has_its_first_and_last_time(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = stormy()
    began = datetime.fromtimestamp(verdict.incident_began_ms // 1000, UTC)
    assert verdict.began_ms + 19_000 <= verdict.incident_began_ms <= verdict.began_ms + 21_000
    assert verdict.incident_ended_ms == verdict.ended_ms
    out = printed(monkeypatch, verdict)
    assert f"  when: {began:%Y-%m-%d %H:%M:%S} to " in out
    assert " UTC; no later line about any group: it may still be going on\n" in out
    later = replace(healthy(), ended_ms=verdict.ended_ms + 7_200_000)
    assert " UTC; the last line about any group is 120 min later\n" in printed(monkeypatch, verdict, later)


def test_missing_sources_of_healthy_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    calm = replace(healthy(), missing_input=("add the clients' logs",))
    monkeypatch.setattr("slackwater.cli.doctor.run_diagnosis", lambda request, master, conf: Diagnosis([calm]))
    _, out, _ = run("logs")
    assert out == "healthy: calm\n  not certain: add the clients' logs\n"


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


MEMBER = "a-1-0b5a1d5e-7a3c-4d0e-9a54-3d1c0f4b2a11"
STORM_LINES = (
    (
        "consumer poll timeout has expired. This means the time between subsequent calls to poll() was longer than the "
        "configured max.poll.interval.ms, which typically implies that the poll loop is spending too much time "
        "processing messages."
    ),
    (
        f"Member {MEMBER} sending LeaveGroup request to coordinator kafka:9092 (id: 2147483646 rack: null) due to "
        "consumer poll timeout has expired."
    ),
    "(Re-)joining group",
    f"Successfully joined group with generation Generation{{generationId=5, memberId='{MEMBER}', protocol='range'}}",
)
STORM = "".join(
    f"[2026-01-01 00:0{minute}:{second:02},000] INFO [Consumer clientId=a-1, groupId=orders] {text} "
    "(org.apache.kafka.clients.consumer.internals.ConsumerCoordinator)\n"
    for minute in range(1, 6)
    for second, text in enumerate(STORM_LINES)
)
BLOCK_SPARK = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name in ("pyspark", "py4j", "pandas", "numba"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocker())
import slackwater.cli
slackwater.cli.main()
"""


def doctor_process(*arguments: str, text: str = "") -> "subprocess.CompletedProcess[str]":
    """Run the command in a process that cannot import Spark, pandas and numba."""
    command = [sys.executable, "-c", BLOCK_SPARK, "doctor", *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=False)


def test_standard_input_is_diagnosed_without_spark() -> None:
    done = doctor_process("-", text=STORM)
    assert done.returncode == 1, done.stderr
    assert "orders" in done.stdout
    assert "stdin:1" in done.stdout


@pytest.mark.parametrize(
    ("name", "compress"),
    [
        ("a.log", bytes),
        ("a.log.gz", gzip.compress),
        ("a.log.bz2", bz2.compress),
        ("a.log.deflate", zlib.compress),
        ("a.log.zst", cramjam.zstd.compress),
    ],
)
def test_compressed_files_are_read_without_spark(name: str, compress: Callable[[bytes], bytes], tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_bytes(bytes(compress(STORM.encode())))
    code, out, err = run(str(file), "--json")
    (verdict,) = json.loads(out)["clusters"]["cluster"]["groups"].values()
    assert (code, verdict["cause"], err) == (1, "poll_delay", "")
    assert verdict["evidence"][0]["where"] == f"{file}:1"
    file.write_bytes(file.read_bytes()[: len(STORM) // 40])
    if name != "a.log":
        code, out, err = run(str(file))
        assert (code, out) == (3, "")
        assert err.startswith(f"slackwater: {file} is cut off or damaged.")


@pytest.mark.parametrize(
    ("paths", "reason"),
    [
        (["{}/*.log"], "is a pattern or not a local path"),
        (["hdfs://nowhere/logs"], "is a pattern or not a local path"),
        (["{}/a.log.lz4"], "only Spark decompresses"),
        (["{}/large.log"], "the input is larger than 64 MB"),
        (["{}/a.log", "--spark-master", "local[1]"], "an option asks for it"),
    ],
)
def test_missing_spark_is_reported_with_the_reason(paths: list[str], reason: str, tmp_path: Path) -> None:
    for name in ("a.log", "a.log.lz4"):
        (tmp_path / name).write_text(STORM)
    with (tmp_path / "large.log").open("w") as large:
        large.truncate(65_000_000)
    done = doctor_process(*(path.format(tmp_path) for path in paths))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("slackwater: This needs Spark because ")
    assert reason in done.stderr
    assert done.stderr.endswith("pip install 'slackwater[spark]'.\n")


@pytest.mark.parametrize(
    ("arguments", "text", "message"),
    [
        (("-",), "", "Standard input is empty."),
        (("-", "-"), "x", "is named twice"),
        (("-",), "nothing\n", "standard input has no lines about consumer groups"),
        (("-", "--spark-master", "local[1]"), "x", "cannot be read on Spark"),
    ],
)
def test_wrong_standard_input_is_one_sentence(arguments: tuple[str, ...], text: str, message: str) -> None:
    result = CliRunner().invoke(app, ["doctor", *arguments], input=text)
    assert (result.exit_code, result.stdout) == (3, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("width", [40, 80, 120])
def test_terminal_lines_fit_and_keep_numbers_and_units(width: int, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(STORM)
    lines = on_terminal(width, str(log))
    prose = [line for line in lines if "=" not in line]
    assert max(map(len, prose)) <= width
    assert not [line for line in prose if re.match(r"\s*[\d.]+\)?$|\s*(?:s|ms|times)\b", line)]
    assert any("…" in line and "consumer poll" in line for line in lines)


POLL_LINE = (
    "%4|1794770162.741|MAXPOLL|o-1#consumer-1| [thrd:main]: Application maximum poll interval (5000ms) exceeded by "
    "250ms (adjust max.poll.interval.ms for long-running message processing): leaving group"
)
LEAVE_LINE = (
    "[2026-11-15 19:16:02,742] INFO [GroupCoordinator id=1] [Group o] Member o-1-c5ac1c6c-715e-4318-94aa-c4a2ee2ca422 "
    "has left group through explicit `LeaveGroup` request; client reason: not provided (a.b.Group)"
)
LOST_LINE = (
    "[2026-11-15 19:18:44,932] INFO [Consumer clientId=o-1, groupId=o] Group coordinator kafka:9092 (id: "
    f"2147483646 rack: null) is unavailable{' or invalid' * 12}. Rediscovery will be attempted. (org.apache.kafka.cli"
)


LEFT_LINE = (
    "[2026-11-15 19:16:07,441] INFO [GroupCoordinator id=1 topic=__consumer_offsets partition=0] [Group orders] Member "
    "orders-1-46851630-4d0f-46c1-9ddf-571162d0d390 has left group through explicit `LeaveGroup` request; client "
    "reason: consumer poll timeout has expired. (org.apache.kafka.coordinator.group.GroupMetadataManager)"
)
LATE_LINE = (
    f"[2026-05-01T10:00:00,1][WARN ][{'a.long.name.' * 6}] [Consumer clientId=o-1, groupId=o] Offset commit failed "
    f"on partition t-0 at offset 7: {' '.join(f'word{number}' for number in range(40))}"
)


@pytest.mark.parametrize(
    ("line", "begin", "end"),
    [
        (POLL_LINE, "…Application maximum poll interval…", "message processing): leaving group"),
        (LEAVE_LINE, "…Member o-1-c5ac1c6c… has left group…", "request; client reason: not provided"),
        (LOST_LINE, "…Group coordinator kafka:9092…", "Rediscovery will be attempted."),
        ("Member o-1 left (a.b.Coordinator)", "Member o-1 left", ""),
        (LATE_LINE, "…word0 word1 word2 ", "…word35 word36 word37 word38 word39"),
        (LEFT_LINE, "…Member orders-1-46851630… has left…", "…consumer poll timeout has expired."),
        ("\x1b[36mo-1 |\x1b[0m Heartbeat failed for group o because it is rebalancing", "", "it is rebalancing"),
        (
            f"Member o-1 was removed{' again' * 160} at the end and wit",
            "Member o-1 was removed again again…",
            "and wit…",
        ),
    ],
)
def test_quoted_line_keeps_the_message_and_the_reason(line: str, begin: str, end: str) -> None:
    quoted = shorten_log_line(line, 74)
    assert len(quoted) <= 74
    assert quoted.startswith(begin)
    assert quoted.endswith(end)


def test_evidence_in_json_is_shown_with_its_error(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    error = "FENCED_INSTANCE_ID: another consumer with the same group.instance.id has registered"
    fields = {"time": "2026-05-01T10:00:00Z", "level": "warn", "message": "join group failed", "group": "g"}
    log.write_text(json.dumps({**fields, "err": error}) + "\n")
    _, out, _ = run(str(log))
    assert f"\n      join group failed: {error}\n" in out


def test_evidence_has_no_colours_of_the_log(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    line = "[2026-05-01 10:00:00,433: WARNING]: Heartbeat failed for group g because it is rebalancing"
    log.write_text(f"\x1b[36mworker_1  |\x1b[0m {line}\n" * 3)
    _, out, _ = run(str(log))
    assert f"\n      worker_1  | {line}\n" in out


def test_fenced_member_in_a_broker_log_without_its_group(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(
        "[2026-05-01 10:00:00,711] ERROR given member.id o-1-a is identified as a known static member o, but not "
        "matching the expected member.id o-1-b during join-group, will respond with instance fenced error "
        "(kafka.coordinator.group.GroupMetadata)\n"
    )
    code, out, _ = run(str(log))
    assert code == 1
    assert "(group not named in the log): instance_id_conflict, caused by o" in out


def test_colours_are_for_terminals_that_want_them(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(STORM)
    assert any("\x1b[1m" in line for line in on_terminal(80, str(log), escapes=True))
    assert not any("\x1b[" in line for line in on_terminal(80, str(log), escapes=True, NO_COLOR="1"))
    assert "\x1b" not in run(str(log))[1]


def test_settings_of_all_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    prescriptions = prescribe("poll_delay", {"limit_ms": 4_000, "longest_ms": 6_000})
    diagnosis = Diagnosis([replace(stormy(), prescriptions=prescriptions)])
    monkeypatch.setattr("slackwater.cli.doctor.run_diagnosis", lambda request, master, conf: diagnosis)
    _, out, _ = run("logs", "--all-libraries")
    assert all(f"     {library}:\n" in out for library in ("java", "librdkafka", "kafkajs", "sarama"))
    assert f"  {len(prescriptions)}. " in out


def test_running_cluster_is_shown_by_its_address(requests: list[DiagnosisRequest]) -> None:
    _, out, _ = run("--bootstrap", "kafka:9092")
    assert "kafka:9092: orders: poll_delay, caused by b" in out


def on_terminal(width: int, *arguments: str, escapes: bool = False, **environment: str) -> list[str]:
    """Return the lines that the command prints on a terminal of this width."""
    master, slave = pty.openpty()
    try:
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
        environment = {**os.environ, "TERM": "xterm", **environment}
        environment.pop("COLUMNS", None)
        command = [sys.executable, "-m", "slackwater", "doctor", *arguments]
        process = subprocess.Popen(command, stdout=slave, stderr=subprocess.DEVNULL, env=environment)
        os.close(slave)
        printed = b""
        with suppress(OSError):  # the other end is closed
            while data := os.read(master, 65_536):
                printed += data
        assert process.wait(timeout=60) == 1
    finally:
        os.close(master)
    text = printed.decode().replace("\r\n", "\n")
    return (text if escapes else re.sub(r"\x1b\[[\d;]*m", "", text)).split("\n")


@pytest.mark.parametrize(
    ("begin", "command"),
    [(b"\xff\xfea\x00", "iconv -f UTF-16"), (b"\xfd7zXZ\x00", "xz -dc"), (b"PK\x03\x04", "unzip -p")],
)
def test_file_that_must_be_converted_is_named_with_the_command(tmp_path: Path, begin: bytes, command: str) -> None:
    file = tmp_path / "orders.log"
    file.write_bytes(begin)
    code, _, err = run(str(file))
    assert code == 3
    assert f"Pipe it: {command}" in err
    assert err.rstrip().endswith("| slackwater doctor -")
