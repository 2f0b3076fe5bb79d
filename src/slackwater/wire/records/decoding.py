"""Decodes the records of a fetch response into Python values, with the plain or with the compiled decoder.

A process starts with the plain decoder (`record.decode_records`). After MIN_COMPILED_RECORDS records it loads the
compiled one (`scanner.py`) if numba is installed: loading takes a second, and compiling for the first time several.

Invariants:
- Both decoders give the same records and the same errors.
- A response is decoded completely or not at all: an error comes before the first record.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import repeat
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from slackwater.wire.records.compression import Buffer
from slackwater.wire.records.fetched import NO_LIMIT, FetchedBatches
from slackwater.wire.records.record import Header, Record, decode_records

if TYPE_CHECKING:
    from slackwater.wire.records.scanner import Chunk, Ints

CHUNK_BYTES: Final = 4 << 20
MIN_COMPILED_RECORDS: Final = 200_000


class RecordFields(NamedTuple):
    """Some records, field by field."""

    offsets: Iterable[int]
    timestamps: Iterable[int]
    timestamp_types: Iterable[int]
    keys: Iterable[bytes | None]
    values: Iterable[bytes | None]
    headers: Iterable[tuple[Header, ...]]


class PlainBlock:
    """Records from the plain decoder."""

    __slots__ = ("_records", "_timestamp_types")

    def __init__(self, records: list[Record], timestamp_types: list[int]) -> None:
        self._records = records
        self._timestamp_types = timestamp_types

    def __len__(self) -> int:
        return len(self._records)

    def offset(self, index: int) -> int:
        """Return the offset of one record."""
        return self._records[index].offset

    def fields(self, start: int, stop: int) -> RecordFields:
        """Return the fields of some records."""
        records = self._records[start:stop]
        return RecordFields(
            [record.offset for record in records],
            [record.timestamp for record in records],
            self._timestamp_types[start:stop],
            [record.key for record in records],
            [record.value for record in records],
            [tuple(record.headers) for record in records],
        )


class ScannedBlock:
    """Records from the compiled decoder. Python values are made by `fields`, a few hundred at a time.

    Values that are made late and dropped early stay in the processor's cache and out of the garbage collector's way.
    """

    __slots__ = ("_data", "_headers", "_records")

    def __init__(self, scanner: Any, chunk: "Chunk", from_offset: int, until_offset: int) -> None:
        self._records = scanner.scan(chunk, from_offset, until_offset)
        self._data = chunk.data.tobytes()  # the next chunk overwrites the buffer
        self._headers: Sequence[tuple[Header, ...]] | None = None
        if self._records.header_counts.any():
            self._headers = self._decode_headers(scanner, chunk)

    def __len__(self) -> int:
        return len(self._records.offsets)

    def offset(self, index: int) -> int:
        """Return the offset of one record."""
        return int(self._records.offsets[index])

    def fields(self, start: int, stop: int) -> RecordFields:
        """Return the fields of some records."""
        records, data, rows = self._records, self._data, slice(start, stop)
        offsets = records.offsets[rows].tolist()
        return RecordFields(
            offsets,
            records.timestamps[rows].tolist(),
            records.timestamp_types[rows].tolist(),
            _values(data, records.key_starts[rows], records.key_lengths[rows]),
            _values(data, records.value_starts[rows], records.value_lengths[rows]),
            repeat((), len(offsets)) if self._headers is None else self._headers[rows],
        )

    def _decode_headers(self, scanner: Any, chunk: "Chunk") -> list[tuple[Header, ...]]:
        counts = self._records.header_counts
        headers = scanner.scan_headers(chunk, self._records.header_starts, counts)
        keys = _values(self._data, headers.key_starts, headers.key_lengths)
        values = _values(self._data, headers.value_starts, headers.value_lengths)
        pairs = [((key or b"").decode(errors="replace"), value) for key, value in zip(keys, values, strict=True)]
        ends = counts.cumsum().tolist()
        return [tuple(pairs[end - count : end]) for end, count in zip(ends, counts.tolist(), strict=True)]


def _values(data: bytes, starts: "Ints", lengths: "Ints") -> list[bytes | None]:
    if not len(lengths):
        return []
    if lengths.max() < 0:
        return [None] * len(lengths)
    ends = (starts + lengths).tolist()
    if lengths.min() >= 0:
        return [data[start:end] for start, end in zip(starts.tolist(), ends, strict=True)]
    return [data[start:end] if start <= end else None for start, end in zip(starts.tolist(), ends, strict=True)]


class DecodedResponse(NamedTuple):
    """The records of a fetch response in non-empty blocks, the position after it, and the size of a truncated batch."""

    blocks: list[PlainBlock | ScannedBlock]
    next_offset: int
    trailing_bytes: int


def decode_response(
    buffer: Buffer,
    from_offset: int = 0,
    until_offset: int = NO_LIMIT,
    *,
    aborted: Iterable[tuple[int, int]] | None = None,
    check_crcs: bool = True,
    scanner: ModuleType | None = None,
) -> DecodedResponse:
    """Decode the records that a consumer reads. `FetchedBatches` explains the arguments; `scanner` is for tests."""
    fetched = FetchedBatches(buffer, from_offset, until_offset, aborted=aborted, check_crcs=check_crcs)
    scanner = scanner or _decoder_choice.scanner()
    blocks: list[PlainBlock | ScannedBlock]
    if scanner is None:
        blocks = [_decode_plainly(fetched)]
    else:
        blocks = [
            ScannedBlock(scanner, chunk, from_offset, until_offset) for chunk in scanner.chunks(fetched, CHUNK_BYTES)
        ]
    blocks = [block for block in blocks if len(block)]
    _decoder_choice.add(sum(map(len, blocks)))
    return DecodedResponse(blocks, fetched.next_offset, fetched.trailing_bytes)


def _decode_plainly(fetched: FetchedBatches) -> PlainBlock:
    from_offset, until_offset = fetched.from_offset, fetched.until_offset
    records: list[Record] = []
    timestamp_types: list[int] = []
    for batch in fetched:
        records += [record for record in decode_records(batch) if from_offset <= record.offset < until_offset]
        timestamp_types += [int(batch.timestamp_type)] * (len(records) - len(timestamp_types))
    return PlainBlock(records, timestamp_types)


class _DecoderChoice:
    """Counts the records of this process to choose the decoder."""

    def __init__(self) -> None:
        self._records = 0

    def add(self, records: int) -> None:
        self._records += records

    def scanner(self) -> ModuleType | None:
        return compiled_scanner() if self._records >= MIN_COMPILED_RECORDS else None


_decoder_choice = _DecoderChoice()


@cache
def compiled_scanner() -> ModuleType | None:
    """Load the compiled decoder; None if numba is not installed or its compiler is switched off."""
    try:
        from numba import config
    except ImportError:
        return None
    if getattr(config, "DISABLE_JIT", False):
        return None
    from slackwater.wire.records import scanner

    return scanner
