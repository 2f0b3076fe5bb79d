"""Tests of recovery: what is scanned and what is truncated."""

import errno
import os
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from slackwater.broker.storage.log.checkpoint import FILE, Checkpoint
from slackwater.broker.storage.log.files import LOG, SNAPSHOT, SWAP, with_suffix
from slackwater.broker.storage.log.partition_log import PartitionLog
from slackwater.broker.storage.log.pending_appends import AppendInfo
from slackwater.broker.storage.log.recovery import TruncatedTail
from slackwater.broker.storage.log.validation import Rejection
from slackwater.group.errors import Error
from slackwater.wire.records.batch import RecordBatch, iter_batches

from .batches import (
    COMPACT,
    NOW_MS,
    SMALL,
    Sent,
    appended,
    batch,
    compact,
    contents,
    fill,
    keyed,
    open_descriptors,
    opened,
    reopen,
)

ROOMY = replace(SMALL, segment_bytes=100_000)


def active_file(path: Path) -> Path:
    return list(with_suffix(path, LOG).values())[-1]


def test_torn_tail_is_truncated_at_last_complete_batch(tmp_path: Path) -> None:
    log = opened(tmp_path, ROOMY)
    ends = []
    for number in range(5):
        appended(log, *[Sent(b"k%d" % number, b"v" * number)] * (number + 1))
        ends.append((log.size, log.log_end_offset))
    log.close_unclean()
    data = active_file(tmp_path).read_bytes()
    for length in range(len(data)):
        active_file(tmp_path).write_bytes(data[:length])
        size, offset = max([end for end in ends if end[0] <= length], default=(0, 0))
        again = opened(tmp_path, ROOMY)
        assert (again.size, again.log_end_offset, len(contents(again))) == (size, offset, offset)
        tails = [(tail.from_offset, tail.position, tail.size) for tail in again.truncated_tails]
        assert tails == ([(offset, size, length - size)] if length > size else [])
        assert active_file(tmp_path).stat().st_size == size
        again.close_unclean()


def test_flipped_bit_truncates_from_its_batch(tmp_path: Path) -> None:
    log = opened(tmp_path, ROOMY)
    fill(log, 4)
    log.close_unclean()
    data = active_file(tmp_path).read_bytes()
    for at in range(100, 300):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        active_file(tmp_path).write_bytes(changed)
        again = opened(tmp_path, ROOMY)
        # The checksum does not cover the leader epoch, and nothing depends on it.
        if at % 100 in range(12, 16):
            assert again.log_end_offset == 4
        else:
            assert again.log_end_offset == at // 100
            assert again.truncated_tails[0].from_offset == at // 100
        again.close_unclean()


def test_gap_is_accepted_only_after_compaction(tmp_path: Path) -> None:
    log = opened(tmp_path)
    fill(log, 3)
    late = RecordBatch(batch())
    late.set_base_offset(9)
    log.active.append([late.data])
    log.close_unclean()
    data = active_file(tmp_path).read_bytes()
    for gaps_up_to, end in ((3, 3), (4, 10), (None, 10)):
        active_file(tmp_path).write_bytes(data)
        Checkpoint(gaps_up_to=gaps_up_to or 0).write(tmp_path)
        if gaps_up_to is None:
            (tmp_path / FILE).unlink()
        again = opened(tmp_path)
        assert again.log_end_offset == end
        again.close_unclean()


