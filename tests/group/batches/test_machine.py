"""The batch planner: held partitions, commits and start positions."""

from collections.abc import Mapping

import pytest

from slackwater.group.batches.batch_limits import BatchLimits, divide_limit
from slackwater.group.batches.commit_marker import CommitMarker
from slackwater.group.batches.config import BatchConfig, DataLossError, Handover, OffsetResetRejected
from slackwater.group.batches.effects import (
    BatchEffect,
    BatchEvent,
    BatchEventKind,
    CommitBatchOffsets,
    FetchCommitted,
    HoldPartitions,
    ReleasePartitions,
)
from slackwater.group.batches.machine import BatchPlanner
from slackwater.group.batches.offset import BatchOffset
from slackwater.group.errors import BrokerError, Error
from slackwater.group.member.errors import RebalanceInProgress
from slackwater.group.offset_and_metadata import OffsetAndMetadata
from slackwater.group.offset_range import OffsetRange
from slackwater.group.topic_partition import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
NO_LIMIT = BatchLimits()


class Query:
    """A query whose group responds at once, unless `responds` is False."""

    def __init__(self, last: BatchOffset | None = None, **config: object) -> None:
        starts = {P0: 0, P1: 0}
        self.batches = BatchPlanner(
            BatchConfig(**config),  # type: ignore[arg-type]
            last or BatchOffset("mine", 0, "g", starts=starts),
        )
        self.group: dict[TopicPartition, OffsetAndMetadata] = {}
        self.held: frozenset[TopicPartition] = frozenset()
        self.events: list[BatchEvent] = []
        self.commits: list[CommitBatchOffsets] = []
        self.fails_commits = False
        self.responds = True
        self.now_ms = 0

    def do(self, effects: list[BatchEffect]) -> None:
        for effect in effects:
            match effect:
                case HoldPartitions():
                    self.held |= effect.partitions
                case ReleasePartitions():
                    self.held -= effect.partitions
                case CommitBatchOffsets():
                    self.commits.append(effect)
                    if self.responds:
                        self.complete_commit()
                case FetchCommitted():
                    committed = {at: self.group.get(at) for at in effect.partitions}
                    self.do(self.batches.on_committed_fetched(effect.fetch_id, committed, self.now_ms))
                case BatchEvent():
                    self.events.append(effect)

    def complete_commit(self) -> None:
        commit = self.commits[-1]
        error = RebalanceInProgress("later") if self.fails_commits else None
        if error is None:
            self.group.update(commit.offsets)
        self.do(self.batches.on_commit_done(commit.commit_id, error, self.now_ms))

    def assign(self, *partitions: TopicPartition) -> None:
        self.do(self.batches.on_assigned(partitions, self.now_ms))

    def plan(self, ends: Mapping[TopicPartition, int], limits: BatchLimits = NO_LIMIT) -> BatchOffset | None:
        offset, effects = self.batches.plan(ends, limits, self.now_ms, generation_id=1)
        self.do(effects)
        return offset

    def run(self, ends: Mapping[TopicPartition, int]) -> BatchOffset:
        offset = self.plan(ends)
        assert offset is not None
        self.do(self.batches.on_logged(offset.seq, self.now_ms))
        return offset

    def finish(self, seq: int) -> None:
        self.do(self.batches.on_finished(seq, self.now_ms))

    def must_leave(self, *partitions: TopicPartition) -> None:
        self.do(self.batches.set_leaving(partitions, self.now_ms))

    def tick(self, length_ms: int) -> None:
        self.now_ms += length_ms
        self.do(self.batches.tick(self.now_ms))

    def committed(self) -> dict[TopicPartition, int]:
        return {at: offset.offset for at, offset in self.group.items()}

    def event_kinds(self) -> list[BatchEventKind]:
        return [event.kind for event in self.events]


def theirs(offset: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, metadata=str(CommitMarker("theirs", 3)))


def plain(offset: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset)


def mine(offset: int, seq: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, metadata=str(CommitMarker("mine", seq)))


def batch(seq: int, **ranges: tuple[int, int]) -> BatchOffset:
    """An offset with the ranges of partitions p0 and p1."""
    by_name = {"p0": P0, "p1": P1}
    by_partition = {by_name[name]: OffsetRange(*by_name[name], *offsets) for name, offsets in ranges.items()}
    return BatchOffset("mine", seq, "g", 1, by_partition, {P0: 0, P1: 0})


