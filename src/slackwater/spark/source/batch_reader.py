"""`spark.read.format("slackwater")`: the records between two places, each once.

Rules kept here
- Planning resolves both places, in the driver, once. A task then reads what it was given, whatever is written
  meanwhile.
- The constructor does nothing: Spark makes a reader also where nothing is read.
- A batch is in no group: it commits nothing.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from slackwater.group.offset_range import OffsetRange
from slackwater.spark.source.connections import get_connection
from slackwater.spark.source.input_partitions import RangeInputPartition, plan_input_partitions
from slackwater.spark.source.offset_reader import OffsetReader
from slackwater.spark.source.options import SourceOptions
from slackwater.spark.source.partition_reader import ReadSettings, read
from slackwater.spark.user_errors import as_user_error

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]


class BatchReader(DataSourceReader):
    """Plans a batch, and reads its parts."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.settings = ReadSettings.of(options)

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks."""
        with as_user_error():
            home = get_connection(self.options.kafka)
            ranges = plan_ranges(OffsetReader(home.network, home.cluster, self.options), self.options)
        return plan_input_partitions(ranges, self.options.min_partitions, self.options.max_records_per_partition)

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """The records of a task; Spark makes up a task without a range where there is none."""
        if isinstance(partition, RangeInputPartition):
            yield from read(partition.range, self.settings)


def plan_ranges(watch: OffsetReader, options: SourceOptions) -> list[OffsetRange]:
    """What is there to read now."""
    partitions = watch.partitions()
    starts = watch.resolve(options.starting, partitions)
    ends = watch.resolve(options.ending, partitions)
    return [OffsetRange(*one, starts[one], ends[one]) for one in partitions]
