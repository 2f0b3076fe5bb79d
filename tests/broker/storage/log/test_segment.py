"""Tests of one segment and its indexes."""

import os
import struct
from pathlib import Path

import pytest

from slackwater.broker.slices import run_to_completion
from slackwater.broker.storage.log.batch_headers import DamagedSegment
from slackwater.broker.storage.log.config import LogConfig
from slackwater.broker.storage.log.files import OFFSET_INDEX, TIME_INDEX
from slackwater.broker.storage.log.recovery import scan
from slackwater.broker.storage.log.segment import Segment
from slackwater.wire.records.batch import RecordBatch

from .batches import NOW_MS, SMALL, sized

DAMAGED_LENGTHS = [-(1 << 31), -13, -12, -1, 0, 1, 48, 100_000, (1 << 31) - 1]
CONFIG = LogConfig(index_interval_bytes=250)


def put(segment: Segment, offset: int, size: int, timestamp: int = NOW_MS) -> None:
    made = RecordBatch(sized(size, timestamp=timestamp))
    made.set_base_offset(offset)
    segment.append([made.data])
    segment.index_batch(made.size, offset, timestamp)


@pytest.fixture
def segment(tmp_path: Path) -> Segment:
    made = Segment(tmp_path, 1000, CONFIG, NOW_MS, create=True)
    for number in range(20):
        put(made, 1000 + number * 2, 100, NOW_MS + number * 10)
    return made


def test_index_entry_after_interval_bytes(segment: Segment) -> None:
    assert list(segment.offset_index.keys) == [6, 12, 18, 24, 30, 36]
    assert list(segment.offset_index.values) == [300, 600, 900, 1200, 1500, 1800]
    assert list(segment.time_index.keys) == [NOW_MS + at for at in (30, 60, 90, 120, 150, 180)]


def test_find_returns_batch_with_offset_or_next(segment: Segment) -> None:
    for offset in range(1000, 1039):
        assert segment.find(offset) == (offset - 999) // 2 * 100
    assert segment.find(1039) is None


