"""`spark.readStream.format("slackwater")`: the reader that Spark calls.

Rules kept here
- The constructor does nothing: Spark also makes a reader in a second process, and sends a copy to every task. What a
  run of the query needs is made by the first call in the driver (`run.py`).
- Spark ends a query with SIGTERM, sometimes twice, and does not wait. The first one is made into an exit that lets
  `stop` run, the others are ignored.
- Errors are one sentence: Spark shows the first line.
"""

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from slackwater.group.batches.admission import BatchLimits
from slackwater.group.batches.offset import BatchOffset
from slackwater.spark.member.control_server import ControlAddress
from slackwater.spark.member.query_run import QueryRun
from slackwater.spark.source.input_partitions import RangeInputPartition, plan_input_partitions
from slackwater.spark.source.offset_json import from_json, to_json
from slackwater.spark.source.options import SourceOptions
from slackwater.spark.source.partition_reader import ReadSettings, read
from slackwater.spark.user_errors import as_user_error

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

LOG_LEVEL = "SLACKWATER_LOG"


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One query's reader; `control` is where the user's process can be heard."""

    def __init__(self, options: SourceOptions, control: ControlAddress | None = None) -> None:
        self.options = options
        self.settings = ReadSettings.of(options)
        self.control = control
        self._run: QueryRun | None = None
        self._available_now = False

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_run": None}

    # --- in the driver ------------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query starts."""
        with as_user_error():
            return to_json(self._running.initial())

    def getDefaultReadLimit(self) -> ReadLimit:
        """What the options say."""
        if self.options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self.options.max_offsets_per_trigger)
        if self.options.min_offsets_per_trigger is not None:
            return ReadMinRows(self.options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The next batch, or `start` if there is nothing new."""
        with as_user_error():
            offset = self._running.latest(self._read(start), self._limits(limit))
            return dict(start) if offset is None else to_json(offset)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """What the query's progress shows."""
        return self._running.progress() or None

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a batch that is in the checkpoint now."""
        if start == end:
            return []
        with as_user_error():
            ranges = self._running.ranges(self._read(start), self._read(end))
            return plan_input_partitions(ranges, self.options.min_partitions, self.options.max_records_per_partition)

    def commit(self, end: Mapping[str, Any]) -> None:
        """Everything up to here is finished."""
        with as_user_error():
            self._running.finished(self._read(end).seq)

    def prepareForTriggerAvailableNow(self) -> None:
        """Read what is there now, and then end."""
        self._available_now = True
        with as_user_error():
            self._running.fix_ends()

    def stop(self) -> None:
        """The query has ended."""
        if self._run is not None:
            self._run.stop()

    # --- on executors -------------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """The records of a task; Spark makes up a task without a range where there is none."""
        if isinstance(partition, RangeInputPartition):
            yield from read(partition.range, self.settings)

    # --- inside -------------------------------------------------------------------------------------------------------

    @property
    def _running(self) -> QueryRun:
        if self._run is None:
            _configure_logging()
            _install_sigterm_handler()
            self._run = QueryRun(self.options, self.control)
        return self._run

    def _read(self, found: Mapping[str, Any]) -> BatchOffset:
        return from_json(found, token=self._running.token)

    def _limits(self, limit: ReadLimit) -> BatchLimits:
        if isinstance(limit, ReadAllAvailable):
            return BatchLimits()
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        # With a fixed end there may never be more: waiting for it would be for ever.
        least = None if self._available_now else self.options.min_offsets_per_trigger
        return BatchLimits(most, least, self.options.max_trigger_delay_ms)


def _configure_logging() -> None:
    """Log to standard error, which Spark passes on to the driver's; unless somebody has arranged otherwise."""
    log = logging.getLogger("slackwater")
    if log.handlers or logging.getLogger().handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s", "%y/%m/%d %H:%M:%S"))
    log.addHandler(handler)
    log.setLevel(os.environ.get(LOG_LEVEL, "INFO").upper())


def _install_sigterm_handler() -> None:
    on_main = threading.current_thread() is threading.main_thread()
    if on_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _exit)


def _exit(signum: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(0)