# --- from plan to commit ----------------------------------------------------------------------------------------------


def test_start_is_claimed_before_first_batch() -> None:
    query = Query(BatchOffset("mine", 0, "g", starts={P0: 7}))
    query.responds = False
    query.assign(P0)
    assert query.plan({P0: 9}) is None, "the start is not committed yet"

    query.complete_commit()

    offset = query.plan({P0: 9})
    assert offset is not None
    assert offset.ranges == {P0: OffsetRange(*P0, 7, 9)}
    assert query.group[P0] == mine(7, 0)


def test_new_partition_starts_at_its_beginning() -> None:
    query = Query(BatchOffset("mine", 0, "g", starts={P0: 7}))
    query.assign(P0, P1)

    assert query.batches.without_start == {P1}
    query.do(query.batches.on_starts_resolved({P1: 0}, 0))

    assert query.batches.positions == {P0: 7, P1: 0}


def test_batch_is_committed_when_finished() -> None:
    query = Query()
    query.assign(P0, P1)
    offset = query.run({P0: 5, P1: 0})
    assert query.committed() == {P0: 0, P1: 0}

    query.finish(offset.seq)

    assert query.committed() == {P0: 5, P1: 0}
    assert query.group[P0] == mine(5, 1)
    assert offset.ranges[P1] == OffsetRange(*P1, 0, 0), "idle partitions are listed too"


def test_planning_does_not_finish_a_batch() -> None:
    query = Query()
    query.assign(P0)
    query.run({P0: 5})
    query.finish(0)

    assert query.batches.is_running
    assert query.committed() == {P0: 0}


def test_no_batch_without_new_offsets() -> None:
    query = Query()
    query.assign(P0)

    assert query.plan({P0: 0}) is None


def test_failed_commit_is_retried() -> None:
    query = Query()
    query.assign(P0)
    offset = query.run({P0: 5})
    query.fails_commits = True
    query.finish(offset.seq)
    assert query.held == {P0}, "a partition is held until its commit"
    query.fails_commits = False

    query.tick(100)

    assert query.committed() == {P0: 5}
    assert not query.held


def test_forbidden_commit_fails_the_query() -> None:
    query = Query()
    query.responds = False
    query.assign(P0)
    query.do(
        query.batches.on_commit_done(query.commits[-1].commit_id, BrokerError(Error.GROUP_AUTHORIZATION_FAILED), 0)
    )

    assert isinstance(query.batches.failure, BrokerError)


def test_one_commit_in_flight_and_newest_wins() -> None:
    query = Query()
    query.assign(P0)
    first = query.run({P0: 5})
    query.responds = False
    query.finish(first.seq)
    second = query.run({P0: 8})
    query.finish(second.seq)
    assert [commit.offsets[P0].offset for commit in query.commits[-2:]] == [0, 5], "the second waits for the first"

    query.complete_commit()
    query.complete_commit()

    assert query.committed() == {P0: 8}


# --- handover ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("handover", Handover)
def test_planned_partition_is_held_until_logged(handover: Handover) -> None:
    query = Query(handover=handover)
    query.assign(P0)
    query.plan({P0: 5})
    query.must_leave(P0)

    assert query.held == {P0}
    assert query.committed() == {P0: 0}


def test_wait_holds_partition_until_commit() -> None:
    query = Query(handover=Handover.WAIT)
    query.assign(P0, P1)
    offset = query.run({P0: 5, P1: 5})
    query.must_leave(P0)
    query.tick(60_000)
    assert query.held == {P0, P1}
    query.responds = False
    query.finish(offset.seq)
    assert query.held == {P0, P1}

    query.complete_commit()

    assert not query.held
    query.do(query.batches.on_revoked([P0], query.now_ms))
    assert query.batches.counters.handovers == 1
    assert query.batches.handover_wait_ms(query.now_ms) == 60_000


def test_leaving_partition_is_not_planned() -> None:
    query = Query()
    query.assign(P0, P1)
    query.run({P0: 5, P1: 5})
    query.must_leave(P0)
    query.finish(1)

    offset = query.plan({P0: 9, P1: 9})

    assert offset is not None
    assert set(offset.ranges) == {P1}


def test_release_frees_partition_without_commit() -> None:
    query = Query(handover=Handover.RELEASE)
    query.assign(P0)
    offset = query.run({P0: 5})
    assert not query.held

    query.do(query.batches.on_revoked([P0], 0))
    query.finish(offset.seq)

    assert query.committed() == {P0: 0}


