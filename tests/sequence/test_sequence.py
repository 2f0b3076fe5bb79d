"""Random actions on a group while a producer writes, and deliberately broken members that must be detected."""

import pytest

from slackwater.group.topic_partition import TopicPartition
from tests.sequence.members import CommitsAhead, Member, PassesOver, ReadsAgain, TakesBack
from tests.sequence.oracle import Oracle, Violation
from tests.sequence.story import play, replay_command

WHERE = TopicPartition("t", 0)


@pytest.mark.parametrize(("seed", "actions"), [(1, 50), (2, 100)])  # many more: make soak
def test_random_actions_keep_guarantees(seed: int, actions: int) -> None:
    print(f"seed {seed}; replay: {replay_command(seed, actions)}")
    print(play(seed, actions, tell=print))


@pytest.mark.parametrize("broken", [CommitsAhead, PassesOver, ReadsAgain, TakesBack])
def test_broken_member_is_detected(broken: type[Member]) -> None:
    with pytest.raises(Violation):
        play(3, 40, hire=broken)


# --- the oracle itself ------------------------------------------------------------------------------------------------


def worked(oracle: Oracle, *offsets: int, member: str = "one") -> None:
    ownership = oracle.assigned(member, WHERE)
    for offset in offsets:
        oracle.processed(ownership, offset)


def test_rereading_committed_records_is_detected() -> None:
    oracle = Oracle()
    worked(oracle, 0, 1, 2)
    worked(oracle, 1, 2, 3, member="another")  # nothing was committed
    oracle.on_commit_acknowledged(WHERE, 3)
    with pytest.raises(Violation, match="from 2 on, although 3 had been committed"):
        worked(oracle, 2)
    with pytest.raises(Violation, match="from 2 on"):
        oracle.check()
    assert oracle.reprocessed_count == 2


def test_unprocessed_record_is_detected() -> None:
    oracle = Oracle()
    worked(oracle, 0, 1)
    with pytest.raises(Violation, match="began t-0 at 3, but only what is before 2 was processed"):
        worked(oracle, 3)
    with pytest.raises(Violation, match="at 3 where 1 was next"):
        worked(oracle, 0, 3)
    assert oracle.is_done({WHERE: 2})
    assert not oracle.is_done({WHERE: 3})


def test_commit_ahead_of_processing_is_detected() -> None:
    oracle = Oracle()
    worked(oracle, 0, 1)
    oracle.check_committed({WHERE: 2}, {})
    with pytest.raises(Violation, match="3 is committed for t-0, but only what is before 2"):
        oracle.check_committed({WHERE: 3}, {})


def test_decreasing_commit_is_detected() -> None:
    oracle = Oracle()
    worked(oracle, 0, 1)
    before = oracle.floors()
    oracle.on_commit_acknowledged(WHERE, 2)
    oracle.check_committed({WHERE: 1}, before)  # it may have been asked before the commit landed
    with pytest.raises(Violation, match="1 is committed for t-0 after 2 had been answered"):
        oracle.check_committed({WHERE: 1}, oracle.floors())
