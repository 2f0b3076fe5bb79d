"""The data source `slackwater` as Spark sees it.

Invariants:
- Options are checked when Spark requests the schema, so an error points to the user's `load()`. Those of a sink are
  checked when Spark creates the writer.
- This module opens no connections; the readers and writers do, on first use.
"""

from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from slackwater.group.errors import UsageError
from slackwater.spark.clients.settings import use_driver_files
from slackwater.spark.member.control_server import ControlAddress
from slackwater.spark.source.columns import ddl
from slackwater.spark.source.options import SourceOptions, check_options, includes_headers
from slackwater.spark.user_errors import as_user_error

if TYPE_CHECKING:
    from slackwater.spark.sink.columns import SinkColumns
    from slackwater.spark.sink.options import SinkOptions


class SlackwaterDataSource(DataSource):
    """`format("slackwater")`, with the name of the application and the address of its control server, if it has one."""

    application: ClassVar[str] = ""
    control: ClassVar[ControlAddress | None] = None
    files: ClassVar[str] = ""
    """The driver's directory of files that Spark ships."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "slackwater"

    @classmethod
    def of_application(
        cls, application: str, control: ControlAddress | None, files: str = ""
    ) -> type["SlackwaterDataSource"]:
        """Return a subclass whose queries belong to this application and connect to this control server."""
        return type(
            cls.__name__,
            (cls,),
            {"application": application, "control": control, "files": files, "__doc__": cls.__doc__},
        )

    def schema(self) -> str:
        """Check the options and return the schema of Spark's Kafka source."""
        use_driver_files(self.files)
        with as_user_error():
            check_options(self.options)
            return ddl(headers=includes_headers(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Create the reader for `spark.read`."""
        from slackwater.spark.source.batch_reader import BatchReader

        with as_user_error():
            return BatchReader(SourceOptions.parse(self.options, streaming=False, application=self.application))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Create the reader for `spark.readStream`."""
        from slackwater.spark.member.stream_reader import StreamReader

        use_driver_files(self.files)
        with as_user_error():
            return StreamReader(
                SourceOptions.parse(self.options, streaming=True, application=self.application), self.control
            )

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Create the writer for `df.write`."""
        from slackwater.spark.sink.writers import BatchWriter

        use_driver_files(self.files)
        with as_user_error():
            if overwrite:
                raise UsageError('A topic cannot be overwritten; use mode("append").')
            options, columns = self._sink(schema)
            if options.is_exactly_once:
                from slackwater.spark.sink.exactly_once import ExactlyOnceBatchWriter

                return ExactlyOnceBatchWriter(options, columns)
            return BatchWriter(options, columns)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Create the writer for `df.writeStream`."""
        from slackwater.spark.sink.writers import StreamWriter

        use_driver_files(self.files)
        with as_user_error():
            options, columns = self._sink(schema)
            if options.is_exactly_once:
                from slackwater.spark.sink.exactly_once import ExactlyOnceStreamWriter

                return ExactlyOnceStreamWriter(options, columns, self.control)
            return StreamWriter(options, columns)

    def _sink(self, schema: StructType) -> "tuple[SinkOptions, SinkColumns]":
        from slackwater.spark.sink.columns import SinkColumns
        from slackwater.spark.sink.options import SinkOptions

        options = SinkOptions.parse(self.options, application=self.application)
        return options, SinkColumns.of(schema, has_topic_option=options.topic is not None)