def test_batch_with_negative_last_offset_is_truncated(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.active.append([batch(last_delta=-2)])
    log.close_unclean()
    assert opened(tmp_path).truncated_tails[0].reason == "the batch ends at the invalid offset -2"


def test_truncation_message(tmp_path: Path) -> None:
    log = opened(tmp_path)
    fill(log, 3)
    log.close_unclean()
    path = active_file(tmp_path)
    path.write_bytes(path.read_bytes()[:-10])
    (truncated,) = opened(tmp_path).truncated_tails
    assert str(truncated) == (
        f"Truncated 90 bytes of {path} at byte 200: the log ends before offset 2; "
        "the batch has 100 bytes, but only 90 are left."
    )


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (bytes(61), "no record batch starts there (magic 0, length 0)"),
        (b"\1" * 20, "the last 20 bytes are shorter than a batch header"),
        (batch(), "the batch has offset 0; expected 3"),
    ],
)
def test_invalid_tail_is_truncated(tmp_path: Path, tail: bytes, reason: str) -> None:
    log = opened(tmp_path)
    fill(log, 3)
    log.close_unclean()
    path = active_file(tmp_path)
    path.write_bytes(path.read_bytes() + tail)
    again = opened(tmp_path)
    assert again.truncated_tails == [TruncatedTail(path, 3, 300, len(tail), reason)]
    assert again.log_end_offset == 3


def test_truncation_removes_later_segments(tmp_path: Path) -> None:
    log = opened(tmp_path)
    fill(log, 70)
    log.close_unclean()
    path = with_suffix(tmp_path, LOG)[20]
    data = bytearray(path.read_bytes())
    data[550] ^= 1
    path.write_bytes(data)
    again = opened(tmp_path)
    assert [(tail.path.name[18:20], tail.from_offset, tail.size) for tail in again.truncated_tails] == [
        ("20", 25, 1500),
        ("40", 25, 2000),
        ("60", 25, 1000),
    ]
    assert [record.offset for record in contents(again)] == list(range(25))
    assert list(with_suffix(tmp_path, SNAPSHOT)) == [20]
    appended(again)
    assert len(contents(reopen(again))) == 26


def test_overlapping_segments_end_at_the_first(tmp_path: Path) -> None:
    log = opened(tmp_path)
    fill(log, 30)
    log.close_unclean()
    path = with_suffix(tmp_path, LOG)[20]
    path.rename(path.with_name(f"{10:020d}.log"))
    again = opened(tmp_path)
    assert [tail.reason for tail in again.truncated_tails] == [
        "the next segment starts at offset 10",
        "it follows the truncated part",
    ]
    assert again.log_end_offset == 20


def test_flushed_segments_are_not_scanned(tmp_path: Path) -> None:
    log = opened(tmp_path)
    fill(log, 70)
    log.close()
    assert (Checkpoint.read(tmp_path) or Checkpoint()).recovery_point == 70
    again = opened(tmp_path)
    assert again.scanned_bytes == 1000
    fill(again, 30)
    again = reopen(again)
    assert again.scanned_bytes == 2000 + 2000
    assert again.log_end_offset == 100
    assert reopen(again, clean=True).scanned_bytes == 2000


