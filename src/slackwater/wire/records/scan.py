"""Many records at once: where each key and value lies, found without a Python object per record.

Rules kept here
- The bytes stay where they are. A scan gives numbers: deltas, bounds of keys and values, places of headers.
- Two ways, one result: compiled (`records_numba`), and numpy where numba is missing. Both find the same first fault,
  and a fault is a `WireError`.
- Nothing is allocated for a number of records that the bytes have no room for.

numba takes a second to load and seconds to compile for the first time, which the few records of a short command do not
repay: a process begins with numpy, and changes over when it has scanned NUMBA_PAYS_FROM records.

The numpy way walks from record to record in Python, because each says where the next one begins, and reads each field
of all records together. A position only moves forward, and a fault sends it to FAR: one comparison at the records'
ends finds them all.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Final, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from slackwater.wire.errors import WireError
from slackwater.wire.records.batch import HEADER_BYTES, LOG_APPEND_TIME_BIT, RecordBatch, TimestampType
from slackwater.wire.records.compression import Buffer, Codec
from slackwater.wire.records.record import check_room, unpacked, unpacked_into

Bytes: TypeAlias = NDArray[np.uint8]
Longs: TypeAlias = NDArray[np.int64]
Ints: TypeAlias = NDArray[np.int32]
Flags: TypeAlias = NDArray[np.bool_]

NO_FAULT: Final = 0
OUTSIDE_ITS_BATCH: Final = 1
FIELDS_AND_LENGTH_DIFFER: Final = 2
LEFT_OVER: Final = 3
_FAULTS: Final = {
    OUTSIDE_ITS_BATCH: "record {} has a length that its batch has no room for",
    FIELDS_AND_LENGTH_DIFFER: "record {} has fields that do not fill the length it announces",
    LEFT_OVER: "bytes are left after its {} records",
}

NUMBA_PAYS_FROM: Final = 1_000_000
# Behind every position, and so near that adding two of them overflows nothing.
FAR: Final = 1 << 60
_VARINT_SHIFTS: Final = 5 * 7
_VARLONG_SHIFTS: Final = 10 * 7


class Scanner(Protocol):
    """What both ways offer; `records_numba` describes the arguments."""

    def scan(
        self,
        data: Bytes,
        starts: Longs,
        ends: Longs,
        counts: Longs,
        timestamp_deltas: Longs,
        offset_deltas: Ints,
        key_bounds: Ints,
        key_is_null: Flags,
        value_bounds: Ints,
        value_is_null: Flags,
        header_starts: Ints,
        header_counts: Ints,
        /,
    ) -> tuple[int, int, int]: ...

    def scan_headers(
        self,
        data: Bytes,
        header_starts: Ints,
        header_counts: Ints,
        key_bounds: Ints,
        value_bounds: Ints,
        value_is_null: Flags,
        /,
    ) -> None: ...


class Chunk:
    """Batches whose records lie, unpacked, in one piece of less than 2 GiB; for each, where, and from what base."""

    __slots__ = ("base_offsets", "batches", "counts", "data", "ends", "stamped", "starts", "timestamps")

    def __init__(
        self, batches: Sequence[RecordBatch], data: Buffer, starts: Sequence[int], ends: Sequence[int]
    ) -> None:
        self.batches = batches
        self.data = np.frombuffer(data, np.uint8)
        # Compiled for bytes that cannot be written to; those of a bytearray are seen the same way.
        self.data.flags.writeable = False
        self.starts = np.array(starts, np.int64)
        self.ends = np.array(ends, np.int64)
        self.counts = np.array([batch.record_count for batch in batches], np.int64)
        self.base_offsets = np.array([batch.base_offset for batch in batches], np.int64)
        attributes = np.array([batch.attributes for batch in batches], np.int64)
        self.stamped = (attributes & LOG_APPEND_TIME_BIT) != 0
        base = np.array([batch.base_timestamp for batch in batches], np.int64)
        self.timestamps = np.where(self.stamped, [batch.max_timestamp for batch in batches], base)


def chunks(batches: Iterable[RecordBatch], chunk_bytes: int) -> Iterator[Chunk]:
    """Put batches together into pieces of at most `chunk_bytes`, or of one batch; those without records go.

    Packed batches are unpacked one behind the other into the same room, again and again: a chunk is to be done with
    before the next one is asked for. Batches that are not packed stay where they are, unless they come after a packed
    one, so that a partition with both kinds in turn does not end up in chunks of one batch.
    """
    room = memoryview(b"")
    data = room  # Where the batches of the present chunk lie: in the room, or where they came from.
    taken: list[RecordBatch] = []
    starts: list[int] = []
    ends: list[int] = []

    def done() -> Chunk:
        nonlocal taken, starts, ends
        first, end = starts[0], ends[-1]
        chunk = Chunk(taken, data[first:end], [at - first for at in starts], [at - first for at in ends])
        taken, starts, ends = [], [], []
        return chunk

    for batch in batches:
        if not batch.record_count:
            continue
        if batch.codec is Codec.NONE and not (taken and data is room):
            end = batch.position + batch.size
            if taken and (data is not batch.buffer or end - starts[0] > chunk_bytes):
                yield done()
            check_room(batch, batch.size - HEADER_BYTES)
            data = batch.buffer
            start = batch.position + HEADER_BYTES
        else:
            if not room:
                room = np.empty(chunk_bytes, np.uint8).data
            if taken and data is not room:
                yield done()
            data = room
            start = ends[-1] if ends else 0
            size = unpacked_into(batch, room[start:])
            if size is None and taken:
                yield done()
                start = 0
                size = unpacked_into(batch, room)
            if size is None:
                payload = unpacked(batch)
                yield Chunk([batch], payload, [0], [len(payload)])
                continue
            end = start + size
        taken.append(batch)
        starts.append(start)
        ends.append(end)
    if taken:
        yield done()


class Columns(NamedTuple):
    """One row per record; the bounds of row n, in the chunk's data, stand at 2n and 2n + 1."""

    offsets: Longs
    timestamps: Longs
    timestamp_types: Ints
    key_bounds: Ints
    key_is_null: Flags
    value_bounds: Ints
    value_is_null: Flags
    header_starts: Ints
    header_counts: Ints


