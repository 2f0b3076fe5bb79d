"""Where a partition begins that has just come to a query: by the group's word, by the checkpoint's, or by neither.

Rules kept here
- Whoever takes a partition puts its mark on the group's offset before it reads (a *claim*). A mark of our own therefore
  says that nobody else has had the partition since, and then the checkpoint knows better than the group; any other mark
  says that somebody has, and then the group knows better.
- An offset without a mark is a plain consumer's, or an operator's. Forward it is progress; backward it is a reset,
  which is obeyed or refused, and always told.
- The claim never says more than is finished: what a running batch still reads is not yet behind the offset.
- An unfinished batch is read again from where the group's offset stands, and from its beginning if nobody has moved it.
- A partition that was handed off is read again whatever the group says: its next owner began behind this batch.
"""

from dataclasses import dataclass
from typing import Self

from slackwater.group.batches.commit_marker import CommitMarker
from slackwater.group.offset_and_metadata import OffsetAndMetadata
from slackwater.group.offset_range import OffsetRange


@dataclass(frozen=True, slots=True)
class StartPosition:
    """What follows for a partition; `claim` is the offset to commit and the batch it holds for."""

    position: int
    claim: tuple[int, int] | None = None
    reset_from: int | None = None
    """Where the query stood, if an operator has moved the group's offset back from there."""
    replay: OffsetRange | None = None


@dataclass(frozen=True, slots=True)
class LastRead:
    """What this run of the query has last read of a partition, or is reading, and from where on without a gap."""

    range: OffsetRange
    seq: int
    finished: bool
    since: int

    @classmethod
    def after(cls, before: Self | None, range: OffsetRange, seq: int) -> Self:
        """The next batch reads this."""
        joins = before is not None and before.since <= range.from_offset <= before.range.until_offset
        return cls(
            range, seq, finished=False, since=before.since if before is not None and joins else range.from_offset
        )


def after_read(token: str, seq: int, committed: OffsetAndMetadata | None, read: LastRead) -> StartPosition:
    """A partition comes back to a run that has read of it before."""
    first, end = read.range.from_offset, read.range.until_offset
    done = (end, read.seq) if read.finished else (first, read.seq - 1)
    if committed is None:
        return StartPosition(end, done)
    at = committed.offset
    mark = CommitMarker.parse(committed)
    ours = mark is not None and mark.token == token
    if at > end:
        return StartPosition(at, None if ours else (at, seq))
    if ours or at >= read.since:  # it is in this query's checkpoint: to begin at the group's offset is to read it again
        keeps = ours and at >= done[0]
        return StartPosition(end, None if keeps else max(done, (at, done[1])))
    return StartPosition(at, (at, seq), reset_from=end if mark is None else None)


def after_finished(token: str, seq: int, committed: OffsetAndMetadata | None, last: OffsetRange) -> StartPosition:
    """A partition of the checkpoint's last batch, which is finished, comes to a new run."""
    end = last.until_offset
    if committed is None:
        return StartPosition(end, (end, seq))
    at = committed.offset
    mark = CommitMarker.parse(committed)
    if mark is not None and mark.token == token:
        if mark.seq >= seq or at >= end:
            return StartPosition(at)
        return StartPosition(end, (end, seq))
    return StartPosition(at, (at, seq), reset_from=end if mark is None and at < end else None)


def after_nothing(token: str, seq: int, committed: OffsetAndMetadata | None, start: int | None) -> StartPosition | None:
    """A partition that the checkpoint does not know; None when the group does not know it either, nor `start`."""
    if committed is not None:
        mark = CommitMarker.parse(committed)
        ours = mark is not None and mark.token == token
        return StartPosition(committed.offset, None if ours else (committed.offset, seq))
    return None if start is None else StartPosition(start, (start, seq))


def replayed(
    token: str, seq: int, committed: OffsetAndMetadata | None, last: OffsetRange, *, handoff: bool
) -> StartPosition:
    """A partition of the checkpoint's last batch, which is not finished, and which this run owns again."""
    first, end = last.from_offset, last.until_offset
    if committed is None:
        return StartPosition(end, (first, seq - 1), replay=last)
    at = committed.offset
    mark = CommitMarker.parse(committed)
    ours = mark is not None and mark.token == token
    if handoff and at >= end:
        return StartPosition(at, None if ours else (at, seq), replay=last)
    if ours:
        return StartPosition(max(at, end), replay=last.with_offsets(min(max(at, first), end), end))
    if at < first:
        return StartPosition(
            at, (at, seq), reset_from=first if mark is None else None, replay=last.with_offsets(first, first)
        )
    # What is claimed is what is finished; the batch itself is behind that as long as it runs.
    seq_claimed = seq - 1 if at < end else seq
    return StartPosition(max(at, end), (at, seq_claimed), replay=last.with_offsets(min(at, end), end))


def undecided(token: str, committed: OffsetAndMetadata | None, last: OffsetRange) -> bool:
    """Whether nobody has yet taken a partition of the unfinished batch that this run does not own."""
    if committed is None:
        return True
    mark = CommitMarker.parse(committed)
    return mark is not None and mark.token == token and committed.offset < last.until_offset
