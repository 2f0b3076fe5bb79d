"""Where Kafka is at fault and this coordinator does better on purpose (the end of section 16)."""

import struct

import pytest

from slackwater.group.errors import Error
from slackwater.group.events import GroupState
from slackwater.group.messages import JoinGroupResponse, JoinProtocol, LeaveGroupResponse, LeftMember, SyncGroupResponse

from .room import Member, Room, offering, subscription

PR = GroupState.PREPARING_REBALANCE
CR = GroupState.COMPLETING_REBALANCE
S = GroupState.STABLE

OVERLONG = struct.pack(">hi", 0, 1_000_000) + b"\x00\x01t"
OVERLONG_OWNED = subscription("t")[:-10] + struct.pack(">i", 2**31 - 1)


def completing(room: Room, *names: str) -> list[Member]:
    """Members of a generation that waits for its leader's assignment; the first leads."""
    members = [room.member(name) for name in names]
    for member in members:
        member.join()
    room.end_initial_delay()
    return members


def test_parked_sync_of_leaving_member_is_unknown(room: Room) -> None:
    a, b = completing(room, "a", "b")
    syncing = b.sync()
    leaving = b.leave()

    assert syncing.answer == SyncGroupResponse(Error.UNKNOWN_MEMBER_ID)
    assert leaving.answer == LeaveGroupResponse(Error.NONE, (LeftMember(b.id, None, Error.NONE),))
    assert room.member_ids == {a.id}


def test_parked_sync_of_leaving_leader_fails_during_write(room: Room) -> None:
    a, b = completing(room, "a", "b")
    room.hold_writes()
    syncing = a.sync()
    assert syncing.parked
    a.leave()
    assert syncing.answer == SyncGroupResponse(Error.UNKNOWN_MEMBER_ID)
    room.release_writes()

    assert len(syncing.answers) == 1
    assert (room.state, room.member_ids) == (PR, {b.id})


def test_replaced_parked_join_gets_rebalance_in_progress(room: Room) -> None:
    a, b = room.settled("a", "b")
    first = a.join()
    second = a.join()

    assert (first.answer.error, first.answer.generation_id) == (Error.REBALANCE_IN_PROGRESS, -1)
    assert (first.answer.members, first.answer.protocol_name, first.answer.leader) == ((), None, "")
    assert second.parked
    b.join()
    assert second.answer.error is Error.NONE
    assert len(first.answers) == 1


def test_replaced_parked_join_of_new_member_gets_response(room: Room) -> None:
    room.settled("a")
    b = room.member("b")
    first = b.join()
    second = b.join()

    assert first.answer.error is Error.REBALANCE_IN_PROGRESS
    assert second.parked


def test_replaced_parked_sync_gets_rebalance_in_progress(room: Room) -> None:
    a, b = completing(room, "a", "b")
    first = b.sync()
    second = b.sync()

    assert first.answer == SyncGroupResponse(Error.REBALANCE_IN_PROGRESS)
    assert second.parked
    a.sync()
    assert second.answer == b.synced_answer()
    assert len(first.answers) == 1


def test_leader_that_syncs_twice_gets_two_responses(room: Room) -> None:
    a, b = completing(room, "a", "b")
    room.hold_writes()
    following, first, second = b.sync(), a.sync(), a.sync()
    assert first.answer == SyncGroupResponse(Error.REBALANCE_IN_PROGRESS)
    room.release_writes()

    assert second.answer == a.synced_answer()
    assert following.answer == b.synced_answer()
    assert room.state is S


def test_rejected_member_of_full_group_completes_join_phase() -> None:
    room = Room(group_max_size=2)
    a, b = room.settled("a", "b")
    b.leave()
    c, d = room.member("c"), room.member("d")
    joining = [c.join(), d.join()]
    assert all(call.parked for call in joining)

    assert a.join().answer == JoinGroupResponse(Error.GROUP_MAX_SIZE_REACHED)
    assert [call.answer.error for call in joining] == [Error.NONE, Error.NONE]
    assert (room.state, room.member_ids) == (CR, {c.id, d.id})


def test_rejected_new_member_does_not_complete_join_phase() -> None:
    room = Room(group_max_size=2)
    a, b, c = room.member("a"), room.member("b"), room.member("c", two_steps=False)
    a.join()
    b.join()
    room.end_initial_delay()
    room.sync(a, b)
    a.join()

    assert c.join().parked
    assert (room.state, room.member_ids >= {a.id, b.id}) == (PR, True)
    assert room.member("d", two_steps=False).join().answer == JoinGroupResponse(Error.GROUP_MAX_SIZE_REACHED)
    assert room.state is PR


@pytest.mark.parametrize("metadata", [OVERLONG, OVERLONG_OWNED], ids=["topics", "owned partitions"])
@pytest.mark.parametrize("stage", ["absent", "stable", "preparing", "completing"])
def test_overlong_array_of_new_member_is_rejected(room: Room, stage: str, metadata: bytes) -> None:
    if stage != "absent":
        members = completing(room, "a", "b")
        if stage != "completing":
            room.sync(*members)
        if stage == "preparing":
            members[0].join()
    before = room.snapshot()
    x = room.member("x", protocols=(JoinProtocol("range", metadata),))

    assert x.ask_to_join().answer == JoinGroupResponse(Error.INVALID_REQUEST)
    assert room.snapshot() == before


def test_overlong_array_of_member_is_rejected(room: Room) -> None:
    a, b = room.settled("a", "b")
    before = room.snapshot()
    b.protocols = (*offering("range"), JoinProtocol("sticky", OVERLONG))

    assert b.join().answer == JoinGroupResponse(Error.INVALID_REQUEST, member_id=b.id)
    assert room.snapshot() == before
    assert a.heartbeat() is Error.NONE


def test_overlong_array_of_pending_member_is_rejected(room: Room) -> None:
    room.settled("a")
    b = room.member("b")
    b.ask_to_join()
    before = room.snapshot()
    b.protocols = (JoinProtocol("range", OVERLONG),)

    assert b.ask_to_join().answer == JoinGroupResponse(Error.INVALID_REQUEST, member_id=b.id)
    assert room.snapshot() == before


def test_metadata_of_other_protocol_types_is_not_checked(room: Room) -> None:
    a = room.member("a", protocol_type="connect", protocols=(JoinProtocol("default", OVERLONG),))
    joining = a.join()
    room.end_initial_delay()

    assert joining.answer.error is Error.NONE


@pytest.mark.parametrize("stage", ["absent", "stable", "preparing"])
def test_duplicate_protocol_of_new_member_is_rejected(room: Room, stage: str) -> None:
    if stage != "absent":
        a, _ = room.settled("a", "b")
        if stage == "preparing":
            a.join()
    before = room.snapshot()
    x = room.member("x", protocols=offering("range", "range"))

    assert x.ask_to_join().answer == JoinGroupResponse(Error.INCONSISTENT_GROUP_PROTOCOL)
    assert room.snapshot() == before


def test_duplicate_protocol_of_member_is_rejected(room: Room) -> None:
    _, b = room.settled("a", "b")
    before = room.snapshot()
    b.protocols = offering("range", "sticky", "range")

    assert b.join().answer == JoinGroupResponse(Error.INCONSISTENT_GROUP_PROTOCOL, member_id=b.id)
    assert room.snapshot() == before
