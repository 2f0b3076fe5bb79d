"""The writers behind `df.write` and `df.writeStream` with delivery=exactly_once; `driver.py` has the driver's part.

Invariants:
- Every attempt of a task writes in a transaction of its own, and does not end it. A failed attempt aborts it.
- A task of a batch that is committed already writes nothing.
- The state of a batch is in the messages of its tasks and in Kafka: Spark creates the driver's side for each batch.
"""

import contextlib
import sys
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from slackwater.client.network.transactions import OpenTransaction
from slackwater.group.errors import SlackwaterError, UsageError
from slackwater.spark.member.control_server import ControlAddress
from slackwater.spark.sink.columns import SinkColumns
from slackwater.spark.sink.decisions import Decision
from slackwater.spark.sink.driver import (
    TIMEOUT_SETTING,
    PreparedBatch,
    abort_batch,
    check_repeated,
    commit_batch,
    prepare_batch,
    transactional_id,
)
from slackwater.spark.sink.input_offsets import GroupInputs, request_inputs
from slackwater.spark.sink.options import SinkOptions
from slackwater.spark.user_errors import as_user_error

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

BATCH_ID_PROPERTY: Final = "streaming.sql.batchId"
QUERY_ID_PROPERTY: Final = "sql.streaming.queryId"
RUN_ID_PROPERTY: Final = "spark.jobGroup.id"
_COMMIT_MODULE: Final = "python_streaming_sink_runner"
_RUN_DIGITS: Final = 8
_STAGE_ATTEMPTS: Final = 8
"""The task attempt id modulo this number tells the attempts of a repeated stage apart."""


@dataclass(frozen=True)
class TaskResult(WriterCommitMessage):
    """What a task reports: its transaction, or None without records, and what the driver needs to commit the batch."""

    query_id: str
    run: str
    driver_producer: OpenTransaction
    transaction: OpenTransaction | None
    records: int
    is_repeated: bool = False
    """Whether an earlier run has committed the batch."""


@dataclass(frozen=True, slots=True)
class SparkBatch:
    """The batch of a task. Spark numbers the batches of a query; that of `df.write` has number 0."""

    query_id: str
    run: str
    batch_id: int


class ExactlyOnceBatchWriter(DataSourceArrowWriter):
    """The writer of a batch: all of its records become visible together, or none."""

    def __init__(self, options: SinkOptions, columns: SinkColumns) -> None:
        self.options = options
        self.columns = columns
        run = uuid.uuid4().hex
        self.batch = SparkBatch(run, run[:_RUN_DIGITS], 0)
        self.prepared = prepare_batch(options)

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        """Write the rows of one task (executor)."""
        with as_user_error():
            return write_task(iterator, self.options, self.columns, self.prepared, self.batch, _task())

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit the transactions of all tasks (driver)."""
        with as_user_error():
            decision = Decision(self.batch.query_id, self.batch.batch_id, _transactions(messages))
            commit_batch(self.options, self.prepared.driver_producer, self.batch.run, decision, list)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Abort the transactions of all tasks (driver)."""
        with as_user_error():
            abort_batch(self.options, self.batch.run, _transactions(messages), self.batch.query_id, self.batch.batch_id)


class ExactlyOnceStreamWriter(DataSourceStreamArrowWriter):
    """The writer of one micro-batch. Spark creates it once to plan the batch, and once more to commit it."""

    def __init__(self, options: SinkOptions, columns: SinkColumns, control: ControlAddress | None) -> None:
        if control is None:
            raise UsageError(
                "delivery=exactly_once needs slackwater.spark.register(spark) in the driver; Spark Connect does not "
                "support it. Use delivery=at_least_once."
            )
        self.options = options
        self.columns = columns
        self.control: ControlAddress | None = control
        self.prepared = None if is_commit_process() else prepare_batch(options)

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"control": None}  # tasks do not need its secret

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        """Write the rows of one task (executor)."""
        with as_user_error():
            assert self.prepared is not None
            return write_task(iterator, self.options, self.columns, self.prepared, _current_batch(), _task())

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Commit the batch with its input offsets (driver)."""
        results = [message for message in messages if isinstance(message, TaskResult)]
        if not results:
            return
        query_id, control = results[0].query_id, self.control
        assert control is not None

        def inputs() -> Sequence[GroupInputs]:
            return request_inputs(control, query_id, batchId)

        with as_user_error():
            if any(result.is_repeated for result in results):
                check_repeated(batchId, inputs())
                return
            decision = Decision(query_id, batchId, _transactions(messages))
            commit_batch(self.options, results[0].driver_producer, results[0].run, decision, inputs)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Abort the transactions of all tasks (driver); without any message the next run aborts them."""
        results = [message for message in messages if isinstance(message, TaskResult)]
        if results:
            with as_user_error():
                abort_batch(self.options, results[0].run, _transactions(messages), results[0].query_id, batchId)


