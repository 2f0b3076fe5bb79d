"""The reader behind `spark.readStream.format("slackwater")`.

Invariants:
- The constructor does no work: Spark also creates the reader in a second process and sends a copy to every task. The
  first call in the driver creates the `QueryRun`.
- Spark ends a query with SIGTERM, sometimes twice, and does not wait. The first signal raises SystemExit, so `stop`
  runs; later signals are ignored.
- Errors have one line: Spark shows only the first.
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

from slackwater.group.batches.batch_limits import BatchLimits
from slackwater.group.batches.offset import BatchOffset
from slackwater.spark.member.control_server import ControlAddress
from slackwater.spark.member.query_run import QueryRun
from slackwater.spark.source.input_partitions import RangeInputPartition, plan_input_partitions
from slackwater.spark.source.offset_json import from_json, to_json
from slackwater.spark.source.options import SourceOptions
from slackwater.spark.source.partition_reader import ReadSettings, read_range
from slackwater.spark.user_errors import as_user_error

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

LOG_LEVEL = "SLACKWATER_LOG"


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of one query. `control` is the address of the application's control server."""

    def __init__(self, options: SourceOptions, control: ControlAddress | None = None) -> None:
        self.options = options
        self.settings = ReadSettings.of(options)
        self.control = control
        self.query_run: QueryRun | None = None  # created by the first call in the driver
        self._available_now = False

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"query_run": None}

    # --- in the driver ------------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """Return the starting offset of a new query."""
        with as_user_error():
            return to_json(self._started_run.initial_offset())

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that the options set."""
        if self.options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self.options.max_offsets_per_trigger)
        if self.options.min_offsets_per_trigger is not None:
            return ReadMinRows(self.options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next micro-batch, or `start` if there is no new data."""
        with as_user_error():
            offset = self._started_run.next_batch(self._parse(start), self._limits(limit))
            return dict(start) if offset is None else to_json(offset)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the metrics for the query's progress."""
        return self._started_run.progress() or None

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        """Plan the input partitions of a micro-batch, which is now in the checkpoint."""
        if start == end:
            return []
        with as_user_error():
            ranges = self._started_run.batch_ranges(self._parse(start), self._parse(end))
            return plan_input_partitions(ranges, self.options.min_partitions, self.options.max_records_per_partition)

    def commit(self, end: Mapping[str, Any]) -> None:
        """Record that all micro-batches up to `end` are finished."""
        with as_user_error():
            self._started_run.on_batch_finished(self._parse(end).seq)

    def prepareForTriggerAvailableNow(self) -> None:
        """Read up to the current end offsets, then stop (Trigger.AvailableNow)."""
        self._available_now = True
        with as_user_error():
            self._started_run.fix_end_offsets()

    def stop(self) -> None:
        """Leave the group and close the connections."""
        if self.query_run is not None:
            self.query_run.stop()

    # --- on executors -------------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Read one input partition. If the plan is empty, Spark passes a partition of its own."""
        if isinstance(partition, RangeInputPartition):
            yield from read_range(partition.range, self.settings)

    # --- helpers ------------------------------------------------------------------------------------------------------

    @property
    def _started_run(self) -> QueryRun:
        if self.query_run is None:
            _configure_logging()
            _install_sigterm_handler()
            self.query_run = QueryRun(self.options, self.control)
        return self.query_run

    def _parse(self, offset: Mapping[str, Any]) -> BatchOffset:
        return from_json(offset, new_checkpoint_id=self._started_run.new_checkpoint_id)

    def _limits(self, limit: ReadLimit) -> BatchLimits:
        if isinstance(limit, ReadAllAvailable):
            return BatchLimits()
        max_offsets = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        # With a fixed end the minimum may never be reached.
        min_offsets = None if self._available_now else self.options.min_offsets_per_trigger
        return BatchLimits(max_offsets, min_offsets, self.options.max_trigger_delay_ms)


def _configure_logging() -> None:
    """Log to standard error, which Spark forwards to the driver's, unless logging is already configured."""
    log = logging.getLogger("slackwater")
    if log.handlers or logging.getLogger().handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s", "%y/%m/%d %H:%M:%S"))
    log.addHandler(handler)
    log.setLevel(os.environ.get(LOG_LEVEL, "INFO").upper())


def _install_sigterm_handler() -> None:
    is_main_thread = threading.current_thread() is threading.main_thread()
    if is_main_thread and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _exit)


def _exit(signum: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(0)
