"""Python values from a fetch response: the plain and the compiled decoder agree."""

import builtins
import sys
from collections.abc import Iterator
from random import Random
from types import ModuleType
from typing import Any

import pytest

from slackwater.wire.errors import WireError
from slackwater.wire.records import decoding
from slackwater.wire.records.compression import Codec
from slackwater.wire.records.decoding import DecodedResponse, compiled_scanner, decode_response
from slackwater.wire.records.fetched import iter_records, read_records
from slackwater.wire.records.record import Record, encode_batch

from .random_records import random_response

numba = pytest.importorskip("numba")


@pytest.fixture(params=["plain", "compiled"])
def scanner(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType | None:
    monkeypatch.setattr(decoding, "MIN_COMPILED_RECORDS", 2**63)
    return compiled_scanner() if request.param == "compiled" else None


def records_of(response: DecodedResponse, step: int = 3) -> Iterator[tuple[Record, int]]:
    """Records with their timestamp types, taken from the blocks a few at a time."""
    for block in response.blocks:
        assert len(block)
        for start in range(0, len(block), step):
            stop = min(start + step, len(block))
            offsets, timestamps, types, keys, values, headers = block.fields(start, stop)
            records = list(map(Record, keys, values, headers, timestamps, offsets))
            assert block.offset(start) == records[0].offset
            assert len(records) == stop - start
            yield from zip(records, types, strict=True)


@pytest.mark.parametrize("codec", list(Codec))
def test_blocks_contain_the_records(scanner: ModuleType | None, codec: Codec) -> None:
    for seed in range(8):
        data = random_response(Random(seed), [codec])
        expected = list(iter_records(data))
        for start in (0, 2):
            response = decode_response(data, start, scanner=scanner)
            assert [record for record, _ in records_of(response)] == [
                record for record in expected if record.offset >= start
            ]
            assert response.next_offset == expected[-1].offset + 1
        middle = expected[len(expected) // 2].offset
        response = decode_response(data, 2, middle, scanner=scanner)
        assert [record for record, _ in records_of(response, 7)] == list(iter_records(data, 2, middle))
        assert response.next_offset == middle
        assert read_records(data, 2, middle) == (list(iter_records(data, 2, middle)), middle)


def test_timestamp_types(scanner: ModuleType | None) -> None:
    data = encode_batch([Record(None, b"a")]) + encode_batch([Record(None, b"b")], base_offset=1, log_append_time_ms=5)
    assert [kind for _, kind in records_of(decode_response(data, scanner=scanner))] == [0, 1]


@pytest.mark.parametrize("key", [None, b"key"], ids=["null keys", "keys"])
def test_records_without_headers(scanner: ModuleType | None, key: bytes | None) -> None:
    data = encode_batch([Record(key, b"v") for _ in range(5_000)])
    records = [record for record, _ in records_of(decode_response(data, scanner=scanner), 500)]
    assert records == [Record(key, b"v", (), -1, offset) for offset in range(5_000)]


def test_empty_and_truncated_response(scanner: ModuleType | None) -> None:
    assert decode_response(b"", 7, scanner=scanner) == ([], 7, 0)
    data = random_response(Random(1))
    assert decode_response(data + data[:70], scanner=scanner).trailing_bytes == 70


def test_error_comes_before_the_first_record(scanner: ModuleType | None) -> None:
    data = encode_batch([Record(None, b"x")] * 2_000)
    data[-1] = 2
    with pytest.raises(WireError, match="CRC mismatch"):
        decode_response(data, scanner=scanner)
    with pytest.raises(WireError, match="record 1999 has 1 headers, but 0 bytes are left"):
        decode_response(data, check_crcs=False, scanner=scanner)


def test_compiled_decoder_is_loaded_after_many_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "_decoder_choice", decoding._DecoderChoice())
    monkeypatch.setattr(decoding, "MIN_COMPILED_RECORDS", 150)
    data = encode_batch([Record(None, b"v")] * 100)
    blocks = [decode_response(data).blocks[0] for _ in range(3)]
    assert [type(block).__name__ for block in blocks] == ["PlainBlock", "PlainBlock", "ScannedBlock"]
    monkeypatch.setattr(decoding, "compiled_scanner", lambda: None)
    assert type(decode_response(data).blocks[0]).__name__ == "PlainBlock"


def test_no_compiled_decoder_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    assert compiled_scanner.__wrapped__() is None
    import_module = builtins.__import__

    def fail_numba(name: str, *arguments: Any) -> object:
        if name == "numba":
            raise ImportError(name)
        return import_module(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", fail_numba)
    monkeypatch.delitem(sys.modules, "numba")
    assert compiled_scanner.__wrapped__() is None
