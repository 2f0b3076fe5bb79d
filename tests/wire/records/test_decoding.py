"""Records found in bulk are those that are found one by one."""

from random import Random

import pytest

from slackwater.wire.errors import WireError
from slackwater.wire.records.bulk import BULK_PAYS_FROM_BYTES, read_pieces, read_records
from slackwater.wire.records.compression import Codec
from slackwater.wire.records.fetched import iter_records
from slackwater.wire.records.record import Record, encode_batch
from slackwater.wire.records.scan import NumpyScanner, compiled_scanner

from .random_records import random_records


def response(seed: int, codec: Codec, batches: int = 3) -> bytes:
    random = Random(seed)
    pieces, at = [], 0
    for _ in range(batches):
        given = [record._replace(offset=-1) for record in random_records(random)]
        pieces.append(encode_batch(given, base_offset=at, codec=codec))
        at += len(given)
    return b"".join(pieces)


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("way", ["numpy", "numba", "by size"])
def test_records_are_those_found_one_by_one(way: str, codec: Codec) -> None:
    scanner = NumpyScanner() if way == "numpy" else compiled_scanner() if way == "numba" else None
    for seed in range(8):
        data = response(seed, codec)
        expected = list(iter_records(data))
        assert read_records(data, scanner=scanner) == (expected, len(expected), 0)
        middle = len(expected) // 2
        found = read_records(data, 2, middle, scanner=scanner)
        assert found.records == list(iter_records(data, 2, middle))
        assert all(type(record) is Record for record in found.records)


@pytest.mark.parametrize("key", [None, b"key"], ids=["no keys", "keys"])
@pytest.mark.parametrize("count", [3, BULK_PAYS_FROM_BYTES])
def test_small_and_large_responses_without_headers(count: int, key: bytes | None) -> None:
    data = encode_batch([Record(key, b"v") for _ in range(count)])
    assert read_records(data).records == [Record(key, b"v", (), -1, number) for number in range(count)]


def test_damage_is_an_error_before_the_first_record() -> None:
    data = encode_batch([Record(None, b"x")] * 2000)
    data[-1] = 2
    with pytest.raises(WireError, match="CRC mismatch"):
        read_records(data)
    with pytest.raises(WireError, match="record 1999 has fields that do not fill"):
        read_records(data, check_crcs=False)


def test_a_batch_that_was_cut_off_is_told() -> None:
    data = response(1, Codec.NONE)
    assert read_records(data + data[:70]).trailing_bytes == 70


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("way", ["numpy", "numba", "by size"])
def test_pieces_give_the_same_records_field_by_field_and_bit_by_bit(way: str, codec: Codec) -> None:
    scanner = NumpyScanner() if way == "numpy" else compiled_scanner() if way == "numba" else None
    for seed in range(8):
        data = response(seed, codec) + bytes(
            encode_batch([Record(None, b"x")], base_offset=10**6, log_append_time_ms=5)
        )
        for start in (0, 2):
            expected = read_records(data, start, scanner=scanner)
            pieces, next_offset = read_pieces(data, start, scanner=scanner)
            found, kinds = [], []
            for piece in pieces:
                for at in range(0, len(piece), 3):
                    stop = min(at + 3, len(piece))
                    offsets, timestamps, types, keys, values, headers = piece.fields(at, stop)
                    found += list(map(Record, keys, values, headers, timestamps, offsets))
                    kinds += list(types)
                    assert piece.offset(at) == found[at - stop].offset
            assert (found, next_offset) == (expected.records, expected.next_offset)
            assert kinds == [0] * (len(found) - 1) + [1]
    assert read_pieces(b"") == ([], 0)
