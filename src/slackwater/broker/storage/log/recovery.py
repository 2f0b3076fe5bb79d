"""Opening a partition directory: check the segments and truncate a damaged tail.

Invariants:
- Only flushed data is trusted. Every start checks all batches of the active segment and, unless the last stop was
  clean, all batches after the recovery point.
- The log ends before the first batch that is incomplete, has a wrong checksum, or has an unexpected offset. Gaps are
  allowed only where compaction has run. (The checksum does not cover the offset, so one flipped bit could otherwise
  move the log end far ahead.) Everything after that point is removed, later segments included, and each `TruncatedTail`
  says what was removed and why.
- A segment that ends at a complete batch, but before the next segment or the recovery point, has lost its last batches,
  also in a compacted log. `warnings` says so.
- Open transactions and the indexes of aborted ones are rebuilt from a snapshot and the log, unless the last stop was
  clean. So a kill between a marker and its index entry loses nothing.
- An unfinished compaction is completed or undone first (`swap`), so that each segment exists once.

Acknowledged batches are complete after a killed process, because they were written before the response. Only a power
failure or a failing disk loses acknowledged batches.
"""

import mmap
import os
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from slackwater.broker.storage.log import swap
from slackwater.broker.storage.log.batch_headers import DamagedSegment, frame_error
from slackwater.broker.storage.log.checkpoint import FILE as CHECKPOINT
from slackwater.broker.storage.log.checkpoint import Checkpoint
from slackwater.broker.storage.log.config import LogConfig
from slackwater.broker.storage.log.files import LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, with_suffix
from slackwater.broker.storage.log.index import DamagedIndex
from slackwater.broker.storage.log.producer_state import ProducerState, SequencedBatch, last_sequence
from slackwater.broker.storage.log.segment import Segment
from slackwater.broker.storage.log.transaction_index import AbortedTransaction
from slackwater.settings import MAX_INT
from slackwater.wire.errors import WireError
from slackwater.wire.records.batch import ATTRIBUTES_AT, HEADER, HEADER_BYTES, LENGTH_ENDS_AT, BatchHeader
from slackwater.wire.records.crc import crc32c
from slackwater.wire.records.markers import decode_marker


class TruncatedTail(NamedTuple):
    """Bytes that recovery removed, for the broker's log."""

    path: Path
    from_offset: int
    position: int
    size: int
    reason: str

    def __str__(self) -> str:
        return (
            f"Truncated {self.size} bytes of {self.path} at byte {self.position}: "
            f"the log ends before offset {self.from_offset}; {self.reason}."
        )


@dataclass(slots=True)
class Recovered:
    """The state of a log on disk, after its damaged tail was removed."""

    segments: list[Segment]
    checkpoint: Checkpoint
    producers: ProducerState
    truncated_tails: list[TruncatedTail] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    scanned_bytes: int = 0
    scanned_from: int = 0  # the base offset of the first segment that was scanned


def recover(directory: Path, config: LogConfig, now_ms: int, *, clean_shutdown: bool) -> Recovered:
    """Open the log in a directory; an empty directory becomes an empty log."""
    swap.finish_pending(directory)
    files = with_suffix(directory, LOG)
    for suffix in (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX):
        for offset, path in with_suffix(directory, suffix).items():
            if offset not in files:
                path.unlink()
    recovered = Recovered([], Checkpoint(), ProducerState())
    try:
        _recover(recovered, directory, files, config, now_ms, clean_shutdown=clean_shutdown)
    except BaseException as error:
        for segment in recovered.segments:
            segment.close()
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(directory)  # calls on a descriptor do not set it
        raise
    return recovered