def test_handoff_commits_early_and_releases() -> None:
    query = Query(handover=Handover.COMMIT_EARLY)
    query.assign(P0, P1)
    query.run({P0: 5, P1: 5})
    query.must_leave(P0)

    assert query.committed() == {P0: 5, P1: 0}
    assert CommitMarker.parse(query.group[P0]) == CommitMarker("mine", 1, is_early=True)
    assert query.held == {P1}


def test_handover_timeout_releases_partition() -> None:
    query = Query(handover=Handover.WAIT, handover_timeout_ms=1_000)
    query.assign(P0)
    offset = query.run({P0: 5})
    query.must_leave(P0)
    assert query.batches.next_due_ms() == 1_000
    query.tick(999)
    assert query.held == {P0}

    query.tick(1)

    assert not query.held
    assert query.batches.counters.handover_timeouts == 1
    assert BatchEventKind.HANDOVER_TIMED_OUT in query.event_kinds()
    query.do(query.batches.on_revoked([P0], query.now_ms))
    query.finish(offset.seq)
    assert query.committed() == {P0: 0}


def test_reassigned_partition_stops_waiting() -> None:
    query = Query(handover_timeout_ms=1_000)
    query.assign(P0)
    query.run({P0: 5})
    query.must_leave(P0)
    query.must_leave()
    query.tick(5_000)

    assert query.held == {P0}
    assert query.batches.counters.handover_timeouts == 0


def test_stop_waits_for_commits_only() -> None:
    query = Query()
    query.assign(P0, P1)
    first = query.run({P0: 5, P1: 0})
    query.responds = False
    query.finish(first.seq)
    query.run({P0: 5, P1: 5})

    query.do(query.batches.stop(0))

    assert query.held == {P0}
    assert query.batches.has_pending_commits


# --- lost and returned partitions--------------------------------------------------------------------------------------


def test_partition_lost_during_batch_is_not_committed() -> None:
    query = Query()
    query.assign(P0, P1)
    offset = query.run({P0: 5, P1: 5})
    query.do(query.batches.on_lost([P0], 0))
    query.finish(offset.seq)

    assert query.committed() == {P0: 0, P1: 5}


def test_returning_partition_continues_after_batch() -> None:
    query = Query(handover=Handover.RELEASE)
    query.assign(P0)
    offset = query.run({P0: 5})
    query.do(query.batches.on_revoked([P0], 0))
    query.group[P0] = theirs(2)

    query.assign(P0)

    assert query.batches.positions == {P0: 5}
    assert query.group[P0] == mine(2, 0), "the running batch is not committed"
    query.finish(offset.seq)
    assert query.group[P0] == mine(5, 1)


def test_higher_committed_offset_is_followed() -> None:
    query = Query(handover=Handover.RELEASE)
    query.assign(P0)
    query.run({P0: 5})
    query.do(query.batches.on_revoked([P0], 0))
    query.group[P0] = theirs(8)

    query.assign(P0)

    assert query.batches.positions == {P0: 8}


def test_stale_fetch_result_is_ignored() -> None:
    query = Query()
    first = query.batches.on_assigned([P0], 0)
    query.batches.on_lost([P0], 0)
    query.batches.on_assigned([P0], 0)
    fetch = next(effect for effect in first if isinstance(effect, FetchCommitted))

    query.do(query.batches.on_committed_fetched(fetch.fetch_id, {P0: theirs(3)}, 0))

    assert query.batches.positions == {}


def test_failed_fetch_is_retried() -> None:
    query = Query()
    fetch = next(effect for effect in query.batches.on_assigned([P0], 0) if isinstance(effect, FetchCommitted))
    query.do(query.batches.on_committed_fetched(fetch.fetch_id, {}, 0, failed=True))
    assert query.batches.is_starting

    query.tick(100)

    assert query.batches.positions == {P0: 0}


# --- restart ----------------------------------------------------------------------------------------------------------


def test_finished_batch_is_committed_after_restart() -> None:
    query = Query(batch(4, p0=(3, 9)))
    query.group[P0] = mine(3, 3)

    query.assign(P0)

    assert query.batches.positions == {P0: 9}
    assert query.group[P0] == mine(9, 4)


def test_expired_offset_is_taken_from_checkpoint() -> None:
    query = Query(batch(4, p0=(9, 9)))

    query.assign(P0)

    assert query.batches.positions == {P0: 9}


