"""Section 5 of the catalogue: LeaveGroup."""

import pytest

from slackwater.group.errors import Error
from slackwater.group.events import EventKind, GroupState, MemberLeft, Trigger
from slackwater.group.messages import JoinGroupResponse, LeaveGroup, LeaveGroupResponse, LeavingMember, LeftMember

from .room import GROUP, Room

E = GroupState.EMPTY
PR = GroupState.PREPARING_REBALANCE
CR = GroupState.COMPLETING_REBALANCE
S = GroupState.STABLE


def leave(room: Room, *leavers: LeavingMember, group_id: str | None = GROUP) -> LeaveGroupResponse:
    """The answer to one LeaveGroup."""
    return room.ask(LeaveGroup(group_id, leavers)).answer


@pytest.mark.proves("LG-02")
def test_leave_unknown_group_is_error_per_member(room: Room) -> None:
    assert leave(room, LeavingMember("a"), LeavingMember("b", "desk"), LeavingMember("", "desk")) == LeaveGroupResponse(
        Error.NONE,
        (
            LeftMember("a", None, Error.UNKNOWN_MEMBER_ID),
            LeftMember("b", "desk", Error.UNKNOWN_MEMBER_ID),
            LeftMember("", "desk", Error.UNKNOWN_MEMBER_ID),
        ),
    )
    assert dict(room.coordinator.groups) == {}


@pytest.mark.proves("LG-04")
def test_administrator_removes_static_member_by_instance_id(room: Room) -> None:
    a, b = room.settled("a", "b", static=True)
    before = room.events.mark()

    assert leave(room, LeavingMember("", "b", "scaling down")) == LeaveGroupResponse(
        Error.NONE, (LeftMember("", "b", Error.NONE),)
    )
    assert room.member_ids == {a.id}
    (left,) = room.events.since(before, EventKind.MEMBER_LEFT)
    assert (left.member, left.instance) == (b.id, "b")
    assert left.detail == MemberLeft(by="administrator", reason="scaling down")
    assert room.rebalances(before) == [(Trigger.ADMIN_REMOVAL, b.id)]


@pytest.mark.proves("LG-05")
def test_without_a_member_id_only_a_known_instance_id_will_do(room: Room) -> None:
    room.settled("a", "b", static=True)
    before = room.snapshot()

    assert leave(room, LeavingMember(""), LeavingMember("", "nobody")) == LeaveGroupResponse(
        Error.NONE, (LeftMember("", None, Error.UNKNOWN_MEMBER_ID), LeftMember("", "nobody", Error.UNKNOWN_MEMBER_ID))
    )
    assert room.snapshot() == before


@pytest.mark.proves("LG-06")
def test_member_id_under_the_wrong_instance_id_does_not_leave(room: Room) -> None:
    a, b = room.settled("a", "b", static=True)
    before = room.snapshot()

    assert leave(
        room, LeavingMember(b.id, "a"), LeavingMember(b.id, "nobody"), LeavingMember("stranger")
    ) == LeaveGroupResponse(
        Error.NONE,
        (
            LeftMember(b.id, "a", Error.FENCED_INSTANCE_ID),
            LeftMember(b.id, "nobody", Error.UNKNOWN_MEMBER_ID),
            LeftMember("stranger", None, Error.UNKNOWN_MEMBER_ID),
        ),
    )
    assert room.snapshot() == before
    assert a.heartbeat() is Error.NONE


@pytest.mark.proves("LG-06")
def test_static_member_may_leave_by_its_member_id_alone(room: Room) -> None:
    a, b = room.settled("a", "b", static=True)

    assert leave(room, LeavingMember(b.id)) == LeaveGroupResponse(Error.NONE, (LeftMember(b.id, None, Error.NONE),))
    assert room.member_ids == {a.id}


@pytest.mark.proves("LG-08")
def test_batch_leave_with_errors_starts_one_rebalance(room: Room) -> None:
    a, b, c = room.settled("a", "b", "c")
    d = room.member("d")
    d.ask_to_join()
    before = room.events.mark()
    answer = leave(
        room,
        LeavingMember(a.id),
        LeavingMember("stranger"),
        LeavingMember(c.id),
        LeavingMember(a.id),
        LeavingMember(d.id),
    )

    assert answer == LeaveGroupResponse(
        Error.NONE,
        (
            LeftMember(a.id, None, Error.NONE),
            LeftMember("stranger", None, Error.UNKNOWN_MEMBER_ID),
            LeftMember(c.id, None, Error.NONE),
            LeftMember(a.id, None, Error.UNKNOWN_MEMBER_ID),
            LeftMember(d.id, None, Error.NONE),
        ),
    )
    assert (room.state, room.member_ids, dict(room.group.pending)) == (PR, {b.id}, {})
    assert len(room.rebalances(before)) == 1
    assert [event.member for event in room.events.since(before, EventKind.MEMBER_LEFT)] == [a.id, c.id, d.id]