class HeaderColumns(NamedTuple):
    """One row per header, those of the first record first."""

    key_bounds: Ints
    value_bounds: Ints
    value_is_null: Flags


def scan(chunk: Chunk, scanner: Scanner | None = None) -> Columns:
    """Find every record of a chunk."""
    rows = int(chunk.counts.sum())
    scanner = scanner or scanner_for(rows)
    timestamps = np.empty(rows, np.int64)
    offset_deltas, header_starts, header_counts = (np.empty(rows, np.int32) for _ in range(3))
    key_bounds, value_bounds = (np.empty(2 * rows, np.int32) for _ in range(2))
    key_is_null, value_is_null = (np.empty(rows, np.bool_) for _ in range(2))
    fault, batch, number = scanner.scan(
        chunk.data,
        chunk.starts,
        chunk.ends,
        chunk.counts,
        timestamps,
        offset_deltas,
        key_bounds,
        key_is_null,
        value_bounds,
        value_is_null,
        header_starts,
        header_counts,
    )
    if fault != NO_FAULT:
        raise fault_in(chunk, fault, batch, number)
    types = np.repeat(chunk.stamped.astype(np.int32), chunk.counts)
    if chunk.stamped.any():
        timestamps[types == TimestampType.LOG_APPEND_TIME] = 0
    timestamps += np.repeat(chunk.timestamps, chunk.counts)
    offsets = np.repeat(chunk.base_offsets, chunk.counts)
    offsets += offset_deltas
    return Columns(
        offsets,
        timestamps,
        types,
        key_bounds,
        key_is_null,
        value_bounds,
        value_is_null,
        header_starts,
        header_counts,
    )


