"""One segment of a log: a file of record batches as received, and its indexes.

Invariants:
- An append is one write after the last complete batch. If it fails, the file is truncated to its previous size. Bytes
  that cannot be truncated are harmless: the next append overwrites them, and nothing beyond `size` is read.
- A read returns complete batches: few with one copy into the bytes of the response, many as a range of the file.
- As in Kafka, an index entry is added before a batch if more than `index.interval.bytes` precede it since the last one.

To find an offset, the offset index gives a batch at most one interval before it, and the search continues over batch
headers. A reader that continues where its last read ended needs neither, because those positions are cached.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, cast

from slackwater.broker.slices import Sliced
from slackwater.broker.storage.log.batch_headers import (
    BatchPosition,
    DamagedSegment,
    first_batch_size,
    iter_batch_headers,
)
from slackwater.broker.storage.log.config import MAX_UNCOMPRESSED_BYTES, LogConfig
from slackwater.broker.storage.log.file_range import MIN_RANGE_BYTES, FileRange, OpenFile
from slackwater.broker.storage.log.files import (
    LOG,
    OFFSET_INDEX,
    SEGMENT_SUFFIXES,
    TIME_INDEX,
    TRANSACTION_INDEX,
    close_all,
    file_name,
    write_at,
)
from slackwater.broker.storage.log.index import DamagedIndex, OffsetIndex, TimeIndex
from slackwater.broker.storage.log.records import find_first_record
from slackwater.broker.storage.log.transaction_index import TransactionIndex
from slackwater.settings import MAX_INT
from slackwater.wire.records.batch import HEADER_BYTES, NO_TIMESTAMP, RecordBatch
from slackwater.wire.records.compression import Buffer

_MAX_CACHED_READS: Final = 64


class Segment:
    """An open segment file with its indexes and a summary of its content."""

    __slots__ = (
        "_bytes_since_entry",
        "_cached_reads",
        "_file",
        "_index_interval_bytes",
        "_offset_index",
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
        "transaction_index",
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
        """Open a segment file, or create an empty one that replaces a file of the same name.

        The content of an existing file must be added with `reset` and `index_batch`, or accepted with `trust`.
        """
        self.directory = directory
        self.base_offset = base_offset
        self.suffix = suffix
        self.created_ms = now_ms
        self._index_interval_bytes = config.index_interval_bytes
        flags = os.O_RDWR | (os.O_CREAT | os.O_TRUNC if create else 0)
        self.fd = os.open(self.path(LOG), flags, 0o644)
        self._file: OpenFile | None = OpenFile(self.fd)
        self._cached_reads: dict[int, int] = {}
        self.transaction_index = TransactionIndex(self.path(TRANSACTION_INDEX))
        self.reset()
        if create:
            self.transaction_index.path.unlink(missing_ok=True)
        else:
            self.size = os.fstat(self.fd).st_size

    def reset(self) -> None:
        """Clear the summary and the indexes of offsets and times; `index_batch` adds batch by batch."""
        self.size = 0
        self.next_offset = self.base_offset
        self.max_timestamp = self.first_timestamp = NO_TIMESTAMP
        self.offset_of_max_timestamp = self.base_offset
        self._bytes_since_entry = 0
        self._offset_index: OffsetIndex | None = OffsetIndex(self.path(OFFSET_INDEX))
        self._time_index: TimeIndex | None = TimeIndex(self.path(TIME_INDEX))
        self._cached_reads.clear()

    def trust(self, next_offset: int) -> int | None:
        """Accept a flushed file without a scan. Its indexes are read when they are needed.

        A missing or damaged index is rebuilt from the batch headers. Returns the offset after the last batch, or None
        if the end of the file is damaged.
        """
        last_indexed = 0
        try:
            last_indexed = OffsetIndex.read_last_position(self.path(OFFSET_INDEX), self.size)
            self.max_timestamp, relative_offset = TimeIndex.read_last(self.path(TIME_INDEX))
        except DamagedIndex:
            self._rebuild()
        else:
            self.offset_of_max_timestamp = self.base_offset + relative_offset
            # Most closed segments are never read again.
            self._offset_index = self._time_index = None
            with contextlib.suppress(DamagedSegment):  # reported when it is read
                first = next(self.iter_headers(0), None)
                self.first_timestamp = NO_TIMESTAMP if first is None else first.max_timestamp
        self.next_offset = next_offset
        end_offset = self.base_offset
        try:
            for header in self.iter_headers(last_indexed):
                end_offset = header.last_offset + 1
        except DamagedSegment:
            return None  # reported when it is read
        return end_offset

    def _rebuild(self) -> None:
        """Rebuild both indexes from the batch headers, up to the first damaged one."""
        end, next_offset = self.size, self.next_offset
        self.reset()
        with contextlib.suppress(DamagedSegment):  # reported when it is read
            for header in self.iter_headers(0, end):
                if not self.next_offset <= header.last_offset <= self.base_offset + MAX_INT:
                    break
                self.index_batch(header.size, header.last_offset, header.max_timestamp)
        self.size, self.next_offset = end, next_offset
        with contextlib.suppress(OSError):
            self.finish()

    def path(self, kind: str) -> Path:
        """Return the path of one of the segment's files."""
        return self.directory / (file_name(self.base_offset, kind) + self.suffix)

    @property
    def offset_index(self) -> OffsetIndex:
        """The offset index, read on first use."""
        index = self._offset_index
        return self._read_indexes()[0] if index is None else index

    @property
    def time_index(self) -> TimeIndex:
        """The time index, read on first use."""
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
        pending_bytes: int = 0,
        pending_timestamp: int = NO_TIMESTAMP,
    ) -> bool:
        """Whether an append of this size, last offset and timestamp belongs into the next segment.

        Pending bytes count as written; `pending_timestamp` is that of the first pending batch.
        """
        filled = self.size + pending_bytes
        if not filled:
            return False
        if filled > config.segment_bytes - size or last_offset - self.base_offset > MAX_INT:
            return True
        # As in Kafka, the age is measured by the records' timestamps if they have any.
        first_timestamp = self.first_timestamp if self.size else pending_timestamp
        age_ms = max_timestamp - first_timestamp if first_timestamp >= 0 else now_ms - self.created_ms
        return age_ms > config.roll_ms or self._is_index_full(config)

    def _is_index_full(self, config: LogConfig) -> bool:
        # The last slot of the time index is reserved for the entry that closing adds.
        max_time_entries = config.segment_index_bytes // TimeIndex.entry.size - 1
        entries = len(self.offset_index.keys)
        # The time index has larger entries than the offset index, and never more of them.
        if entries < max_time_entries:
            return False
        return (
            entries >= config.segment_index_bytes // OffsetIndex.entry.size or len(self.time_index) >= max_time_entries
        )

    def append(self, buffers: Sequence[Buffer]) -> None:
        """Write after the last batch; then call `index_batch` for each batch. After an OSError nothing is written."""
        try:
            write_at(self.fd, buffers, self.size)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self.fd, self.size)
            raise

    def index_batch(self, size: int, last_offset: int, max_timestamp: int) -> None:
        """Add the next batch of the file to the summary and the indexes."""
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
            if self.offset_index.should_write:
                # A full disk must not fail here: the entries stay in memory, and the next call tries again.
                with contextlib.suppress(OSError):
                    self.offset_index.write()
                    self.time_index.write()
        self._bytes_since_entry += size
        self.size = position + size
        self.next_offset = last_offset + 1

    def finish(self) -> None:
        """Write the complete indexes, before the segment is rolled or closed."""
        self.time_index.add_newer(self.max_timestamp, self.offset_of_max_timestamp - self.base_offset)
        self.offset_index.write()
        self.time_index.write()
        self.transaction_index.write()

    def sync(self) -> None:
        """Flush all files."""
        descriptors = self.descriptors(with_indexes=True)
        try:
            for fd in descriptors:
                os.fsync(fd)
        finally:
            close_all(descriptors)

    def descriptors(self, *, with_indexes: bool) -> list[int]:
        """Return descriptors of the log file and, with `with_indexes`, of the indexes. The caller closes them."""
        kinds = (OFFSET_INDEX, TIME_INDEX, *([TRANSACTION_INDEX] if self.transaction_index.entries else []))
        descriptors = [os.dup(self.fd)]
        try:
            for kind in kinds if with_indexes else ():
                with contextlib.suppress(
                    FileNotFoundError
                ):  # a missing index is rebuilt when it is read, or had no entry
                    descriptors.append(os.open(self.path(kind), os.O_RDONLY))
        except BaseException:
            close_all(descriptors)
            raise
        return descriptors

    def truncate(self) -> None:
        """Truncate the file after the last indexed batch."""
        os.ftruncate(self.fd, self.size)

    def iter_headers(self, position: int, end: int | None = None) -> Iterator[BatchPosition]:
        """Iterate over the batch headers from `position`, the start of a batch. Raises `DamagedSegment`."""
        end = self.size if end is None else end
        return iter_batch_headers(self._pread, partial(self.path, LOG), position, end)

    def _pread(self, size: int, position: int) -> bytes:
        # `fd` is read for every call: after `close` another file may have the same number.
        return os.pread(self.fd, size, position)

    def find(self, offset: int) -> int | None:
        """Return the position of the first batch that ends at or after `offset`, or None. Raises `DamagedSegment`."""
        position = self._cached_reads.get(offset, self.size)
        if position < self.size:
            return position
        for header in self.iter_headers(self.offset_index.position(offset - self.base_offset)):
            if header.last_offset >= offset:
                if header.last_offset >= self.next_offset:
                    reason = f"the batch ends at offset {header.last_offset}, the segment at {self.next_offset - 1}"
                    raise DamagedSegment(self.path(LOG), header.position, reason)
                return header.position
        return None

    def read(self, position: int, max_bytes: int, *, min_one: bool, end: int | None = None) -> memoryview | FileRange:
        """Read complete batches from `position`, at limit `max_bytes`; with `min_one` at least the first batch.

        With `end`, the start of a later batch, the read stops there.

        Many bytes are a range that is read when it is sent. Raises `DamagedSegment` if no batch starts at `position`.
        As in Kafka, a damaged batch after the first may be returned.
        """
        left = (self.size if end is None else end) - position
        wanted = min(max_bytes, left)
        read_now = wanted if wanted < MIN_RANGE_BYTES else 0
        data = memoryview(os.pread(self.fd, min(max(read_now, HEADER_BYTES), left), position))
        first_size = first_batch_size(data, left, partial(self.path, LOG), position)
        if max_bytes >= left:
            if end is None:
                self._cache_read(self.next_offset, self.size)
            size = left
        else:
            size = self._complete_bytes(position, max_bytes)
            if not size and min_one:
                size = first_size
        if size <= len(data):
            return data[:size]
        if size < MIN_RANGE_BYTES or self._file is None:
            return memoryview(os.pread(self.fd, size, position))
        return FileRange(self._file, position, size)

    def _complete_bytes(self, position: int, max_bytes: int) -> int:
        """Return how many bytes after `position` are complete batches within `max_bytes`."""
        end = position + max_bytes
        at = max(self.offset_index.batch_start_before(end), position)
        next_offset = -1
        with contextlib.suppress(DamagedSegment):  # the next read starts there and raises it
            for header in self.iter_headers(at):
                if header.position + header.size > end:
                    break
                at, next_offset = header.position + header.size, header.last_offset + 1
        if next_offset >= 0:
            self._cache_read(next_offset, at)
        return at - position

    def upper_bound_offset(self, position: int) -> int | None:
        """Return the offset of the first entry of the index at or after a position, or None, as Kafka computes it."""
        relative_offset = self.offset_index.first_offset_from(position)
        return None if relative_offset is None else self.base_offset + relative_offset

    def _cache_read(self, offset: int, position: int) -> None:
        """Remember the position where a reader will continue."""
        if len(self._cached_reads) >= _MAX_CACHED_READS:
            del self._cached_reads[next(iter(self._cached_reads))]
        self._cached_reads[offset] = position

    def find_timestamp(
        self, timestamp: int, start_offset: int, limit: int = MAX_UNCOMPRESSED_BYTES
    ) -> Sliced[tuple[int, int] | None]:
        """Return timestamp and offset of the first record at or after both arguments, or None.

        A batch that decompresses to more than `limit` bytes counts as one record.
        """
        if self.max_timestamp < timestamp:
            return None
        from_offset = max(self.time_index.relative_offset(timestamp), start_offset - self.base_offset)
        for header in self.iter_headers(self.offset_index.position(from_offset)):
            if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
                match = yield from find_first_record(self.batch(header), timestamp, start_offset, limit)
                if match is not None:
                    return match
        return None

    def batch(self, header: BatchPosition) -> RecordBatch:
        """Read the batch of a header."""
        return RecordBatch(os.pread(self.fd, header.size, header.position))

    def rename(self, old: str, new: str) -> None:
        """Change the suffix of the files, the log file last."""
        for kind in SEGMENT_SUFFIXES:
            path = self.path(kind)
            target = path.with_name(path.name.removesuffix(old) + new)
            with contextlib.suppress(FileNotFoundError):
                os.rename(path, target)
        self.suffix = self.suffix.removesuffix(old) + new
        for index in (self._offset_index, self._time_index, self.transaction_index):
            if index is not None:
                index.path = index.path.with_name(index.path.name.removesuffix(old) + new)

    def move(self, directory: Path) -> None:
        """Use the files in a renamed directory."""
        self.directory = directory
        for index in (self._offset_index, self._time_index, self.transaction_index):
            if index is not None:
                index.path = directory / index.path.name

    def close(self) -> None:
        """Close the file, or leave that to the last range that is sent."""
        self.fd = -1
        self._file = None
