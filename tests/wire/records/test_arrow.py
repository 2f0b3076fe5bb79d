"""A fetch response as Arrow: columns, nulls, offset limits, chunks."""

import subprocess
import sys
from datetime import UTC, datetime
from random import Random
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from slackwater.wire.errors import WireError
from slackwater.wire.records.arrow import arrow_batches, read_arrow, schema
from slackwater.wire.records.fetched import FetchedBatches, iter_records
from slackwater.wire.records.record import Record, encode_batch

from .random_records import random_response


def rows(table: Any) -> list[Record]:
    """Convert a table to records."""
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


def test_table_contains_the_records() -> None:
    for seed in range(15):
        data = random_response(Random(seed))
        records = list(iter_records(data))
        result = read_arrow(data, headers=True)
        result.table.validate(full=True)
        assert result.table.schema == schema(headers=True)
        assert rows(result.table) == records
        assert result.next_offset == records[-1].offset + 1


def test_offset_limits() -> None:
    random = Random(9)
    for seed in range(15):
        data = random_response(Random(seed))
        last = list(iter_records(data))[-1].offset
        start, end = sorted(random.randint(0, last + 2) for _ in range(2))
        table = read_arrow(data, start, end, headers=True).table
        table.validate(full=True)
        assert rows(table) == list(iter_records(data, start, end))


@pytest.mark.parametrize("chunk_bytes", [1, 3_000, 1 << 24])
def test_chunk_size_does_not_change_rows(chunk_bytes: int) -> None:
    data = random_response(Random(3), batches=12)
    batches = list(arrow_batches(FetchedBatches(data), headers=True, chunk_bytes=chunk_bytes))
    assert len(batches) > 1 or chunk_bytes == 1 << 24
    table = pa.Table.from_batches(batches)
    table.validate(full=True)
    assert rows(table) == list(iter_records(data))


def test_schema() -> None:
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


def test_large_binary() -> None:
    data = encode_batch([Record(b"k", b"v"), Record(None, None)])
    table = read_arrow(data, large=True, headers=True).table
    assert table.schema == schema(large=True, headers=True)
    assert table["key"].type == pa.large_binary()
    assert table["value"].to_pylist() == [b"v", None]


def test_empty_response_gives_empty_table() -> None:
    for data in (b"", bytes(encode_batch([])), bytes(encode_batch([Record(None, b"x")])[:-1])):
        result = read_arrow(data, 7, headers=True)
        assert result.table.num_rows == 0
        assert result.table.schema == schema(headers=True)
        assert result.next_offset == 7


def test_chunk_without_visible_records_gives_no_batch() -> None:
    data = encode_batch([Record(None, b"a", offset=0), Record(None, b"b", offset=9)])
    assert list(arrow_batches(FetchedBatches(data, 3, 8))) == []


def test_both_timestamp_types_in_one_chunk() -> None:
    data = encode_batch([Record(None, None, timestamp=5), Record(None, None)]) + encode_batch(
        [Record(None, None, timestamp=6), Record(None, None, timestamp=9)], base_offset=2, log_append_time_ms=70
    )
    table = read_arrow(data).table
    assert table["timestamp"].cast(pa.int64()).to_pylist() == [5_000, -1_000, 70_000, 70_000]
    assert table["timestamp_type"].to_pylist() == [0, 0, 1, 1]


def test_timestamp_out_of_range_is_clamped() -> None:
    data = encode_batch([Record(None, None, timestamp=time) for time in (2**62, 2**63 // 1000 - 1, 1)])
    microseconds = read_arrow(data).table["timestamp"].cast(pa.int64()).to_pylist()
    assert microseconds == [2**63 // 1000 * 1000, (2**63 // 1000 - 1) * 1000, 1000]


def test_invalid_utf8_in_header_key_is_replaced() -> None:
    data = encode_batch([Record(None, b"v", (("name", b"1"), ("other", None)))])
    data[data.index(b"name")] = 0xFF
    (headers,) = read_arrow(data, headers=True, check_crcs=False).table["headers"].to_pylist()
    assert headers == [{"key": "\N{REPLACEMENT CHARACTER}ame", "value": b"1"}, {"key": "other", "value": None}]


def test_table_does_not_share_the_buffer() -> None:
    data = encode_batch([Record(b"key", b"value", (("name", b"1"),))])
    table = read_arrow(data, headers=True).table
    data[:] = bytes(len(data))
    assert rows(table) == [Record(b"key", b"value", (("name", b"1"),), -1, 0)]


def test_error_names_the_batch() -> None:
    good = encode_batch([Record(None, b"x")])
    bad = encode_batch([Record(None, b"x")], base_offset=1)
    bad[-1] = 2
    with pytest.raises(WireError, match="offset 1: CRC mismatch"):
        read_arrow(good + bad)
    with pytest.raises(WireError, match="offset 1: record 0 has 1 headers, but 0 bytes are left"):
        read_arrow(good + bad, check_crcs=False)


def test_import_loads_neither_arrow_nor_numba() -> None:
    names = "record", "fetched", "batch", "compression", "decoding", "arrow"
    imports = "; ".join(f"import slackwater.wire.records.{name}" for name in names)
    program = f"import sys; {imports}; assert not {{'numba', 'pyarrow', 'cramjam'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
