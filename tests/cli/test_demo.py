"""`slackwater demo`: both stories to their end, and what is left behind when they are interrupted."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slackwater.cli.demo import REPORT
from slackwater.cli.demo.janitor import Janitor, kill_sessions
from slackwater.cli.demo.ledger import Read, runs
from slackwater.cli.demo.ownership import Ownership
from tests.waiting import wait_until

DEADLINE_S = 120.0
SPARK_DEADLINE_S = 900.0


@contextmanager
def _demo(tmp_path: Path, *options: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "slackwater", "demo", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path), "COLUMNS": "160"} | environment,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
        wait_until(lambda: not _children(tmp_path, process.pid), lambda: _children(tmp_path, process.pid), DEADLINE_S)


def _children(tmp_path: Path, demo: int) -> list[str]:
    """The processes that belong to the demo with this temporary directory."""
    found = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit() and int(directory.name) != demo:
            try:
                command = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                environment = (directory / "environ").read_bytes()
            except OSError:  # it has ended, or is somebody else's
                continue
            if f"TMPDIR={tmp_path}".encode() in environment:
                found.append(command)
    return found


def _chapters(out: str) -> list[str]:
    return re.findall(r"^\d of \d  ([A-Z][a-z -]+):", out, re.MULTILINE)


def test_the_plain_demo_tells_its_five_chapters_and_loses_nothing(tmp_path: Path) -> None:
    with _demo(tmp_path, "--no-spark") as demo:
        out, _ = demo.communicate(timeout=DEADLINE_S)
    assert demo.returncode == 0, out
    assert _chapters(out) == ["Join", "Scale-out", "Static restart", "Kill", "Cooperative"]
    account = out[out.index("The account") :]
    for row in (r"Join +1 +member_join", r"Static restart +0 +– +same generation", r"Kill +1 +session_timeout"):
        assert re.search(row, account), account
    counts = re.search(r"(\d+) records acknowledged, (\d+) read", account)
    assert counts is not None
    acknowledged, read = map(int, counts.groups())
    assert acknowledged == read > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.xdist_group("spark")
def test_the_fast_demo_shares_deploys_kills_and_cures_and_every_record_is_accounted_for(tmp_path: Path) -> None:
    with _demo(tmp_path, "--fast") as demo:
        out, _ = demo.communicate(timeout=SPARK_DEADLINE_S)
    assert demo.returncode == 0, out
    assert _chapters(out) == ["Rolling deploy", "Share", "Scale-out", "Kill", "Storm", "Doctor", "Cure"]
    account = out[out.index("The account") :]
    records = re.search(r"Records: ([\d,]+) produced = ([\d,]+) accounted for; 0 missing", account)
    assert records is not None, account
    assert records[1] == records[2] != "0"
    deploy = re.search(r"of three plain consumers: (\d+) rebalances with dynamic members, (\d+) with static", account)
    assert deploy is not None, account
    assert int(deploy[1]) >= 3
    assert int(deploy[2]) == 0
    assert re.search(r"Doctor .*poll_delay, by app-2", account), account
    assert [path.name for path in tmp_path.iterdir()] == [REPORT]
    assert "poll delay" in (tmp_path / REPORT).read_text()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize(
    ("option", "child"),
    [
        pytest.param("--no-spark", "slackwater.cli.demo.members", id="plain"),
        pytest.param("--fast", "/java ", id="spark", marks=pytest.mark.xdist_group("spark")),
    ],
)
def test_nothing_is_left_of_a_demo_that_is_interrupted(
    tmp_path: Path, option: str, child: str, how: signal.Signals
) -> None:
    with _demo(tmp_path, option) as demo:
        wait_until(
            lambda: any(child in command for command in _children(tmp_path, demo.pid)),
            lambda: _children(tmp_path, demo.pid),
            DEADLINE_S,
        )
        demo.send_signal(how)
        demo.wait(DEADLINE_S)
        assert demo.returncode == (130 if how is signal.SIGINT else -signal.SIGKILL)
        wait_until(lambda: not _children(tmp_path, demo.pid), lambda: _children(tmp_path, demo.pid), DEADLINE_S)
        wait_until(lambda: not list(tmp_path.iterdir()), lambda: list(tmp_path.iterdir()), DEADLINE_S)


def test_without_java_the_plain_demo_is_shown_and_one_sentence_says_why(tmp_path: Path) -> None:
    with _demo(tmp_path, PATH=str(tmp_path), JAVA_HOME="") as demo:
        assert demo.stdout is not None
        first = demo.stdout.readline()
    assert "no java" in first
    assert "without Spark" in first


def test_a_report_in_a_directory_that_is_not_there_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with _demo(tmp_path, "--report", str(tmp_path / "none" / "report.html")) as demo:
        out, _ = demo.communicate(timeout=DEADLINE_S)
    assert demo.returncode == 2
    assert out.startswith("slackwater: --report")
    assert "Traceback" not in out


def test_what_was_read_twice_is_counted_once_and_told() -> None:
    read = Read()
    read.ranges["t", 0] += [(0, 5), (3, 8), (10, 12)]
    read.ranges["t", 1] += [(0, 2), (0, 2)]
    assert read.counts() == (12, 4)


def test_what_was_never_read_is_missing() -> None:
    read = Read()
    for run in runs([("t", 0, 0), ("t", 0, 1), ("t", 0, 5), ("t", 1, 0)]):
        read.add(str(run["topic"]), int(str(run["partition"])), int(str(run["from"])), int(str(run["until"])))
    assert read.ranges["t", 0] == [(0, 2), (5, 6)]
    assert read.missing({("t", 0): 6, ("t", 1): 1, ("t", 2): 2}) == 3 + 0 + 2


def test_a_partition_has_no_owner_from_the_death_of_its_member_until_another_is_given_it() -> None:
    ownership = Ownership()
    ownership.see(0.0, {0: "a", 1: "b"}, {"a", "b"})
    ownership.away.add("a")
    ownership.see(1.0, {0: "a", 1: "b"}, {"a", "b"})  # the coordinator does not know yet
    ownership.see(5.0, None, {"b"})
    ownership.see(6.0, {0: "b", 1: "b"}, {"b"})
    assert ownership.lengths == {0: [5.0], 1: []}
    assert (ownership.total_s, ownership.longest_s) == (5.0, 5.0)


def test_what_moves_in_two_rounds_has_no_owner_between_them_and_the_rest_keeps_its_own() -> None:
    ownership = Ownership()
    ownership.see(0.0, {0: "a", 1: "a"}, {"a"})
    ownership.see(1.0, None, {"a", "b"})
    ownership.see(2.0, {0: "a"}, {"a", "b"})
    ownership.see(2.5, None, {"a", "b"})
    ownership.see(3.0, {0: "a", 1: "b"}, {"a", "b"})
    assert ownership.lengths == {0: [], 1: [1.0]}
    ownership.away.add("b")
    ownership.see(4.0, {0: "a", 1: "b"}, {"a", "b"})
    ownership.close(6.0)
    assert ownership.lengths == {0: [], 1: [1.0, 2.0]}


def test_a_whole_session_is_killed_and_the_janitor_removes_the_directory(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    sleep = "import subprocess, sys; subprocess.Popen(['sleep', '600']); print('up', flush=True); sys.stdin.read()"
    janitor = Janitor(home)
    try:
        children = [
            subprocess.Popen(
                [sys.executable, "-c", sleep],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
                env=os.environ | {"TMPDIR": str(home)},
            )
            for _ in range(2)
        ]
        for child in children:
            janitor.see(child.pid)
            assert child.stdout is not None
            assert child.stdout.readline() == b"up\n"
        # A process that has just been started shows its environment a moment later.
        wait_until(lambda: len(_children(home, 0)) == 4, lambda: _children(home, 0), DEADLINE_S)
        kill_sessions([children[0].pid])
        wait_until(lambda: len(_children(home, 0)) == 2, lambda: _children(home, 0), DEADLINE_S)
    finally:
        janitor.finish()
    for child in children:
        child.wait()
        for pipe in (child.stdin, child.stdout):
            assert pipe is not None
            pipe.close()
    assert _children(home, 0) == []
    assert not home.exists()
