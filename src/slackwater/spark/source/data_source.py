"""The data source `slackwater` as Spark sees it.

Invariants:
- Options are checked when Spark requests the schema, so an error points to the user's `load()`.
- This module opens no connections; the readers do, on first use.
- The client id is the application's unless the user sets one, so that every application has its own.
"""

from collections.abc import Mapping
from typing import ClassVar, Final, NoReturn

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from slackwater.group.errors import UsageError
from slackwater.spark.member.control_server import ControlAddress
from slackwater.spark.source.columns import ddl
from slackwater.spark.source.options import SourceOptions, check_options, includes_headers
from slackwater.spark.user_errors import as_user_error

CLIENT_ID: Final = "kafka.client.id"


class SlackwaterDataSource(DataSource):
    """`format("slackwater")`. `control` is the address of the application's control server, if there is one."""

    client_id: ClassVar[str] = ""
    control: ClassVar[ControlAddress | None] = None

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "slackwater"

    @classmethod
    def of_application(cls, client_id: str, control: ControlAddress | None) -> type["SlackwaterDataSource"]:
        """Return a subclass whose queries have this client id and connect to this control server."""
        return type(cls.__name__, (cls,), {"client_id": client_id, "control": control, "__doc__": cls.__doc__})

    def schema(self) -> str:
        """Check the options and return the schema of Spark's Kafka source."""
        with as_user_error():
            check_options(self.options)
            return ddl(headers=includes_headers(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Create the reader for `spark.read`."""
        from slackwater.spark.source.batch_reader import BatchReader

        with as_user_error():
            return BatchReader(SourceOptions.parse(self._all_options(), streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Create the reader for `spark.readStream`."""
        from slackwater.spark.source.stream_reader import StreamReader

        with as_user_error():
            return StreamReader(SourceOptions.parse(self._all_options(), streaming=True), self.control)

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        """Reject `df.write`."""
        self._reject_write("df.write")

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:
        """Reject `df.writeStream`."""
        self._reject_write("df.writeStream")

    def _reject_write(self, method: str) -> NoReturn:
        with as_user_error():
            raise UsageError(
                f'{method}.format("slackwater") is not supported: this source only reads; write with format("kafka"), '
                "or with slackwater.Producer in foreachPartition."
            )

    def _all_options(self) -> Mapping[str, str]:
        default = {CLIENT_ID: self.client_id} if self.client_id and CLIENT_ID not in self.options else {}
        return {**self.options, **default}
