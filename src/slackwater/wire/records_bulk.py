"""All records of a fetch response as Python values, found in bulk.

Rules kept here
- The records are those of `records_read.iter_records`, and so are the errors, except that they come before the first
  record: a response is read whole or not at all.
- A response of a few records is read one by one, which is then the faster way.

Finding the fields of all records together leaves to Python only what is its own: cutting out the bytes, and the tuples.
"""

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Final, NamedTuple

import numpy as np

from slackwater.wire.compression import Buffer
from slackwater.wire.records import Header, Record, decode_records
from slackwater.wire.records_read import NO_LIMIT, ReadableBatches
from slackwater.wire.records_scan import Chunk, Columns, Flags, Ints, Longs, Scanner, chunks, scan, scan_headers

CHUNK_BYTES: Final = 4 << 20
BULK_PAYS_FROM_BYTES: Final = 8_192


class FetchedRecords(NamedTuple):
    """The records of a fetch response, the position after it, and the bytes of a batch that it cut off."""

    records: list[Record]
    next_offset: int
    torn: int


def read_records(
    buffer: Buffer,
    from_offset: int = 0,
    until_offset: int = NO_LIMIT,
    *,
    aborted: Iterable[tuple[int, int]] | None = None,
    check_crcs: bool = True,
    scanner: Scanner | None = None,
) -> FetchedRecords:
    """All that a consumer reads from a fetch response; `ReadableBatches` describes the arguments."""
    readable = ReadableBatches(buffer, from_offset, until_offset, aborted=aborted, check_crcs=check_crcs)
    found: list[Record] = []
    if scanner is None and len(buffer) < BULK_PAYS_FROM_BYTES:
        for batch in readable:
            found += [one for one in decode_records(batch) if from_offset <= one.offset < until_offset]
    else:
        for chunk in chunks(readable, CHUNK_BYTES):
            found += _records(chunk, scan(chunk, scanner), from_offset, until_offset, scanner)
    return FetchedRecords(found, readable.next_offset, readable.torn)


def _records(
    chunk: Chunk, found: Columns, from_offset: int, until_offset: int, scanner: Scanner | None
) -> Iterator[Record]:
    kept = (found.offsets >= from_offset) & (found.offsets < until_offset)
    rows = slice(None) if kept.all() else np.flatnonzero(kept)
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
