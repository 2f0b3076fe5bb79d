"""Reads one offset range of a partition into Arrow batches, in a task on an executor.

Invariants:
- The connections belong to the process (`connections.py`). While data is decoded, the next data is fetched
  (`fetching.py`). Decoding creates no Python object per record (`wire.records.arrow`).
- A fetch returns up to 8 MiB, or `kafka.max.partition.fetch.bytes`: Arrow batches of fewer than ten thousand
  rows have more overhead than content.
- Checksums are verified unless `kafka.check.crcs` is false. Corrupt data fails the task with the partition's name.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Self

from slackwater.client.config import int_value
from slackwater.client.network.fetch import FetchedData
from slackwater.group.errors import PeerError
from slackwater.group.offset_range import OffsetRange
from slackwater.spark.clients.connections import get_connection
from slackwater.spark.clients.settings import parse_kafka
from slackwater.spark.source.columns import ConstantColumns, arrow_schema, nullable_headers
from slackwater.spark.source.fetching import DEFAULT_FETCH_BYTES, FetchSettings, RangeFetcher
from slackwater.spark.source.options import SourceOptions
from slackwater.spark.user_errors import as_user_error
from slackwater.wire.errors import WireError
from slackwater.wire.records.arrow import arrow_batches
from slackwater.wire.records.fetched import FetchedBatches

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

FETCH_BYTES_SETTING: Final = "max.partition.fetch.bytes"


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """Settings that all tasks of a query share."""

    kafka: Mapping[str, str]
    fetch: FetchSettings
    include_headers: bool
    check_crcs: bool

    @classmethod
    def of(cls, options: SourceOptions) -> Self:
        """Derive the settings from the user's options."""
        values = parse_kafka(options.kafka)
        fetch = FetchSettings(
            fetch_bytes=int_value(values, FETCH_BYTES_SETTING)
            if FETCH_BYTES_SETTING in options.kafka
            else DEFAULT_FETCH_BYTES,
            fetch_max_wait_ms=int_value(values, "fetch.max.wait.ms"),
            client_rack=str(values["client.rack"]),
            read_committed=options.read_committed,
            fail_on_data_loss=options.fail_on_data_loss,
            poll_timeout_ms=options.poll_timeout_ms,
        )
        return cls(options.kafka, fetch, options.include_headers, bool(values["check.crcs"]))


def read_range(offset_range: OffsetRange, settings: ReadSettings) -> Iterator["pa.RecordBatch"]:
    """Fetch and decode the records of a range."""
    constants = _constant_columns(offset_range.topic, offset_range.partition)
    with as_user_error():
        connection = get_connection(settings.kafka)
        for data in RangeFetcher(connection.network, connection.cluster, offset_range, settings.fetch):
            try:
                yield from _decode(data, offset_range, settings, constants)
            except WireError as error:
                raise PeerError(
                    f"Cannot read {offset_range.topic_partition} from offset {data.start_offset} on: {error}"
                ) from error


def _decode(
    data: FetchedData, offset_range: OffsetRange, settings: ReadSettings, constants: ConstantColumns
) -> Iterator["pa.RecordBatch"]:
    import pyarrow as pa

    schema = arrow_schema(headers=settings.include_headers)
    fetched = FetchedBatches(
        data.data, data.start_offset, offset_range.until_offset, aborted=data.aborted, check_crcs=settings.check_crcs
    )
    for batch in arrow_batches(fetched, headers=settings.include_headers):
        offset, timestamp, timestamp_type, key, value, *header_columns = batch.columns
        topic, partition = constants.slice(batch.num_rows)
        headers = [nullable_headers(column) for column in header_columns]
        columns = [key, value, topic, partition, offset, timestamp, timestamp_type, *headers]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


@lru_cache(maxsize=64)
def _constant_columns(topic: str, partition: int) -> ConstantColumns:
    return ConstantColumns(topic, partition)
