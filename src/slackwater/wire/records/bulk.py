"""All records of a fetch response as Python values, found in bulk.

Rules kept here
- The records are those of `records_read.iter_records`, and so are the errors, except that they come before the first
  record: a response is read whole or not at all.
- A response of a few records is read one by one, which is then the faster way.

Finding the fields of all records together leaves to Python only what is its own: cutting out the bytes, and the tuples.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Final, NamedTuple

import numpy as np

from slackwater.wire.records.compression import Buffer
from slackwater.wire.records.fetched import NO_LIMIT, FetchedBatches
from slackwater.wire.records.record import Header, Record, decode_records
from slackwater.wire.records.scan import Chunk, Columns, Flags, Ints, Longs, Scanner, chunks, scan, scan_headers

CHUNK_BYTES: Final = 4 << 20
BULK_PAYS_FROM_BYTES: Final = 8_192


class FetchedRecords(NamedTuple):
    """The records of a fetch response, the position after it, and the bytes of a batch that it cut off."""

    records: list[Record]
    next_offset: int
    trailing_bytes: int


def read_records(
    buffer: Buffer,
    from_offset: int = 0,
    until_offset: int = NO_LIMIT,
    *,
    aborted: Iterable[tuple[int, int]] | None = None,
    check_crcs: bool = True,
    scanner: Scanner | None = None,
) -> FetchedRecords:
    """All that a consumer reads from a fetch response; `FetchedBatches` describes the arguments."""
    readable = FetchedBatches(buffer, from_offset, until_offset, aborted=aborted, check_crcs=check_crcs)
    found: list[Record] = []
    if scanner is None and len(buffer) < BULK_PAYS_FROM_BYTES:
        for batch in readable:
            found += [one for one in decode_records(batch) if from_offset <= one.offset < until_offset]
    else:
        for chunk in chunks(readable, CHUNK_BYTES):
            found += _records(chunk, scan(chunk, scanner), from_offset, until_offset, scanner)
    return FetchedRecords(found, readable.next_offset, readable.trailing_bytes)


class Fields(NamedTuple):
    """Some records of a fetch response, field by field, for whoever makes objects of his own of them."""

    offsets: Iterable[int]
    timestamps: Iterable[int]
    timestamp_types: Iterable[int]
    keys: Iterable[bytes | None]
    values: Iterable[bytes | None]
    headers: Iterable[tuple[Header, ...]]


class Piece:
    """Records whose fields were found; they become Python values when they are asked for.

    A consumer gives out a few hundred records at a time. Values that are made then, and dropped before the next ones
    are made, are found in the processor's cache, and the garbage collector never gets to see them.
    """

    __slots__ = ("_columns", "_data", "_headers", "_rows")

    def __init__(self, chunk: Chunk, columns: Columns, rows: Longs | slice, scanner: Scanner | None) -> None:
        self._columns = columns
        self._data = chunk.data.tobytes()  # the chunk's own room is used again for the next one
        self._rows = rows if isinstance(rows, np.ndarray) else None
        self._headers: Sequence[tuple[Header, ...]] | None = None
        counts = columns.header_counts[rows]
        if counts.any():
            self._headers = list(_headers(chunk, self._data, columns.header_starts[rows], counts, scanner))

    def __len__(self) -> int:
        return len(self._columns.offsets if self._rows is None else self._rows)

    def offset(self, at: int) -> int:
        """The offset of one record."""
        return int(self._columns.offsets[at if self._rows is None else self._rows[at]])

    def fields(self, start: int, stop: int) -> Fields:
        """The fields of some records."""
        rows = slice(start, stop) if self._rows is None else self._rows[start:stop]
        columns, data = self._columns, self._data
        return Fields(
            columns.offsets[rows].tolist(),
            columns.timestamps[rows].tolist(),
            columns.timestamp_types[rows].tolist(),
            _pieces(data, columns.key_bounds, columns.key_is_null, rows),
            _pieces(data, columns.value_bounds, columns.value_is_null, rows),
            repeat(()) if self._headers is None else self._headers[start:stop],
        )


class FewRecords:
    """A `Piece` of records that were read one by one."""

    __slots__ = ("_kinds", "_records")

    def __init__(self, records: list[Record], kinds: list[int]) -> None:
        self._records = records
        self._kinds = kinds

    def __len__(self) -> int:
        return len(self._records)

    def offset(self, at: int) -> int:
        """The offset of one record."""
        return self._records[at].offset

    def fields(self, start: int, stop: int) -> Fields:
        """The fields of some records."""
        records = self._records[start:stop]
        return Fields(
            [one.offset for one in records],
            [one.timestamp for one in records],
            self._kinds[start:stop],
            [one.key for one in records],
            [one.value for one in records],
            [tuple(one.headers) for one in records],
        )


class FetchedPieces(NamedTuple):
    """The records of a fetch response, to be made piece by piece, and the position after it."""

    pieces: list[Piece | FewRecords]
    next_offset: int


def read_pieces(
    buffer: Buffer,
    from_offset: int = 0,
    until_offset: int = NO_LIMIT,
    *,
    aborted: Iterable[tuple[int, int]] | None = None,
    check_crcs: bool = True,
    scanner: Scanner | None = None,
) -> FetchedPieces:
    """What `read_records` finds, found and checked, but not made yet; no piece is empty."""
    readable = FetchedBatches(buffer, from_offset, until_offset, aborted=aborted, check_crcs=check_crcs)
    pieces: list[Piece | FewRecords] = []
    if scanner is None and len(buffer) < BULK_PAYS_FROM_BYTES:
        few: list[Record] = []
        kinds: list[int] = []
        for batch in readable:
            few += [one for one in decode_records(batch) if from_offset <= one.offset < until_offset]
            kinds += [int(batch.timestamp_type)] * (len(few) - len(kinds))
        pieces.append(FewRecords(few, kinds))
    else:
        for chunk in chunks(readable, CHUNK_BYTES):
            columns = scan(chunk, scanner)
            pieces.append(Piece(chunk, columns, _rows(columns, from_offset, until_offset), scanner))
    return FetchedPieces([piece for piece in pieces if len(piece)], readable.next_offset)


def _rows(found: Columns, from_offset: int, until_offset: int) -> Longs | slice:
    kept = (found.offsets >= from_offset) & (found.offsets < until_offset)
    return slice(None) if kept.all() else np.flatnonzero(kept)


def _records(
    chunk: Chunk, found: Columns, from_offset: int, until_offset: int, scanner: Scanner | None
) -> Iterator[Record]:
    rows = _rows(found, from_offset, until_offset)
    data = chunk.data.tobytes()
    return map(
        Record._make,
        zip(
            _pieces(data, found.key_bounds, found.key_is_null, rows),
            _pieces(data, found.value_bounds, found.value_is_null, rows),
            _headers(chunk, data, found.header_starts[rows], found.header_counts[rows], scanner),
            found.timestamps[rows].tolist(),
            found.offsets[rows].tolist(),
            strict=True,
        ),
    )


def _pieces(data: bytes, bounds: Ints, is_null: Flags, rows: Longs | slice) -> Iterable[bytes | None]:
    nulls = is_null[rows]
    if nulls.all():
        return repeat(None, len(nulls))
    starts, ends = bounds[::2][rows].tolist(), bounds[1::2][rows].tolist()
    if not nulls.any():
        return [data[start:end] for start, end in zip(starts, ends, strict=True)]
    flags = nulls.tolist()
    return [None if flag else data[start:end] for start, end, flag in zip(starts, ends, flags, strict=True)]


def _headers(
    chunk: Chunk, data: bytes, starts: Ints, counts: Ints, scanner: Scanner | None
) -> Iterable[tuple[Header, ...]]:
    if not counts.any():
        return repeat((), len(counts))
    found = scan_headers(chunk, starts, counts, scanner)
    every = slice(None)
    names = _pieces(data, found.key_bounds, np.zeros(len(found.value_is_null), np.bool_), every)
    values = _pieces(data, found.value_bounds, found.value_is_null, every)
    pairs = [((name or b"").decode(errors="replace"), value) for name, value in zip(names, values, strict=True)]
    ends = np.cumsum(counts).tolist()
    return [tuple(pairs[end - count : end]) for end, count in zip(ends, counts.tolist(), strict=True)]
