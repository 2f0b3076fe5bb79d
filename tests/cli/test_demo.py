"""`slackwater demo`: both demos run to their end, and an interrupted demo leaves nothing behind."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from slackwater import Broker
from slackwater.cli.demo import REPORT
from slackwater.cli.demo.groups import GroupMonitor
from slackwater.cli.demo.processes import CleanupProcess, kill_sessions
from slackwater.cli.demo.read_counts import ReadCounts, offset_ranges
from slackwater.cli.demo.screen import Screen
from slackwater.cli.demo.spark_scenario import DeployResult
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
    commands = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit() and int(directory.name) != demo:
            try:
                command = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                environment = (directory / "environ").read_bytes()
            except OSError:  # it has ended, or belongs to another user
                continue
            if f"TMPDIR={tmp_path}".encode() in environment:
                commands.append(command)
    return commands


class StubPool:
    """A pool without processes."""

    def __init__(self) -> None:
        self.produced: Mapping[str, int] = {}
        self.reads: Mapping[tuple[str, str], int] = {}

    def clients(self) -> dict[str, str]:
        return {}


def _chapters(out: str) -> list[str]:
    return re.findall(r"^\d of \d  ([A-Z][a-z -]+):", out, re.MULTILINE)


def test_plain_demo_reads_every_record(tmp_path: Path) -> None:
    with _demo(tmp_path, "--no-spark") as demo:
        out, _ = demo.communicate(timeout=DEADLINE_S)
    assert demo.returncode == 0, out
    assert _chapters(out) == ["Join", "Scale-out", "Static restart", "Kill", "Cooperative"]
    summary = out[out.index("Summary") :]
    for row in (r"Join +\d +member_join", r"Static restart +0 +– +same generation", r"Kill +1 +session_timeout"):
        assert re.search(row, summary), summary
    counts = re.search(r"([\d,]+) records produced, ([\d,]+) read", summary)
    assert counts is not None
    assert counts[1] == counts[2] != "0"
    assert [path.name for path in tmp_path.iterdir()] == [REPORT]
    assert "orders" in (tmp_path / REPORT).read_text()


@pytest.mark.xdist_group("spark")
def test_fast_demo_diagnoses_and_fixes_the_storm(tmp_path: Path) -> None:
    with _demo(tmp_path, "--fast") as demo:
        out, _ = demo.communicate(timeout=SPARK_DEADLINE_S)
    assert demo.returncode == 0, out
    assert _chapters(out) == ["Share", "Scale-out", "Kill", "Storm", "Doctor", "Fix"]
    summary = out[out.index("Summary") :]
    records = re.search(r"Records: ([\d,]+) produced, ([\d,]+) read, 0 missing", summary)
    assert records is not None, summary
    assert records[1] == records[2] != "0"
    assert re.search(r"Doctor .*poll_delay, caused by app-2", summary), summary
    storm = re.search(r"removed \d times: ([\d.]+) rebalances per minute", summary)
    closing = re.search(r"Rebalances per minute: ([\d.]+) in the storm, 0.0 after the fix", summary)
    assert storm is not None, summary
    assert closing is not None, summary
    assert storm[1] == closing[1]
    assert [path.name for path in tmp_path.iterdir()] == [REPORT]
    assert "poll delay" in (tmp_path / REPORT).read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize(
    ("option", "child"),
    [
        pytest.param("--no-spark", "slackwater.cli.demo.clients", id="plain"),
        pytest.param("--fast", "/java ", id="spark", marks=pytest.mark.xdist_group("spark")),
    ],
)
def test_interrupted_demo_leaves_nothing(tmp_path: Path, option: str, child: str, number: signal.Signals) -> None:
    with _demo(tmp_path, option) as demo:
        wait_until(
            lambda: any(child in command for command in _children(tmp_path, demo.pid)),
            lambda: _children(tmp_path, demo.pid),
            DEADLINE_S,
        )
        demo.send_signal(number)
        demo.wait(DEADLINE_S)
        assert demo.returncode == (130 if number is signal.SIGINT else -signal.SIGKILL)
        wait_until(lambda: not _children(tmp_path, demo.pid), lambda: _children(tmp_path, demo.pid), DEADLINE_S)
        wait_until(lambda: not list(tmp_path.iterdir()), lambda: list(tmp_path.iterdir()), DEADLINE_S)


def test_without_java_the_demo_names_the_remedy(tmp_path: Path) -> None:
    with _demo(tmp_path, PATH=str(tmp_path), JAVA_HOME="") as demo:
        out, _ = demo.communicate(timeout=DEADLINE_S)
    assert demo.returncode == 2
    assert "Install Java 17" in out
    assert "slackwater demo --no-spark" in out
    assert "Traceback" not in out


def test_report_in_missing_directory_is_an_error(tmp_path: Path) -> None:
    with _demo(tmp_path, "--report", str(tmp_path / "none" / "report.html")) as demo:
        out, _ = demo.communicate(timeout=DEADLINE_S)
    assert demo.returncode == 2
    assert out.startswith("slackwater: --report")
    assert "Traceback" not in out


def test_repeated_reads_are_counted() -> None:
    counts = ReadCounts()
    counts.ranges["t", 0] += [(0, 5), (3, 8), (10, 12)]
    counts.ranges["t", 1] += [(0, 2), (0, 2)]
    assert counts.totals() == (12, 4)


def test_records_never_read_are_missing() -> None:
    counts = ReadCounts()
    for read in offset_ranges([("t", 0, 0), ("t", 0, 1), ("t", 0, 5), ("t", 1, 0)]):
        counts.add(str(read["topic"]), int(str(read["partition"])), int(str(read["start"])), int(str(read["end"])))
    assert counts.ranges["t", 0] == [(0, 2), (5, 6)]
    assert counts.missing({("t", 0): 6, ("t", 1): 1, ("t", 2): 2}) == 3 + 0 + 2


def test_static_rebalances_of_a_deploy_are_explained() -> None:
    assert str(DeployResult(9, 0, ())) == "9 rebalances with dynamic members, 0 with static members"
    late = str(DeployResult(9, 2, ("app-2",)))
    assert late.startswith("9 rebalances with dynamic members, 2 with static members (a slow machine: app-2 came back")


@pytest.mark.parametrize("size", [(80, 24), (120, 50)], ids=["80x24", "120x50"])
def test_picture_fits_the_terminal(size: tuple[int, int]) -> None:
    width, height = size
    with Broker() as broker:
        broker.create_topic("orders", 6)
        monitor = GroupMonitor(broker)
        console = Console(width=width, height=height, force_terminal=True, file=StringIO())
        screen = Screen(console, monitor, StubPool(), 6, "one broker, Spark applications, one group")
        screen.chapter("3 of 7  Rolling deploy", "A text of a chapter. " * 8)
        screen.show_group("orders", "orders")
        screen.show_group("orders-static", "orders")
        for number in range(40):
            screen.note(f"note {number} " + "with a long text " * 12)
        screen.waiting_for("group orders with 3 members")
        with console.capture() as capture:
            console.print(screen.picture())
    lines = capture.get().splitlines()
    assert len(lines) < height
    assert max(cell_len(Text.from_ansi(line).plain) for line in lines) <= width


def test_cleanup_kills_sessions_and_removes_the_directory(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    sleep = "import subprocess, sys; subprocess.Popen(['sleep', '600']); print('up', flush=True); sys.stdin.read()"
    cleanup = CleanupProcess(home)
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
            cleanup.add(child.pid)
            assert child.stdout is not None
            assert child.stdout.readline() == b"up\n"
        # The environment of a new process is visible with a delay.
        wait_until(lambda: len(_children(home, 0)) == 4, lambda: _children(home, 0), DEADLINE_S)
        kill_sessions([children[0].pid])
        wait_until(lambda: len(_children(home, 0)) == 2, lambda: _children(home, 0), DEADLINE_S)
    finally:
        cleanup.finish()
    for child in children:
        child.wait()
        for pipe in (child.stdin, child.stdout):
            assert pipe is not None
            pipe.close()
    assert _children(home, 0) == []
    assert not home.exists()
