"""Decides what a restarted query reads again from an unfinished batch.

Invariants:
- The decision waits until every partition of the batch is owned by this query or taken by another member; `deadline_ms`
  bounds the wait.
- Owned partitions are read from the group's committed offset; partitions of other members are skipped. A
  range below the committed offset is read too if it was committed early: then no other member read it.
- A range below the committed offset is not committed again.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from slackwater.group.batches.offset import BatchOffset
from slackwater.group.batches.start_positions import StartPosition, is_undecided, start_of_replay
from slackwater.group.offset_and_metadata import OffsetAndMetadata
from slackwater.group.offset_range import OffsetRange
from slackwater.group.topic_partition import TopicPartition

CommittedByPartition = Mapping[TopicPartition, OffsetAndMetadata | None]


@dataclass(slots=True)
class UnfinishedBatch:
    """An unfinished batch, until the replay is decided."""

    offset: BatchOffset
    wait_ms: int
    retry_due_ms: int
    deadline_ms: int | None = None
    fetch_id: int | None = None

    @property
    def non_empty_ranges(self) -> dict[TopicPartition, OffsetRange]:
        """The ranges that are not empty."""
        return {partition: offset_range for partition, offset_range in self.offset.ranges.items() if offset_range.size}


@dataclass(slots=True)
class ReplayPlan:
    """The decision: the ranges to read, the start positions of owned partitions, and the partitions to commit."""

    ranges: list[OffsetRange] = field(default_factory=list)
    starts: dict[TopicPartition, StartPosition] = field(default_factory=dict)
    to_commit: list[TopicPartition] = field(default_factory=list)


def decide_replay(
    replay: UnfinishedBatch,
    owned: Collection[TopicPartition],
    committed_offsets: CommittedByPartition,
    now_ms: int,
    *,
    commit_early: bool,
) -> ReplayPlan | None:
    """Decide the replay; returns None while it must wait for the group."""
    checkpoint_id, seq = replay.offset.checkpoint_id, replay.offset.seq
    is_in_time = replay.deadline_ms is None or now_ms < replay.deadline_ms
    for partition, last in replay.non_empty_ranges.items():
        if (
            partition not in owned
            and is_in_time
            and is_undecided(checkpoint_id, committed_offsets.get(partition), last)
        ):
            return None
    plan = ReplayPlan()
    for partition, last in replay.non_empty_ranges.items():
        committed = committed_offsets.get(partition)
        if partition in owned:
            start = start_of_replay(checkpoint_id, seq, committed, last, commit_early=commit_early)
            replay_range = start.replay or last
            plan.starts[partition] = start
            if committed is None or committed.offset < replay_range.until_offset:
                plan.to_commit.append(partition)
        elif commit_early and committed is not None and committed.offset >= last.until_offset:
            replay_range = last
        else:
            replay_range = last.with_offsets(last.from_offset, last.from_offset)
        plan.ranges.append(replay_range)
    return plan
