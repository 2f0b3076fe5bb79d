"""Tests of compaction, with a crash at every step."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from slackwater.broker.storage.log import cleaner
from slackwater.broker.storage.log.batch_headers import DamagedSegment
from slackwater.broker.storage.log.files import LOG, with_suffix
from slackwater.broker.storage.log.partition_log import AppendOrigin, PartitionLog
from slackwater.broker.storage.log.pending_appends import AppendInfo
from slackwater.broker.storage.log.validation import Rejection
from slackwater.wire.records.batch import CONTROL_BIT, RecordBatch, complete_batches
from slackwater.wire.records.compression import Codec

from .batches import (
    COMPACT,
    NOW_MS,
    Sent,
    appended,
    batch,
    compact,
    contents,
    fill,
    keyed,
    offset_at,
    open_descriptors,
    opened,
    reopen,
    values,
)


def latest(log: PartitionLog) -> dict[bytes | None, bytes | None]:
    """Return the last value of every key."""
    return {key: value for _, key, value in values(log)}


def alive(log: PartitionLog) -> dict[bytes | None, bytes | None]:
    return {key: value for key, value in latest(log).items() if value is not None}


@pytest.mark.parametrize("codec", list(Codec))
def test_last_value_of_every_key_is_kept(tmp_path: Path, codec: Codec) -> None:
    log = opened(tmp_path, COMPACT)
    keyed(log, 100, codec=codec)
    before, everything = latest(log), set(values(log))
    closed_end, size = log.active.base_offset, log.size
    assert compact(log, NOW_MS)
    assert latest(log) == before
    assert set(values(log)) <= everything
    assert log.size < size / 2
    cleaned_keys = [key for offset, key, _ in values(log) if offset < closed_end]
    assert len(cleaned_keys) == len(set(cleaned_keys))
    assert log.checkpoint.cleaner_offset == closed_end
    log = reopen(log)
    assert latest(log) == before
    assert log.truncated_tails == []
    assert not compact(log, NOW_MS)


def test_small_segments_are_merged(tmp_path: Path) -> None:
    log = opened(tmp_path, COMPACT)
    keyed(log, 150)
    number = len(log.segments)
    compact(log, NOW_MS)
    keyed(log, 50)
    compact(log, NOW_MS)
    assert len(log.segments) < number - 3
    assert [segment.base_offset for segment in log.segments] == sorted(with_suffix(tmp_path, LOG))
    assert not list(tmp_path.glob("*.cleaned")) + list(tmp_path.glob("*.swap"))


def test_active_segment_is_not_cleaned(tmp_path: Path) -> None:
    log = opened(tmp_path, COMPACT)
    fill(log, 10)
    assert cleaner.plan(log, NOW_MS) is None
    log.roll(NOW_MS)
    assert compact(log, NOW_MS)
    assert [offset for offset, _, _ in values(log)] == [9]


def test_tombstone_is_kept_for_delete_retention(tmp_path: Path) -> None:
    log = opened(tmp_path, replace(COMPACT, delete_retention_ms=1000))
    appended(log, Sent(b"a", b"1"), Sent(b"b", b"1"))
    appended(log, Sent(b"a", None))
    log.roll(NOW_MS)
    compact(log, NOW_MS)
    assert values(log) == [(1, b"b", b"1"), (2, b"a", None)]
    assert [record.timestamp for record in contents(log)] == [NOW_MS, NOW_MS]
    for now_ms, is_kept in ((NOW_MS + 999, True), (NOW_MS + 1000, False)):
        appended(log, Sent(b"c", b"1"))
        log.roll(NOW_MS)
        log = reopen(log)
        compact(log, now_ms)
        assert (b"a" in latest(log)) is is_kept


def test_last_batch_of_producer_is_kept(tmp_path: Path) -> None:
    log = opened(tmp_path, COMPACT)
    log.append(batch(Sent(b"a"), Sent(b"b"), producer_id=5, epoch=0, sequence=0), NOW_MS)
    log.append(batch(Sent(b"a"), producer_id=6, epoch=0, sequence=0), NOW_MS)
    log.append(batch(Sent(b"a"), producer_id=6, epoch=0, sequence=1), NOW_MS)
    appended(log, Sent(b"a", b"last"), Sent(b"b", b"last"))
    appended(log, Sent(b"c", None))
    log.roll(NOW_MS)
    compact(log, NOW_MS)
    appended(log, Sent(b"c", b"1"))
    log.roll(NOW_MS)
    appended(log, Sent(b"d", b"1"))
    compact(log, NOW_MS)
    data = log.read(0, 10_000)
    assert not isinstance(data, Rejection)
    stored = [(item.base_offset, item.last_offset, item.record_count) for item in complete_batches(data)]
    assert stored == [(0, 1, 0), (3, 3, 0), (4, 5, 2), (7, 7, 1), (8, 8, 1)][: len(stored)]
    for path in tmp_path.glob("*.snapshot"):
        path.unlink()
    reopened = reopen(log)
    assert set(reopened.producers.producers) == {5, 6}
    duplicate = reopened.append(batch(Sent(b"a"), Sent(b"b"), producer_id=5, epoch=0, sequence=0), NOW_MS)
    assert isinstance(duplicate, AppendInfo)
    assert (duplicate.base_offset, duplicate.duplicate) == (0, True)


def test_reads_skip_gaps(tmp_path: Path) -> None:
    log = opened(tmp_path, replace(COMPACT, segment_bytes=600))
    for number in range(60):
        appended(log, Sent(b"k%d" % (number % 5), b"v"))
    compact(log, NOW_MS)
    offsets = [offset for offset, _, _ in values(log)]
    assert len(offsets) < 20
    for offset in range(60):
        data = log.read(offset, 1)
        assert not isinstance(data, Rejection)
        assert RecordBatch(data).last_offset >= offset
    first = offset_at(log, NOW_MS)
    assert first is not None
    assert first.offset == offsets[0]


def test_cleaning_removes_records_without_key(tmp_path: Path) -> None:
    log = opened(tmp_path, replace(COMPACT, cleanup_policy=frozenset({"delete"})))
    appended(log, Sent(None, b"no key"), Sent(b"a"))
    log.append(batch(Sent(b"a"), attributes=CONTROL_BIT), NOW_MS, AppendOrigin.COORDINATOR)
    log.append(batch(codec=Codec.GZIP, payload=b"no gzip"), NOW_MS, AppendOrigin.COORDINATOR)
    appended(log, Sent(b"z"))
    log.roll(NOW_MS)
    assert cleaner.plan(log, NOW_MS) is None
    log.config = COMPACT
    compact(log, NOW_MS)
    data = log.read(0, 10_000)
    assert not isinstance(data, Rejection)
    assert [(batch.base_offset, batch.record_count) for batch in complete_batches(data)] == [
        (0, 1),
        (2, 1),
        (3, 1),
        (4, 1),
    ]


def test_cleaning_waits_for_dirty_ratio_or_lag(tmp_path: Path) -> None:
    log = opened(tmp_path, replace(COMPACT, min_cleanable_dirty_ratio=0.5))
    keyed(log, 100)
    assert compact(log, NOW_MS)
    keyed(log, 400, keys=1000)
    assert compact(log, NOW_MS)
    keyed(log, 40)
    assert cleaner.plan(log, NOW_MS) is None
    log.config = replace(log.config, max_compaction_lag_ms=1000)
    assert cleaner.plan(log, NOW_MS + 1000) is None
    assert cleaner.plan(log, NOW_MS + 1001) is not None


def test_min_compaction_lag(tmp_path: Path) -> None:
    log = opened(tmp_path, replace(COMPACT, min_compaction_lag_ms=1000))
    fill(log, 15)
    fill(log, 15, start_ms=NOW_MS + 500)
    fill(log, 1, start_ms=NOW_MS + 500)
    assert cleaner.plan(log, NOW_MS + 999) is None
    cleaning_plan = cleaner.plan(log, NOW_MS + 1200)
    assert cleaning_plan is not None
    assert cleaning_plan.end_offset == 15


def test_too_many_keys_are_cleaned_in_several_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaner, "MAX_KEYS", 10)
    log = opened(tmp_path, COMPACT)
    keyed(log, 60, keys=25)
    before, ends = latest(log), []
    for _ in range(20):
        if not compact(log, NOW_MS):
            break
        ends.append(log.checkpoint.cleaner_offset)
        assert latest(log) == before
    assert ends == sorted(set(ends))
    assert len(ends) > 2
    assert ends[-1] == log.active.base_offset


def test_cleaning_is_discarded_if_log_has_changed(tmp_path: Path) -> None:
    log = opened(tmp_path, replace(COMPACT, cleanup_policy=frozenset({"compact", "delete"}), retention_ms=1000))
    fill(log, 40)
    cleaning_plan = cleaner.plan(log, NOW_MS)
    assert cleaning_plan is not None
    cleaned = cleaner.clean(cleaning_plan)
    assert log.delete_expired_segments(NOW_MS + 1001)
    assert not cleaner.install(log, cleaned, NOW_MS)
    assert not list(tmp_path.glob("*.cleaned"))
    fill(log, 40)
    cleaning_plan = cleaner.plan(log, NOW_MS)
    assert cleaning_plan is not None
    log.delete_expired_segments(NOW_MS + 1001)
    with pytest.raises(FileNotFoundError):
        cleaner.clean(cleaning_plan)
    assert not list(tmp_path.glob("*.cleaned"))


def test_install_requires_gap_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = opened(tmp_path, COMPACT)
    fill(log, 40)
    cleaning_plan = cleaner.plan(log, NOW_MS)
    assert cleaning_plan is not None
    cleaned = cleaner.clean(cleaning_plan)
    monkeypatch.setattr("slackwater.broker.storage.log.checkpoint.replace_file", _raise_no_space)
    with pytest.raises(OSError, match="No space"):
        cleaner.install(log, cleaned, NOW_MS)
    assert not list(tmp_path.glob("*.cleaned"))
    assert len(contents(log)) == 40


def _raise_no_space(*_: object, sync: bool) -> None:
    raise OSError(28, "No space left on device")


def test_install_without_descriptors_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = opened(tmp_path, COMPACT)
    keyed(log, 60)
    before, files = contents(log), sorted(tmp_path.glob("*.log"))
    cleaning_plan = cleaner.plan(log, NOW_MS)
    assert cleaning_plan is not None
    descriptors = open_descriptors(tmp_path)
    cleaned = cleaner.clean(cleaning_plan)
    with monkeypatch.context() as without_descriptors:
        without_descriptors.setattr("slackwater.broker.storage.log.swap.sync_directory", _raise_too_many_open_files)
        with pytest.raises(OSError, match="Too many open files"):
            cleaner.install(log, cleaned, NOW_MS)
    assert open_descriptors(tmp_path) == descriptors
    assert sorted(tmp_path.glob("*.log*")) == files
    assert contents(log) == before
    assert compact(log, NOW_MS)
    assert len(contents(log)) < len(before)


def _raise_too_many_open_files(_directory: Path) -> None:
    raise OSError(24, "Too many open files")


def test_full_disk_discards_cleaning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = opened(tmp_path, COMPACT)
    keyed(log, 60)
    before = contents(log)
    cleaning_plan = cleaner.plan(log, NOW_MS)
    assert cleaning_plan is not None
    monkeypatch.setattr(os, "pwritev", lambda *_: _raise_no_space(sync=False))
    with pytest.raises(OSError, match="No space"):
        cleaner.clean(cleaning_plan)
    assert not list(tmp_path.glob("*.cleaned"))
    assert contents(log) == before


def test_large_segments_are_written_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaner, "_WRITE_BYTES", 150)
    log = opened(tmp_path, COMPACT)
    keyed(log, 60, keys=50)
    before = latest(log)
    assert compact(log, NOW_MS)
    assert latest(reopen(log)) == before


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (-92, b"\x70", r"damaged at byte 1400: the batch has 1879048292 bytes, but only 100 are left"),
        (-92, b"\xff\xff\xff\xf4", r"damaged at byte 1400: no record batch starts there \(magic 2, length -12\)"),
        (-92, bytes(4), r"damaged at byte 1400: no record batch starts there \(magic 2, length 0\)"),
        (-100, bytes(8), r"damaged at byte 1400: the batch has offsets 0 to 0 after 13"),
        (-1, b"\xff", r"damaged at byte 1400: the checksum of the batch is wrong"),
    ],
    ids=["huge", "negative", "zero", "offset", "content"],
)
def test_damaged_segment_is_not_cleaned(tmp_path: Path, at: int, value: bytes, reason: str) -> None:
    log = opened(tmp_path, COMPACT)
    fill(log, 20)
    path = with_suffix(tmp_path, LOG)[0]
    data = bytearray(path.read_bytes())
    at += len(data)
    data[at : at + len(value)] = value
    path.write_bytes(data)
    cleaning_plan = cleaner.plan(log, NOW_MS)
    assert cleaning_plan is not None
    with pytest.raises(DamagedSegment, match=reason):
        cleaner.clean(cleaning_plan)
    assert not list(tmp_path.glob("*.cleaned"))
    assert path.exists()


class Crash(BaseException):
    """Simulates a killed process."""


CALLS = ("rename", "fsync", "pwritev", "unlink", "replace", "ftruncate")


def crash_at(monkeypatch: pytest.MonkeyPatch, step: int) -> Callable[[], int]:
    """Raise `Crash` before the `step`th call that changes the disk; returns a counter of the calls."""
    calls = 0

    def counted(real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            nonlocal calls
            calls += 1
            if calls == step:
                raise Crash
            return real(*arguments, **named)

        return call

    for name in CALLS:
        # The test does not need a real fsync.
        monkeypatch.setattr(os, name, counted((lambda fd: None) if name == "fsync" else getattr(os, name)))
    return lambda: calls


@pytest.mark.parametrize("seed", [1, 2])
def test_crash_at_every_step_leaves_old_or_new_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    random = Random(seed)
    step = 0
    while True:
        step += 1
        log = opened(tmp_path / str(step), replace(COMPACT, segment_bytes=900, delete_retention_ms=0))
        keyed(log, 30, keys=random.randint(3, 9))
        compact(log, NOW_MS)
        keyed(log, 30, keys=random.randint(3, 9))
        before, end = alive(log), log.log_end_offset
        with monkeypatch.context() as patched:
            calls = crash_at(patched, step)
            try:
                compact(log, NOW_MS + 1)
                log.delete_expired_segments(NOW_MS + 2)
            except Crash:
                pass
            crashed = calls() >= step
        reopened = reopen(log)
        assert alive(reopened) == before
        assert reopened.log_end_offset == end
        assert reopened.truncated_tails == []
        assert not [path for path in reopened.directory.iterdir() if path.suffix in (".cleaned", ".swap", ".deleted")]
        keyed(reopened, 10)
        before = alive(reopened)
        compact(reopened, NOW_MS + 2)
        assert alive(reopened) == before
        reopened.close()
        if not crashed:
            break
    assert step > 20
