"""The scan of many records: compiled, with numpy and one by one, all the same."""

import builtins
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import numpy as np
import pytest

from slackwater.wire.errors import WireError
from slackwater.wire.records import scan as records_scan
from slackwater.wire.records.batch import RecordBatch, iter_batches
from slackwater.wire.records.compression import Codec
from slackwater.wire.records.record import Record, decode_records, encode_batch
from slackwater.wire.records.scan import (
    NO_FAULT,
    Chunk,
    NumpyScanner,
    Scanner,
    chunks,
    compiled_scanner,
    scan,
    scan_headers,
)

from .random_records import random_records

numba = pytest.importorskip("numba")


class Interpreted:
    """The functions that numba compiles, as Python runs them, so that coverage sees them."""

    def __init__(self) -> None:
        from slackwater.wire.records import scan_numba as records_numba

        self.scan = records_numba.scan.py_func  # type: ignore[attr-defined]
        self.scan_headers = records_numba.scan_headers.py_func  # type: ignore[attr-defined]


def compiled() -> Scanner:
    scanner = compiled_scanner()
    assert scanner is not None
    return scanner


SCANNERS: Mapping[str, Callable[[], Scanner]] = {
    "numba": compiled,
    "numpy": NumpyScanner,
    "interpreted": Interpreted,
}


@pytest.fixture(params=SCANNERS)
def scanner(request: pytest.FixtureRequest) -> Scanner:
    return SCANNERS[request.param]()


def buffer_of(random: Random, codecs: Sequence[Codec], batches: int = 4) -> bytes:
    pieces = []
    for _ in range(batches):
        given = random_records(random)
        stamp = random.choice((None, None, 1_700_000_000_000))
        codec = random.choice(codecs)
        pieces.append(encode_batch(given, base_offset=given[0].offset, codec=codec, log_append_time_ms=stamp))
    return b"".join(pieces)


def scanned(buffer: bytes, scanner: Scanner, chunk_bytes: int = 1 << 20) -> list[Record]:
    """The records, put together from the columns of a scan."""
    found = []
    for chunk in chunks(iter_batches(buffer), chunk_bytes):
        columns = scan(chunk, scanner)
        headers = scan_headers(chunk, columns.header_starts, columns.header_counts, scanner)
        data = chunk.data.tobytes()

        def piece(bounds: Any, is_null: Any, row: int, data: bytes = data) -> bytes | None:
            return None if is_null[row] else data[bounds[2 * row] : bounds[2 * row + 1]]

        header = 0
        for row in range(len(columns.offsets)):
            pairs = []
            for _ in range(columns.header_counts[row]):
                name = data[headers.key_bounds[2 * header] : headers.key_bounds[2 * header + 1]].decode()
                pairs.append((name, piece(headers.value_bounds, headers.value_is_null, header)))
                header += 1
            found.append(
                Record(
                    piece(columns.key_bounds, columns.key_is_null, row),
                    piece(columns.value_bounds, columns.value_is_null, row),
                    tuple(pairs),
                    int(columns.timestamps[row]),
                    int(columns.offsets[row]),
                )
            )
    return found


@pytest.mark.parametrize("codecs", [[Codec.NONE], [Codec.LZ4], list(Codec)], ids=["plain", "packed", "mixed"])
def test_a_scan_finds_what_is_found_one_by_one(scanner: Scanner, codecs: list[Codec]) -> None:
    for seed in range(20):
        buffer = buffer_of(Random(seed), codecs)
        one_by_one = [record for batch in iter_batches(buffer) for record in decode_records(batch)]
        assert scanned(buffer, scanner) == one_by_one


@pytest.mark.parametrize("codecs", [[Codec.NONE], [Codec.ZSTD], [Codec.NONE, Codec.LZ4]])
@pytest.mark.parametrize("chunk_bytes", [1, 5_000, 20_000])
def test_chunks_keep_to_their_size_or_to_one_batch(codecs: list[Codec], chunk_bytes: int) -> None:
    buffer = buffer_of(Random(3), codecs, 20)
    for chunk in chunks(iter_batches(buffer), chunk_bytes):
        assert len(chunk.data) <= chunk_bytes or len(chunk.batches) == 1
    one_by_one = [record for batch in iter_batches(buffer) for record in decode_records(batch)]
    assert scanned(buffer, NumpyScanner(), chunk_bytes) == one_by_one


