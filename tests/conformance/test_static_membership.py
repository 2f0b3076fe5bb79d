"""KIP-345: static members, rejoins and conflicting instance ids (JG-13, JG-16, JG-29, JG-30, JG-41 … JG-49, SE-06)."""

import pytest

from slackwater.group.coordinator.records import GroupMetadata
from slackwater.group.errors import Error
from slackwater.group.events import EventKind, GroupState, MemberFenced, MemberReplaced, Trigger
from slackwater.group.messages import (
    Heartbeat,
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroup,
    LeaveGroupResponse,
    LeavingMember,
    LeftMember,
    SyncGroup,
    SyncGroupResponse,
)

from .coordinator_harness import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    CoordinatorHarness,
    assignment_of,
    join_protocols,
    subscription,
)

E = GroupState.EMPTY
PR = GroupState.PREPARING_REBALANCE
CR = GroupState.COMPLETING_REBALANCE
S = GroupState.STABLE


# --- ids --------------------------------------------------------------------------------------------------------------


@pytest.mark.proves("JG-13")
def test_static_member_gets_new_id_at_each_rejoin(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b", static=True)
    ids = [b.id]
    for _ in range(3):
        b = b.restarted()
        b.join()
        ids.append(b.id)

    assert len(set(ids)) == 4
    assert all(member_id.startswith("b-uuid-") for member_id in ids)
    assert harness.member_ids == {a.id, b.id}


@pytest.mark.proves("JG-13")
@pytest.mark.parametrize("instance", ["", "desk one", "rack/7/desk", "i" * 250], ids=["empty", "space", "slash", "250"])
def test_unusual_instance_ids_are_accepted(harness: CoordinatorHarness, instance: str) -> None:
    a = harness.member("a", instance=instance)
    join_call = a.join()
    harness.end_initial_delay()

    assert join_call.response.error is Error.NONE
    assert a.id.startswith(f"{instance}-uuid-")
    assert harness.group.members[a.id].group_instance_id == instance


@pytest.mark.proves("JG-16")
def test_join_with_instance_of_other_member_is_fenced(harness: CoordinatorHarness) -> None:
    a, _ = harness.stable_group("a", "b", static=True)
    before, events = harness.snapshot(), harness.events.mark()
    other = harness.member("other", instance="a")
    other.id = "a-from-before"

    assert other.join().response == JoinGroupResponse(Error.FENCED_INSTANCE_ID, member_id="a-from-before")
    assert harness.snapshot() == before
    (fenced,) = harness.events.since(events, EventKind.MEMBER_FENCED)
    assert (fenced.instance, fenced.member) == ("a", "a-from-before")
    assert fenced.detail == MemberFenced(operation="join-group", holder=a.id)


@pytest.mark.proves("JG-16")
def test_unknown_instance_id_is_unknown_member(harness: CoordinatorHarness) -> None:
    a, _ = harness.stable_group("a", "b", static=True)
    before = harness.snapshot()
    a.instance = "c"

    assert a.join().response == JoinGroupResponse(Error.UNKNOWN_MEMBER_ID, member_id=a.id)
    assert harness.snapshot() == before


@pytest.mark.proves("JG-16")
def test_instance_id_is_checked_before_member_id(harness: CoordinatorHarness) -> None:
    _, b = harness.stable_group("a", "b", static=True)
    b.instance = "a"

    assert b.join().response == JoinGroupResponse(Error.FENCED_INSTANCE_ID, member_id=b.id)


# --- rejoin of a stable group -----------------------------------------------------------------------------------------


@pytest.mark.proves("JG-41")
def test_static_rejoin_keeps_assignment(
    harness: CoordinatorHarness,
) -> None:
    a, b = harness.stable_group("a", "b", static=True)
    harness.advance_ms(SESSION_MS - 1, heartbeating=[a])
    before = harness.events.mark()
    restarted = b.restarted()
    join_call = restarted.join()

    assert join_call.response == restarted.expected_join_response(generation=1, leader=a.id)
    assert restarted.id != b.id
    assert restarted.sync().response == restarted.expected_sync_response(assignment_of(b.id))
    assert (harness.state, harness.generation, harness.member_ids) == (S, 1, {a.id, restarted.id})
    assert a.heartbeat() is Error.NONE
    (replaced,) = harness.events.since(before)
    assert (replaced.kind, replaced.member, replaced.instance) == (EventKind.MEMBER_REPLACED, restarted.id, "b")
    assert replaced.detail == MemberReplaced(old_member=b.id, rebalance_needed=False)


@pytest.mark.proves("JG-41")
def test_new_static_id_is_written_before_response(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b", static=True)
    harness.hold_writes()
    restarted = b.restarted()
    join_call = restarted.join()
    assert join_call.parked
    harness.release_writes()

    assert join_call.response == restarted.expected_join_response(generation=1, leader=a.id)
    *_, record = harness.log
    assert isinstance(record, GroupMetadata)
    assert record.value is not None
    assert (record.value.generation_id, record.value.leader) == (1, a.id)
    assert {(member.member_id, member.group_instance_id, member.assignment) for member in record.value.members} == {
        (a.id, "a", assignment_of(a.id)),
        (restarted.id, "b", assignment_of(b.id)),
    }


@pytest.mark.proves("JG-41")
def test_new_static_id_survives_coordinator_restart(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b", static=True)
    restarted = b.restarted()
    restarted.join()
    harness.restart()

    assert restarted.heartbeat() is Error.NONE
    assert b.heartbeat() is Error.FENCED_INSTANCE_ID
    assert restarted.sync().response == restarted.expected_sync_response(assignment_of(b.id))
    assert harness.member_ids == {a.id, restarted.id}


@pytest.mark.proves("JG-41")
def test_static_rejoin_with_new_subscription_no_rebalance(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b", static=True)
    restarted = b.restarted(protocols=join_protocols("range", topics=["u"]))

    assert restarted.join().response == restarted.expected_join_response(generation=1, leader=a.id)
    assert harness.state is S
    described = {member.group_instance_id: member.metadata for member in harness.describe().members}
    assert described == {"a": subscription("t"), "b": subscription("u")}


@pytest.mark.proves("JG-42")
def test_static_leader_rejoin_skips_assignment(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b", static=True)
    restarted = a.restarted()
    response = restarted.join().response

    assert set(response.members) == {restarted.as_listed(), b.as_listed()}
    assert response == JoinGroupResponse(
        Error.NONE,
        member_id=restarted.id,
        generation_id=1,
        protocol_type="consumer",
        protocol_name="range",
        leader=restarted.id,
        skip_assignment=True,
        members=response.members,
    )
    assert harness.group.leader_id == restarted.id
    assert restarted.sync([]).response == restarted.expected_sync_response(assignment_of(a.id))
    assert b.sync().response == b.expected_sync_response()


@pytest.mark.proves("JG-43")
def test_old_static_leader_rejoin_gets_old_leader_id(harness: CoordinatorHarness) -> None:
    a, _ = harness.stable_group("a", "b", static=True)
    restarted = a.restarted(skips_assignment=False)

    assert restarted.join().response == restarted.expected_join_response(generation=1, leader=a.id)
    assert harness.group.leader_id == restarted.id


@pytest.mark.proves("JG-43")
def test_old_static_follower_rejoin_gets_leader_id(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b", static=True)
    restarted = b.restarted(skips_assignment=False)

    assert restarted.join().response == restarted.expected_join_response(generation=1, leader=a.id)


@pytest.mark.proves("JG-44")
@pytest.mark.parametrize(
    ("write", "error"),
    [
        (Error.REQUEST_TIMED_OUT, Error.COORDINATOR_NOT_AVAILABLE),
        (Error.KAFKA_STORAGE_ERROR, Error.NOT_COORDINATOR),
        (Error.MESSAGE_TOO_LARGE, Error.UNKNOWN_SERVER_ERROR),
    ],
)
def test_failed_static_rejoin_keeps_old_id(harness: CoordinatorHarness, write: Error, error: Error) -> None:
    a, b = harness.stable_group("a", "b", static=True)
    harness.fail_next_write(write)
    restarted = b.restarted(protocols=join_protocols("range", topics=["u"]))
    response = restarted.join().response

    assert (response.error, response.member_id, response.members) == (error, "", ())
    assert (harness.state, harness.generation, harness.member_ids) == (S, 1, {a.id, b.id})
    assert b.heartbeat() is Error.NONE
    described = {member.group_instance_id: member.metadata for member in harness.describe().members}
    assert described == {"a": subscription("t"), "b": subscription("t")}
    assert b.sync().response == b.expected_sync_response()


@pytest.mark.proves("JG-44")
def test_failed_static_leader_rejoin_keeps_old_leader(harness: CoordinatorHarness) -> None:
    a, _ = harness.stable_group("a", "b", static=True)
    harness.fail_next_write(Error.REQUEST_TIMED_OUT)
    a.restarted().join()

    assert harness.group.leader_id == a.id
    assert a.heartbeat() is Error.NONE


@pytest.mark.proves("JG-44", "SE-01")
def test_restored_old_id_has_full_session(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b", static=True)
    harness.advance_ms(SESSION_MS - 1, heartbeating=[a])
    harness.fail_next_write(Error.REQUEST_TIMED_OUT)
    b.restarted().join()
    harness.advance_ms(SESSION_MS - 1, heartbeating=[a])
    assert b.id in harness.member_ids
    harness.advance_ms(1)

    assert b.id not in harness.member_ids


@pytest.mark.proves("JG-45")
def test_static_rejoin_that_changes_protocol_rebalances(harness: CoordinatorHarness) -> None:
    both = join_protocols("range", "sticky")
    a, b, c = harness.stable_group("a", "b", "c", static=True, protocols=both)
    assert harness.group.protocol_name == "range"
    b_restarted = b.restarted(protocols=both[::-1])
    assert b_restarted.join().response.error is Error.NONE
    before = harness.events.mark()
    c_restarted = c.restarted(protocols=both[::-1])
    join_call = c_restarted.join()

    assert join_call.parked
    assert harness.state is PR
    ((trigger, culprit),) = harness.rebalances(before)
    assert trigger in {Trigger.PROTOCOL_CHANGE, Trigger.STATIC_CHANGED}
    (replaced,) = harness.events.since(before, EventKind.MEMBER_REPLACED)
    assert replaced.member == culprit
    assert replaced.detail == MemberReplaced(old_member=c.id, rebalance_needed=True)
    harness.rebalance(a, b_restarted)
    assert join_call.response.protocol_name == "sticky"


@pytest.mark.proves("JG-41", "SE-01")
def test_static_rejoin_restarts_session(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b", static=True)
    harness.advance_ms(SESSION_MS - 1, heartbeating=[a])
    restarted = b.restarted()
    restarted.join()
    harness.advance_ms(SESSION_MS - 1, heartbeating=[a])
    assert harness.member_ids == {a.id, restarted.id}
    harness.advance_ms(1)

    assert harness.member_ids == {a.id}


# --- rejoin during a rebalance ----------------------------------------------------------------------------------------


@pytest.mark.proves("JG-46", "ST-10")
def test_static_rejoin_while_completing_rebalances(harness: CoordinatorHarness) -> None:
    _, b, c = harness.completing_group("a", "b", "c", static=True)
    sync_call = c.sync()
    before = harness.events.mark()
    restarted = b.restarted()
    join_call = restarted.join()

    assert join_call.parked
    assert harness.state is PR
    assert sync_call.response == SyncGroupResponse(Error.REBALANCE_IN_PROGRESS)
    ((trigger, culprit),) = harness.rebalances(before)
    assert (trigger, culprit in harness.member_ids) == (Trigger.STATIC_CHANGED, True)


@pytest.mark.proves("JG-47")
def test_static_rejoin_during_rebalance_is_parked(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b", static=True)
    a.join()
    assert harness.state is PR
    restarted = b.restarted()
    join_call = restarted.join()

    assert join_call.response == restarted.expected_join_response(generation=2, leader=a.id)
    assert harness.member_ids == {a.id, restarted.id}


@pytest.mark.proves("JG-47", "JG-48")
def test_static_rejoin_in_initial_delay_replaces_join(harness: CoordinatorHarness) -> None:
    a = harness.member("a", instance="a")
    first = a.join()
    restarted = a.restarted()
    second = restarted.join()
    (old_id,) = [event.detail.old_member for event in harness.events.all if isinstance(event.detail, MemberReplaced)]

    assert first.response == JoinGroupResponse(Error.FENCED_INSTANCE_ID, member_id=old_id)
    harness.end_initial_delay()
    assert second.response == restarted.expected_join_response(generation=1, leader=restarted.id, members=[restarted])


@pytest.mark.proves("JG-48")
def test_parked_join_of_old_static_id_is_fenced(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b", static=True)
    parked = a.join()
    restarted = a.restarted()
    restarted.join()

    assert parked.response == JoinGroupResponse(Error.FENCED_INSTANCE_ID, member_id=a.id)
    assert harness.state is PR
    b.join()
    assert (harness.state, harness.group.leader_id) == (CR, restarted.id)
    (fenced,) = harness.events.of(EventKind.MEMBER_FENCED)
    assert (fenced.member, fenced.detail) == (a.id, MemberFenced("join-group", holder=restarted.id))


@pytest.mark.proves("JG-48")
def test_parked_sync_of_old_static_id_is_fenced(harness: CoordinatorHarness) -> None:
    _, b = harness.completing_group("a", "b", static=True)
    sync_call = b.sync()
    restarted = b.restarted()
    restarted.join()

    assert sync_call.response == SyncGroupResponse(Error.FENCED_INSTANCE_ID)
    (fenced,) = harness.events.of(EventKind.MEMBER_FENCED)
    assert fenced.member == b.id
    assert isinstance(fenced.detail, MemberFenced)
    assert fenced.detail.operation == "sync-group"
    assert fenced.detail.holder in harness.member_ids - {b.id}


@pytest.mark.proves("JG-48", "JG-41")
def test_two_static_rejoins_during_write_get_responses(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b", static=True)
    harness.hold_writes()
    first, second = b.restarted(), b.restarted()
    join_calls = [first.join(), second.join()]
    harness.release_writes()

    assert join_calls[0].response.error is Error.FENCED_INSTANCE_ID
    assert join_calls[1].response == second.expected_join_response(generation=1, leader=a.id)
    assert (harness.state, harness.member_ids) == (S, {a.id, second.id})


@pytest.mark.proves("JG-41")
def test_rebalance_during_static_write_uses_new_id(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b", static=True)
    harness.hold_writes()
    restarted = b.restarted()
    join_call = restarted.join()
    a.join()
    harness.release_writes()

    assert join_call.response.error is Error.NONE
    assert harness.member_ids == {a.id, restarted.id}
    assert b.heartbeat() is Error.FENCED_INSTANCE_ID


@pytest.mark.proves("JG-49", "HB-03")
def test_old_static_id_is_fenced_or_unknown(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b", static=True)
    restarted = b.restarted()
    restarted.join()

    assert b.heartbeat() is Error.FENCED_INSTANCE_ID
    assert b.sync().response == SyncGroupResponse(Error.FENCED_INSTANCE_ID)
    assert b.join().response == JoinGroupResponse(Error.FENCED_INSTANCE_ID, member_id=b.id)
    assert b.commit(1).response.partitions == (("t", 0, Error.FENCED_INSTANCE_ID),)
    assert b.leave().response == LeaveGroupResponse(Error.NONE, (LeftMember(b.id, "b", Error.FENCED_INSTANCE_ID),))
    assert harness.send(Heartbeat(GROUP, b.id, None, 1)).response == HeartbeatResponse(Error.UNKNOWN_MEMBER_ID)
    assert harness.send(SyncGroup(GROUP, b.id, None, 1)).response == SyncGroupResponse(Error.UNKNOWN_MEMBER_ID)
    b.instance = None
    assert b.join().response == JoinGroupResponse(Error.UNKNOWN_MEMBER_ID, member_id=b.id)
    assert harness.member_ids == {a.id, restarted.id}


@pytest.mark.proves("JG-49")
def test_fenced_event_has_operation_and_holder(harness: CoordinatorHarness) -> None:
    _, b = harness.stable_group("a", "b", static=True)
    restarted = b.restarted()
    restarted.join()
    before = harness.events.mark()
    b.join()
    b.sync()
    b.heartbeat()
    b.leave()
    b.commit(1)

    events = harness.events.since(before, EventKind.MEMBER_FENCED)
    assert [(event.kind, event.member, event.instance) for event in events] == [
        (EventKind.MEMBER_FENCED, b.id, "b")
    ] * 5
    operations = ["join-group", "sync-group", "heartbeat", "leave-group", "offset-commit"]
    assert [event.detail for event in events] == [MemberFenced(operation, restarted.id) for operation in operations]


# --- absent static members --------------------------------------------------------------------------------------------


@pytest.mark.proves("JG-29", "SE-06")
def test_absent_static_member_stays_in_next_generation(harness: CoordinatorHarness) -> None:
    a = harness.member("a", rebalance_timeout_ms=20_000)
    b = harness.member("b", instance="b", session_timeout_ms=45_000, rebalance_timeout_ms=20_000)
    a.join()
    b.join()
    harness.end_initial_delay()
    harness.sync(a, b)
    join_call = a.join()
    harness.advance_ms(20_000)

    assert set(join_call.response.members) == {a.as_listed(), b.as_listed()}
    assert (harness.state, harness.generation, harness.member_ids) == (CR, 2, {a.id, b.id})
    a.sync()
    assert harness.state is S


@pytest.mark.proves("SE-06", "JG-25")
def test_absent_static_member_gets_new_session(harness: CoordinatorHarness) -> None:
    a = harness.member("a", session_timeout_ms=45_000, rebalance_timeout_ms=40_000)
    b = harness.member("b", instance="b", session_timeout_ms=50_000, rebalance_timeout_ms=40_000)
    a.join()
    b.join()
    harness.end_initial_delay()
    harness.sync(a, b)
    a.join()
    harness.advance_ms(40_000)
    assert (harness.state, harness.member_ids) == (CR, {a.id, b.id})
    a.sync()
    harness.advance_ms(39_999, heartbeating=[a])

    assert (harness.state, harness.member_ids) == (S, {a.id, b.id}), "more than 50 s after its last request"


@pytest.mark.proves("SE-06", "SE-02")
def test_absent_static_member_expires(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b", static=True, session_timeout_ms=30_000)
    a.join()
    harness.advance_ms(29_999)
    assert (harness.state, harness.member_ids) == (PR, {a.id, b.id})
    harness.advance_ms(1)

    assert (harness.state, harness.generation, harness.member_ids) == (CR, 2, {a.id})


@pytest.mark.proves("SE-06", "SE-02", "SG-11")
def test_sync_timer_removes_absent_static_member(harness: CoordinatorHarness) -> None:
    a = harness.member("a", rebalance_timeout_ms=20_000)
    b = harness.member("b", instance="b", session_timeout_ms=600_000, rebalance_timeout_ms=20_000)
    a.join()
    b.join()
    harness.end_initial_delay()
    harness.sync(a, b)
    a.join()
    harness.advance_ms(20_000)
    a.sync()
    assert harness.state is S
    harness.advance_ms(20_000, heartbeating=[a])

    assert (harness.state, harness.member_ids) == (PR, {a.id})


@pytest.mark.proves("SE-06", "LG-04")
def test_administrator_removes_absent_static_member(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b", static=True)
    before = harness.events.mark()
    leave_call = harness.send(LeaveGroup(GROUP, (LeavingMember("", "b"),)))

    assert leave_call.response == LeaveGroupResponse(Error.NONE, (LeftMember("", "b", Error.NONE),))
    assert (harness.state, harness.member_ids) == (PR, {a.id})
    assert harness.rebalances(before) == [(Trigger.ADMIN_REMOVAL, b.id)]


@pytest.mark.proves("JG-30")
def test_absent_static_members_restart_join_timer(harness: CoordinatorHarness) -> None:
    static = harness.member("static", instance="s", session_timeout_ms=600_000, rebalance_timeout_ms=20_000)
    dynamic = harness.member("dynamic", rebalance_timeout_ms=20_000)
    static.join()
    dynamic.join()
    harness.end_initial_delay()
    harness.sync(static, dynamic)
    dynamic.leave()
    assert (harness.state, harness.generation) == (PR, 1)
    for _ in range(3):
        harness.advance_ms(20_000)
        assert (harness.state, harness.generation, harness.member_ids) == (PR, 1, {static.id})
    new_member = harness.member("new")
    join_call = new_member.join()
    harness.advance_ms(19_999)
    assert join_call.parked
    harness.advance_ms(1)

    assert join_call.response.error is Error.NONE
    assert (harness.state, harness.generation, harness.group.leader_id) == (CR, 2, new_member.id)
    assert set(join_call.response.members) == {static.as_listed(), new_member.as_listed()}


@pytest.mark.proves("JG-30", "SE-02")
def test_join_phase_ends_when_absent_static_members_expire(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b", static=True, session_timeout_ms=90_000)
    b.leave()
    harness.advance_ms(REBALANCE_MS)
    assert (harness.state, harness.generation) == (PR, 1)
    harness.advance_ms(90_000 - REBALANCE_MS)

    assert (harness.state, harness.generation, harness.member_ids) == (E, 2, set())
    assert a.heartbeat() is Error.UNKNOWN_MEMBER_ID
