"""One segment of a log: a file of record batches as they came over the wire, and the indexes beside it.

Rules kept here
- An append is one write behind the last whole batch. If it fails, the file is cut back to where it was, and even bytes
  that cannot be cut off are harmless: the next append writes over them, and nothing beyond `size` is ever read.
- A read gives whole batches, in one copy: from the page cache into the bytes that are answered.
- An index entry is due as in Kafka: before a batch, if more than `index.interval.bytes` precede it since the last.

To find an offset, the offset index leads to a batch at most one interval before it, and the walk goes on over headers.
Who reads on where the last read ended, as consumers do, needs neither: the ends of the last reads are remembered.
"""

import contextlib
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, cast

from slackwater.broker.storage.log.config import INT_MAX, LogConfig
from slackwater.broker.storage.log.files import LOG, OFFSET_INDEX, SEGMENT_SUFFIXES, TIME_INDEX, file_name, write_at
from slackwater.broker.storage.log.index import DamagedIndex, OffsetIndex, TimeIndex
from slackwater.broker.storage.log.records import find_first_record
from slackwater.wire.records.batch import HEADER_BYTES, LENGTH_ENDS_AT, NO_TIMESTAMP, RecordBatch
from slackwater.wire.records.compression import Buffer

# Base offset, length, and further on the last offset delta, the base and the max timestamp: what a walk looks at.
_WALK: Final = struct.Struct(">qi11xiqq")
_LENGTH: Final = struct.Struct(">i")
_LENGTH_AT: Final = 8
_WALK_BYTES: Final = 16 * 1024
_REMEMBERED_READS: Final = 64


