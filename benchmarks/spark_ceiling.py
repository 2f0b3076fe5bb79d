"""A Spark source that returns prebuilt Arrow batches: the upper bound for a Python source."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import numpy as np
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from slackwater.spark.source.columns import ConstantColumns, arrow_schema, ddl

BATCH_ROWS: Final = 65_536


@cache
def prebuilt(value_bytes: int, key_bytes: int) -> Any:
    """Build a batch of records of this size."""
    import pyarrow as pa  # type: ignore[import-untyped]

    def binary(size: int) -> Any:
        if not size:
            return pa.nulls(BATCH_ROWS, pa.binary())
        bounds = np.arange(0, (BATCH_ROWS + 1) * size, size, dtype=np.int32)
        data = pa.py_buffer(b"x" * (BATCH_ROWS * size))
        return pa.Array.from_buffers(pa.binary(), BATCH_ROWS, [None, pa.py_buffer(bounds), data])

    topic, partition = ConstantColumns("ceiling", 0).slice(BATCH_ROWS)
    numbers = pa.array(np.arange(BATCH_ROWS, dtype=np.int64))
    timestamp_types = pa.array(np.zeros(BATCH_ROWS, np.int32))
    times = numbers.view(pa.timestamp("us", "UTC"))
    columns = [binary(key_bytes), binary(value_bytes), topic, partition, numbers, times, timestamp_types]
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(headers=False))


class CeilingReader(DataSourceReader):
    """Returns the same batch repeatedly."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.rows = int(options["rows"])
        self.tasks = int(options["tasks"])
        self.batch_rows = int(options.get("batchRows", BATCH_ROWS))
        self.sizes = int(options["valueBytes"]), int(options["keyBytes"])

    def partitions(self) -> Sequence[InputPartition]:
        """Return equal partitions."""
        return [InputPartition(self.rows // self.tasks) for _ in range(self.tasks)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Return the rows of a partition."""
        batch, left = prebuilt(*self.sizes), int(partition.value)
        while left > 0:
            yield batch[: min(left, self.batch_rows)]
            left -= self.batch_rows


class CeilingSource(DataSource):
    """`format("ceiling")`."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "ceiling"

    def schema(self) -> str:
        """The columns of the source `slackwater`."""
        return ddl(headers=False)

    def reader(self, schema: StructType) -> DataSourceReader:
        """For `spark.read`."""
        return CeilingReader(self.options)