def fault_in(chunk: Chunk, fault: int, batch: int, number: int) -> WireError:
    """What a scan has found to be wrong, in words."""
    return chunk.batches[batch].error(_FAULTS[fault].format(number))


def scan_headers(chunk: Chunk, starts: Ints, counts: Ints, scanner: Scanner | None = None) -> HeaderColumns:
    """Find the headers of records that a scan of this chunk has found."""
    rows = int(counts.sum())
    found = HeaderColumns(np.empty(2 * rows, np.int32), np.empty(2 * rows, np.int32), np.empty(rows, np.bool_))
    (scanner or scanner_for(0)).scan_headers(chunk.data, starts, counts, *found)
    return found


class _Scanners:
    """Which scanner this process uses by now."""

    def __init__(self) -> None:
        self.scanned = 0

    def for_rows(self, rows: int) -> Scanner:
        """The one for the next `rows` records."""
        self.scanned += rows
        return (compiled_scanner() if self.scanned >= NUMBA_PAYS_FROM else None) or NumpyScanner()


_scanners = _Scanners()


def scanner_for(rows: int) -> Scanner:
    """The scanner that pays for the next `rows` records."""
    return _scanners.for_rows(rows)


@cache
def compiled_scanner() -> Scanner | None:
    """The compiled scanner, or None where there is none."""
    try:
        from numba import config
    except ImportError:
        return None
    if getattr(config, "DISABLE_JIT", False):
        return None
    from slackwater.wire.records import scan_numba as records_numba

    return records_numba


class NumpyScanner:
    """The scan without a compiler."""

    def scan(
        self,
        data: Bytes,
        starts: Longs,
        ends: Longs,
        counts: Longs,
        timestamp_deltas: Longs,
        offset_deltas: Ints,
        key_bounds: Ints,
        key_is_null: Flags,
        value_bounds: Ints,
        value_is_null: Flags,
        header_starts: Ints,
        header_counts: Ints,
        /,
    ) -> tuple[int, int, int]:
        """Fill the columns, one row per record; the fault, the batch it is in and the record's number there."""
        bodies, fault = _bodies(data.tobytes(), starts, ends, counts)
        rows = len(bodies) // 2
        record_starts, record_ends = np.array(bodies, np.int64).reshape(rows, 2).T
        timestamp_deltas[:rows], at = _varints(data, record_starts + 1, _VARLONG_SHIFTS)
        offset_deltas[:rows], at = _varints(data, at)
        at = _nullables(data, at, key_bounds[: 2 * rows], key_is_null[:rows])
        at = _nullables(data, at, value_bounds[: 2 * rows], value_is_null[:rows])
        numbers, at = _varints(data, at)
        header_counts[:rows] = numbers
        header_starts[:rows] = np.minimum(at, record_ends)
        numbers[(numbers < 0) | (numbers > record_ends - at)] = -1
        at[numbers < 0] = FAR
        for active, *_, after in _header_rounds(data, at, record_ends, numbers):
            at[active] = after
        wrong = np.flatnonzero(at != record_ends)
        if not wrong.size:
            return fault
        row = int(wrong[0])
        batch = int(np.searchsorted(np.cumsum(counts), row, side="right"))
        return FIELDS_AND_LENGTH_DIFFER, batch, row - int(counts[:batch].sum())

    def scan_headers(
        self,
        data: Bytes,
        header_starts: Ints,
        header_counts: Ints,
        key_bounds: Ints,
        value_bounds: Ints,
        value_is_null: Flags,
        /,
    ) -> None:
        """Fill the columns of the headers, one row per header, of records that `scan` found no fault in."""
        numbers = header_counts.astype(np.int64)
        first_rows = np.cumsum(numbers) - numbers
        ends = np.full(len(numbers), len(data), np.int64)
        for number, (active, key_start, key_end, value_start, is_null, after) in enumerate(
            _header_rounds(data, header_starts.astype(np.int64), ends, numbers)
        ):
            rows = first_rows[active] + number
            key_bounds[2 * rows], key_bounds[2 * rows + 1] = key_start, key_end
            value_bounds[2 * rows], value_bounds[2 * rows + 1] = value_start, after
            value_is_null[rows] = is_null