class BatchPosition(NamedTuple):
    """One batch on a walk over a segment."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int


class Segment:
    """A segment file that is open, its indexes, and what is known of its content."""

    __slots__ = (
        "_bytes_since_entry",
        "_index_interval_bytes",
        "_offset_index",
        "_reads",
        "_time_index",
        "base_offset",
        "created_ms",
        "directory",
        "fd",
        "first_timestamp",
        "max_timestamp",
        "next_offset",
        "offset_of_max_timestamp",
        "size",
        "suffix",
    )

    def __init__(
        self,
        directory: Path,
        base_offset: int,
        config: LogConfig,
        now_ms: int,
        *,
        suffix: str = "",
        create: bool = False,
    ) -> None:
        """Open a segment's file, or make an empty one in the place of whatever has that name.

        Nothing is known of the content of a file that was there: `reset` and `note` tell it, or `trust`.
        """
        self.directory = directory
        self.base_offset = base_offset
        self.suffix = suffix
        self.created_ms = now_ms
        self._index_interval_bytes = config.index_interval_bytes
        flags = os.O_RDWR | (os.O_CREAT | os.O_TRUNC if create else 0)
        self.fd = os.open(self.path(LOG), flags, 0o644)
        self._reads: dict[int, int] = {}
        self.reset()
        if not create:
            self.size = os.fstat(self.fd).st_size

    def reset(self) -> None:
        """Forget the content, to be told of it batch by batch."""
        self.size = 0
        self.next_offset = self.base_offset
        self.max_timestamp = self.first_timestamp = NO_TIMESTAMP
        self.offset_of_max_timestamp = self.base_offset
        self._bytes_since_entry = 0
        self._offset_index: OffsetIndex | None = OffsetIndex(self.path(OFFSET_INDEX))
        self._time_index: TimeIndex | None = TimeIndex(self.path(TIME_INDEX))
        self._reads.clear()

    def trust(self, next_offset: int) -> None:
        """Take the file as it is, because it was flushed; its indexes are read when they are needed.

        An index that is missing or cannot be one is built anew, now or then, from the headers in the file.
        """
        try:
            OffsetIndex.check_end(self.path(OFFSET_INDEX), self.size)
            self.max_timestamp, relative_offset = TimeIndex.read_last(self.path(TIME_INDEX))
        except DamagedIndex:
            self._rebuild()
        else:
            self.offset_of_max_timestamp = self.base_offset + relative_offset
            # Most closed segments are never read again.
            self._offset_index = self._time_index = None
            first = next(self.walk(0), None)
            self.first_timestamp = NO_TIMESTAMP if first is None else first.max_timestamp
        self.next_offset = next_offset

    def _rebuild(self) -> None:
        """Build both indexes anew from the headers, as far as they follow each other."""
        end, next_offset = self.size, self.next_offset
        self.reset()
        for step in self.walk(0, end):
            follows = self.next_offset <= step.last_offset <= self.base_offset + INT_MAX
            if step.size < HEADER_BYTES or step.position + step.size > end or not follows:
                break
            self.note(step.size, step.last_offset, step.max_timestamp)
        self.next_offset = next_offset
        with contextlib.suppress(OSError):
            self.finish()

    def path(self, kind: str) -> Path:
        """The name of one of the segment's files."""
        return self.directory / (file_name(self.base_offset, kind) + self.suffix)

    @property
    def offset_index(self) -> OffsetIndex:
        """The offset index, read now if it was not yet."""
        index = self._offset_index
        return self._read_indexes()[0] if index is None else index

    @property
    def time_index(self) -> TimeIndex:
        """The time index, read now if it was not yet."""
        index = self._time_index
        return self._read_indexes()[1] if index is None else index

    def _read_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        if self._offset_index is None or self._time_index is None:
            try:
                self._offset_index = OffsetIndex.read(self.path(OFFSET_INDEX), self.size)
                self._time_index = TimeIndex.read(self.path(TIME_INDEX))
            except DamagedIndex:
                self._rebuild()
        return cast("OffsetIndex", self._offset_index), cast("TimeIndex", self._time_index)

    def should_roll(
        self,
        config: LogConfig,
        size: int,
        last_offset: int,
        max_timestamp: int,
        now_ms: int,
        *,
        waiting_bytes: int = 0,
        waiting_timestamp: int = NO_TIMESTAMP,
    ) -> bool:
        """Whether so many bytes, up to this offset and timestamp, belong into the next segment.

        What waits to be written counts as if it were; `waiting_timestamp` is that of the first batch of it.
        """
        filled = self.size + waiting_bytes
        if not filled:
            return False
        if filled > config.segment_bytes - size or last_offset - self.base_offset > INT_MAX:
            return True
        # As in Kafka, time passes by the records' clock where they have one.
        first_timestamp = self.first_timestamp if self.size else waiting_timestamp
        waited = max_timestamp - first_timestamp if first_timestamp >= 0 else now_ms - self.created_ms
        return waited > config.roll_ms or self._is_index_full(config)

    def _is_index_full(self, config: LogConfig) -> bool:
        # The last slot of the time index is kept for the entry that closing adds.
        most_times = config.segment_index_bytes // TimeIndex.entry.size - 1
        entries = len(self.offset_index.keys)
        # An entry takes more room there than in the offset index, and none is added to it alone.
        if entries < most_times:
            return False
        return entries >= config.segment_index_bytes // OffsetIndex.entry.size or len(self.time_index) >= most_times

    def append(self, buffers: Sequence[Buffer]) -> None:
        """Write behind the last batch; `note` then tells what was written. Raises OSError, and nothing was written."""
        try:
            write_at(self.fd, buffers, self.size)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self.fd, self.size)
            raise

    def note(self, size: int, last_offset: int, max_timestamp: int) -> None:
        """Take a batch into account that stands in the file behind the last one."""
        position = self.size
        if not position:
            self.first_timestamp = max_timestamp
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.offset_of_max_timestamp = last_offset
        if self._bytes_since_entry > self._index_interval_bytes:
            self.offset_index.add(last_offset - self.base_offset, position)
            self.time_index.add_newer(self.max_timestamp, self.offset_of_max_timestamp - self.base_offset)
            self._bytes_since_entry = 0
            if self.offset_index.behind:
                # A full disk refuses appends, not hints: the entries stay in memory, and the next turn tries again.
                with contextlib.suppress(OSError):
                    self.offset_index.write()
                    self.time_index.write()
        self._bytes_since_entry += size
        self.size = position + size
        self.next_offset = last_offset + 1

    def finish(self) -> None:
        """Write the indexes to their end, as for a segment that is rolled or closed."""
        self.time_index.add_newer(self.max_timestamp, self.offset_of_max_timestamp - self.base_offset)
        self.offset_index.write()
        self.time_index.write()

    def sync(self) -> None:
        """Flush all three files."""
        for fd in self.descriptors(with_indexes=True):
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def descriptors(self, *, with_indexes: bool) -> list[int]:
        """Descriptors of the file of batches and, where they are finished, of the indexes; for the caller to close."""
        taken = [os.dup(self.fd)]
        if with_indexes:
            taken += [os.open(self.path(kind), os.O_RDONLY) for kind in (OFFSET_INDEX, TIME_INDEX)]
        return taken

    def cut(self) -> None:
        """Cut off what stands in the file behind the last batch that was noted."""
        os.ftruncate(self.fd, self.size)

    def walk(self, position: int, end: int | None = None) -> Iterator[BatchPosition]:
        """The batches from `position` on, where one must begin; headers alone are looked at."""
        unpack_from, header_bytes = _WALK.unpack_from, _WALK.size
        end = self.size if end is None else end
        while position < end:
            data = os.pread(self.fd, min(_WALK_BYTES, end - position), position)
            at = 0
            while at + header_bytes <= len(data):
                base_offset, length, last_delta, _, max_timestamp = unpack_from(data, at)
                size = length + LENGTH_ENDS_AT
                yield BatchPosition(position + at, size, base_offset, base_offset + last_delta, max_timestamp)
                # A length that cannot be would lead the walk back over the same bytes, for ever.
                at += max(size, HEADER_BYTES)
            if not at:
                return
            position += at

    def find(self, offset: int) -> int | None:
        """Where the first batch stands that ends at `offset` or behind it; None if there is none."""
        position = self._reads.get(offset, self.size)
        if position < self.size:
            return position
        for step in self.walk(self.offset_index.position(offset - self.base_offset)):
            if step.last_offset >= offset:
                return step.position
        return None

    def read(self, position: int, max_bytes: int, *, min_one: bool) -> memoryview:
        """Whole batches from `position` on, not more than `max_bytes`, unless the first alone is more."""
        data = memoryview(os.pread(self.fd, min(max(max_bytes, HEADER_BYTES), self.size - position), position))
        if max_bytes >= self.size - position:
            self._remember(self.next_offset, self.size)
            return data
        end = self._whole(data, position, max_bytes)
        if not end and min_one:
            end = _LENGTH.unpack_from(data, _LENGTH_AT)[0] + LENGTH_ENDS_AT
            if end > len(data):
                data = memoryview(os.pread(self.fd, end, position))
        return data[:end]

    def _whole(self, data: memoryview, position: int, max_bytes: int) -> int:
        """How many of the bytes read at `position` are whole batches within `max_bytes`."""
        most = min(max_bytes, len(data))
        at = max(self.offset_index.batch_start_before(position + most) - position, 0)
        next_offset = -1
        while at + _WALK.size <= most:
            base_offset, length, last_delta, _, _ = _WALK.unpack_from(data, at)
            if at + length + LENGTH_ENDS_AT > most:
                break
            at += length + LENGTH_ENDS_AT
            next_offset = base_offset + last_delta + 1
        if next_offset >= 0:
            self._remember(next_offset, position + at)
        return at

    def _remember(self, offset: int, position: int) -> None:
        """Note where a reader will go on."""
        if len(self._reads) >= _REMEMBERED_READS:
            del self._reads[next(iter(self._reads))]
        self._reads[offset] = position

    def find_timestamp(self, timestamp: int, start_offset: int) -> tuple[int, int] | None:
        """The timestamp and offset of the first record that is as new, not before `start_offset`; None if none is."""
        if self.max_timestamp < timestamp:
            return None
        from_offset = max(self.time_index.relative_offset(timestamp), start_offset - self.base_offset)
        for step in self.walk(self.offset_index.position(from_offset)):
            if step.max_timestamp >= timestamp and step.last_offset >= start_offset:
                found = find_first_record(self.batch(step), timestamp, start_offset)
                if found is not None:
                    return found
        return None

    def batch(self, step: BatchPosition) -> RecordBatch:
        """The whole batch at a step of a walk."""
        return RecordBatch(os.pread(self.fd, step.size, step.position))

    def rename(self, old: str, new: str) -> None:
        """Give the files another suffix, the file of batches last."""
        for kind in SEGMENT_SUFFIXES:
            path = self.path(kind)
            target = path.with_name(path.name.removesuffix(old) + new)
            with contextlib.suppress(FileNotFoundError):
                os.rename(path, target)
        self.suffix = self.suffix.removesuffix(old) + new
        for index in (self._offset_index, self._time_index):
            if index is not None:
                index.path = index.path.with_name(index.path.name.removesuffix(old) + new)

    def close(self) -> None:
        """Let go of the file."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
