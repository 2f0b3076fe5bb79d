"""Partition movements during balancing."""

from slackwater.group.assignors import MemberSubscription, TopicInfo
from slackwater.group.assignors.consumer_protocol import Subscription
from slackwater.group.assignors.layout import GroupLayout
from slackwater.group.assignors.movements import PartitionMovements

A, B, C = 0, 1, 2
T = 0


def movements() -> PartitionMovements:
    members = {member_id: MemberSubscription(None, Subscription(("t",))) for member_id in "abc"}
    return PartitionMovements(GroupLayout({"t": TopicInfo(20)}, members, list("abc")))


def test_reverse_move_undoes_earlier_move() -> None:
    moves = movements()
    moves.record(T, 3, from_member=A, to_member=B)
    assert moves.partition_to_move(T, 7, from_member=B, to_member=A) == 3
    assert moves.partition_to_move(T, 7, from_member=C, to_member=A) == 7
    assert moves.partition_to_move(1, 7, from_member=B, to_member=A) == 7  # another topic


def test_returned_partition_is_forgotten() -> None:
    moves = movements()
    moves.record(T, 3, from_member=A, to_member=B)
    moves.record(T, 3, from_member=B, to_member=A)
    assert moves.partition_to_move(T, 7, from_member=B, to_member=A) == 7


def test_repeated_move_keeps_original_owner() -> None:
    moves = movements()
    moves.record(T, 3, from_member=A, to_member=B)
    moves.record(T, 4, from_member=A, to_member=B)
    moves.record(T, 3, from_member=B, to_member=C)
    assert moves.partition_to_move(T, 7, from_member=C, to_member=A) == 3
    assert moves.partition_to_move(T, 7, from_member=B, to_member=A) == 4
    assert moves.partition_to_move(T, 3, from_member=C, to_member=B) == 3  # from A to B, like 4: nothing to undo


def test_undone_move_matches_java() -> None:
    moves = movements()
    for partition in range(5):
        moves.record(T, partition, from_member=A, to_member=B)
    # "t".hashCode() is 116; the buckets of t-0 … t-4 are 5, 4, 3, 2, 1 of 16.
    assert moves.partition_to_move(T, 7, from_member=B, to_member=A) == 4
    for partition in range(5, 13):
        moves.record(T, partition, from_member=A, to_member=B)
    # With thirteen entries there are 32 buckets: t-12 is in bucket 9, the others follow. In 16, t-5 would be in 0.
    assert moves.partition_to_move(T, 19, from_member=B, to_member=A) == 12