def _recover(
    recovered: Recovered,
    directory: Path,
    base_offsets: Collection[int],
    config: LogConfig,
    now_ms: int,
    *,
    clean_shutdown: bool,
) -> None:
    stored = Checkpoint.read(directory)
    if stored is None and base_offsets:
        recovered.warnings.append(
            f"Ignored {directory / CHECKPOINT}, which is missing or damaged; deleted records may be readable again."
        )
    checkpoint = stored or Checkpoint()
    segments = recovered.segments
    for base_offset in base_offsets:
        segments.append(Segment(directory, base_offset, config, now_ms))
    if not segments:
        checkpoint = replace(checkpoint, gaps_up_to=0)
        checkpoint.write(directory)
        segments.append(Segment(directory, checkpoint.log_start_offset, config, now_ms, create=True))
    recovered.checkpoint = checkpoint
    _check_segments(recovered, segments[-1].base_offset if clean_shutdown else checkpoint.recovery_point)
    valid_up_to = segments[-1].next_offset
    if valid_up_to < checkpoint.recovery_point and not recovered.truncated_tails:
        recovered.warnings.append(
            f"{segments[-1].path(LOG)} ends before offset {valid_up_to}, but all records before "
            f"{checkpoint.recovery_point} were flushed: the records between them are lost."
        )
    if valid_up_to < checkpoint.log_start_offset:
        # Records were deleted up to an offset that the truncation removed. Offsets are never assigned twice.
        segments[-1].finish()
        segments.append(Segment(directory, checkpoint.log_start_offset, config, now_ms, create=True))
    recovered.checkpoint = checkpoint.within(segments[0].base_offset, segments[-1].next_offset)
    if recovered.checkpoint != checkpoint:
        # Example: the recovery point is 70, the log is truncated at 25, grows to 90, and the power fails.
        # Recovery that reads 70 would trust batches that were never flushed.
        recovered.checkpoint.write(directory, sync=bool(recovered.truncated_tails))
    is_clean = clean_shutdown and not recovered.truncated_tails
    rebuild_from = _read_transaction_indexes(recovered, valid_up_to if is_clean else recovered.scanned_from)
    recovered.producers = _producers(directory, recovered, valid_up_to, rebuild_from)
    if valid_up_to < segments[-1].base_offset:
        recovered.producers.write(directory)  # the state must outlive the earlier segments
    recovered.producers.expire(now_ms, config.producer_id_expiration_ms)


def _check_segments(recovered: Recovered, trusted_up_to: int) -> None:
    segments = recovered.segments
    for number, segment in enumerate(segments):
        is_active = number == len(segments) - 1
        next_base = None if is_active else segments[number + 1].base_offset
        if next_base is not None and next_base <= trusted_up_to:
            _report_missing(recovered, segment, segment.trust(next_base), next_base)
            continue
        file_size = segment.size
        if not recovered.scanned_bytes:
            recovered.scanned_from = segment.base_offset
        recovered.scanned_bytes += file_size
        reason = scan(segment, recovered.checkpoint.gaps_up_to)
        if next_base is not None and segment.next_offset > next_base:
            reason = reason or f"the next segment starts at offset {next_base}"
        if reason is None:
            if next_base is not None:
                _report_missing(recovered, segment, segment.next_offset, next_base)
                segment.finish()
            continue
        segment.truncate()
        recovered.truncated_tails.append(
            TruncatedTail(segment.path(LOG), segment.next_offset, segment.size, file_size - segment.size, reason)
        )
        for later in segments[number + 1 :]:
            recovered.truncated_tails.append(
                TruncatedTail(later.path(LOG), segment.next_offset, 0, later.size, "it follows the truncated part")
            )
            swap.remove(later)
        del segments[number + 1 :]
        return


def _report_missing(recovered: Recovered, segment: Segment, end_offset: int | None, next_base: int) -> None:
    """Report a segment that was cut between two batches; its last batches are missing."""
    if end_offset is not None and end_offset < next_base > recovered.checkpoint.log_start_offset:
        recovered.warnings.append(
            f"{segment.path(LOG)} ends before offset {end_offset}, but the next segment starts at {next_base}: "
            "the records between them are lost."
        )


