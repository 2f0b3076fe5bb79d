"""The data source `slackwater`, as Spark finds it.

Rules kept here
- Options are looked at when the schema is asked for, so that a mistake is told where the user made it.
- Nothing is connected here: readers do that when they are first used.
"""

from typing import ClassVar

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from slackwater.spark.member.control_server import ControlAddress
from slackwater.spark.source.columns import ddl
from slackwater.spark.source.options import SourceOptions, check, includes_headers
from slackwater.spark.user_errors import as_user_error


class SlackwaterDataSource(DataSource):
    """`format("slackwater")`; `control` is where the user's process can be heard, if it listens."""

    control: ClassVar[ControlAddress | None] = None

    @classmethod
    def name(cls) -> str:
        """The word in `format`."""
        return "slackwater"

    @classmethod
    def with_control_server(cls, control: ControlAddress) -> type["SlackwaterDataSource"]:
        """The same source for one application: its queries' members call there."""
        return type(cls.__name__, (cls,), {"control": control, "__doc__": cls.__doc__})

    def schema(self) -> str:
        """The columns of Spark's own Kafka source."""
        with as_user_error():
            check(self.options)
            return ddl(headers=includes_headers(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """For `spark.read`."""
        from slackwater.spark.source.batch_reader import BatchReader

        with as_user_error():
            return BatchReader(SourceOptions.parse(self.options, streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """For `spark.readStream`."""
        from slackwater.spark.source.stream_reader import StreamReader

        with as_user_error():
            return StreamReader(SourceOptions.parse(self.options, streaming=True), self.control)