def _bodies(data: bytes, starts: Longs, ends: Longs, counts: Longs) -> tuple[list[int], tuple[int, int, int]]:
    """Start and end of every record's body up to the first fault, in turn, and that fault."""
    bodies: list[int] = []
    add = bodies.append
    for batch, (at, end, count) in enumerate(zip(starts.tolist(), ends.tolist(), counts.tolist(), strict=True)):
        for number in range(count):
            try:
                size = data[at]
                at += 1
                shift = 7
                if size >= 0x80:
                    size &= 0x7F
                    while True:
                        byte = data[at]
                        at += 1
                        size |= (byte & 0x7F) << shift
                        if byte < 0x80:
                            break
                        shift += 7
            except IndexError:
                return bodies, (OUTSIDE_ITS_BATCH, batch, number)
            # Zigzag: an odd number is a negative one.
            if size & 1 or not size or shift >= _VARINT_SHIFTS or at + ((size & 0xFFFF_FFFF) >> 1) > end:
                return bodies, (OUTSIDE_ITS_BATCH, batch, number)
            add(at)
            at += (size & 0xFFFF_FFFF) >> 1
            add(at)
        if at != end:
            return bodies, (LEFT_OVER, batch, count)
    return bodies, (NO_FAULT, 0, 0)


def _varints(data: Bytes, at: Longs, shifts: int = _VARINT_SHIFTS) -> tuple[Longs, Longs]:
    """The zigzag number at each position, and the position behind it."""
    first = data.take(at, mode="clip")
    values = first.astype(np.int64)
    after = at + 1
    going_on = np.flatnonzero(first >= 0x80)
    if going_on.size:
        values[going_on] &= 0x7F
        for shift in range(7, shifts, 7):
            byte = data.take(after[going_on], mode="clip").astype(np.int64)
            values[going_on] |= (byte & 0x7F) << shift
            after[going_on] += 1
            going_on = going_on[byte >= 0x80]
            if not going_on.size:
                break
        after[going_on] = FAR
        if shifts == _VARINT_SHIFTS:
            values &= 0xFFFF_FFFF
    # int64 has no logical shift to the right: the sign bit that came down with it is masked off.
    return ((values >> 1) & 0x7FFF_FFFF_FFFF_FFFF) ^ -(values & 1), after


def _nullables(data: Bytes, at: Longs, bounds: Ints, is_null: Flags) -> Longs:
    """Fill in the bytes that have their length before them; the position behind each."""
    lengths, at = _varints(data, at)
    np.less(lengths, 0, out=is_null)
    bounds[::2] = at
    at += np.maximum(lengths, 0)
    bounds[1::2] = at
    return at


def _header_rounds(
    data: Bytes, at: Longs, ends: Longs, numbers: Longs
) -> Iterator[tuple[Longs, Longs, Longs, Longs, Flags, Longs]]:
    """The first header of all records that have one, then the second, and so on.

    Each time: which records, their keys' bounds, where the values start, whether they are null, where they end.
    """
    active = np.flatnonzero(numbers > 0)
    here, stop, left = at[active], ends[active], numbers[active]
    while active.size:
        lengths, key_start = _varints(data, here)
        key_end = key_start + np.where(lengths < 0, FAR, lengths)
        lengths, value_start = _varints(data, key_end)
        after = value_start + np.maximum(lengths, 0)
        yield active, key_start, key_end, value_start, lengths < 0, after
        left -= 1
        goes_on = (left > 0) & (after <= stop)
        active, here, stop, left = active[goes_on], after[goes_on], stop[goes_on], left[goes_on]
