"""The doctor on a large history, beside Spark scanning the same text with one regular expression.

Histories are made up (benchmarks/doctor_history.py), one for each size. The scan reads the text and counts the lines
that one regular expression finds: those about groups. The doctor reads, understands and attributes the lines, brings
what rules ask for, group by group, to the workers that judge, judges, and numbers the lines of the evidence: all that
`slackwater doctor` does before it prints. `rows` is the first part of it, up to the judging. All in one session on two
cores, in turns, after a round that warms them up; medians.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.brokers import PeerFailed, run
from benchmarks.doctor_history import write
from benchmarks.spark_read import tree_cpu_seconds

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyspark.sql import SparkSession

ROOT: Final = Path(__file__).resolve().parents[1]
GIGABYTE: Final = 1_000_000_000
ABOUT_GROUPS: Final = r"\[(?:GroupCoordinator|Consumer) "
OWED: Final = 2.5
COUNTED: Final = "`group` string, found bigint"


class Figures(NamedTuple):
    """Seconds of one job."""

    wall: float
    cpu: float


def scan(spark: "SparkSession", path: str) -> int:
    """How many lines one regular expression finds."""
    text = spark.read.option("recursiveFileLookup", "true").text(path)
    return text.filter(text.value.rlike(ABOUT_GROUPS)).count()


def rows(spark: "SparkSession", path: str) -> int:
    """How many rows of all groups reach the workers that judge."""
    from slackwater.spark.doctor.diagnosis import by_group
    from slackwater.spark.doctor.history import read_history

    with read_history(spark, [path]) as history:
        return sum(row.found for row in by_group(history.packed).mapInArrow(_count, COUNTED).collect())


def doctor(spark: "SparkSession", path: str) -> int:
    """How many groups are judged."""
    from slackwater.doctor.diagnosis import DiagnosisRequest
    from slackwater.spark.doctor.job import diagnose

    return len(diagnose(spark, DiagnosisRequest(paths=[path], with_timeline=False)).verdicts)


def _count(batches: Iterable["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
    import pyarrow as pa

    from slackwater.spark.doctor.diagnosis import whole_groups

    buckets = whole_groups(batches)
    found = [{"group": group, "found": end - begin} for one in buckets for (_, group), begin, end in one.groups]
    yield pa.RecordBatch.from_pylist(found, schema=pa.schema([("group", pa.string()), ("found", pa.int64())]))


def measured(spark: "SparkSession", what: Callable[["SparkSession", str], int], path: str) -> Figures:
    """One job, with all that Spark's processes and this one do meanwhile."""
    jvm = int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
    cpu, wall = tree_cpu_seconds(jvm) + time.process_time(), time.perf_counter()
    if not what(spark, path):
        raise PeerFailed(f"{what.__name__} found nothing in {path}.")
    return Figures(time.perf_counter() - wall, tree_cpu_seconds(jvm) + time.process_time() - cpu)


def compare(spark: "SparkSession", path: str, gigabytes: float, rounds: int) -> float:
    """One line for each way; the doctor's CPU seconds for a gigabyte."""
    ways = [scan, rows, doctor]
    found: dict[str, list[Figures]] = {way.__name__: [] for way in ways}
    for number in range(rounds + 1):
        for way in ways:
            figures = measured(spark, way, path)
            if number:
                found[way.__name__].append(figures)
    base = Figures(*map(median, zip(*found["scan"], strict=True)))
    for name, all_of_it in found.items():
        wall, cpu = map(median, zip(*all_of_it, strict=True))
        owed = f"<= {OWED:g}" if name == "doctor" else ""
        label = f"{gigabytes:g} GB: {name}"
        print(f"  {label:<24}{wall:>9.1f}{wall / base.wall:>8.2f}{cpu:>9.1f}{cpu / base.cpu:>8.2f}  {owed}", flush=True)
    return median(one.cpu for one in found["doctor"]) / gigabytes


def histories(sizes: list[float], seed: int) -> Iterator[tuple[float, str]]:
    """A directory for each size, removed when the next one is asked for."""
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
    """Make a history of each size, and compare."""
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
        print(f"{'the doctor on a history':<26}{'seconds':>9}{'ratio':>8}{'CPU-s':>9}{'ratio':>8}  owed")
        costs = [
            compare(spark, path, gigabytes, options.rounds)
            for gigabytes, path in histories(options.gigabytes, options.seed)
        ]
        print(f"  CPU seconds for a gigabyte: {', '.join(f'{cost:.1f}' for cost in costs)}")
    finally:
        spark.stop()


if __name__ == "__main__":
    run(main)