@pytest.mark.parametrize("at", [2, 5, 12])
def test_commits_of_other_members_are_followed(at: int) -> None:
    query = Query(batch(4, p0=(3, 9)))
    query.group[P0] = theirs(at)

    query.assign(P0)

    assert query.batches.positions == {P0: at}
    assert query.group[P0] == mine(at, 4)
    assert query.batches.counters.resets_followed == 0


def test_offset_reset_is_followed_and_reported() -> None:
    query = Query(batch(4, p0=(3, 9)))
    query.group[P0] = plain(1)

    query.assign(P0)

    assert query.batches.positions == {P0: 1}
    assert query.batches.counters.resets_followed == 1
    assert BatchEvent(BatchEventKind.RESET_FOLLOWED, P0, offset=1, previous_offset=9) in query.events


def test_offset_reset_is_refused_if_configured() -> None:
    query = Query(batch(4, p0=(3, 9)), reject_resets=True)
    query.group[P0] = plain(1)

    query.assign(P0)

    assert isinstance(query.batches.failure, OffsetResetRejected)
    assert "t-0 is 1, and this query was at 9" in str(query.batches.failure)
    assert query.group[P0] == plain(1)


def replaying(last: BatchOffset, group: Mapping[TopicPartition, OffsetAndMetadata], **config: object) -> Query:
    query = Query(last, **config)
    query.group.update(group)
    query.do(query.batches.replay(last, 0, wait_ms=1_000))
    return query


def test_unfinished_batch_is_replayed() -> None:
    query = replaying(batch(4, p0=(3, 9), p1=(2, 2)), {P0: mine(3, 3), P1: mine(2, 2)})
    query.assign(P0, P1)

    assert query.batches.ranges(4) == [OffsetRange(*P0, 3, 9)]
    query.finish(4)
    assert query.group[P0] == mine(9, 4)
    assert query.batches.positions == {P0: 9, P1: 2}
    assert query.plan({P0: 9, P1: 2}) is None


def test_replay_waits_for_first_assignment() -> None:
    query = replaying(batch(4, p0=(3, 9)), {P0: theirs(9)})

    assert query.batches.ranges(4) is None


def test_replay_skips_partitions_of_other_members() -> None:
    query = replaying(batch(4, p0=(3, 9), p1=(0, 4)), {P0: mine(3, 3), P1: theirs(1)})
    query.assign(P0)

    assert query.batches.ranges(4) == [OffsetRange(*P0, 3, 9), OffsetRange(*P1, 0, 0)]
    query.finish(4)
    offset = query.plan({P0: 9})
    assert offset is not None, "the checkpoint must not contain the rest"
    assert offset.ranges == {P0: OffsetRange(*P0, 9, 9)}


def test_replay_waits_for_unclaimed_partitions() -> None:
    query = replaying(batch(4, p0=(3, 9)), {P0: mine(3, 3)})
    query.assign()
    query.tick(999)
    assert query.batches.ranges(4) is None

    query.tick(101)

    assert query.batches.ranges(4) == [OffsetRange(*P0, 3, 3)]


def test_replay_starts_at_committed_offset() -> None:
    query = replaying(batch(4, p0=(3, 9)), {P0: theirs(5)})
    query.assign(P0)

    assert query.batches.ranges(4) == [OffsetRange(*P0, 5, 9)]
    assert query.group[P0] == mine(5, 3)
    query.finish(4)
    assert query.group[P0] == mine(9, 4)


def test_reset_removes_partition_from_replay() -> None:
    query = replaying(batch(4, p0=(3, 9)), {P0: plain(1)})
    query.assign(P0)

    assert query.batches.ranges(4) == [OffsetRange(*P0, 3, 3)]
    assert query.batches.positions == {P0: 1}
    assert query.batches.counters.resets_followed == 1


@pytest.mark.parametrize("owned", [True, False])
def test_range_committed_early_is_replayed(owned: bool) -> None:
    query = replaying(batch(4, p0=(3, 9)), {P0: theirs(12)}, handover=Handover.COMMIT_EARLY)
    query.assign(*([P0] if owned else []))

    assert query.batches.ranges(4) == [OffsetRange(*P0, 3, 9)]
    query.finish(4)
    assert query.group[P0].offset == 12


# --- without a group --------------------------------------------------------------------------------------------------


