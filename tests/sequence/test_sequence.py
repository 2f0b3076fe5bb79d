"""Random actions on a group while a producer writes, and deliberately broken members that must be detected."""

import pytest

from slackwater.group.topic_partition import TopicPartition
from tests.sequence.members import CommitsBeforeProcessing, IgnoresCommits, Member, RevertsCommits, SkipsRecords
from tests.sequence.oracle import Oracle, Violation
from tests.sequence.run import replay_command, run_sequence

PARTITION = TopicPartition("t", 0)


def test_random_actions_keep_guarantees() -> None:
    seed, actions = 1, 50  # more: make interop; many more: make soak
    print(f"seed {seed}; replay: {replay_command(seed, actions)}")
    print(run_sequence(seed, actions, log=print))


@pytest.mark.parametrize("broken", [CommitsBeforeProcessing, SkipsRecords, IgnoresCommits, RevertsCommits])
def test_broken_member_is_detected(broken: type[Member]) -> None:
    with pytest.raises(Violation):
        run_sequence(3, 40, new_member=broken)


# --- oracle ---------------------------------------------------------------------------------------------------------


def process(oracle: Oracle, *offsets: int, member: str = "first") -> None:
    ownership = oracle.assigned(member, PARTITION)
    for offset in offsets:
        oracle.processed(ownership, offset)


def test_rereading_committed_records_is_detected() -> None:
    oracle = Oracle()
    process(oracle, 0, 1, 2)
    process(oracle, 1, 2, 3, member="another")  # nothing was committed
    oracle.on_commit_acknowledged(PARTITION, 3)
    with pytest.raises(Violation, match="from 2 on, although 3 had been committed"):
        process(oracle, 2)
    with pytest.raises(Violation, match="from 2 on"):
        oracle.check()
    assert oracle.reprocessed_count == 2


def test_unprocessed_record_is_detected() -> None:
    oracle = Oracle()
    process(oracle, 0, 1)
    with pytest.raises(Violation, match="began t-0 at 3, but only records before 2 were processed"):
        process(oracle, 3)
    with pytest.raises(Violation, match="at 3 where 1 was next"):
        process(oracle, 0, 3)
    assert oracle.is_done({PARTITION: 2})
    assert not oracle.is_done({PARTITION: 3})


def test_commit_ahead_of_processing_is_detected() -> None:
    oracle = Oracle()
    process(oracle, 0, 1)
    oracle.check_committed({PARTITION: 2}, {})
    with pytest.raises(Violation, match="3 is committed for t-0, but only records before 2"):
        oracle.check_committed({PARTITION: 3}, {})


def test_decreasing_commit_is_detected() -> None:
    oracle = Oracle()
    process(oracle, 0, 1)
    before = oracle.floors()
    oracle.on_commit_acknowledged(PARTITION, 2)
    oracle.check_committed({PARTITION: 1}, before)  # the request may be older than the commit
    with pytest.raises(Violation, match="1 is committed for t-0 after 2 was acknowledged"):
        oracle.check_committed({PARTITION: 1}, oracle.floors())
