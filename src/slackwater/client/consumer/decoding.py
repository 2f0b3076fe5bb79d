"""Fetched bytes made into records or into Arrow, as much of them as a poll gives out.

Rules kept here
- A chunk is unpacked when its first record is wanted, once, in bulk; what is left of it waits unpacked. Records become
  objects when they are given out. Whoever wants the other form unpacks the rest of the chunk again.
- A partition's position moves past what was given out, and past what nobody is given: control batches, aborted
  transactions, records that compaction took away.
- A chunk that cannot be read is fetched again, and the reader is told where it stands: nothing is passed over.
"""

from collections import deque
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Final

from slackwater.client.consumer.positions import Chunk, PartitionState, Positions
from slackwater.client.consumer.records import ConsumerRecord
from slackwater.group.errors import PeerError
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.errors import WireError
from slackwater.wire.records.batch import RecordBatch, TimestampType
from slackwater.wire.records.decoding import DecodedResponse, decode_response

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

_KINDS: Final = (TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)
_make: Final = partial(tuple.__new__, ConsumerRecord)  # a quarter faster than ConsumerRecord._make, and as strict


class OpenRecords:
    """A chunk whose records were found, and how many of them were given out."""

    __slots__ = ("at", "blocks", "chunk", "leader_epoch", "next_offset")

    def __init__(self, chunk: Chunk, found: DecodedResponse, leader_epoch: int) -> None:
        self.chunk = chunk
        self.blocks = deque(found.blocks)
        self.at = 0  # in the first block
        self.next_offset = found.next_offset
        self.leader_epoch = leader_epoch


class OpenTable:
    """A chunk unpacked into a table, and how many of its rows were given out."""

    __slots__ = ("at", "chunk", "headers", "leader_epoch", "next_offset", "table")

    def __init__(self, chunk: Chunk, table: "pa.Table", next_offset: int, leader_epoch: int, headers: bool) -> None:
        self.chunk = chunk
        self.table = table
        self.at = 0
        self.next_offset = next_offset
        self.leader_epoch = leader_epoch
        self.headers = headers


class RecordDecoder:
    """Gives out what was fetched of one consumer's partitions."""

    def __init__(self, positions: Positions, *, check_crcs: bool) -> None:
        self._positions = positions
        self._check_crcs = check_crcs

    def take(self, state: PartitionState, room: int) -> list[ConsumerRecord]:
        """The next records of a partition, at most `room`; its position moves with them."""
        while True:
            opened = state.opened
            if not isinstance(opened, OpenRecords):
                _close(state)
                if not state.chunks or state.position is None:
                    return []
                opened = state.opened = self._open_records(state)
            state.leader_epoch = opened.leader_epoch
            if opened.blocks:
                taken = self._make(state.partition, opened, room)
            else:
                taken = []
            if opened.blocks:
                state.position = opened.blocks[0].offset(opened.at)
                return taken
            state.opened = None
            state.position = opened.next_offset
            if taken:
                return taken

    @staticmethod
    def _make(where: TopicPartition, opened: OpenRecords, room: int) -> list[ConsumerRecord]:
        """Up to `room` records of the first block."""
        block = opened.blocks[0]
        start = opened.at
        stop = min(start + room, len(block))
        offsets, timestamps, types, keys, values, headers = block.fields(start, stop)
        kinds = map(_KINDS.__getitem__, types)
        topics = repeat(where.topic, stop - start)  # asked first, it ends the endless ones
        fields = zip(
            topics, repeat(where.partition), offsets, timestamps, kinds, keys, values, headers,
            repeat(opened.leader_epoch), strict=False,
        )  # fmt: skip
        records: list[ConsumerRecord] = list(map(_make, fields))
        opened.at = stop
        if stop == len(block):
            opened.blocks.popleft()
            opened.at = 0
        return records

    def take_table(self, state: PartitionState, room: int, *, headers: bool) -> "pa.Table | None":
        """The next rows of a partition, at most `room`, without topic and partition; its position moves with them."""
        while True:
            opened = state.opened
            if not isinstance(opened, OpenTable) or opened.headers is not headers:
                _close(state)
                if not state.chunks or state.position is None:
                    return None
                opened = state.opened = self._open_table(state, headers)
            table = opened.table
            taken = table if not opened.at and len(table) <= room else table.slice(opened.at, room)
            opened.at += len(taken)
            state.leader_epoch = opened.leader_epoch
            if opened.at < len(table):
                state.position = table.column("offset")[opened.at].as_py()
                return taken
            state.opened = None
            state.position = opened.next_offset
            if len(taken):
                return taken

    def _open_records(self, state: PartitionState) -> OpenRecords:
        chunk, start, epoch = self._next(state)
        try:
            found = decode_response(chunk.data, start, aborted=chunk.aborted, check_crcs=self._check_crcs)
        except WireError as error:
            raise self._unreadable(state, error) from error
        return OpenRecords(chunk, found, epoch)

    def _open_table(self, state: PartitionState, headers: bool) -> OpenTable:
        from slackwater.wire.records.arrow import read_arrow

        chunk, start, epoch = self._next(state)
        try:
            found = read_arrow(chunk.data, start, headers=headers, aborted=chunk.aborted, check_crcs=self._check_crcs)
        except WireError as error:
            raise self._unreadable(state, error) from error
        return OpenTable(chunk, found.table, found.next_offset, epoch, headers)

    @staticmethod
    def _next(state: PartitionState) -> tuple[Chunk, int, int]:
        chunk = state.chunks.popleft()
        return chunk, max(chunk.start, state.position or 0), RecordBatch(chunk.data).partition_leader_epoch

    def _unreadable(self, state: PartitionState, error: WireError) -> PeerError:
        position = state.position or 0
        self._positions.seek(state, position, state.leader_epoch)
        return PeerError(
            f"The records of {state.partition} from offset {position} on cannot be read: {error} They are fetched "
            "again at the next poll; to leave them out, seek past them."
        )


def _close(state: PartitionState) -> None:
    """Put a chunk back that was unpacked in the other form; it is read from the position on."""
    if state.opened is not None:
        state.chunks.appendleft(state.opened.chunk)
        state.opened = None
