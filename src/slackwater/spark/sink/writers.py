"""The writers behind `df.write` and `df.writeStream` with delivery=at_least_once.

Invariants:
- A task succeeds when all its records are acknowledged. A repeated task writes its records again.
- The constructor does no work: Spark also creates writers that never write.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from slackwater.spark.sink.columns import SinkColumns
from slackwater.spark.sink.options import SinkOptions
from slackwater.spark.user_errors import as_user_error

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]


@dataclass(frozen=True)
class WrittenRecords(WriterCommitMessage):
    """What a task reports: the number of its records."""

    records: int


class BatchWriter(DataSourceArrowWriter):
    """The writer of a batch."""

    def __init__(self, options: SinkOptions, columns: SinkColumns) -> None:
        self.options = options
        self.columns = columns

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        """Write the rows of one task (executor)."""
        return write_at_least_once(iterator, self.options, self.columns)


class StreamWriter(DataSourceStreamArrowWriter):
    """The writer of a stream."""

    def __init__(self, options: SinkOptions, columns: SinkColumns) -> None:
        self.options = options
        self.columns = columns

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        """Write the rows of one task (executor)."""
        return write_at_least_once(iterator, self.options, self.columns)


def write_at_least_once(
    batches: Iterator["pa.RecordBatch"], options: SinkOptions, columns: SinkColumns
) -> WrittenRecords:
    """Write batches and wait until they are acknowledged."""
    from slackwater.spark.sink.producers import shared_producer
    from slackwater.spark.sink.record_writer import RecordWriter

    with as_user_error(), shared_producer(options.kafka) as producer:
        writer = RecordWriter(producer, columns, options)
        for batch in batches:
            writer.write(batch)
        writer.finish()
    return WrittenRecords(writer.records)
