"""The reader behind `spark.read.format("slackwater")`.

Invariants:
- The driver resolves the starting and ending offsets once. Tasks read exactly these ranges.
- The constructor does no work: Spark also creates readers that never read.
- A batch read joins no group and commits nothing.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from slackwater.group.offset_range import OffsetRange
from slackwater.spark.clients.connections import get_connection
from slackwater.spark.source.input_partitions import RangeInputPartition, plan_input_partitions
from slackwater.spark.source.offset_reader import OffsetReader
from slackwater.spark.source.options import SourceOptions
from slackwater.spark.source.partition_reader import ReadSettings, read_range
from slackwater.spark.user_errors import as_user_error

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]


class BatchReader(DataSourceReader):
    """Plans the input partitions of a batch read, and reads them on executors."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.settings = ReadSettings.of(options)

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the input partitions (driver)."""
        with as_user_error():
            connection = get_connection(self.options.kafka)
            ranges = plan_ranges(OffsetReader(connection.network, connection.cluster, self.options), self.options)
        return plan_input_partitions(ranges, self.options.min_partitions, self.options.max_records_per_partition)

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Read one input partition (executor). If the plan is empty, Spark passes a partition of its own."""
        if isinstance(partition, RangeInputPartition):
            yield from read_range(partition.range, self.settings)


def plan_ranges(offsets: OffsetReader, options: SourceOptions) -> list[OffsetRange]:
    """Resolve the starting and ending offsets to one range per partition."""
    partitions = offsets.partitions()
    starts = offsets.resolve(options.starting, partitions)
    ends = offsets.resolve(options.ending, partitions)
    return [OffsetRange(*partition, starts[partition], ends[partition]) for partition in partitions]
