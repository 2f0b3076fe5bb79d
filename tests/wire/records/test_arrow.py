"""A fetch response as Arrow: columns, nulls, trimming, chunks."""

import subprocess
import sys
from datetime import UTC, datetime
from random import Random
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from slackwater.wire.errors import WireError
from slackwater.wire.records.arrow import arrow_batches, read_arrow, schema
from slackwater.wire.records.compression import Codec
from slackwater.wire.records.fetched import FetchedBatches, iter_records
from slackwater.wire.records.record import Record, encode_batch
from slackwater.wire.records.scan import NumpyScanner, Scanner, compiled_scanner

from .random_records import random_records


@pytest.fixture(params=["numba", "numpy"])
def scanner(request: pytest.FixtureRequest) -> Scanner:
    found = NumpyScanner() if request.param == "numpy" else compiled_scanner()
    if found is None:
        pytest.skip("numba is not installed")
    return found


def response(seed: int, batches: int = 6) -> tuple[bytes, int, int]:
    """Batches by rising offset, all codecs and both kinds of timestamps; the first and the last offset."""
    random = Random(seed)
    pieces, at, last = [], 0, 0
    for _ in range(batches):
        given = random_records(random)
        first = given[0].offset
        moved = [
            record._replace(offset=record.offset - first + at, timestamp=min(record.timestamp, 2**40))
            for record in given
        ]
        stamp = random.choice((None, 1_700_000_000_000))
        pieces.append(encode_batch(moved, base_offset=at, codec=Codec(random.randrange(5)), log_append_time_ms=stamp))
        last = moved[-1].offset
        at = last + 1
    return b"".join(pieces), 0, last


def rows(table: Any) -> list[Record]:
    """A table as records."""
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return [
        Record(
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row["headers"]),
            round((row["timestamp"] - epoch).total_seconds() * 1000),
            row["offset"],
        )
        for row in table.to_pylist()
    ]


def test_the_columns_are_those_of_the_records(scanner: Scanner) -> None:
    for seed in range(15):
        data, _, last = response(seed)
        found = read_arrow(data, headers=True, scanner=scanner)
        found.table.validate(full=True)
        assert found.table.schema == schema(headers=True)
        assert rows(found.table) == list(iter_records(data))
        assert found.next_offset == last + 1


def test_every_trimming_is_that_of_the_records(scanner: Scanner) -> None:
    random = Random(9)
    for seed in range(15):
        data, first, last = response(seed)
        start, end = sorted(random.randint(first, last + 2) for _ in range(2))
        table = read_arrow(data, start, end, headers=True, scanner=scanner).table
        table.validate(full=True)
        assert rows(table) == list(iter_records(data, start, end))


@pytest.mark.parametrize("chunk_bytes", [1, 3_000, 1 << 24])
def test_chunks_of_any_size_give_the_same_rows(scanner: Scanner, chunk_bytes: int) -> None:
    data, _, _ = response(3, 12)
    batches = list(arrow_batches(FetchedBatches(data), headers=True, chunk_bytes=chunk_bytes, scanner=scanner))
    assert len(batches) > 1 or chunk_bytes == 1 << 24
    table = pa.Table.from_batches(batches)
    table.validate(full=True)
    assert rows(table) == list(iter_records(data))


def test_the_schema_is_the_one_spark_expects() -> None:
    assert str(schema(headers=True)) == (
        "offset: int64 not null\n"
        "timestamp: timestamp[us, tz=UTC] not null\n"
        "timestamp_type: int32 not null\n"
        "key: binary\n"
        "value: binary\n"
        "headers: list<element: struct<key: string not null, value: binary> not null> not null\n"
        "  child 0, element: struct<key: string not null, value: binary> not null\n"
        "      child 0, key: string not null\n"
        "      child 1, value: binary"
    )
    assert schema().names == ["offset", "timestamp", "timestamp_type", "key", "value"]


def test_offsets_of_64_bits_are_given_if_asked_for() -> None:
    data = encode_batch([Record(b"k", b"v"), Record(None, None)])
    table = read_arrow(data, large=True, headers=True).table
    assert table.schema == schema(large=True, headers=True)
    assert table["key"].type == pa.large_binary()
    assert table["value"].to_pylist() == [b"v", None]


def test_nothing_is_a_table_too() -> None:
    for data in (b"", bytes(encode_batch([])), bytes(encode_batch([Record(None, b"x")])[:-1])):
        found = read_arrow(data, 7, headers=True)
        assert found.table.num_rows == 0
        assert found.table.schema == schema(headers=True)
        assert found.next_offset == 7


