"""Deliberately broken batches: each breaks one rule, as a plausible slip would.

`BROKEN` names each one, with the policy under which it shows and a function that breaks the machine. Schedules that do
not notice have lost their eyes, whatever else they report.
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
    """Enter a broken machine into the list."""

    def enter(function: Break) -> Break:
        BROKEN[function.__name__] = handover, function
        return function

    return enter


@broken(Handover.WAIT)
def commits_before_the_batch_is_finished(patch: pytest.MonkeyPatch) -> None:
    """What is logged counts as done."""
    whole = BatchPlanner.on_logged

    def hasty(self: BatchPlanner, seq: int, now_ms: int) -> Any:
        effects = whole(self, seq, now_ms)
        for partition, one in self._running.ranges.items() if self._running is not None else ():
            self._commits.by_partition[partition] = PendingCommit(
                one.until_offset, CommitMarker(self.token, seq), CommitReason.FINISHED
            )
        return effects + self._after(now_ms)

    patch.setattr(BatchPlanner, "on_logged", hasty)


@broken(Handover.RELEASE)
def ignores_that_a_partition_was_lost_meanwhile(patch: pytest.MonkeyPatch) -> None:
    """What the batch read is committed, whoever has it now."""
    whole = BatchPlanner._give_up

    def lax(self: BatchPlanner, gone: frozenset[TopicPartition]) -> None:
        kept = [(batch, set(batch.unbroken)) for batch in self._batches()]
        whole(self, gone)
        for batch, unbroken in kept:
            batch.unbroken = unbroken

    patch.setattr(BatchPlanner, "_give_up", lax)


@broken(Handover.WAIT)
def reads_again_what_comes_back(patch: pytest.MonkeyPatch) -> None:
    """A partition that comes back starts at the group's offset, although this run has it in its checkpoint."""
    patch.setattr(machine, "after_read", lambda token, seq, committed, read: after_nothing(token, seq, committed, 0))


@broken(Handover.RELEASE)
def gives_up_what_is_planned_and_not_logged(patch: pytest.MonkeyPatch) -> None:
    """A partition leaves between latestOffset and partitions."""
    whole = BatchPlanner._to_hold

    def lax(self: BatchPlanner) -> frozenset[TopicPartition]:
        planned, self._planned = self._planned, None
        held = whole(self)
        self._planned = planned
        return held

    patch.setattr(BatchPlanner, "_to_hold", lax)


@broken(Handover.WAIT)
def gives_up_what_is_not_committed(patch: pytest.MonkeyPatch) -> None:
    """A partition leaves when its batch is finished, before the group knows."""
    whole = BatchPlanner._to_hold

    def lax(self: BatchPlanner) -> frozenset[TopicPartition]:
        pending, self._commits.by_partition = self._commits.by_partition, {}
        held = whole(self)
        self._commits.by_partition = pending
        return held

    patch.setattr(BatchPlanner, "_to_hold", lax)


@broken(Handover.WAIT)
def trusts_its_checkpoint_more_than_the_group(patch: pytest.MonkeyPatch) -> None:
    """After a restart the checkpoint counts, also for what others have had meanwhile."""
    patch.setattr(
        machine,
        "after_finished",
        lambda token, seq, committed, last: StartPosition(last.until_offset, (last.until_offset, seq)),
    )


@broken(Handover.WAIT)
def trusts_the_group_more_than_its_checkpoint(patch: pytest.MonkeyPatch) -> None:
    """After a restart in time the group's offset counts, although a finished batch was not yet committed."""
    patch.setattr(
        machine, "after_finished", lambda token, seq, committed, last: after_nothing(token, seq, committed, 0)
    )


@broken(Handover.HANDOFF)
def forgets_what_it_handed_off(patch: pytest.MonkeyPatch) -> None:
    """After a restart a batch that was handed off is trimmed like any other."""
    whole = decide_replay
    patch.setattr(machine, "decide_replay", lambda *given, handoff: whole(*given, handoff=False))


@broken(Handover.WAIT)
def starts_without_a_claim(patch: pytest.MonkeyPatch) -> None:
    """Whoever takes a partition says nothing: the last owner takes its own mark for the last word."""
    whole = BatchPlanner._begin

    def lax(self: BatchPlanner, partition: TopicPartition, start: StartPosition | None) -> None:
        if start is not None and start.claim is not None:
            start = StartPosition(start.position, None, start.reset_from, start.replay)
        whole(self, partition, start)

    patch.setattr(BatchPlanner, "_begin", lax)


@broken(Handover.WAIT)
def replays_what_others_have(patch: pytest.MonkeyPatch) -> None:
    """After a restart the whole batch is ours, and is committed."""

    def lax(replay: UnfinishedBatch, owned: Collection[TopicPartition], *_: object, handoff: bool) -> ReplayPlan:
        starts = {
            at: StartPosition(one.until_offset, replay=one)
            for at, one in replay.non_empty_ranges.items()
            if at in owned
        }
        return ReplayPlan(list(replay.non_empty_ranges.values()), starts, list(replay.non_empty_ranges))

    patch.setattr(machine, "decide_replay", lax)
