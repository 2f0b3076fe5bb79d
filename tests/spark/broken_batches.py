"""Deliberately broken batch planners: each breaks one rule in a plausible way.

`BROKEN` maps a name to the handover policy that shows the fault and the function that injects it. If the schedules do
not detect one of them, their checks are too weak.
"""

from collections.abc import Callable, Collection
from typing import Any

import pytest

from slackwater.group.batches import machine
from slackwater.group.batches.commit_marker import CommitMarker
from slackwater.group.batches.commits import CommitReason, PendingCommit
from slackwater.group.batches.config import Handover
from slackwater.group.batches.machine import BatchPlanner
from slackwater.group.batches.replay import ReplayPlan, UnfinishedBatch, decide_replay
from slackwater.group.batches.start_positions import StartPosition, after_nothing
from slackwater.group.topic_partition import TopicPartition

Break = Callable[[pytest.MonkeyPatch], None]
BROKEN: dict[str, tuple[Handover, Break]] = {}


def broken(handover: Handover) -> Callable[[Break], Break]:
    """Register a broken planner."""

    def register(function: Break) -> Break:
        BROKEN[function.__name__] = handover, function
        return function

    return register


@broken(Handover.WAIT)
def commits_before_the_batch_is_finished(patch: pytest.MonkeyPatch) -> None:
    """A batch is committed when it is logged."""
    original = BatchPlanner.on_logged

    def commit_early(self: BatchPlanner, seq: int, now_ms: int) -> Any:
        effects = original(self, seq, now_ms)
        for partition, offset_range in self._running.ranges.items() if self._running is not None else ():
            self._commits.by_partition[partition] = PendingCommit(
                offset_range.until_offset, CommitMarker(self.checkpoint_id, seq), CommitReason.FINISHED
            )
        return effects + self._finish_input(now_ms)

    patch.setattr(BatchPlanner, "on_logged", commit_early)


@broken(Handover.RELEASE)
def ignores_that_a_partition_was_lost_meanwhile(patch: pytest.MonkeyPatch) -> None:
    """A batch is committed although its partition has another owner."""
    original = BatchPlanner._give_up

    def keep_partitions(self: BatchPlanner, gone: frozenset[TopicPartition]) -> None:
        before = [(batch, set(batch.owned_since_plan)) for batch in self._batches()]
        original(self, gone)
        for batch, owned_since_plan in before:
            batch.owned_since_plan = owned_since_plan

    patch.setattr(BatchPlanner, "_give_up", keep_partitions)


@broken(Handover.WAIT)
def reads_again_what_comes_back(patch: pytest.MonkeyPatch) -> None:
    """A partition that returns starts at the committed offset, although this run has it in its checkpoint."""
    patch.setattr(machine, "after_read", lambda token, seq, committed, read: after_nothing(token, seq, committed, 0))


@broken(Handover.RELEASE)
def gives_up_what_is_planned_and_not_logged(patch: pytest.MonkeyPatch) -> None:
    """A partition is released between latestOffset and partitions."""
    original = BatchPlanner._to_hold

    def without_planned(self: BatchPlanner) -> frozenset[TopicPartition]:
        planned, self._planned = self._planned, None
        held = original(self)
        self._planned = planned
        return held

    patch.setattr(BatchPlanner, "_to_hold", without_planned)


@broken(Handover.WAIT)
def gives_up_what_is_not_committed(patch: pytest.MonkeyPatch) -> None:
    """A partition is released when its batch is finished, before the commit."""
    original = BatchPlanner._to_hold

    def without_pending(self: BatchPlanner) -> frozenset[TopicPartition]:
        pending, self._commits.by_partition = self._commits.by_partition, {}
        held = original(self)
        self._commits.by_partition = pending
        return held

    patch.setattr(BatchPlanner, "_to_hold", without_pending)


@broken(Handover.WAIT)
def trusts_its_checkpoint_more_than_the_group(patch: pytest.MonkeyPatch) -> None:
    """After a restart the checkpoint decides, although other members have read on."""
    patch.setattr(
        machine,
        "after_finished",
        lambda token, seq, committed, last: StartPosition(last.until_offset, (last.until_offset, seq)),
    )


@broken(Handover.WAIT)
def trusts_the_group_more_than_its_checkpoint(patch: pytest.MonkeyPatch) -> None:
    """After a restart within the session the committed offset decides, although a finished batch is uncommitted."""
    patch.setattr(
        machine, "after_finished", lambda token, seq, committed, last: after_nothing(token, seq, committed, 0)
    )


@broken(Handover.COMMIT_EARLY)
def forgets_what_it_committed_early(patch: pytest.MonkeyPatch) -> None:
    """After a restart a batch that was committed early is trimmed like any other."""
    original = decide_replay
    patch.setattr(machine, "decide_replay", lambda *arguments, commit_early: original(*arguments, commit_early=False))


@broken(Handover.WAIT)
def starts_without_a_claim(patch: pytest.MonkeyPatch) -> None:
    """A new owner commits no marker, so the previous owner takes its own commit marker for the latest."""
    original = BatchPlanner._begin

    def without_claim(self: BatchPlanner, partition: TopicPartition, start: StartPosition | None) -> None:
        if start is not None and start.ownership_commit is not None:
            start = StartPosition(start.position, None, start.reset_from, start.replay)
        original(self, partition, start)

    patch.setattr(BatchPlanner, "_begin", without_claim)


@broken(Handover.WAIT)
def replays_what_others_have(patch: pytest.MonkeyPatch) -> None:
    """After a restart the whole batch is repeated and committed, although others own some of its partitions."""

    def replay_all(
        replay: UnfinishedBatch, owned: Collection[TopicPartition], *_: object, commit_early: bool
    ) -> ReplayPlan:
        starts = {
            partition: StartPosition(offset_range.until_offset, replay=offset_range)
            for partition, offset_range in replay.non_empty_ranges.items()
            if partition in owned
        }
        return ReplayPlan(list(replay.non_empty_ranges.values()), starts, list(replay.non_empty_ranges))

    patch.setattr(machine, "decide_replay", replay_all)
