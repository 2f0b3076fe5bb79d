"""Tests of the offset and time index of a segment."""

import struct
from pathlib import Path

import pytest

from slackwater.broker.storage.log.index import DamagedIndex, OffsetIndex, TimeIndex


def test_index_entries_have_kafka_format(tmp_path: Path) -> None:
    offsets, times = OffsetIndex(tmp_path / "a"), TimeIndex(tmp_path / "b")
    offsets.add(7, 4100)
    times.add(1_700_000_000_000, 7)
    offsets.write()
    times.write()
    assert (tmp_path / "a").read_bytes() == struct.pack(">ii", 7, 4100)
    assert (tmp_path / "b").read_bytes() == struct.pack(">qi", 1_700_000_000_000, 7)


def test_written_index_is_read_back(tmp_path: Path) -> None:
    index = OffsetIndex(tmp_path / "a")
    for number in range(1, 200):
        index.add(number * 10, number * 1000)
        if index.should_write:
            index.write()
    index.write()
    read = OffsetIndex.read(tmp_path / "a", 1_000_000)
    assert (read.keys, read.values) == (index.keys, index.values)
    assert [read.position(offset) for offset in (0, 9, 10, 19, 20, 99_999)] == [0, 0, 1000, 1000, 2000, 199_000]
    assert [read.batch_start_before(position) for position in (0, 999, 1000, 2500)] == [0, 0, 1000, 2000]


def test_write_truncates_older_entries(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 80)
    index = OffsetIndex(tmp_path / "a")
    index.add(1, 1)
    index.write()
    assert (tmp_path / "a").stat().st_size == 8


def test_time_index_lookup(tmp_path: Path) -> None:
    index = TimeIndex(tmp_path / "b")
    assert index.last == (-1, 0)
    for timestamp, offset in ((100, 5), (100, 9), (90, 12), (200, 20)):
        index.add_newer(timestamp, offset)
    index.write()
    read = TimeIndex.read(tmp_path / "b")
    assert list(zip(read.keys, read.values, strict=True)) == [(100, 5), (200, 20)]
    assert [read.relative_offset(timestamp) for timestamp in (99, 100, 150, 200, 999)] == [0, 5, 5, 20, 20]
    assert TimeIndex.read_last(tmp_path / "b") == (200, 20)


def test_empty_file_is_empty_index(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    assert len(OffsetIndex.read(tmp_path / "a", 0)) == len(TimeIndex.read(tmp_path / "a")) == 0
    assert OffsetIndex.read_last_position(tmp_path / "a", 0) == 0
    assert TimeIndex.read_last(tmp_path / "a") == (-1, 0)


@pytest.mark.parametrize(
    "data",
    [b"\0", bytes(16), struct.pack(">iiii", 5, 100, 4, 200), struct.pack(">ii", 5, 10_000), struct.pack(">ii", -5, 1)],
    ids=["half an entry", "zeros", "not in order", "after the end", "negative"],
)
def test_damaged_offset_index_is_detected(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(DamagedIndex):
        OffsetIndex.read(tmp_path / "a", 1000)


@pytest.mark.parametrize("data", [b"\0", bytes(24), struct.pack(">qi", -7, 1), struct.pack(">qi", 1, -1)])
def test_damaged_time_index_is_detected(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(DamagedIndex):
        TimeIndex.read(tmp_path / "a")


def test_damaged_last_entry_is_detected(tmp_path: Path) -> None:
    for data in (b"\0", struct.pack(">ii", 5, 1000), struct.pack(">ii", -5, 1)):
        (tmp_path / "a").write_bytes(data)
        with pytest.raises(DamagedIndex):
            OffsetIndex.read_last_position(tmp_path / "a", 1000)
    for data in (b"\0", struct.pack(">qi", -5, 1), struct.pack(">qi", 5, -1)):
        (tmp_path / "a").write_bytes(data)
        with pytest.raises(DamagedIndex):
            TimeIndex.read_last(tmp_path / "a")
    with pytest.raises(DamagedIndex, match="the file does not exist"):
        TimeIndex.read_last(tmp_path / "missing")
    with pytest.raises(DamagedIndex, match="the file does not exist"):
        TimeIndex.read(tmp_path / "missing")