def test_a_chunk_of_which_nothing_is_left_gives_no_batch() -> None:
    data = encode_batch([Record(None, b"a", offset=0), Record(None, b"b", offset=9)])
    assert list(arrow_batches(FetchedBatches(data, 3, 8))) == []


def test_both_kinds_of_timestamps_in_one_chunk(scanner: Scanner) -> None:
    data = encode_batch([Record(None, None, timestamp=5), Record(None, None)]) + encode_batch(
        [Record(None, None, timestamp=6), Record(None, None, timestamp=9)], base_offset=2, log_append_time_ms=70
    )
    table = read_arrow(data, scanner=scanner).table
    assert table["timestamp"].cast(pa.int64()).to_pylist() == [5_000, -1_000, 70_000, 70_000]
    assert table["timestamp_type"].to_pylist() == [0, 0, 1, 1]


def test_a_time_too_far_for_microseconds_is_the_farthest_that_fits() -> None:
    data = encode_batch([Record(None, None, timestamp=time) for time in (2**62, 2**63 // 1000 - 1, 1)])
    found = read_arrow(data).table["timestamp"].cast(pa.int64()).to_pylist()
    assert found == [2**63 // 1000 * 1000, (2**63 // 1000 - 1) * 1000, 1000]


def test_header_keys_that_are_no_text_are_replaced(scanner: Scanner) -> None:
    data = encode_batch([Record(None, b"v", (("name", b"1"), ("other", None)))])
    data[data.index(b"name")] = 0xFF
    (headers,) = read_arrow(data, headers=True, check_crcs=False, scanner=scanner).table["headers"].to_pylist()
    assert headers == [{"key": "\N{REPLACEMENT CHARACTER}ame", "value": b"1"}, {"key": "other", "value": None}]


def test_a_bytearray_that_changes_afterwards_does_not_change_the_table() -> None:
    data = encode_batch([Record(b"key", b"value", (("name", b"1"),))])
    table = read_arrow(data, headers=True).table
    data[:] = bytes(len(data))
    assert rows(table) == [Record(b"key", b"value", (("name", b"1"),), -1, 0)]


def test_damage_is_an_error_with_the_batch_it_is_in() -> None:
    good = encode_batch([Record(None, b"x")])
    bad = encode_batch([Record(None, b"x")], base_offset=1)
    bad[-1] = 2
    with pytest.raises(WireError, match="offset 1: CRC mismatch"):
        read_arrow(good + bad)
    with pytest.raises(WireError, match="offset 1: record 0 has fields that do not fill the length"):
        read_arrow(good + bad, check_crcs=False)


def test_the_package_loads_neither_arrow_nor_numba() -> None:
    names = "records", "records_read", "record_batch", "compression", "arrow"
    imports = "; ".join(f"import slackwater.wire.{name}" for name in names)
    program = f"import sys; {imports}; assert not {{'numba', 'pyarrow', 'cramjam'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def read_or_refused(data: bytes, scanner: Scanner) -> "tuple[Any, str]":
    try:
        return read_arrow(data, headers=True, check_crcs=False, scanner=scanner), ""
    except WireError as error:
        return None, str(error)


def test_damaged_bytes_are_refused_or_read_alike_in_both_ways() -> None:
    compiled = compiled_scanner()
    if compiled is None:
        pytest.skip("numba is not installed")
    random = Random(11)
    refused = 0
    for _ in range(300):
        given = random_records(random, most=8)
        data = bytearray(encode_batch(given, base_offset=given[0].offset))
        for _damage in range(random.randrange(1, 4)):
            data[random.randrange(61, len(data))] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))
        expected, why = read_or_refused(bytes(data), NumpyScanner())
        found, reason = read_or_refused(bytes(data), compiled)
        assert (reason, found and found.table) == (why, expected and expected.table)
        refused += bool(why)
    assert 0 < refused < 300


def test_the_compiled_way_looks_at_no_byte_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Python runs it, an index outside is an error."""
    records_numba = pytest.importorskip("slackwater.wire.records.scan_numba")
    monkeypatch.setattr(records_numba, "gather", records_numba.gather.py_func)
    random = Random(12)
    for seed in range(60):
        data = bytearray(response(seed, 1)[0])
        assert read_or_refused(bytes(data), records_numba) == read_or_refused(bytes(data), NumpyScanner())
        data[random.randrange(61, len(data))] ^= 1 << random.randrange(8)
        found, reason = read_or_refused(bytes(data), records_numba)
        expected, why = read_or_refused(bytes(data), NumpyScanner())
        assert (reason, found and found.table) == (why, expected and expected.table)
