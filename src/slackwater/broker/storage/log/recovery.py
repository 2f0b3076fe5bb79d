"""What is found in a partition's directory at the start, and what is cut off.

Rules kept here
- What was flushed is trusted, and nothing else: every batch of the active segment is checked at every start, and those
  of older segments from the recovery point on, unless the stop was a clean one.
- The log ends before the first batch that is not whole, whose checksum is wrong, or whose offset does not follow: it
  may go on behind a gap only where compaction has been. (The checksum covers all but the offset and the leader epoch,
  so a flipped bit could otherwise send the next record ages ahead.) All that follows is cut off, later segments
  included, and each `TruncatedTail` says what was lost and why.
- A compaction that was under way is finished or undone first (`swap`), so that a segment is found once.

A batch that a producer was told of is whole in the file when the process is killed, for it was written before the
answer; only a power cut or a failing disk takes more than the unanswered end.
"""

import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from slackwater.broker.storage.log import swap
from slackwater.broker.storage.log.checkpoint import Checkpoint
from slackwater.broker.storage.log.config import INT_MAX, LogConfig
from slackwater.broker.storage.log.files import LOG, OFFSET_INDEX, TIME_INDEX, with_suffix
from slackwater.broker.storage.log.producer_state import ProducerState, SequencedBatch, last_sequence
from slackwater.broker.storage.log.segment import Segment
from slackwater.wire.records.batch import HEADER, HEADER_BYTES, LENGTH_ENDS_AT, MAGIC
from slackwater.wire.records.crc import crc32c

_CRC_ENDS_AT = 21


class TruncatedTail(NamedTuple):
    """What was cut off, for the broker's log."""

    path: Path
    from_offset: int
    position: int
    size: int
    why: str

    def __str__(self) -> str:
        return (
            f"Truncated {self.size} bytes of {self.path} at byte {self.position}: "
            f"the log ends before offset {self.from_offset}; {self.why}."
        )


@dataclass(slots=True)
class Recovered:
    """A log as it was found on disk, after what had to be cut off."""

    segments: list[Segment]
    checkpoint: Checkpoint
    producers: ProducerState
    truncated_tails: list[TruncatedTail] = field(default_factory=list)
    scanned_bytes: int = 0


def recover(directory: Path, config: LogConfig, now_ms: int, *, clean_shutdown: bool) -> Recovered:
    """Open what stands in the directory; an empty one becomes an empty log."""
    swap.settle(directory)
    files = with_suffix(directory, LOG)
    for suffix in (OFFSET_INDEX, TIME_INDEX):
        for offset, path in with_suffix(directory, suffix).items():
            if offset not in files:
                path.unlink()
    checkpoint = Checkpoint.read(directory)
    segments = [Segment(directory, offset, config, now_ms) for offset in files]
    if not segments:
        checkpoint = replace(checkpoint, gaps_up_to=0)
        checkpoint.write(directory)
        segments = [Segment(directory, checkpoint.log_start_offset, config, now_ms, create=True)]
    recovered = Recovered(segments, checkpoint, ProducerState())
    _check_segments(recovered, segments[-1].base_offset if clean_shutdown else checkpoint.recovery_point)
    whole_up_to = segments[-1].next_offset
    if whole_up_to < checkpoint.log_start_offset:
        # Records were deleted up to an offset that is gone with the tail. It was given once, and is not given again.
        segments[-1].finish()
        segments.append(Segment(directory, checkpoint.log_start_offset, config, now_ms, create=True))
    recovered.checkpoint = checkpoint.within(segments[0].base_offset, segments[-1].next_offset)
    if recovered.checkpoint != checkpoint:
        # After a cut: the file says flushed up to 70 → the log is cut at 25 → grows to 90 → the power fails. A start
        # that reads 70 there would trust what was written in between.
        recovered.checkpoint.write(directory, sync=bool(recovered.truncated_tails))
    recovered.producers = _producers(directory, recovered, whole_up_to)
    if whole_up_to < segments[-1].base_offset:
        recovered.producers.write(directory)  # what is known of them must outlive the segments before this one
    recovered.producers.expire(now_ms, config.producer_id_expiration_ms)
    return recovered