def test_batches_of_both_kinds_in_turn_end_up_in_few_chunks() -> None:
    buffer = b"".join(encode_batch([Record(None, b"x")], codec=codec) for codec in [Codec.NONE, Codec.LZ4] * 20)
    assert [len(chunk.batches) for chunk in chunks(iter_batches(buffer), 1 << 20)] == [1, 39]


def test_batches_of_several_buffers_are_not_mistaken_for_each_other() -> None:
    buffers = [encode_batch([Record(None, value)]) + encode_batch([Record(value, None)]) for value in (b"a", b"b")]
    batches = [batch for buffer in buffers for batch in iter_batches(buffer)]
    found = [scan(chunk, NumpyScanner()) for chunk in chunks(batches, 1 << 20)]
    assert [columns.value_is_null.tolist() for columns in found] == [[False, True]] * 2


def test_batches_without_records_are_left_out() -> None:
    assert list(chunks(iter_batches(encode_batch([])), 1 << 20)) == []


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_more_records_than_the_bytes_can_hold_are_refused_before_room_is_made(codec: Codec) -> None:
    data = encode_batch([Record(None, b"x")], codec=codec)
    struct.pack_into(">i", data, 57, 2**31 - 1)
    with pytest.raises(WireError, match="it announces 2147483647 records in"):
        list(chunks(iter_batches(data), 1 << 20))


def test_bytes_that_cannot_be_unpacked_are_refused_with_their_offset() -> None:
    data = encode_batch([Record(None, b"x")], codec=Codec.GZIP, base_offset=7)
    data[70:75] = b"zzzzz"
    with pytest.raises(WireError, match=r"Record batch at offset 7: .* of gzip cannot be unpacked"):
        list(chunks(iter_batches(data), 1 << 20))


FAULTY = {
    "negative length": "0d 00 00 00 01 01 00",
    "no length": "00 00 00 00 01 01 00",
    "longer than the batch": "0e 00 00 00 01 01 00",
    "far longer than the batch": "feffffff0f 00 00 00 01 01 00",
    "length cut off": "80 80 80 80 80 80 80",
    "length of six bytes": "8c8080808000 00 00 00 01 01 00",
    "fields shorter": "0e 00 00 00 01 01 00 00",
    "fields longer": "0a 00 00 00 01 01 00",
    "left over": "0c 00 00 00 01 01 00 00",
    "key too long": "0c 00 00 00 7e 01 00",
    "key far too long": "14 00 00 00 feffffff0f 01 00",
    "value too long": "0c 00 00 00 01 7e 00",
    "timestamp of eleven bytes": "20 00 8080808080808080808000 00 01 01 00",
    "timestamp cut off": "0c 00 80 80 80 80 80",
    "offset of six bytes": "16 00 00 808080808000 01 01 00",
    "negative headers": "0c 00 00 00 01 01 01",
    "more headers than bytes": "0c 00 00 00 01 01 7e",
    "header without a key": "10 00 00 00 01 01 02 01 00",
    "header key too long": "12 00 00 00 01 01 02 7e 61 00",
    "header value too long": "12 00 00 00 01 01 02 02 61 7e",
    "header cut off": "10 00 00 00 01 01 02 02 61",
    "second header cut off": "16 00 00 00 01 01 04 02 61 00 02 61",
}


def chunk_of(*payloads: str, counts: Sequence[int] = ()) -> Chunk:
    """A batch per payload; the counts are one each unless given."""
    pieces = [bytes.fromhex(payload) for payload in payloads]
    ends = np.cumsum([len(piece) for piece in pieces]).tolist()
    starts = [end - len(piece) for end, piece in zip(ends, pieces, strict=True)]
    batches = []
    for number, count in enumerate(counts or [1] * len(pieces)):
        batch = RecordBatch(encode_batch([], base_offset=100 * number))
        batch.record_count = count
        batches.append(batch)
    return Chunk(batches, b"".join(pieces), starts, ends)


GOOD = "0c 00 00 00 01 01 00"


@pytest.mark.parametrize("name", FAULTY)
def test_every_fault_is_found_where_it_is(scanner: Scanner, name: str) -> None:
    with pytest.raises(
        WireError, match=r"Record batch at offset 100: (record 1 has|bytes are left after its 2 records)"
    ):
        scan(chunk_of(GOOD + GOOD, GOOD + FAULTY[name], GOOD, counts=[2, 2, 1]), scanner)
    with pytest.raises(WireError, match=r"Record batch at offset 0: (record 0 has|bytes are left after its 1 records)"):
        scan(chunk_of(FAULTY[name]), scanner)
    (batch,) = chunk_of(FAULTY[name]).batches
    batch.data = memoryview(bytes(61) + bytes.fromhex(FAULTY[name]))
    with pytest.raises(WireError):
        list(decode_records(batch))


