"""Run the benchmarks one after another, print one table, and write it to docs/benchmarks.md.

    python -m benchmarks.run            the headline figures, at most 25 minutes
    python -m benchmarks.run --full     everything, with more rounds and larger data
    python -m benchmarks.run core log   only these

A benchmark that fails or takes too long is named at the end; the exit code is then 1. A missed target is not an error:
the table shows it. Run it on an idle machine: every script also prints how much CPU other processes used.
"""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from benchmarks.results import VARIABLE, Result, read_results

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "benchmarks.md"
BEGIN: Final = "<!-- results: written by `make bench` -->"
END: Final = "<!-- end of results -->"
FULL_TIMEOUT_S: Final = 3_600


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A script, its arguments in a quick run (None: only in a full run) and in a full one."""

    title: str
    script: str
    quick: tuple[str, ...] | None = ()
    full: tuple[str, ...] = ()
    timeout_s: int = 300


BENCHMARKS: Final = (
    Benchmark("Broker: one request in flight per connection", "broker_requests"),
    Benchmark("Broker: joins", "broker_joins", ("--rounds", "5"), ("--rounds", "15")),
    Benchmark("Broker: idle consumers", "broker_idle", ("--rounds", "2", "--seconds", "5")),
    Benchmark("Broker: reading with one fetch at a time", "broker_fetch", ("--rounds", "2"), ("--rounds", "10")),
    Benchmark("Broker: start and memory", "broker_start", ("--rounds", "2")),
    Benchmark("Broker: Kafka's perf tools", "broker_perf", ("--rounds", "2", "--records", "1000000")),
    Benchmark("Broker: TLS and SASL", "broker_secure", ("--rounds", "2", "--records", "500000"), timeout_s=600),
    Benchmark("Spark: batch read", "spark_read", ("--rounds", "2", "--records", "3000000"), timeout_s=420),
    Benchmark("Spark: batch write", "spark_write", ("--rounds", "2", "--records", "1000000"), timeout_s=420),
    Benchmark("Spark: streaming read", "spark_stream", None),
    Benchmark("Doctor", "doctor_scale", ("--gigabytes", "0.5", "--rounds", "2"), ("--gigabytes", "0.5", "2", "4")),
    Benchmark("Consumer and producer", "client", ("--rounds", "2", "--records", "500000")),
    Benchmark("Assignors", "assignors", ("LS-01", "--runs", "3")),
    Benchmark("Coordinator without I/O", "core"),
    Benchmark("Work scheduler", "work"),
    Benchmark("Messages", "wire", None),
    Benchmark("Records", "records", None),
    Benchmark("Log on disk", "log", None),
    Benchmark("Memory over ten thousand rebalances", "rebalances", None),
)


def main() -> int:
    """Run the benchmarks and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scripts", nargs="*", metavar="SCRIPT", help="only these, by the name of the script")
    parser.add_argument("--full", action="store_true", help="everything, with more rounds and larger data")
    options = parser.parse_args()
    names = {benchmark.script for benchmark in BENCHMARKS}
    if unknown := set(options.scripts) - names:
        parser.error(f"there is no benchmark {unknown.pop()}; there are {', '.join(sorted(names))}")
    chosen = [
        benchmark
        for benchmark in BENCHMARKS
        if benchmark.script in options.scripts
        or (not options.scripts and (options.full or benchmark.quick is not None))
    ]
    started = time.monotonic()
    results: dict[str, list[Result]] = {}
    failures: list[str] = []
    for benchmark in chosen:
        print(f"== {benchmark.title} ({benchmark.script}.py)", flush=True)
        results[benchmark.title], failure = run(benchmark, full=options.full)
        if failure is not None:
            failures.append(failure)
    table = render(results)
    print("\n" + table)
    print(f"\n{(time.monotonic() - started) / 60:.1f} minutes.")
    if not options.scripts:
        write_page(table, full=options.full)
        print(f"Written to {PAGE.relative_to(ROOT)}.")
    for failure in failures:
        print(f"benchmarks: {failure}", file=sys.stderr)
    return 1 if failures else 0


def run(benchmark: Benchmark, *, full: bool) -> tuple[list[Result], str | None]:
    """Run one script; its rows, and why it failed."""
    arguments = benchmark.full if full else benchmark.quick or ()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "results"
        command = [sys.executable, "-m", f"benchmarks.{benchmark.script}", *arguments]
        timeout_s = FULL_TIMEOUT_S if full else benchmark.timeout_s
        failure = None
        try:
            code = subprocess.run(
                command, cwd=ROOT, env=os.environ | {VARIABLE: str(path)}, timeout=timeout_s
            ).returncode
            if code:
                failure = f"{benchmark.script}.py ended with exit code {code}"
        except subprocess.TimeoutExpired:
            failure = f"{benchmark.script}.py took longer than {timeout_s} s"
        return list(read_results(path)), failure


def render(results: dict[str, list[Result]]) -> str:
    """All rows as one Markdown table."""
    lines = ["| what | peer | ours | ratio | target | met |", "|---|---:|---:|---:|---:|---|"]
    for title, rows in results.items():
        if rows:
            lines.append(f"| **{title}** | | | | | |")
        for row in rows:
            ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
            met = {True: "yes", False: "**no**", None: ""}[row.is_met]
            lines.append(f"| {row.what} | {row.peer} | {row.ours} | {ratio} | {row.target} | {met} |")
    return "\n".join(lines)


def write_page(table: str, *, full: bool) -> None:
    """Replace the results in docs/benchmarks.md."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    command = "make bench FULL=1" if full else "make bench"
    day = datetime.now(UTC).date().isoformat()
    note = f"`{command}` on {day}, {os.cpu_count()} cores, Python {platform.python_version()}, Apache Kafka 4.3.1."
    PAGE.write_text(f"{before}{BEGIN}\n\n{note}\n\n{table}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