def write_task(
    batches: Iterator["pa.RecordBatch"],
    options: SinkOptions,
    columns: SinkColumns,
    prepared: PreparedBatch,
    batch: SparkBatch,
    task: str,
) -> TaskResult:
    """Write the rows of one attempt of a task in an open transaction."""
    nothing = TaskResult(batch.query_id, batch.run, prepared.driver_producer, None, 0)
    if prepared.decided is not None and prepared.decided[0] == batch.query_id:
        if prepared.decided[1] == batch.batch_id:
            for _batch in batches:  # it is committed; Spark had no time to note that
                pass
            return replace(nothing, is_repeated=True)
        if prepared.decided[1] > batch.batch_id:
            raise UsageError(
                f"Batch {batch.batch_id} of this query was committed long ago: {prepared.decided[1]} is the last "
                "committed one. The checkpoint is older than the output; use the newest checkpoint, or a new "
                "checkpointLocation with a new transactionalIdPrefix."
            )
    first = next((each for each in batches if each.num_rows), None)
    if first is None:
        return nothing
    return _write_in_transaction(first, batches, options, columns, prepared, batch, task)


def _write_in_transaction(
    first: "pa.RecordBatch",
    batches: Iterator["pa.RecordBatch"],
    options: SinkOptions,
    columns: SinkColumns,
    prepared: PreparedBatch,
    batch: SparkBatch,
    task: str,
) -> TaskResult:
    from slackwater.spark.sink.producers import create_producer
    from slackwater.spark.sink.record_writer import RecordWriter

    name = transactional_id(options.transactional_id_prefix, batch.run, batch.batch_id, task)
    producer = create_producer(options.kafka | {"transactional.id": name, TIMEOUT_SETTING: str(prepared.timeout_ms)})
    try:
        producer.init_transactions()
        producer.begin_transaction()
        writer = RecordWriter(producer, columns, options)
        writer.write(first)
        for each in batches:
            writer.write(each)
        writer.finish()
        result = TaskResult(
            batch.query_id, batch.run, prepared.driver_producer, producer.open_transaction, writer.records
        )
    except BaseException:
        with contextlib.suppress(SlackwaterError):
            producer.close()  # aborts the transaction
        raise
    producer.abandon()
    return result


def _transactions(messages: Sequence[WriterCommitMessage | None]) -> tuple[OpenTransaction, ...]:
    return tuple(
        message.transaction
        for message in messages
        if isinstance(message, TaskResult) and message.transaction is not None
    )


def is_commit_process() -> bool:
    """Whether Spark creates this writer to commit or abort a micro-batch, and not to plan it.

    Spark calls both with the same arguments; the module of Spark that calls tells them apart.
    """
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if Path(frame.f_code.co_filename).stem == _COMMIT_MODULE:
            return True
        frame = frame.f_back
    return False


def _current_batch() -> SparkBatch:
    context = _context()
    query_id, run_id, batch_id = (
        context.getLocalProperty(name) for name in (QUERY_ID_PROPERTY, RUN_ID_PROPERTY, BATCH_ID_PROPERTY)
    )
    if query_id is None or run_id is None or batch_id is None:
        raise SlackwaterError(
            "Spark does not pass this task the batch that it belongs to; delivery=exactly_once needs it."
        )
    return SparkBatch(query_id, uuid.UUID(run_id).hex[:_RUN_DIGITS], int(batch_id))


def _task() -> str:
    """Return the part of a transactional id that names this attempt of a task.

    Attempt numbers start again when Spark repeats a stage; the last part tells these attempts apart.
    """
    context = _context()
    return f"{context.partitionId()}-{context.attemptNumber()}-{context.taskAttemptId() % _STAGE_ATTEMPTS}"


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None
    return context