def _check_segments(recovered: Recovered, trusted_up_to: int) -> None:
    segments = recovered.segments
    for number, segment in enumerate(segments):
        is_active = number == len(segments) - 1
        next_base = None if is_active else segments[number + 1].base_offset
        if next_base is not None and next_base <= trusted_up_to:
            segment.trust(next_base)
            continue
        file_size = segment.size
        recovered.scanned_bytes += file_size
        why = scan(segment, recovered.checkpoint.gaps_up_to)
        if next_base is not None and segment.next_offset > next_base:
            why = why or f"the next segment begins at offset {next_base} already"
        if why is None:
            if not is_active:
                segment.finish()
            continue
        segment.cut()
        recovered.truncated_tails.append(
            TruncatedTail(segment.path(LOG), segment.next_offset, segment.size, file_size - segment.size, why)
        )
        for later in segments[number + 1 :]:
            recovered.truncated_tails.append(
                TruncatedTail(later.path(LOG), segment.next_offset, 0, later.size, "it follows what was cut")
            )
            swap.remove(later)
        del segments[number + 1 :]
        return


def scan(segment: Segment, gaps_up_to: int) -> str | None:
    """Check every batch of a segment and build its indexes anew; the answer is why it ends early, if it does."""
    file_size = segment.size
    segment.reset()
    if not file_size:
        return None
    with mmap.mmap(segment.fd, file_size, prot=mmap.PROT_READ) as mapped, memoryview(mapped) as view:
        return _scan(segment, view, file_size, gaps_up_to)


def _scan(segment: Segment, view: memoryview, file_size: int, gaps_up_to: int) -> str | None:
    unpack_from, note = HEADER.unpack_from, segment.note
    at, next_offset, most = 0, segment.base_offset, segment.base_offset + INT_MAX
    while at < file_size:
        if file_size - at < HEADER_BYTES:
            return f"the last {file_size - at} bytes are less than a header"
        base_offset, length, _, magic, crc, _, last_delta, _, max_timestamp, *_ = unpack_from(view, at)
        if magic != MAGIC or length < HEADER_BYTES - LENGTH_ENDS_AT:
            return f"no record batch begins there (magic {magic}, length {length})"
        end = at + length + LENGTH_ENDS_AT
        if end > file_size:
            return f"the last batch takes {end - at} bytes, of which {file_size - at} were written"
        if crc32c(view[at + _CRC_ENDS_AT : end]) != crc:
            return "the checksum of the batch there is wrong"
        if base_offset != next_offset and (base_offset < next_offset or next_offset >= gaps_up_to):
            return f"the batch there has offset {base_offset}, and {next_offset} was expected"
        if last_delta < 0 or base_offset + last_delta > most:
            return f"the batch there ends at offset {base_offset + last_delta}, which cannot be"
        note(end - at, base_offset + last_delta, max_timestamp)
        at, next_offset = end, base_offset + last_delta + 1
    return None


def _producers(directory: Path, recovered: Recovered, whole_up_to: int) -> ProducerState:
    """The newest snapshot, and on top of it what the log holds from there on; what was cut off is forgotten."""
    segments = recovered.segments
    end_offset = segments[-1].next_offset
    state = ProducerState.latest(directory, segments[0].base_offset, whole_up_to)
    for segment in segments:
        if segment.next_offset > state.end_offset:
            for offset, producer_id, epoch, batch in _sequenced(segment, state.end_offset):
                if offset >= state.end_offset:
                    state.replay(producer_id, epoch, batch)
    state.end_offset = end_offset
    return state


def _sequenced(segment: Segment, from_offset: int) -> Iterator[tuple[int, int, int, SequencedBatch]]:
    """The batches of idempotent producers: base offset, producer id, epoch, and the batch."""
    position = segment.find(from_offset)
    if position is None:
        return
    for step in segment.walk(position):
        header = HEADER.unpack(os.pread(segment.fd, HEADER_BYTES, step.position))
        *_, last_delta, _, max_timestamp, producer_id, epoch, base_sequence, _ = header
        if producer_id >= 0:
            batch = SequencedBatch(
                last_sequence(base_sequence, last_delta), step.last_offset, last_delta, max_timestamp
            )
            yield step.base_offset, producer_id, epoch, batch
