"""What of an unfinished batch is read again after a restart.

Rules kept here
- It is decided when the group has spoken: every partition of the batch is ours, or somebody else has taken it. Who is
  to have it may take a moment to show; `deadline_ms` bounds the wait.
- What is ours is read from where the group's offset stands. What others have is left out. With `handoff`, what the
  group's offset has passed is read all the same: it was handed off, as far as anybody can tell, and then no one else
  has read it.
- What the group's offset has passed is not committed again.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from slackwater.group.batches.offset import BatchOffset
from slackwater.group.batches.start_positions import StartPosition, replayed, undecided
from slackwater.group.offset_and_metadata import OffsetAndMetadata
from slackwater.group.offset_range import OffsetRange
from slackwater.group.topic_partition import TopicPartition

Committed = Mapping[TopicPartition, OffsetAndMetadata | None]


@dataclass(slots=True)
class UnfinishedBatch:
    """An unfinished batch, until it is decided."""

    offset: BatchOffset
    wait_ms: int
    retry_due_ms: int
    deadline_ms: int | None = None
    fetch_id: int | None = None

    @property
    def reads(self) -> dict[TopicPartition, OffsetRange]:
        """The ranges that have anything in them."""
        return {partition: one for partition, one in self.offset.ranges.items() if one.size}


@dataclass(slots=True)
class ReplayPlan:
    """What was decided: the pieces to read, where owned partitions start, and which of them are to be committed."""

    pieces: list[OffsetRange] = field(default_factory=list)
    starts: dict[TopicPartition, StartPosition] = field(default_factory=dict)
    to_commit: list[TopicPartition] = field(default_factory=list)


def decide(
    replay: UnfinishedBatch, owned: Collection[TopicPartition], found: Committed, now_ms: int, *, handoff: bool
) -> ReplayPlan | None:
    """Decide, or wait for the group (None)."""
    token, seq = replay.offset.token, replay.offset.seq
    in_time = replay.deadline_ms is None or now_ms < replay.deadline_ms
    for partition, last in replay.reads.items():
        if partition not in owned and in_time and undecided(token, found.get(partition), last):
            return None
    decided = ReplayPlan()
    for partition, last in replay.reads.items():
        committed = found.get(partition)
        if partition in owned:
            start = replayed(token, seq, committed, last, handoff=handoff)
            piece = start.replay or last
            decided.starts[partition] = start
            if committed is None or committed.offset < piece.until_offset:
                decided.to_commit.append(partition)
        elif handoff and committed is not None and committed.offset >= last.until_offset:
            piece = last
        else:
            piece = last.with_offsets(last.from_offset, last.from_offset)
        decided.pieces.append(piece)
    return decided