@pytest.mark.proves("LG-08", "ST-11")
def test_batch_leave_of_all_members_empties_group(room: Room) -> None:
    a, b = room.settled("a", "b")
    leave(room, LeavingMember(a.id), LeavingMember(b.id))

    assert (room.state, room.generation) == (E, 2)


@pytest.mark.proves("LG-09")
def test_leaving_a_stable_group_starts_a_rebalance(room: Room) -> None:
    a, b = room.settled("a", "b")
    before = room.events.mark()

    assert b.leave("the consumer is being closed").answer == LeaveGroupResponse(
        Error.NONE, (LeftMember(b.id, None, Error.NONE),)
    )
    assert (room.state, room.generation, room.member_ids) == (PR, 1, {a.id})
    assert room.rebalances(before) == [(Trigger.MEMBER_LEAVE, b.id)]
    (left,) = room.events.since(before, EventKind.MEMBER_LEFT)
    assert (left.member, left.detail) == (b.id, MemberLeft(by="itself", reason="the consumer is being closed"))
    assert b.heartbeat() is Error.UNKNOWN_MEMBER_ID


@pytest.mark.proves("LG-09")
def test_leaving_a_completing_group_starts_a_rebalance(room: Room) -> None:
    a, b = room.member("a"), room.member("b")
    a.join()
    b.join()
    room.end_initial_delay()
    b.leave()

    assert (room.state, room.generation, room.member_ids) == (PR, 1, {a.id})


@pytest.mark.proves("LG-09")
def test_leaving_during_a_rebalance_may_end_the_join_phase(room: Room) -> None:
    a, b = room.settled("a", "b")
    joining = a.join()
    assert joining.parked
    b.leave()

    assert joining.answer == a.joined_answer(generation=2, leader=a.id, members=[a])


@pytest.mark.proves("LG-09")
def test_leave_without_a_member_changes_nothing(room: Room) -> None:
    room.settled("a")
    before = room.snapshot()
    leave(room, LeavingMember("stranger"))
    assert leave(room) == LeaveGroupResponse(Error.NONE)

    assert room.snapshot() == before


@pytest.mark.proves("LG-10")
def test_parked_join_of_leaving_member_is_unknown(room: Room) -> None:
    a, b = room.settled("a", "b")
    joining = a.join()
    a.leave()

    assert joining.answer == JoinGroupResponse(Error.UNKNOWN_MEMBER_ID)
    assert (room.state, room.member_ids) == (PR, {b.id})


@pytest.mark.proves("LG-11")
@pytest.mark.parametrize("group_id", [None, ""])
def test_leave_without_group_id_is_top_level_error(room: Room, group_id: str | None) -> None:
    assert leave(room, LeavingMember("a"), group_id=group_id) == LeaveGroupResponse(Error.INVALID_GROUP_ID)


@pytest.mark.proves("LG-11")
def test_leave_with_unavailable_partition_is_top_level_error(room: Room) -> None:
    room.unload(1)
    assert leave(room, LeavingMember("a")) == LeaveGroupResponse(Error.NOT_COORDINATOR)
    room.leader_epoch = 2
    room.start_loading()

    assert leave(room, LeavingMember("a")) == LeaveGroupResponse(Error.COORDINATOR_LOAD_IN_PROGRESS)


@pytest.mark.proves("ST-08", "ST-11")
def test_last_leave_response_waits_for_write(room: Room) -> None:
    (a,) = room.settled("a")
    room.hold_writes()
    leaving = a.leave()
    assert leaving.parked
    room.release_writes()

    assert leaving.answer == LeaveGroupResponse(Error.NONE, (LeftMember(a.id, None, Error.NONE),))
    assert room.state is E


@pytest.mark.proves("ST-08")
def test_failed_write_of_last_leave_still_empties_group(
    room: Room,
) -> None:
    (a,) = room.settled("a")
    room.fail_next_write(Error.NOT_ENOUGH_REPLICAS)

    assert a.leave().answer == LeaveGroupResponse(Error.COORDINATOR_NOT_AVAILABLE)
    assert (room.state, room.generation, room.member_ids) == (E, 2, set())
