"""Start, watch and stop Spark from a command.

Invariants:
- The output of Java is captured while Spark starts, and reported only if the start fails.
"""

import logging
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Final

from slackwater.cli.progress import ProgressLine, bar
from slackwater.group.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROOT_ERROR: Final = re.compile(
    r"^(?:.*Application has been killed\. Reason: (?=.)|(?=Invalid .* size))(.+)$", re.MULTILINE
)
"""Errors of Spark and Java that are printed before the exceptions that follow from them."""


def start_session(master: str, conf: dict[str, str]) -> "SparkSession":
    """Start a session; a failure is raised as one sentence with Java's error."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    from slackwater.spark.doctor.job import create_session

    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # errors are reported as one sentence
    with tempfile.TemporaryFile() as captured:
        try:
            with _capture_stderr(captured):
                return create_session(master, conf)
        except (PySparkException, Py4JError, OSError) as error:
            captured.seek(0)
            reason = java_error(f"{error}\n{captured.read().decode(errors='replace')}")
            raise UsageError(f"Spark could not be started on {master}: {reason}") from None


def java_error(text: str) -> str:
    """Return the line of Java's output that contains the reason."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if match := _ROOT_ERROR.search(text):
        return match[1]
    exception = next((line for line in lines if re.match(r"(?:Caused by|: )?.*(?:Exception|Error): ", line)), None)
    reason = exception or next(iter(lines), "Java gives no reason")
    return re.sub(r"^.*?(?:Exception|Error): ", "", reason)[:300]


@contextmanager
def _capture_stderr(captured: IO[bytes]) -> Iterator[None]:
    """Redirect standard error, also that of child processes, to a file."""
    sys.stderr.flush()
    original = os.dup(2)
    os.dup2(captured.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(original, 2)
        os.close(original)


@contextmanager
def stop_at_end(spark: "SparkSession") -> Iterator[None]:
    """Stop Spark at the end of the block; Ctrl-C does not print Spark's errors."""

    def interrupt(*_: object) -> None:
        logging.disable(logging.CRITICAL)
        raise KeyboardInterrupt

    is_main_thread = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, interrupt) if is_main_thread else None
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
        if sys.exc_info()[0] is KeyboardInterrupt:
            with suppress(Exception):
                spark.stop()
        else:
            spark.stop()


def spark_progress(spark: "SparkSession", text: str) -> ProgressLine:
    """Return a progress bar of Spark's tasks."""
    tracker = spark.sparkContext.statusTracker()

    def describe() -> str:
        stages = [info for stage_id in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage_id))]
        tasks = sum(stage.numTasks for stage in stages)
        done = sum(stage.numCompletedTasks for stage in stages)
        return f"{text} {bar(done, tasks)} {done} of {tasks} tasks" if tasks else f"{text} …"

    return ProgressLine(describe)