def test_clean_start_scans_active_segment(tmp_path: Path) -> None:
    log = opened(tmp_path)
    fill(log, 50)
    log.close()
    path = active_file(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    again = PartitionLog.open(tmp_path, SMALL, NOW_MS, clean_shutdown=True)
    assert again.log_end_offset == 49
    assert again.checkpoint.recovery_point == 49


def test_deleted_offsets_are_not_reused(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append(batch(producer_id=3, epoch=0, sequence=0), NOW_MS)
    fill(log, 4)
    log.delete_records(5)
    log.close_unclean()
    active_file(tmp_path).write_bytes(active_file(tmp_path).read_bytes()[:-1])
    log = opened(tmp_path)
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)
    assert log.truncated_tails[0].from_offset == 4
    assert set(log.producers.producers) == {3}
    assert log.append(batch(), NOW_MS) == AppendInfo(5, 5, -1, 5)
    log = reopen(log)
    assert [record.offset for record in contents(log)] == [5]
    assert log.delete_expired_segments(NOW_MS) == [0]


def test_truncation_lowers_recovery_point(tmp_path: Path) -> None:
    log = opened(tmp_path)
    fill(log, 70)
    log.close()
    path = active_file(tmp_path)
    path.write_bytes(path.read_bytes()[:450])
    log = opened(tmp_path)
    assert log.log_end_offset == 64
    assert (Checkpoint.read(tmp_path) or Checkpoint()).recovery_point == 64
    fill(log, 36)
    assert reopen(log).scanned_bytes == 2000 + 2000


def test_index_without_segment_is_removed(tmp_path: Path) -> None:
    (tmp_path / f"{7:020d}.index").touch()
    (tmp_path / f"{7:020d}.timeindex").touch()
    assert opened(tmp_path).log_end_offset == 0
    assert [path.name for path in tmp_path.glob("*index")] == []


def test_appends_continue_after_truncation(tmp_path: Path) -> None:
    log = opened(tmp_path)
    fill(log, 19)
    log.close_unclean()
    path = active_file(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    again = opened(tmp_path)
    assert again.append(batch(), NOW_MS) == AppendInfo(18, 18, -1, 0)
    fill(again, 40)
    assert [record.offset for record in contents(reopen(again))] == list(range(59))


@pytest.mark.parametrize("length", [-12, 0, 1 << 30])
@pytest.mark.parametrize("number", [0, 1, 19])
@pytest.mark.parametrize("is_replaced", [False, True])
def test_damaged_swap_file_replaces_no_segment(tmp_path: Path, length: int, number: int, is_replaced: bool) -> None:
    log = opened(tmp_path)
    fill(log, 50)
    log.close()
    path = with_suffix(tmp_path, LOG)[0]
    data = bytearray(path.read_bytes())
    data[number * 100 + 8 : number * 100 + 12] = struct.pack(">i", length)
    path.with_name(path.name + SWAP).write_bytes(data)
    if is_replaced:
        path.unlink()
    again = PartitionLog.open(tmp_path, SMALL, NOW_MS, clean_shutdown=True)
    assert [segment.base_offset for segment in again.segments] == [0, 20, 40]
    assert not list(tmp_path.glob("*" + SWAP))
    assert isinstance(again.read(20, 1000), memoryview)
    result = again.read(number, 1000)
    assert isinstance(result, Rejection) == is_replaced
    if isinstance(result, Rejection):
        assert result.error is Error.CORRUPT_MESSAGE
    again.close()


def test_damaged_checkpoint_is_ignored_and_reported(tmp_path: Path) -> None:
    log = opened(tmp_path, replace(SMALL, cleanup_policy=frozenset({"delete"})))
    fill(log, 50)
    assert log.delete_records(5) == 5
    log.close()
    assert opened(tmp_path).log_start_offset == 5
    text = (tmp_path / FILE).read_text()
    (tmp_path / FILE).write_text(text.replace("log-start-offset 5", "log-start-offset 45"))
    again = opened(tmp_path)
    assert (again.log_start_offset, again.log_end_offset, len(contents(again))) == (0, 50, 50)
    assert again.warnings == [
        f"Ignored {tmp_path / FILE}, which is missing or damaged; deleted records may be readable again."
    ]
    again.close()


def test_damage_before_snapshot_offset_is_reported(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for sequence in range(40):
        appended_batch = batch(producer_id=7, epoch=0, sequence=sequence)
        assert isinstance(log.append(appended_batch, NOW_MS), AppendInfo)
    log.close()
    for path in with_suffix(tmp_path, SNAPSHOT).values():
        path.unlink()
    first = with_suffix(tmp_path, LOG)[0]
    data = bytearray(first.read_bytes())
    data[8:12] = bytes(4)
    first.write_bytes(data)
    again = PartitionLog.open(tmp_path, SMALL, NOW_MS, clean_shutdown=True)
    (warning,) = again.warnings
    assert warning == (
        "Sequence numbers and transactions of producers may be lost: "
        f"{first} is damaged at byte 0: no record batch starts there (magic 2, length 0)."
    )
    assert again.producers.producers[7].last_sequence == 39
    again.close()


def test_failed_open_leaves_no_descriptor(tmp_path: Path) -> None:
    log = opened(tmp_path)
    fill(log, 50)
    log.close_unclean()
    path = list(with_suffix(tmp_path, LOG).values())[1]
    path.unlink()
    path.mkdir()
    before = open_descriptors(tmp_path)
    with pytest.raises(IsADirectoryError):
        opened(tmp_path)
    assert open_descriptors(tmp_path) == before


@pytest.mark.parametrize("clean_shutdown", [True, False])
@pytest.mark.parametrize("kept", [0, 1])
def test_closed_segment_without_its_last_batches_is_reported(tmp_path: Path, clean_shutdown: bool, kept: int) -> None:
    log = opened(tmp_path)
    fill(log, 30)
    if clean_shutdown:
        log.close()
    else:
        log.close_unclean()
    first, second, *_ = with_suffix(tmp_path, LOG).items()
    cut_after(first[1], kept)
    again = PartitionLog.open(tmp_path, SMALL, NOW_MS, clean_shutdown=clean_shutdown)
    (warning,) = again.warnings
    assert warning.startswith(f"{first[1]} ends before offset {kept}, but the next segment starts at {second[0]}: ")
    assert again.log_end_offset == 30
    again.close_unclean()


def test_active_segment_without_its_last_batches_is_reported(tmp_path: Path) -> None:
    log = opened(tmp_path, ROOMY)
    fill(log, 5)
    log.close()
    cut_after(active_file(tmp_path), 3)
    again = PartitionLog.open(tmp_path, ROOMY, NOW_MS, clean_shutdown=True)
    (warning,) = again.warnings
    assert warning.startswith(f"{active_file(tmp_path)} ends before offset 3, but all records before 5 were flushed: ")
    again.close()
    assert PartitionLog.open(tmp_path, ROOMY, NOW_MS, clean_shutdown=True).warnings == []


def compacted(directory: Path) -> list[Path]:
    """Create a compacted log with gaps, and return their files."""
    log = opened(directory, COMPACT)
    keyed(log, 60, keys=150)
    assert compact(log, NOW_MS)
    keyed(log, 60)
    log.close()
    return list(with_suffix(directory, LOG).values())[:-1]


@pytest.mark.parametrize("clean_shutdown", [True, False])
def test_gaps_of_a_compacted_log_are_not_reported(tmp_path: Path, clean_shutdown: bool) -> None:
    compacted(tmp_path)
    again = PartitionLog.open(tmp_path, COMPACT, NOW_MS, clean_shutdown=clean_shutdown)
    assert again.warnings == []
    again.close()


@pytest.mark.parametrize("clean_shutdown", [True, False])
@pytest.mark.parametrize("kept", [0, 1])
def test_compacted_segment_without_its_last_batches_is_reported(
    tmp_path: Path, clean_shutdown: bool, kept: int
) -> None:
    first = compacted(tmp_path)[0]
    cut_after(first, kept)
    again = PartitionLog.open(tmp_path, COMPACT, NOW_MS, clean_shutdown=clean_shutdown)
    (warning,) = again.warnings
    assert warning.startswith(f"{first} ends before offset ")
    assert warning.endswith("the records between them are lost.")
    again.close_unclean()


def cut_after(path: Path, batches: int) -> None:
    """Keep the first batches of a log file."""
    data = path.read_bytes()
    path.write_bytes(data[: sum(len(batch.data) for batch in list(iter_batches(data))[:batches])])


def test_read_error_names_the_partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = opened(tmp_path)
    fill(log, 30)
    log.close()

    def fail(*_: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "pread", fail)
    with pytest.raises(OSError, match="Input/output error") as failure:
        PartitionLog.open(tmp_path, SMALL, NOW_MS, clean_shutdown=True)
    assert failure.value.filename == str(tmp_path)
