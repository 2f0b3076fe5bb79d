"""The doctor on a large history, compared with Spark scanning the same text with one regular expression.

Each history is generated (benchmarks/doctor_history.py). The scan reads the text and counts the lines that one regular
expression matches: those about groups. The doctor does all that `slackwater doctor` does before it prints: it reads the
lines, diagnoses every group, and numbers the lines of the evidence. `rows` is its first part, up to the shuffle by
group. All of them run in one session on two cores, in turn, after one warm-up round. The figures are medians.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.brokers import PeerFailed, run, tree_cpu_seconds
from benchmarks.doctor_history import write
from benchmarks.results import add_result

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT: Final = Path(__file__).resolve().parents[1]
GIGABYTE: Final = 1_000_000_000
ABOUT_GROUPS: Final = r"\[(?:GroupCoordinator|Consumer) "
TARGET: Final = 3.0
"""CPU seconds of the doctor, as a multiple of the scan's."""


class JobSeconds(NamedTuple):
    """Seconds of one job."""

    wall: float
    cpu: float


def scan(spark: "SparkSession", path: str) -> int:
    """Return how many lines one regular expression matches."""
    text = spark.read.option("recursiveFileLookup", "true").text(path)
    return text.filter(text.value.rlike(ABOUT_GROUPS)).count()


def rows(spark: "SparkSession", path: str) -> int:
    """Return how many batches of rows come out of the shuffle by bucket."""
    from slackwater.spark.doctor.history.event_history import EventHistory, HistorySource

    with EventHistory(spark, HistorySource([path])) as history:
        return sum(row["count"] for row in history.bucketed.groupBy("bucket").count().collect())


def doctor(spark: "SparkSession", path: str) -> int:
    """Return how many groups are diagnosed."""
    from slackwater.doctor.diagnosis import DiagnosisRequest
    from slackwater.spark.doctor.job import diagnose

    return len(diagnose(spark, DiagnosisRequest(paths=[path], with_timeline=False)).verdicts)


def measure(spark: "SparkSession", job: Callable[["SparkSession", str], int], path: str) -> JobSeconds:
    """Run one job; the CPU time is that of this process, the JVM and the Python workers."""
    jvm = int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
    cpu, wall = tree_cpu_seconds(jvm) + time.process_time(), time.perf_counter()
    if not job(spark, path):
        raise PeerFailed(f"{job.__name__} found nothing in {path}.")
    return JobSeconds(time.perf_counter() - wall, tree_cpu_seconds(jvm) + time.process_time() - cpu)


def compare(spark: "SparkSession", path: str, gigabytes: float, rounds: int) -> float:
    """Print one line for each job; return the doctor's CPU seconds per gigabyte."""
    jobs = [scan, rows, doctor]
    measured: dict[str, list[JobSeconds]] = {job.__name__: [] for job in jobs}
    for number in range(rounds + 1):
        for job in jobs:
            seconds = measure(spark, job, path)
            if number:
                measured[job.__name__].append(seconds)
    base = JobSeconds(*map(median, zip(*measured["scan"], strict=True)))
    for name, seconds_of_rounds in measured.items():
        wall, cpu = map(median, zip(*seconds_of_rounds, strict=True))
        target = f"<= {TARGET:g}" if name == "doctor" else ""
        label = f"{gigabytes:g} GB: {name}"
        figures = f"{wall:>9.1f}{wall / base.wall:>8.2f}{cpu:>9.1f}{cpu / base.cpu:>8.2f}"
        print(f"  {label:<24}{figures}  {target}", flush=True)
        if name == "doctor":
            costs = {"peer": f"{base.cpu:.1f}", "ours": f"{cpu:.1f}"}
            add_result(
                f"{gigabytes:g} GB to verdicts, CPU seconds", ratio=cpu / base.cpu, target=f"≤ {TARGET:g}", **costs
            )
    return median(seconds.cpu for seconds in measured["doctor"]) / gigabytes


def histories(sizes: list[float], seed: int) -> Iterator[tuple[float, str]]:
    """Yield a directory for each size; it is removed afterwards."""
    for gigabytes in sizes:
        free = shutil.disk_usage(tempfile.gettempdir()).free
        if free < 1.5 * gigabytes * GIGABYTE:
            raise PeerFailed(
                f"{gigabytes:g} GB do not fit into {tempfile.gettempdir()}, which has {free / GIGABYTE:.1f}."
            )
        with tempfile.TemporaryDirectory(prefix="slackwater-history-") as directory:
            write(Path(directory), int(gigabytes * GIGABYTE), seed)
            yield gigabytes, directory


def main() -> None:
    """Generate a history of each size, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, nargs="+", default=[0.5, 2.0, 4.0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    from slackwater.spark.doctor.job import create_session

    spark = create_session("local[2]", {"spark.driver.memory": "6g", "spark.ui.showConsoleProgress": "false"})
    try:
        print(f"{'the doctor on a history':<26}{'seconds':>9}{'ratio':>8}{'CPU-s':>9}{'ratio':>8}  target")
        costs = [
            compare(spark, path, gigabytes, options.rounds)
            for gigabytes, path in histories(options.gigabytes, options.seed)
        ]
        print(f"  CPU seconds per gigabyte: {', '.join(f'{cost:.1f}' for cost in costs)}")
    finally:
        spark.stop()


if __name__ == "__main__":
    run(main)