def test_no_group_means_no_effects() -> None:
    query = Query(BatchOffset("mine", 0, None, starts={P0: 3}), in_group=False)
    query.assign(P0)
    offset = query.run({P0: 5})
    query.finish(offset.seq)

    assert offset.ranges == {P0: OffsetRange(*P0, 3, 5)}
    assert not query.commits
    assert not query.held


def test_replay_without_a_group() -> None:
    last = BatchOffset("mine", 4, None, ranges={P0: OffsetRange(*P0, 3, 9)})
    query = Query(last, in_group=False)
    query.do(query.batches.replay(last, 0, wait_ms=0))

    assert query.batches.ranges(4) == [OffsetRange(*P0, 3, 9)]
    query.finish(4)
    query.assign(P0)
    offset = query.plan({P0: 10})
    assert offset is not None
    assert offset.ranges == {P0: OffsetRange(*P0, 9, 10)}


# --- batch limits -----------------------------------------------------------------------------------------------------


def test_limit_is_proportional_to_backlog() -> None:
    assert divide_limit({P0: 990, P1: 10}, 100) == {P0: 99, P1: 1}
    assert divide_limit({P0: 100_000, P1: 1}, 10) == {P0: 9, P1: 1}
    assert divide_limit({P0: 3, P1: 4}, 10) == {P0: 3, P1: 4}
    assert divide_limit({P0: 3}, None) == {P0: 3}


def test_small_batch_waits_until_max_delay() -> None:
    query = Query()
    query.assign(P0)
    limits = BatchLimits(min_offsets=10, max_delay_ms=1_000)
    assert query.plan({P0: 1}, limits) is not None, "the first batch does not wait"
    query.do(query.batches.on_logged(1, 0))
    query.finish(1)
    assert query.plan({P0: 5}, limits) is None
    assert query.plan({P0: 11}, limits) is not None
    query.now_ms = 500
    assert query.plan({P0: 5}, limits) is None
    query.now_ms = 1_000
    assert query.plan({P0: 5}, limits) is not None


def test_end_before_position_is_data_loss() -> None:
    query = Query(batch(4, p0=(3, 9)))
    query.assign(P0)
    query.plan({P0: 5})

    assert isinstance(query.batches.failure, DataLossError)


def test_data_loss_is_skipped_if_configured() -> None:
    query = Query(batch(4, p0=(3, 9)), fail_on_data_loss=False)
    query.assign(P0)
    assert query.plan({P0: 5}) is None
    offset = query.plan({P0: 7})

    assert offset is not None
    assert offset.ranges == {P0: OffsetRange(*P0, 5, 7)}


def test_time_without_partitions_is_counted() -> None:
    query = Query()
    query.assign()
    query.now_ms = 400
    assert query.batches.without_partitions_ms(400) == 400
    query.assign(P0)

    assert query.batches.without_partitions_ms(900) == 400


# --- the input offsets of a sink --------------------------------------------------------------------------------------


def test_input_offsets_of_the_running_batch() -> None:
    query = Query()
    query.assign(P0, P1)
    offset = query.run({P0: 5, P1: 0})
    expected = {P0: mine(5, offset.seq)}
    assert query.batches.input_offsets(offset.seq) == (expected, frozenset())
    query.must_leave(P0)
    assert query.batches.input_offsets(offset.seq) == (expected, frozenset()), "it is held until the batch ends"
    query.finish(offset.seq)
    assert query.batches.input_offsets(offset.seq) == ({}, frozenset({P0, P1}))


def test_input_offsets_name_lost_partitions() -> None:
    query = Query()
    query.assign(P0, P1)
    offset = query.run({P0: 5, P1: 6})
    query.do(query.batches.on_lost([P0], 0))
    assert query.batches.input_offsets(offset.seq) == ({P1: mine(6, offset.seq)}, frozenset({P0}))
    query.assign(P0)
    assert query.batches.input_offsets(offset.seq)[1] == {P0}, "another member may have read it meanwhile"
    assert query.batches.input_offsets(offset.seq + 1) == ({}, frozenset({P0, P1}))


def test_input_offsets_of_a_batch_that_is_read_again() -> None:
    query = Query(batch(4, p0=(0, 10), p1=(0, 10)))
    query.group |= {P0: mine(0, 3), P1: theirs(15)}
    query.batches.replay(batch(4, p0=(0, 10), p1=(0, 10)), 0, wait_ms=0)
    query.assign(P0)
    assert query.batches.input_offsets(4) == ({P0: mine(10, 4)}, frozenset())
