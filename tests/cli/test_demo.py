"""`slackwater demo`: the demo without Spark runs to its end, and an interrupted demo leaves nothing behind.

`make interop` runs the demo with Spark to its end.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from io import StringIO
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from slackwater import Broker
from slackwater.cli.demo import REPORT
from slackwater.cli.demo.groups import GroupMonitor
from slackwater.cli.demo.processes import SPARK, ChildProcess, CleanupProcess, kill_sessions
from slackwater.cli.demo.read_counts import ReadCounts, offset_ranges
from slackwater.cli.demo.screen import Screen
from slackwater.cli.demo.spark_scenario import DeployResult
from tests.cli.demo_process import DEADLINE_S, demo_children, demo_process, steps, wait_for_end_of_children
from tests.waiting import wait_until


class StubPool:
    """A pool without processes."""

    def __init__(self) -> None:
        self.produced: Mapping[str, int] = {}
        self.reads: Mapping[tuple[str, str], int] = {}

    def clients(self) -> dict[str, str]:
        return {}


def test_plain_demo_reads_every_record(tmp_path: Path) -> None:
    with demo_process(tmp_path, "--no-spark") as demo:
        out, _ = demo.communicate(timeout=DEADLINE_S)
    assert demo.returncode == 0, out
    assert steps(out) == ["Join", "Scale-out", "Static restart", "Kill", "Cooperative"]
    summary = out[out.index("Summary") :]
    for row in (r"Join +\d +member_join", r"Static restart +0 +– +same generation", r"Kill +1 +session_timeout"):
        assert re.search(row, summary), summary
    counts = re.search(r"([\d,]+) records produced, ([\d,]+) read", summary)
    assert counts is not None
    assert counts[1] == counts[2] != "0"
    assert [path.name for path in tmp_path.iterdir()] == [REPORT]
    assert "orders" in (tmp_path / REPORT).read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize(
    ("option", "child"),
    [
        pytest.param("--no-spark", "slackwater.cli.demo.clients", id="plain"),
        pytest.param("--fast", "/java ", id="spark", marks=pytest.mark.xdist_group("spark")),
    ],
)
def test_interrupted_demo_leaves_nothing(tmp_path: Path, option: str, child: str, number: signal.Signals) -> None:
    with demo_process(tmp_path, option) as demo:
        wait_until(
            lambda: any(child in command for command in demo_children(tmp_path, demo.pid)),
            lambda: demo_children(tmp_path, demo.pid),
            DEADLINE_S,
        )
        demo.send_signal(number)
        demo.wait(DEADLINE_S)
        assert demo.returncode == (130 if number is signal.SIGINT else -signal.SIGKILL)
        wait_for_end_of_children(tmp_path, demo.pid)
        wait_until(lambda: not list(tmp_path.iterdir()), lambda: list(tmp_path.iterdir()), DEADLINE_S)


def test_without_java_the_demo_names_the_remedy(tmp_path: Path) -> None:
    with demo_process(tmp_path, PATH=str(tmp_path), JAVA_HOME="") as demo:
        out, _ = demo.communicate(timeout=DEADLINE_S)
    assert demo.returncode == 2
    assert "Install Java 17" in out
    assert "slackwater demo --no-spark" in out
    assert "Traceback" not in out


@pytest.mark.parametrize(
    ("module", "options", "remedy"),
    [
        ("psutil", [], "pip install 'slackwater[demo]'."),
        ("psutil", ["--no-spark"], "pip install 'slackwater[demo]'."),
        ("aiokafka", ["--no-spark"], "pip install 'slackwater[demo]'."),
        ("pyspark", [], "To see the demo without Spark, run: slackwater demo --no-spark"),
    ],
)
def test_missing_package_is_named(module: str, options: list[str], remedy: str) -> None:
    run = f"import sys; sys.modules[{module!r}] = None; import slackwater.cli; slackwater.cli.main()"
    command = [sys.executable, "-c", run, "demo", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"slackwater: the demo needs {module}, which is not installed. Run: ")
    assert done.stderr.endswith(f"{remedy}\n")
    assert done.stderr.count("\n") == 1


def test_report_in_missing_directory_is_an_error(tmp_path: Path) -> None:
    with demo_process(tmp_path, "--report", str(tmp_path / "none" / "report.html")) as demo:
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
def test_screen_fits_the_terminal(size: tuple[int, int]) -> None:
    width, height = size
    with Broker() as broker:
        broker.create_topic("orders", 6)
        monitor = GroupMonitor(broker)
        console = Console(width=width, height=height, force_terminal=True, file=StringIO())
        screen = Screen(console, monitor, StubPool(), 6, "one broker, Spark applications, one group")
        screen.start_step("3 of 7  Rolling deploy", "A text of a step. " * 8)
        screen.show_group("orders", "orders")
        screen.show_group("orders-static", "orders")
        for number in range(40):
            screen.note(f"note {number} " + "with a long text " * 12)
        screen.waiting_for("group orders with 3 members")
        with console.capture() as capture:
            console.print(screen.render())
    lines = capture.get().splitlines()
    assert len(lines) < height
    assert max(cell_len(Text.from_ansi(line).plain) for line in lines) <= width


@pytest.mark.parametrize(
    ("client", "hint"), [(SPARK, "; if it fails again, use `slackwater demo --no-spark`"), ("java", "")]
)
def test_failed_child_names_the_next_command(tmp_path: Path, client: str, hint: str) -> None:
    (tmp_path / "log").write_text("starting\nout of memory\n")
    with subprocess.Popen([sys.executable, "-c", "exit(3)"], text=True) as process:
        process.wait(DEADLINE_S)
        child = ChildProcess("orders-1", client, "", process, tmp_path)
        assert child.failure() == f"exited with code 3; last log line: out of memory. Run the demo again{hint}."


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
        wait_until(lambda: len(demo_children(home, 0)) == 4, lambda: demo_children(home, 0), DEADLINE_S)
        kill_sessions([children[0].pid])
        wait_until(lambda: len(demo_children(home, 0)) == 2, lambda: demo_children(home, 0), DEADLINE_S)
    finally:
        cleanup.finish()
    for child in children:
        child.wait()
        for pipe in (child.stdin, child.stdout):
            assert pipe is not None
            pipe.close()
    assert demo_children(home, 0) == []
    assert not home.exists()