def scan(segment: Segment, gaps_up_to: int) -> str | None:
    """Check every batch of a segment and rebuild its indexes. Returns why the segment ends early, or None."""
    file_size = segment.size
    segment.reset()
    if not file_size:
        return None
    with mmap.mmap(segment.fd, file_size, prot=mmap.PROT_READ) as mapped, memoryview(mapped) as view:
        return _scan(segment, view, file_size, gaps_up_to)


def _scan(segment: Segment, view: memoryview, file_size: int, gaps_up_to: int) -> str | None:
    unpack_from, index_batch = HEADER.unpack_from, segment.index_batch
    at, next_offset, max_offset = 0, segment.base_offset, segment.base_offset + MAX_INT
    while at < file_size:
        if file_size - at < HEADER_BYTES:
            return f"the last {file_size - at} bytes are shorter than a batch header"
        base_offset, length, _, magic, crc, _, last_delta, _, max_timestamp, *_ = unpack_from(view, at)
        if reason := frame_error(magic, length, file_size - at):
            return reason
        end = at + length + LENGTH_ENDS_AT
        if crc32c(view[at + ATTRIBUTES_AT : end]) != crc:
            return "the checksum of the batch is wrong"
        if base_offset != next_offset and (base_offset < next_offset or next_offset >= gaps_up_to):
            return f"the batch has offset {base_offset}; expected {next_offset}"
        if last_delta < 0 or base_offset + last_delta > max_offset:
            return f"the batch ends at the invalid offset {base_offset + last_delta}"
        index_batch(end - at, base_offset + last_delta, max_timestamp)
        at, next_offset = end, base_offset + last_delta + 1
    return None


def _read_transaction_indexes(recovered: Recovered, rebuild_from: int) -> int:
    """Read the existing indexes of aborted transactions; return the offset from which they must be rebuilt."""
    for segment in recovered.segments:
        try:
            segment.transaction_index.read(segment.base_offset, max(segment.next_offset, segment.base_offset + 1))
        except FileNotFoundError:
            continue
        except DamagedIndex as error:
            if segment.base_offset < rebuild_from:
                recovered.warnings.append(f"Rebuilt {error}.")
                rebuild_from = segment.base_offset
    return rebuild_from


def _producers(directory: Path, recovered: Recovered, valid_up_to: int, rebuild_from: int) -> ProducerState:
    """Load the newest snapshot that is not after `rebuild_from` and apply the batches of the log after it.

    The indexes of aborted transactions are rebuilt in segments that start at or after `rebuild_from`.
    """
    segments = recovered.segments
    end_offset = segments[-1].next_offset
    state = ProducerState.latest(directory, segments[0].base_offset, valid_up_to, up_to=rebuild_from)
    for segment in segments:
        aborted: list[AbortedTransaction] = []
        if segment.next_offset > state.end_offset:
            try:
                _replay(segment, state, aborted)
            except (DamagedSegment, WireError) as error:
                recovered.warnings.append(f"Sequence numbers and transactions of producers may be lost: {error}")
        if segment.base_offset >= rebuild_from:
            segment.transaction_index.rebuild(aborted)
    state.end_offset = end_offset
    return state


def _replay(segment: Segment, state: ProducerState, aborted: list[AbortedTransaction]) -> None:
    """Apply the producers' batches of a segment after `state.end_offset`, and add the aborted transactions."""
    position = segment.find(state.end_offset)
    if position is None:
        return
    for header in segment.iter_headers(position):
        batch = BatchHeader(os.pread(segment.fd, HEADER_BYTES, header.position))
        if batch.producer_id < 0 or batch.base_offset < state.end_offset:
            continue
        if batch.is_control:
            marker = decode_marker(segment.batch(header))
            if marker is not None:
                ended = state.replay_marker(
                    batch.producer_id, batch.producer_epoch, marker, header.last_offset, batch.max_timestamp
                )
                if ended is not None:
                    aborted.append(ended)
            continue
        delta = batch.last_offset_delta
        last = last_sequence(batch.base_sequence, delta)
        written = SequencedBatch(last, header.last_offset, delta, header.max_timestamp)
        state.replay(batch.producer_id, batch.producer_epoch, written, is_transactional=batch.is_transactional)
