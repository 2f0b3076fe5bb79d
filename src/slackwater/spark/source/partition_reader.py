"""What a task does: it reads one range of a partition into Arrow, on an executor.

Rules kept here
- The connections are those of the process (`connections`), the range's bytes come ahead (`fetching`), and a piece
  becomes columns without a Python object per record (`wire.arrow`).
- A batch has ten thousand rows or more wherever a piece has so many: below that it costs Spark more than it carries. A
  piece has 8 MiB, unless `kafka.max.partition.fetch.bytes` says otherwise.
- Checksums are checked unless `kafka.check.crcs` is false. Damaged bytes end the task with the partition's name.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Self

from slackwater.client.config import CONSUMER_SETTINGS, int_value, parse_settings
from slackwater.client.network.fetch import FetchedData
from slackwater.group.errors import PeerError
from slackwater.group.offset_range import OffsetRange
from slackwater.spark.source.columns import ConstantColumns, arrow_schema, nullable_headers
from slackwater.spark.source.connections import get_connection
from slackwater.spark.source.fetching import PIECE_BYTES, FetchSettings, RangeFetcher
from slackwater.spark.source.options import SourceOptions
from slackwater.spark.user_errors import as_user_error
from slackwater.wire.errors import WireError
from slackwater.wire.records.arrow import arrow_batches
from slackwater.wire.records.fetched import FetchedBatches

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

PIECE: Final = "max.partition.fetch.bytes"


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """What all tasks of a query share."""

    kafka: Mapping[str, str]
    fetch: FetchSettings
    include_headers: bool
    check_crcs: bool

    @classmethod
    def of(cls, options: SourceOptions) -> Self:
        """What the user's options mean for tasks."""
        values = parse_settings(options.kafka, CONSUMER_SETTINGS, ignored=lambda _name: None)
        asked = PIECE in options.kafka
        fetch = FetchSettings(
            piece_bytes=int_value(values, PIECE) if asked else PIECE_BYTES,
            fetch_max_wait_ms=int_value(values, "fetch.max.wait.ms"),
            client_rack=str(values["client.rack"]),
            read_committed=options.read_committed,
            fail_on_data_loss=options.fail_on_data_loss,
            poll_timeout_ms=options.poll_timeout_ms,
        )
        return cls(options.kafka, fetch, options.include_headers, bool(values["check.crcs"]))


def read(wanted: OffsetRange, settings: ReadSettings) -> Iterator["pa.RecordBatch"]:
    """The records of a range."""
    constants = _constants(wanted.topic, wanted.partition)
    with as_user_error():
        home = get_connection(settings.kafka)
        for piece in RangeFetcher(home.network, home.cluster, wanted, settings.fetch):
            try:
                yield from _batches(piece, wanted, settings, constants)
            except WireError as error:
                raise PeerError(
                    f"{wanted.topic_partition} cannot be read from offset {piece.start_offset} on: {error}"
                ) from error


def _batches(
    piece: FetchedData, wanted: OffsetRange, settings: ReadSettings, constants: ConstantColumns
) -> Iterator["pa.RecordBatch"]:
    import pyarrow as pa

    schema = arrow_schema(headers=settings.include_headers)
    fetched = FetchedBatches(
        piece.data, piece.start_offset, wanted.until_offset, aborted=piece.aborted, check_crcs=settings.check_crcs
    )
    for batch in arrow_batches(fetched, headers=settings.include_headers):
        offset, timestamp, timestamp_type, key, value, *more = batch.columns
        topic, partition = constants.of(batch.num_rows)
        more = [nullable_headers(one) for one in more]
        columns = [key, value, topic, partition, offset, timestamp, timestamp_type, *more]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


@lru_cache(maxsize=64)
def _constants(topic: str, partition: int) -> ConstantColumns:
    return ConstantColumns(topic, partition)
