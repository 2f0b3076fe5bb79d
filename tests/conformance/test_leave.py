"""Section 5 of the catalogue: LeaveGroup."""

import pytest

from slackwater.group.errors import Error
from slackwater.group.events import EventKind, GroupState, MemberLeft, Trigger
from slackwater.group.messages import JoinGroupResponse, LeaveGroup, LeaveGroupResponse, LeavingMember, LeftMember

from .coordinator_harness import GROUP, CoordinatorHarness

E = GroupState.EMPTY
PR = GroupState.PREPARING_REBALANCE
CR = GroupState.COMPLETING_REBALANCE
S = GroupState.STABLE


def leave(harness: CoordinatorHarness, *leavers: LeavingMember, group_id: str | None = GROUP) -> LeaveGroupResponse:
    """Send LeaveGroup and return the response."""
    return harness.send(LeaveGroup(group_id, leavers)).response


@pytest.mark.proves("LG-02")
def test_leave_unknown_group_is_error_per_member(harness: CoordinatorHarness) -> None:
    assert leave(
        harness, LeavingMember("a"), LeavingMember("b", "desk"), LeavingMember("", "desk")
    ) == LeaveGroupResponse(
        Error.NONE,
        (
            LeftMember("a", None, Error.UNKNOWN_MEMBER_ID),
            LeftMember("b", "desk", Error.UNKNOWN_MEMBER_ID),
            LeftMember("", "desk", Error.UNKNOWN_MEMBER_ID),
        ),
    )
    assert dict(harness.coordinator.groups) == {}