def test_a_record_does_not_reach_into_the_next_batch(scanner: Scanner) -> None:
    with pytest.raises(WireError, match="offset 0: record 0 has a length that its batch has no room for"):
        scan(chunk_of("1a 00 00 00 01 01 00", GOOD), scanner)


def test_of_two_faults_the_first_is_told(scanner: Scanner) -> None:
    with pytest.raises(WireError, match="offset 0: record 0 has fields that do not fill"):
        scan(chunk_of(FAULTY["fields shorter"], FAULTY["negative length"]), scanner)
    with pytest.raises(WireError, match="offset 0: bytes are left after its 1 records"):
        scan(chunk_of(FAULTY["left over"], FAULTY["fields shorter"]), scanner)


def test_numbers_of_more_bytes_than_needed_are_read_and_sums_wrap_as_in_java(scanner: Scanner) -> None:
    chunk = chunk_of("2c 00 ffffffffffffffffff01 ffffffff7f 8100 818000 00")
    chunk.timestamps[0], chunk.base_offsets[0] = -5, -(2**63)
    columns = scan(chunk, scanner)
    assert (columns.timestamps[0], columns.offsets[0]) == (2**63 - 5, 2**63 - 2**31)


@pytest.mark.parametrize("right_checksum", [False, True])
def test_damaged_bytes_are_refused_or_read_alike(right_checksum: bool) -> None:
    """With a wrong checksum this is what a reader without `check.crcs` meets."""
    random = Random(11)
    refused = 0
    for _ in range(400):
        buffer = bytearray(buffer_of(random, [Codec.NONE], 2))
        for _ in range(random.randint(1, 3)):
            at = random.randrange(len(buffer))
            buffer[at] = random.choice((0, 1, 2, 0x7F, 0x80, 0xFF, random.randrange(256)))
        outcomes = []
        for make in (compiled, NumpyScanner):
            try:
                if right_checksum:
                    for batch in iter_batches(buffer):
                        struct.pack_into(">I", buffer, batch.position + 17, batch.computed_crc())
                outcomes.append([repr(columns_of(chunk, make())) for chunk in chunks(iter_batches(buffer), 1 << 20)])
            except WireError as error:
                outcomes.append([str(error)])
                refused += 1
        assert outcomes[0] == outcomes[1]
    assert refused > 50


def columns_of(chunk: Chunk, scanner: Scanner) -> list[list[int]]:
    columns = scan(chunk, scanner)
    return [column.tolist() for column in columns]


def test_a_process_changes_over_to_numba_when_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    scanners = records_scan._Scanners()
    assert isinstance(scanners.for_rows(records_scan.NUMBA_PAYS_FROM - 1), NumpyScanner)
    assert scanners.for_rows(1) is compiled_scanner()
    monkeypatch.setattr(records_scan, "compiled_scanner", lambda: None)
    assert isinstance(scanners.for_rows(1), NumpyScanner)


def test_without_numba_or_with_its_compiler_switched_off_there_is_no_compiled_scanner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    assert compiled_scanner.__wrapped__() is None
    real_import = builtins.__import__

    def refuse(name: str, *rest: Any) -> object:
        if name == "numba":
            raise ImportError(name)
        return real_import(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    monkeypatch.delitem(sys.modules, "numba")
    assert compiled_scanner.__wrapped__() is None


def test_where_no_cache_can_be_written_the_functions_compile_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from slackwater.wire.records import compiling

    asked = []

    def njit(signature: str, *, nogil: bool, cache: bool = False) -> Callable[[Callable[[], int]], Callable[[], int]]:
        asked.append(cache)
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: function

    monkeypatch.setattr(compiling, "njit", njit)
    assert compiling.compiled("int64()")(lambda: 7)() == 7
    assert asked == [True, False]


def test_a_scan_without_a_fault_says_so() -> None:
    assert NO_FAULT == 0
    assert scan(chunk_of(GOOD)).offsets.tolist() == [0]
    assert scan_headers(chunk_of(GOOD), np.array([7], np.int32), np.array([0], np.int32)).value_is_null.size == 0
