"""The compiled scanner: chunks, invalid records, and reads inside the buffer."""

import struct
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")

from slackwater.wire.errors import WireError
from slackwater.wire.records import scanner
from slackwater.wire.records.batch import iter_batches
from slackwater.wire.records.compression import Codec
from slackwater.wire.records.record import Record, decode_records, encode_batch
from slackwater.wire.records.scanner import Chunk, chunks, scan, scan_headers

from .random_records import random_response

NO_LIMIT = 2**63 - 1
LOWEST = -(2**63)


@pytest.fixture(params=["compiled", "interpreted"])
def _functions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run every test also with the uncompiled functions, in which a read outside the array is an IndexError."""
    if request.param == "interpreted":
        for name in ("scan_records", "scan_header_fields"):
            monkeypatch.setattr(scanner, name, getattr(scanner, name).py_func)
    with np.errstate(over="ignore"):  # compiled sums wrap silently
        yield


def scanned(buffer: bytes, chunk_bytes: int = 1 << 20) -> list[Record]:
    """The records, assembled from the columns of a scan."""
    records = []
    for chunk in chunks(iter_batches(buffer), chunk_bytes):
        columns = scan(chunk, LOWEST, NO_LIMIT)
        headers = scan_headers(chunk, columns.header_starts, columns.header_counts)
        data = chunk.data.tobytes()

        def value(starts: Any, lengths: Any, row: int, data: bytes = data) -> bytes | None:
            return None if lengths[row] < 0 else data[starts[row] : starts[row] + lengths[row]]

        header = 0
        for row in range(len(columns.offsets)):
            pairs = []
            for _ in range(columns.header_counts[row]):
                key = value(headers.key_starts, headers.key_lengths, header)
                assert key is not None
                pairs.append((key.decode(errors="replace"), value(headers.value_starts, headers.value_lengths, header)))
                header += 1
            records.append(
                Record(
                    value(columns.key_starts, columns.key_lengths, row),
                    value(columns.value_starts, columns.value_lengths, row),
                    tuple(pairs),
                    int(columns.timestamps[row]),
                    int(columns.offsets[row]),
                )
            )
    return records


def decoded(buffer: bytes) -> list[Record]:
    return [record for batch in iter_batches(buffer) for record in decode_records(batch)]


@pytest.mark.usefixtures("_functions")
@pytest.mark.parametrize("codecs", [[Codec.NONE], [Codec.LZ4], list(Codec)], ids=["none", "lz4", "mixed"])
def test_scan_finds_the_records_of_the_plain_decoder(codecs: list[Codec]) -> None:
    for seed in range(20):
        buffer = random_response(Random(seed), codecs)
        assert scanned(buffer) == decoded(buffer)


@pytest.mark.parametrize("codecs", [[Codec.NONE], [Codec.ZSTD], [Codec.NONE, Codec.LZ4]])
@pytest.mark.parametrize("chunk_bytes", [1, 5_000, 20_000])
def test_chunk_size_is_limited(codecs: list[Codec], chunk_bytes: int) -> None:
    buffer = random_response(Random(3), codecs, 20)
    for chunk in chunks(iter_batches(buffer), chunk_bytes):
        assert len(chunk.data) <= chunk_bytes or len(chunk.batches) == 1
    assert scanned(buffer, chunk_bytes) == decoded(buffer)


def test_alternating_codecs_share_a_chunk() -> None:
    buffer = b"".join(encode_batch([Record(None, b"x")], codec=codec) for codec in [Codec.NONE, Codec.LZ4] * 20)
    assert [len(chunk.batches) for chunk in chunks(iter_batches(buffer), 1 << 20)] == [1, 39]


def test_batches_of_different_buffers_do_not_share_a_chunk() -> None:
    buffers = [encode_batch([Record(None, value)]) + encode_batch([Record(value, None)]) for value in (b"a", b"b")]
    batches = [batch for buffer in buffers for batch in iter_batches(buffer)]
    columns = [scan(chunk, 0, NO_LIMIT) for chunk in chunks(batches, 1 << 20)]
    assert [column.value_lengths.tolist() for column in columns] == [[1, -1]] * 2


def test_empty_batches_are_skipped() -> None:
    assert list(chunks(iter_batches(encode_batch([])), 1 << 20)) == []


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_record_count_is_checked_before_allocation(codec: Codec) -> None:
    data = encode_batch([Record(None, b"x")], codec=codec)
    struct.pack_into(">i", data, 57, 2**31 - 1)
    with pytest.raises(WireError, match="2147483647 records do not fit into"):
        list(chunks(iter_batches(data), 1 << 20))


def test_compression_error_names_the_batch() -> None:
    data = encode_batch([Record(None, b"x")], codec=Codec.GZIP, base_offset=7)
    data[70:75] = b"zzzzz"
    with pytest.raises(WireError, match=r"Record batch at offset 7: Cannot decompress .* of gzip"):
        list(chunks(iter_batches(data), 1 << 20))


INVALID = {
    "negative length": "0d 00 00 00 01 01 00",
    "length zero": "00 00 00 00 01 01 00",
    "longer than the batch": "0e 00 00 00 01 01 00",
    "much longer than the batch": "feffffff0f 00 00 00 01 01 00",
    "truncated length": "80 80 80 80 80 80 80",
    "length of six bytes": "8c8080808000 00 00 00 01 01 00",
    "fields shorter than length": "0e 00 00 00 01 01 00 00",
    "fields longer than length": "0a 00 00 00 01 01 00",
    "bytes after the record": "0c 00 00 00 01 01 00 00",
    "key too long": "0c 00 00 00 7e 01 00",
    "key much too long": "14 00 00 00 feffffff0f 01 00",
    "value too long": "0c 00 00 00 01 7e 00",
    "timestamp of eleven bytes": "20 00 8080808080808080808000 00 01 01 00",
    "truncated timestamp": "0c 00 80 80 80 80 80",
    "offset of six bytes": "16 00 00 808080808000 01 01 00",
    "negative header count": "0c 00 00 00 01 01 01",
    "more headers than bytes": "0c 00 00 00 01 01 7e",
    "header without key": "10 00 00 00 01 01 02 01 00",
    "header key too long": "12 00 00 00 01 01 02 7e 61 00",
    "header value too long": "12 00 00 00 01 01 02 02 61 7e",
    "truncated header": "10 00 00 00 01 01 02 02 61",
    "truncated second header": "16 00 00 00 01 01 04 02 61 00 02 61",
}
VALID = "0c 00 00 00 01 01 00"


def buffer_of(*payloads: str, counts: Sequence[int] = ()) -> bytes:
    """One batch per payload; base offsets are 0, 100, 200 ..."""
    buffer = bytearray()
    for number, payload in enumerate(payloads):
        data = encode_batch([], base_offset=100 * number) + bytes.fromhex(payload)
        struct.pack_into(">i", data, 8, len(data) - 12)
        struct.pack_into(">i", data, 57, counts[number] if counts else 1)
        buffer += data
    return bytes(buffer)


def first_chunk(buffer: bytes) -> Chunk:
    return next(chunks(iter_batches(buffer), 1 << 20))


@pytest.mark.usefixtures("_functions")
@pytest.mark.parametrize("name", INVALID)
def test_invalid_record_gives_the_error_of_the_plain_decoder(name: str) -> None:
    for buffer in (
        buffer_of(INVALID[name]),
        buffer_of(VALID + VALID, VALID + INVALID[name], VALID, counts=[2, 2, 1]),
    ):
        with pytest.raises(WireError) as expected:
            decoded(buffer)
        with pytest.raises(WireError) as raised:
            scanned(buffer)
        assert str(raised.value) == str(expected.value)


@pytest.mark.usefixtures("_functions")
def test_record_does_not_reach_into_the_next_batch() -> None:
    with pytest.raises(WireError, match="offset 0: record 0 has length 13, but 6 bytes are left"):
        scanned(buffer_of("1a 00 00 00 01 01 00", VALID))


@pytest.mark.usefixtures("_functions")
def test_long_varints_and_overflow_as_in_java() -> None:
    chunk = first_chunk(buffer_of("2c 00 ffffffffffffffffff01 ffffffff7f 8100 818000 00"))
    chunk.timestamps[0], chunk.base_offsets[0] = -5, -(2**63)
    columns = scan(chunk, LOWEST, NO_LIMIT)
    assert (columns.timestamps[0], columns.offsets[0]) == (2**63 - 5, 2**63 - 2**31)


def test_scan_returns_rows_between_two_offsets() -> None:
    buffer = encode_batch([Record(None, b"%d" % number) for number in range(10)])
    assert scan(first_chunk(bytes(buffer)), 3, 6).offsets.tolist() == [3, 4, 5]
    columns = scan(first_chunk(bytes(buffer)), 20, 30)
    assert not len(columns.offsets)
    assert not len(scan_headers(first_chunk(bytes(buffer)), columns.header_starts, columns.header_counts).key_starts)


@pytest.mark.usefixtures("_functions")
@pytest.mark.parametrize("mend_checksum", [False, True])
def test_corrupt_bytes_give_the_result_of_the_plain_decoder(mend_checksum: bool) -> None:
    random = Random(11)
    rejected = 0
    for _ in range(300):
        buffer = bytearray(random_response(random, [Codec.NONE], 2))
        for _ in range(random.randint(1, 3)):
            buffer[random.randrange(len(buffer))] = random.choice((0, 1, 2, 0x7F, 0x80, 0xFF, random.randrange(256)))
        results: list[object] = []
        for decode in (decoded, scanned):
            try:
                if mend_checksum:
                    for batch in iter_batches(buffer):
                        struct.pack_into(">I", buffer, batch.position + 17, batch.computed_crc())
                results.append(decode(bytes(buffer)))
            except WireError as error:
                results.append(str(error))
                rejected += 1
        assert results[0] == results[1]
    assert rejected > 50


def test_compiled_without_writable_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def njit(signature: str, *, nogil: bool, cache: bool = False) -> Callable[[Callable[[], int]], Callable[[], int]]:
        calls.append(cache)
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: function

    monkeypatch.setattr(scanner, "njit", njit)
    assert scanner.compiled("int64()")(lambda: 7)() == 7
    assert calls == [True, False]


def test_copy_values_interpreted() -> None:
    """An access outside the arrays would be an error here."""
    data = np.frombuffer(b"abcdef", np.uint8)
    starts, lengths = np.array([0, 1, 2, 4], np.int32), np.array([1, -1, 0, 2], np.int32)
    ends, validity, values = np.empty(5, np.int32), np.full(1, 0xFF, np.uint8), np.empty(3, np.uint8)
    copy = scanner.copy_values.py_func  # type: ignore[attr-defined]
    assert copy(data, starts, lengths, ends, validity, values) == 1
    assert (ends.tolist(), validity[0], values.tobytes()) == ([0, 1, 1, 1, 3], 0b11111101, b"aef")
