"""Decides where a newly assigned partition starts: at the group's committed offset, at the checkpoint's, or elsewhere.

Invariants:
- A query commits its marker to a partition before it reads (the *ownership commit*). The query's own marker
  therefore means that no other member had the partition since, and the checkpoint decides; any other marker means
  that the group's offset decides.
- An offset without a marker was committed by another consumer or an operator. A higher offset is progress; a lower one
  is a reset, which is followed or rejected, and always reported.
- An ownership commit never exceeds the finished offsets: a running batch does not count.
- An unfinished batch is read again from the group's committed offset, or from its beginning if that did not move.
- A partition that was committed early is read again whatever the committed offset is: its next owner started after
  this batch.
"""

from dataclasses import dataclass
from typing import Self

from slackwater.group.batches.commit_marker import CommitMarker
from slackwater.group.offset_and_metadata import OffsetAndMetadata
from slackwater.group.offset_range import OffsetRange


@dataclass(frozen=True, slots=True)
class StartPosition:
    """Where a partition starts; `ownership_commit` is the offset to commit and its batch number."""

    position: int
    ownership_commit: tuple[int, int] | None = None
    reset_from: int | None = None
    """The query's earlier position, if an operator moved the group's offset back from there."""
    replay: OffsetRange | None = None


@dataclass(frozen=True, slots=True)
class LastRead:
    """The last range of a partition that this run has read or reads; `since` is the start of the contiguous offsets
    read.
    """

    range: OffsetRange
    seq: int
    finished: bool
    since: int

    @classmethod
    def after(cls, before: Self | None, range: OffsetRange, seq: int) -> Self:
        """The next range that this run reads."""
        is_contiguous = before is not None and before.since <= range.from_offset <= before.range.until_offset
        return cls(
            range,
            seq,
            finished=False,
            since=before.since if before is not None and is_contiguous else range.from_offset,
        )


def after_read(checkpoint_id: str, seq: int, committed: OffsetAndMetadata | None, read: LastRead) -> StartPosition:
    """The start of a partition that this run has read before."""
    first, end = read.range.from_offset, read.range.until_offset
    done = (end, read.seq) if read.finished else (first, read.seq - 1)
    if committed is None:
        return StartPosition(end, done)
    committed_offset = committed.offset
    marker = CommitMarker.parse(committed)
    is_own = marker is not None and marker.checkpoint_id == checkpoint_id
    if committed_offset > end:
        return StartPosition(committed_offset, None if is_own else (committed_offset, seq))
    if (
        is_own or committed_offset >= read.since
    ):  # the checkpoint covers it: starting at the group's offset would read it twice
        is_committed = is_own and committed_offset >= done[0]
        return StartPosition(end, None if is_committed else max(done, (committed_offset, done[1])))
    return StartPosition(committed_offset, (committed_offset, seq), reset_from=end if marker is None else None)


def after_finished(
    checkpoint_id: str, seq: int, committed: OffsetAndMetadata | None, last: OffsetRange
) -> StartPosition:
    """The start of a partition of the checkpoint's last batch, which is finished, in a new run."""
    end = last.until_offset
    if committed is None:
        return StartPosition(end, (end, seq))
    committed_offset = committed.offset
    marker = CommitMarker.parse(committed)
    if marker is not None and marker.checkpoint_id == checkpoint_id:
        if marker.seq >= seq or committed_offset >= end:
            return StartPosition(committed_offset)
        return StartPosition(end, (end, seq))
    return StartPosition(
        committed_offset, (committed_offset, seq), reset_from=end if marker is None and committed_offset < end else None
    )


def after_nothing(
    checkpoint_id: str, seq: int, committed: OffsetAndMetadata | None, start: int | None
) -> StartPosition | None:
    """The start of a partition that is not in the checkpoint; None without a committed offset and without `start`."""
    if committed is not None:
        marker = CommitMarker.parse(committed)
        is_own = marker is not None and marker.checkpoint_id == checkpoint_id
        return StartPosition(committed.offset, None if is_own else (committed.offset, seq))
    return None if start is None else StartPosition(start, (start, seq))


def start_of_replay(
    checkpoint_id: str, seq: int, committed: OffsetAndMetadata | None, last: OffsetRange, *, commit_early: bool
) -> StartPosition:
    """The start of an owned partition of the checkpoint's last, unfinished batch."""
    first, end = last.from_offset, last.until_offset
    if committed is None:
        return StartPosition(end, (first, seq - 1), replay=last)
    committed_offset = committed.offset
    marker = CommitMarker.parse(committed)
    is_own = marker is not None and marker.checkpoint_id == checkpoint_id
    if commit_early and committed_offset >= end:
        return StartPosition(committed_offset, None if is_own else (committed_offset, seq), replay=last)
    if is_own:
        return StartPosition(
            max(committed_offset, end), replay=last.with_offsets(min(max(committed_offset, first), end), end)
        )
    if committed_offset < first:
        return StartPosition(
            committed_offset,
            (committed_offset, seq),
            reset_from=first if marker is None else None,
            replay=last.with_offsets(first, first),
        )
    # The ownership commit covers finished offsets only; the running batch does not count.
    owned_after_seq = seq - 1 if committed_offset < end else seq
    return StartPosition(
        max(committed_offset, end),
        (committed_offset, owned_after_seq),
        replay=last.with_offsets(min(committed_offset, end), end),
    )


def is_undecided(checkpoint_id: str, committed: OffsetAndMetadata | None, last: OffsetRange) -> bool:
    """Whether no member has committed a marker to a partition of the unfinished batch that this run does not own."""
    if committed is None:
        return True
    marker = CommitMarker.parse(committed)
    return marker is not None and marker.checkpoint_id == checkpoint_id and committed.offset < last.until_offset