@pytest.mark.proves("LG-04")
def test_administrator_removes_static_member_by_instance_id(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b", static=True)
    before = harness.events.mark()

    assert leave(harness, LeavingMember("", "b", "scaling down")) == LeaveGroupResponse(
        Error.NONE, (LeftMember("", "b", Error.NONE),)
    )
    assert harness.member_ids == {a.id}
    (left,) = harness.events.since(before, EventKind.MEMBER_LEFT)
    assert (left.member, left.instance) == (b.id, "b")
    assert left.detail == MemberLeft(by="administrator", reason="scaling down")
    assert harness.rebalances(before) == [(Trigger.ADMIN_REMOVAL, b.id)]


@pytest.mark.proves("LG-05")
def test_leave_without_member_id_needs_known_instance_id(harness: CoordinatorHarness) -> None:
    harness.stable_group("a", "b", static=True)
    before = harness.snapshot()

    assert leave(harness, LeavingMember(""), LeavingMember("", "unknown")) == LeaveGroupResponse(
        Error.NONE, (LeftMember("", None, Error.UNKNOWN_MEMBER_ID), LeftMember("", "unknown", Error.UNKNOWN_MEMBER_ID))
    )
    assert harness.snapshot() == before


@pytest.mark.proves("LG-06")
def test_leave_with_wrong_instance_id_is_rejected(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b", static=True)
    before = harness.snapshot()

    assert leave(
        harness, LeavingMember(b.id, "a"), LeavingMember(b.id, "unknown"), LeavingMember("unknown")
    ) == LeaveGroupResponse(
        Error.NONE,
        (
            LeftMember(b.id, "a", Error.FENCED_INSTANCE_ID),
            LeftMember(b.id, "unknown", Error.UNKNOWN_MEMBER_ID),
            LeftMember("unknown", None, Error.UNKNOWN_MEMBER_ID),
        ),
    )
    assert harness.snapshot() == before
    assert a.heartbeat() is Error.NONE


@pytest.mark.proves("LG-06")
def test_static_member_leaves_by_member_id_only(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b", static=True)

    assert leave(harness, LeavingMember(b.id)) == LeaveGroupResponse(Error.NONE, (LeftMember(b.id, None, Error.NONE),))
    assert harness.member_ids == {a.id}


@pytest.mark.proves("LG-08")
def test_batch_leave_with_errors_starts_one_rebalance(harness: CoordinatorHarness) -> None:
    a, b, c = harness.stable_group("a", "b", "c")
    d = harness.member("d")
    d.send_join()
    before = harness.events.mark()
    response = leave(
        harness,
        LeavingMember(a.id),
        LeavingMember("unknown"),
        LeavingMember(c.id),
        LeavingMember(a.id),
        LeavingMember(d.id),
    )

    assert response == LeaveGroupResponse(
        Error.NONE,
        (
            LeftMember(a.id, None, Error.NONE),
            LeftMember("unknown", None, Error.UNKNOWN_MEMBER_ID),
            LeftMember(c.id, None, Error.NONE),
            LeftMember(a.id, None, Error.UNKNOWN_MEMBER_ID),
            LeftMember(d.id, None, Error.NONE),
        ),
    )
    assert (harness.state, harness.member_ids, dict(harness.group.pending_members)) == (PR, {b.id}, {})
    assert len(harness.rebalances(before)) == 1
    assert [event.member for event in harness.events.since(before, EventKind.MEMBER_LEFT)] == [a.id, c.id, d.id]


@pytest.mark.proves("LG-08", "ST-11")
def test_batch_leave_of_all_members_empties_group(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    leave(harness, LeavingMember(a.id), LeavingMember(b.id))

    assert (harness.state, harness.generation) == (E, 2)


@pytest.mark.proves("LG-09")
def test_leave_of_stable_group_starts_rebalance(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    before = harness.events.mark()

    assert b.leave("the consumer is being closed").response == LeaveGroupResponse(
        Error.NONE, (LeftMember(b.id, None, Error.NONE),)
    )
    assert (harness.state, harness.generation, harness.member_ids) == (PR, 1, {a.id})
    assert harness.rebalances(before) == [(Trigger.MEMBER_LEAVE, b.id)]
    (left,) = harness.events.since(before, EventKind.MEMBER_LEFT)
    assert (left.member, left.detail) == (b.id, MemberLeft(by="itself", reason="the consumer is being closed"))
    assert b.heartbeat() is Error.UNKNOWN_MEMBER_ID


@pytest.mark.proves("LG-09")
def test_leave_of_completing_group_starts_rebalance(harness: CoordinatorHarness) -> None:
    a, b = harness.completing_group("a", "b")
    b.leave()

    assert (harness.state, harness.generation, harness.member_ids) == (PR, 1, {a.id})


@pytest.mark.proves("LG-09")
def test_leave_during_rebalance_can_end_join_phase(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    join_call = a.join()
    assert join_call.parked
    b.leave()

    assert join_call.response == a.expected_join_response(generation=2, leader=a.id, members=[a])


@pytest.mark.proves("LG-09")
def test_leave_of_unknown_or_no_member_changes_nothing(harness: CoordinatorHarness) -> None:
    harness.stable_group("a")
    before = harness.snapshot()
    leave(harness, LeavingMember("unknown"))
    assert leave(harness) == LeaveGroupResponse(Error.NONE)

    assert harness.snapshot() == before


@pytest.mark.proves("LG-10")
def test_parked_join_of_leaving_member_is_unknown(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    join_call = a.join()
    a.leave()

    assert join_call.response == JoinGroupResponse(Error.UNKNOWN_MEMBER_ID)
    assert (harness.state, harness.member_ids) == (PR, {b.id})


@pytest.mark.proves("LG-11")
@pytest.mark.parametrize("group_id", [None, ""])
def test_leave_without_group_id_is_top_level_error(harness: CoordinatorHarness, group_id: str | None) -> None:
    assert leave(harness, LeavingMember("a"), group_id=group_id) == LeaveGroupResponse(Error.INVALID_GROUP_ID)


@pytest.mark.proves("LG-11")
def test_leave_with_unavailable_partition_is_top_level_error(harness: CoordinatorHarness) -> None:
    harness.unload(1)
    assert leave(harness, LeavingMember("a")) == LeaveGroupResponse(Error.NOT_COORDINATOR)
    harness.leader_epoch = 2
    harness.start_loading()

    assert leave(harness, LeavingMember("a")) == LeaveGroupResponse(Error.COORDINATOR_LOAD_IN_PROGRESS)


@pytest.mark.proves("ST-08", "ST-11")
def test_last_leave_response_waits_for_write(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    harness.hold_writes()
    leave_call = a.leave()
    assert leave_call.parked
    harness.release_writes()

    assert leave_call.response == LeaveGroupResponse(Error.NONE, (LeftMember(a.id, None, Error.NONE),))
    assert harness.state is E


@pytest.mark.proves("ST-08")
def test_failed_write_of_last_leave_still_empties_group(
    harness: CoordinatorHarness,
) -> None:
    (a,) = harness.stable_group("a")
    harness.fail_next_write(Error.NOT_ENOUGH_REPLICAS)

    assert a.leave().response == LeaveGroupResponse(Error.COORDINATOR_NOT_AVAILABLE)
    assert (harness.state, harness.generation, harness.member_ids) == (E, 2, set())
