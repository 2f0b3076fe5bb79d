"""The columns of the sink: names, types, and their conversion from Arrow."""

from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from slackwater.group.errors import UsageError
from slackwater.spark.sink.columns import (
    SinkColumns,
    byte_column,
    header_column,
    partition_numbers,
    rows_by_topic,
)
from tests.spark.sink.schemas import HEADERS, schema

HEADER_TYPE = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


def columns(ddl: str, *, has_topic_option: bool = True) -> SinkColumns:
    return SinkColumns.of(schema(ddl), has_topic_option=has_topic_option)


def test_columns_of_the_source_are_accepted() -> None:
    source = (
        f"key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, headers {HEADERS}"
    )
    assert columns(source) == SinkColumns(value=1, key=0, topic=2, partition=3, headers=6)
    assert columns("value varchar(9), key char(3)") == SinkColumns(value=0, key=1)


@pytest.mark.parametrize(
    ("ddl", "sentence"),
    [
        ("key int, value string", "The column key is int; it must be string or binary. Cast it."),
        ("value double", "The column value is double; it must be string or binary. Cast it."),
        ("value string, partition string", "The column partition is string; it must be int. Cast it."),
        ("value string, topic binary", "The column topic is binary; it must be string. Cast it."),
        (
            "value string, headers array<string>",
            "The column headers is array<string>; it must be array<struct<key:string,value:binary>>. Cast it.",
        ),
        ("vlaue string", "which writes value, key, topic, partition, headers; did you mean value?"),
        ("value string, colour string", "drop it, or put it into the value."),
        ("value string, value string", "The DataFrame has two columns value; select one."),
        ("key string", "The DataFrame has no column value; select an expression AS value."),
    ],
)
def test_wrong_columns_are_one_sentence(ddl: str, sentence: str) -> None:
    with pytest.raises(UsageError) as raised:
        columns(ddl)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


def test_topic_is_required() -> None:
    assert columns("value string, topic string", has_topic_option=False).topic == 1
    with pytest.raises(UsageError, match="set the option topic, or add a topic column"):
        columns("value string", has_topic_option=False)


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.large_string(), pa.large_binary()])
@pytest.mark.parametrize("start", [0, 2])
def test_bytes(kind: pa.DataType, start: int) -> None:
    array = pa.array(["a", None, "", "bcd", None, "e"], kind)[start:]
    column = byte_column(array)
    assert [column.at(row) for row in range(len(array))] == [b"a", None, b"", b"bcd", None, b"e"][start:]
    assert not len(byte_column(array[:0]).lengths)


@pytest.mark.parametrize("start", [0, 1, 3])
def test_headers(start: int) -> None:
    rows: list[list[dict[str, Any]] | None] = [
        [{"key": "a", "value": b"1"}],
        None,
        [],
        [{"key": "", "value": None}, {"key": "b", "value": b""}],
        [{"key": "c", "value": b"2"}],
    ]
    rows = rows[start:]
    column = header_column(pa.array(rows, HEADER_TYPE))
    found = [
        [(column.keys.at(place), column.values.at(place)) for place in range(first, first + count)]
        for first, count in zip(column.starts, column.counts, strict=True)
    ]
    assert found == [[(header["key"].encode(), header["value"]) for header in row or ()] for row in rows]


def test_headers_of_a_slice() -> None:
    rows = [[{"key": f"k{number}", "value": b"%d" % number}] * number for number in range(5)]
    column = header_column(pa.array(rows, HEADER_TYPE)[2:4])
    assert list(column.counts) == [2, 3]
    assert [column.keys.at(place) for place in range(5)] == [b"k2", b"k2", b"k3", b"k3", b"k3"]


def test_header_without_key_is_an_error() -> None:
    with pytest.raises(UsageError, match="A header has no key"):
        header_column(pa.array([[{"key": None, "value": b"1"}]], HEADER_TYPE))


def test_rows_by_topic() -> None:
    rows = {name: list(numbers) for name, numbers in rows_by_topic(pa.array(["b", "a", "b", "c", "a"]))}
    assert rows == {"a": [1, 4], "b": [0, 2], "c": [3]}
    ((name, numbers),) = rows_by_topic(pa.array(["a", "a"]))
    assert (name, list(numbers)) == ("a", [0, 1])
    with pytest.raises(UsageError, match="A record has no topic"):
        rows_by_topic(pa.array(["a", None]))


def test_partition_numbers() -> None:
    numbers = partition_numbers(pa.array([2, None, 0], pa.int32()))
    assert numbers.dtype == np.int32
    assert list(numbers) == [2, -1, 0]
    assert list(partition_numbers(pa.array([None], pa.int32()))) == [-1]
    with pytest.raises(UsageError, match="The partition column has -1"):
        partition_numbers(pa.array([0, -1], pa.int32()))
