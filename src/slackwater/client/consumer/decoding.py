"""Decodes fetched batches into records or Arrow tables, and returns them in parts.

Invariants:
- The batches of one response are decoded once, all together. `ConsumerRecord` objects are created when they are
  returned.
- The position after the last record skips what a reader never sees: control batches, aborted transactions and records
  removed by compaction.
"""

from collections import deque
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Final

from slackwater.client.consumer.records import ConsumerRecord
from slackwater.client.network.fetch import FetchedData
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.records.batch import RecordBatch, TimestampType
from slackwater.wire.records.decoding import DecodedResponse, decode_response

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

    from slackwater.wire.records.arrow import ArrowRecords

_READY_RECORDS: Final = 100  # creating many records at a time costs less for each
_TIMESTAMP_TYPES: Final = (TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)
_new_record: Final = partial(tuple.__new__, ConsumerRecord)  # a quarter faster than ConsumerRecord._make


class DecodedRecords:
    """The records of one fetch response; `position` is the offset of the next record to return."""

    __slots__ = ("_blocks", "_index", "_partition", "_ready", "batches", "leader_epoch", "next_offset")

    def __init__(self, partition: TopicPartition, batches: FetchedData, decoded: DecodedResponse) -> None:
        self.batches = batches
        self.leader_epoch = leader_epoch(batches)
        self.next_offset = decoded.next_offset
        self._partition = partition
        self._blocks = deque(decoded.blocks)
        self._index = 0  # in the first block
        self._ready: list[ConsumerRecord] = []  # created for single records, the next one last

    @property
    def is_exhausted(self) -> bool:
        """Whether all records were returned."""
        return not self._blocks and not self._ready

    @property
    def position(self) -> int:
        """The offset of the next record; the end of the batches when all were returned."""
        if self._ready:
            return self._ready[-1].offset
        return self._blocks[0].offset(self._index) if self._blocks else self.next_offset

    def take(self, max_records: int) -> list[ConsumerRecord]:
        """Return up to `max_records` of the next records, in the order of their offsets."""
        if max_records == 1 and not self._ready:
            self._ready = self._create(_READY_RECORDS)[::-1]
        if self._ready:
            return [self._ready.pop() for _ in range(min(max_records, len(self._ready)))]
        return self._create(max_records)

    def _create(self, max_records: int) -> list[ConsumerRecord]:
        if not self._blocks:
            return []
        block = self._blocks[0]
        start = self._index
        stop = min(start + max_records, len(block))
        offsets, timestamps, types, keys, values, headers = block.fields(start, stop)
        timestamp_types = map(_TIMESTAMP_TYPES.__getitem__, types)
        topics = repeat(self._partition.topic, stop - start)  # the shortest iterator, it ends the endless ones
        fields = zip(
            topics, repeat(self._partition.partition), offsets, timestamps, timestamp_types, keys, values, headers,
            repeat(self.leader_epoch), strict=False,
        )  # fmt: skip
        records: list[ConsumerRecord] = list(map(_new_record, fields))
        self._index = stop
        if stop == len(block):
            self._blocks.popleft()
            self._index = 0
        return records


class DecodedTable:
    """The rows of one fetch response, without the columns topic and partition."""

    __slots__ = ("_index", "_table", "batches", "has_headers", "leader_epoch", "next_offset")

    def __init__(self, batches: FetchedData, decoded: "ArrowRecords", has_headers: bool) -> None:
        self.batches = batches
        self.leader_epoch = leader_epoch(batches)
        self.next_offset = decoded.next_offset
        self.has_headers = has_headers
        self._table = decoded.table
        self._index = 0

    @property
    def is_exhausted(self) -> bool:
        """Whether all rows were returned."""
        return self._index >= len(self._table)

    @property
    def position(self) -> int:
        """The offset of the next row; the end of the batches when all were returned."""
        if self.is_exhausted:
            return self.next_offset
        offset: int = self._table.column("offset")[self._index].as_py()
        return offset

    def take(self, max_rows: int) -> "pa.Table":
        """Return up to `max_rows` of the next rows."""
        table = self._table
        rows = table if not self._index and len(table) <= max_rows else table.slice(self._index, max_rows)
        self._index += len(rows)
        return rows


def decode_records(
    partition: TopicPartition, batches: FetchedData, from_offset: int, *, check_crcs: bool
) -> DecodedRecords:
    """Decode batches for poll()."""
    decoded = decode_response(batches.data, from_offset, aborted=batches.aborted, check_crcs=check_crcs)
    return DecodedRecords(partition, batches, decoded)


def decode_table(batches: FetchedData, from_offset: int, *, headers: bool, check_crcs: bool) -> DecodedTable:
    """Decode batches for poll_arrow()."""
    from slackwater.wire.records import arrow  # pyarrow is optional

    decoded = arrow.read_arrow(
        batches.data, from_offset, headers=headers, aborted=batches.aborted, check_crcs=check_crcs
    )
    return DecodedTable(batches, decoded, headers)


def leader_epoch(batches: FetchedData) -> int:
    """Return the leader epoch of the first batch."""
    return RecordBatch(batches.data).partition_leader_epoch