def test_read_returns_complete_batches(segment: Segment) -> None:
    for max_bytes in range(0, 2200, 37):
        for position in range(0, 2000, 100):
            data = segment.read(position, max_bytes, min_one=False)
            assert len(data) == min(max_bytes // 100 * 100, 2000 - position)
            assert len(segment.read(position, max_bytes, min_one=True)) == max(len(data), 100)


def test_sequential_read_needs_no_search(segment: Segment, monkeypatch: pytest.MonkeyPatch) -> None:
    segment.read(0, 250, min_one=True)
    segment.read(1500, 10_000, min_one=True)
    put(segment, 1040, 100)
    monkeypatch.setattr(Segment, "iter_headers", None)
    assert segment.find(1003) == 200
    assert segment.find(1039) == 2000


def test_closed_segment_is_read_from_its_files(segment: Segment) -> None:
    segment.finish()
    segment.close()
    again = Segment(segment.directory, 1000, CONFIG, NOW_MS)
    again.trust(1039)
    assert (again.max_timestamp, again.offset_of_max_timestamp) == (NOW_MS + 190, 1038)
    assert (again.first_timestamp, again.next_offset) == (NOW_MS, 1039)
    assert again.offset_index.values == segment.offset_index.values
    assert again.time_index.keys == segment.time_index.keys
    assert run_to_completion(again.find_timestamp(NOW_MS + 55, 0)) == (NOW_MS + 60, 1012)
    again.close()
    again.close()


@pytest.mark.parametrize("kind", [OFFSET_INDEX, TIME_INDEX])
@pytest.mark.parametrize("data", [None, b"odd", bytes(24 * 20)], ids=["missing", "odd", "zeros"])
def test_missing_or_damaged_index_is_rebuilt(segment: Segment, kind: str, data: bytes | None) -> None:
    segment.finish()
    expected = {suffix: segment.path(suffix).read_bytes() for suffix in (OFFSET_INDEX, TIME_INDEX)}
    segment.path(kind).unlink()
    if data is not None:
        segment.path(kind).write_bytes(data)
    again = Segment(segment.directory, 1000, CONFIG, NOW_MS)
    again.trust(1039)
    assert again.time_index.last == (NOW_MS + 190, 38)
    assert again.find(1025) == 1300
    assert {suffix: again.path(suffix).read_bytes() for suffix in (OFFSET_INDEX, TIME_INDEX)} == expected


def test_index_rebuild_stops_at_damaged_header(segment: Segment) -> None:
    os.pwrite(segment.fd, b"\xff" * 61, 1000)
    again = Segment(segment.directory, 1000, CONFIG, NOW_MS)
    again.trust(1039)
    assert (again.size, again.next_offset) == (2000, 1039)
    assert again.find(1018) == 900
    with pytest.raises(DamagedSegment, match="damaged at byte 1000: no record batch starts there"):
        again.find(1019)


def test_scan_builds_same_indexes_as_appends(segment: Segment) -> None:
    again = Segment(segment.directory, 1000, CONFIG, NOW_MS)
    assert scan(again, 2000) is None
    assert (again.size, again.next_offset, again.max_timestamp) == (2000, 1039, NOW_MS + 190)
    assert (again.offset_index.keys, again.time_index.keys) == (segment.offset_index.keys, segment.time_index.keys)
    put(again, 1050, 100)
    put(segment, 1050, 100)
    assert again.offset_index.values == segment.offset_index.values


def test_index_entries_stay_in_memory_on_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = Segment(tmp_path, 0, LogConfig(index_interval_bytes=0), NOW_MS, create=True)
    for number in range(80):
        put(segment, number, 100, NOW_MS + number)
    assert segment.path(OFFSET_INDEX).stat().st_size == 64 * 8
    with monkeypatch.context() as full:
        full.setattr("slackwater.broker.storage.log.index.write_at", _raise_no_space)
        for number in range(80, 200):
            put(segment, number, 100, NOW_MS + number)
    assert segment.path(OFFSET_INDEX).stat().st_size == 64 * 8
    segment.finish()
    assert segment.path(OFFSET_INDEX).stat().st_size == 199 * 8


def _raise_no_space(fd: int, buffers: object, position: int) -> None:
    raise OSError(28, "No space left on device")


def test_segment_rolls_by_size_time_and_full_index(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=1000, segment_ms=5000, index_interval_bytes=0, segment_index_bytes=48)
    segment = Segment(tmp_path, 0, config, NOW_MS, create=True)
    assert not segment.should_roll(config, 2000, 0, NOW_MS, NOW_MS + 10_000)
    put(segment, 0, 400)
    assert not segment.should_roll(config, 600, 1, NOW_MS + 5000, NOW_MS)
    assert segment.should_roll(config, 601, 1, NOW_MS, NOW_MS)
    assert segment.should_roll(config, 100, 1, NOW_MS + 5001, NOW_MS)
    assert segment.should_roll(config, 100, 1 << 31, NOW_MS, NOW_MS)
    assert not segment.should_roll(config, 100, 1, NOW_MS, NOW_MS + 99_999)
    for number in range(1, 4):
        assert not segment.should_roll(config, 100, number, NOW_MS, NOW_MS)
        put(segment, number, 100, NOW_MS + number)
    assert segment.should_roll(config, 100, 5, NOW_MS, NOW_MS)


def test_records_without_timestamp_roll_by_broker_clock(tmp_path: Path) -> None:
    segment = Segment(tmp_path, 0, SMALL, NOW_MS, create=True)
    put(segment, 0, 100, -1)
    assert not segment.should_roll(SMALL, 100, 1, -1, NOW_MS + SMALL.segment_ms)
    assert segment.should_roll(SMALL, 100, 1, -1, NOW_MS + SMALL.segment_ms + 1)


def test_full_offset_index_rolls_segment(tmp_path: Path) -> None:
    config = LogConfig(index_interval_bytes=0, segment_index_bytes=48)
    segment = Segment(tmp_path, 0, config, NOW_MS, create=True)
    for number in range(7):
        assert not segment.should_roll(config, 100, number, NOW_MS, NOW_MS)
        put(segment, number, 100)
    assert segment.should_roll(config, 100, 7, NOW_MS, NOW_MS)


@pytest.mark.parametrize("length", DAMAGED_LENGTHS)
@pytest.mark.parametrize("number", [0, 7, 19])
def test_damaged_length_ends_every_walk(segment: Segment, length: int, number: int) -> None:
    """Offsets 1000, 1002, …, 1038; the batch of offset 1000 + 2 * number is damaged."""
    segment.finish()
    os.pwrite(segment.fd, struct.pack(">i", length), number * 100 + 8)
    again = Segment(segment.directory, 1000, CONFIG, NOW_MS)
    again.trust(1039)
    damaged = f"{segment.path('.log')} is damaged at byte {number * 100}: "
    with pytest.raises(DamagedSegment, match=damaged):
        list(again.iter_headers(0))
    for offset in range(1000, 1000 + 2 * number - 1):
        assert again.find(offset) == (offset - 999) // 2 * 100
    with pytest.raises(DamagedSegment, match=damaged):
        again.find(1000 + 2 * number)
    for min_one in (True, False):
        with pytest.raises(DamagedSegment, match=damaged):
            again.read(number * 100, 150, min_one=min_one)
        if number:
            assert len(again.read(number * 100 - 100, 150, min_one=min_one)) == 100
    with pytest.raises(DamagedSegment, match=damaged):
        run_to_completion(again.find_timestamp(NOW_MS + number * 10, 1000))


def test_damaged_offset_is_not_returned(segment: Segment) -> None:
    """The checksum does not cover the offset of a batch."""
    os.pwrite(segment.fd, struct.pack(">q", 1 << 40), 700)
    with pytest.raises(DamagedSegment, match=f"byte 700: the batch ends at offset {1 << 40}, the segment at 1038"):
        segment.find(1014)


def test_iteration_does_not_read_another_file(tmp_path: Path) -> None:
    """Retention may close a segment between two steps of an iteration, and another file gets its descriptor."""
    segment = Segment(tmp_path, 0, LogConfig(), NOW_MS, create=True)
    for number in range(3):
        put(segment, number, 16_000)
    headers = segment.iter_headers(0)
    assert next(headers).base_offset == 0
    fd = segment.fd
    segment.close()
    other = os.open(tmp_path / "other", os.O_RDWR | os.O_CREAT)
    assert other == fd
    with pytest.raises(OSError, match="Bad file descriptor"):
        list(headers)
    os.close(other)
