"""KIP-345: static members, their return, and their twins (JG-13, JG-16, JG-29, JG-30, JG-41 … JG-49, SE-06)."""

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

from .room import GROUP, REBALANCE_MS, SESSION_MS, Room, offering, part_of, subscription

E = GroupState.EMPTY
PR = GroupState.PREPARING_REBALANCE
CR = GroupState.COMPLETING_REBALANCE
S = GroupState.STABLE


# --- ids --------------------------------------------------------------------------------------------------------


@pytest.mark.proves("JG-13")
def test_static_member_gets_a_new_id_at_each_return(room: Room) -> None:
    a, b = room.settled("a", "b", static=True)
    ids = [b.id]
    for _ in range(3):
        b = b.restarted()
        b.join()
        ids.append(b.id)

    assert len(set(ids)) == 4
    assert all(member_id.startswith("b-uuid-") for member_id in ids)
    assert room.member_ids == {a.id, b.id}


@pytest.mark.proves("JG-13")
@pytest.mark.parametrize("instance", ["", "desk one", "rack/7/desk", "i" * 250], ids=["empty", "space", "slash", "250"])
def test_unusual_instance_ids_are_accepted(room: Room, instance: str) -> None:
    a = room.member("a", instance=instance)
    joining = a.join()
    room.end_initial_delay()

    assert joining.answer.error is Error.NONE
    assert a.id.startswith(f"{instance}-uuid-")
    assert room.group.members[a.id].group_instance_id == instance


@pytest.mark.proves("JG-16")
def test_instance_id_held_by_another_member_id_fences_a_join(room: Room) -> None:
    a, _ = room.settled("a", "b", static=True)
    before, events = room.snapshot(), room.events.mark()
    twin = room.member("twin", instance="a")
    twin.id = "a-from-before"

    assert twin.join().answer == JoinGroupResponse(Error.FENCED_INSTANCE_ID, member_id="a-from-before")
    assert room.snapshot() == before
    (fenced,) = room.events.since(events, EventKind.MEMBER_FENCED)
    assert (fenced.instance, fenced.member) == ("a", "a-from-before")
    assert fenced.detail == MemberFenced(operation="join-group", holder=a.id)


@pytest.mark.proves("JG-16")
def test_unknown_instance_id_is_unknown_member(room: Room) -> None:
    a, _ = room.settled("a", "b", static=True)
    before = room.snapshot()
    a.instance = "c"

    assert a.join().answer == JoinGroupResponse(Error.UNKNOWN_MEMBER_ID, member_id=a.id)
    assert room.snapshot() == before


@pytest.mark.proves("JG-16")
def test_instance_id_is_checked_before_the_member_id(room: Room) -> None:
    _, b = room.settled("a", "b", static=True)
    b.instance = "a"

    assert b.join().answer == JoinGroupResponse(Error.FENCED_INSTANCE_ID, member_id=b.id)


# --- the return to a stable group -------------------------------------------------------------------------------


@pytest.mark.proves("JG-41")
def test_static_rejoin_keeps_assignment(
    room: Room,
) -> None:
    a, b = room.settled("a", "b", static=True)
    room.pass_ms(SESSION_MS - 1, beating=[a])
    before = room.events.mark()
    again = b.restarted()
    joining = again.join()

    assert joining.answer == again.joined_answer(generation=1, leader=a.id)
    assert again.id != b.id
    assert again.sync().answer == again.synced_answer(part_of(b.id))
    assert (room.state, room.generation, room.member_ids) == (S, 1, {a.id, again.id})
    assert a.heartbeat() is Error.NONE
    (replaced,) = room.events.since(before)
    assert (replaced.kind, replaced.member, replaced.instance) == (EventKind.MEMBER_REPLACED, again.id, "b")
    assert replaced.detail == MemberReplaced(old_member=b.id, rebalance_needed=False)


@pytest.mark.proves("JG-41")
def test_new_static_id_is_written_before_response(room: Room) -> None:
    a, b = room.settled("a", "b", static=True)
    room.hold_writes()
    again = b.restarted()
    joining = again.join()
    assert joining.parked
    room.release_writes()

    assert joining.answer == again.joined_answer(generation=1, leader=a.id)
    *_, record = room.log
    assert isinstance(record, GroupMetadata)
    assert record.value is not None
    assert (record.value.generation_id, record.value.leader) == (1, a.id)
    assert {(member.member_id, member.group_instance_id, member.assignment) for member in record.value.members} == {
        (a.id, "a", part_of(a.id)),
        (again.id, "b", part_of(b.id)),
    }


@pytest.mark.proves("JG-41")
def test_new_id_survives_a_restart_of_the_coordinator(room: Room) -> None:
    a, b = room.settled("a", "b", static=True)
    again = b.restarted()
    again.join()
    room.restart()

    assert again.heartbeat() is Error.NONE
    assert b.heartbeat() is Error.FENCED_INSTANCE_ID
    assert again.sync().answer == again.synced_answer(part_of(b.id))
    assert room.member_ids == {a.id, again.id}


@pytest.mark.proves("JG-41")
def test_static_rejoin_with_new_subscription_no_rebalance(room: Room) -> None:
    a, b = room.settled("a", "b", static=True)
    again = b.restarted(protocols=offering("range", topics=["u"]))

    assert again.join().answer == again.joined_answer(generation=1, leader=a.id)
    assert room.state is S
    described = {member.group_instance_id: member.metadata for member in room.describe().members}
    assert described == {"a": subscription("t"), "b": subscription("u")}


@pytest.mark.proves("JG-42")
def test_static_leader_rejoin_skips_assignment(room: Room) -> None:
    a, b = room.settled("a", "b", static=True)
    again = a.restarted()
    answer = again.join().answer

    assert set(answer.members) == {again.as_listed(), b.as_listed()}
    assert answer == JoinGroupResponse(
        Error.NONE,
        member_id=again.id,
        generation_id=1,
        protocol_type="consumer",
        protocol_name="range",
        leader=again.id,
        skip_assignment=True,
        members=answer.members,
    )
    assert room.group.leader_id == again.id
    assert again.sync([]).answer == again.synced_answer(part_of(a.id))
    assert b.sync().answer == b.synced_answer()


@pytest.mark.proves("JG-43")
def test_old_static_leader_rejoin_gets_old_leader_id(room: Room) -> None:
    a, _ = room.settled("a", "b", static=True)
    again = a.restarted(skips_assignment=False)

    assert again.join().answer == again.joined_answer(generation=1, leader=a.id)
    assert room.group.leader_id == again.id


@pytest.mark.proves("JG-43")
def test_old_static_follower_rejoin_gets_leader_id(room: Room) -> None:
    a, b = room.settled("a", "b", static=True)
    again = b.restarted(skips_assignment=False)

    assert again.join().answer == again.joined_answer(generation=1, leader=a.id)


@pytest.mark.proves("JG-44")
@pytest.mark.parametrize(
    ("write", "error"),
    [
        (Error.REQUEST_TIMED_OUT, Error.COORDINATOR_NOT_AVAILABLE),
        (Error.KAFKA_STORAGE_ERROR, Error.NOT_COORDINATOR),
        (Error.MESSAGE_TOO_LARGE, Error.UNKNOWN_SERVER_ERROR),
    ],
)
def test_failed_static_rejoin_keeps_old_id(room: Room, write: Error, error: Error) -> None:
    a, b = room.settled("a", "b", static=True)
    room.fail_next_write(write)
    again = b.restarted(protocols=offering("range", topics=["u"]))
    answer = again.join().answer

    assert (answer.error, answer.member_id, answer.members) == (error, "", ())
    assert (room.state, room.generation, room.member_ids) == (S, 1, {a.id, b.id})
    assert b.heartbeat() is Error.NONE
    described = {member.group_instance_id: member.metadata for member in room.describe().members}
    assert described == {"a": subscription("t"), "b": subscription("t")}
    assert b.sync().answer == b.synced_answer()


@pytest.mark.proves("JG-44")
def test_failed_static_leader_rejoin_keeps_old_leader(room: Room) -> None:
    a, _ = room.settled("a", "b", static=True)
    room.fail_next_write(Error.REQUEST_TIMED_OUT)
    a.restarted().join()

    assert room.group.leader_id == a.id
    assert a.heartbeat() is Error.NONE


@pytest.mark.proves("JG-44", "SE-01")
def test_restored_old_id_has_a_full_session_again(room: Room) -> None:
    a, b = room.settled("a", "b", static=True)
    room.pass_ms(SESSION_MS - 1, beating=[a])
    room.fail_next_write(Error.REQUEST_TIMED_OUT)
    b.restarted().join()
    room.pass_ms(SESSION_MS - 1, beating=[a])
    assert b.id in room.member_ids
    room.pass_ms(1)

    assert b.id not in room.member_ids


@pytest.mark.proves("JG-45")
def test_static_rejoin_that_changes_protocol_rebalances(room: Room) -> None:
    both = offering("range", "sticky")
    a, b, c = room.settled("a", "b", "c", static=True, protocols=both)
    assert room.group.protocol_name == "range"
    b_again = b.restarted(protocols=both[::-1])
    assert b_again.join().answer.error is Error.NONE
    before = room.events.mark()
    c_again = c.restarted(protocols=both[::-1])
    joining = c_again.join()

    assert joining.parked
    assert room.state is PR
    ((trigger, culprit),) = room.rebalances(before)
    assert trigger in {Trigger.PROTOCOL_CHANGE, Trigger.STATIC_CHANGED}
    (replaced,) = room.events.since(before, EventKind.MEMBER_REPLACED)
    assert replaced.member == culprit
    assert replaced.detail == MemberReplaced(old_member=c.id, rebalance_needed=True)
    room.rebalance(a, b_again)
    assert joining.answer.protocol_name == "sticky"


@pytest.mark.proves("JG-41", "SE-01")
def test_return_restarts_the_session(room: Room) -> None:
    a, b = room.settled("a", "b", static=True)
    room.pass_ms(SESSION_MS - 1, beating=[a])
    again = b.restarted()
    again.join()
    room.pass_ms(SESSION_MS - 1, beating=[a])
    assert room.member_ids == {a.id, again.id}
    room.pass_ms(1)

    assert room.member_ids == {a.id}


# --- the return during a rebalance ------------------------------------------------------------------------------


@pytest.mark.proves("JG-46", "ST-10")
def test_static_rejoin_while_completing_rebalances(room: Room) -> None:
    a, b, c = (room.member(name, instance=name) for name in "abc")
    for member in (a, b, c):
        member.join()
    room.end_initial_delay()
    syncing = c.sync()
    before = room.events.mark()
    again = b.restarted()
    joining = again.join()

    assert joining.parked
    assert room.state is PR
    assert syncing.answer == SyncGroupResponse(Error.REBALANCE_IN_PROGRESS)
    ((trigger, culprit),) = room.rebalances(before)
    assert (trigger, culprit in room.member_ids) == (Trigger.STATIC_CHANGED, True)


@pytest.mark.proves("JG-47")
def test_static_rejoin_during_rebalance_is_parked(room: Room) -> None:
    a, b = room.settled("a", "b", static=True)
    a.join()
    assert room.state is PR
    again = b.restarted()
    joining = again.join()

    assert joining.answer == again.joined_answer(generation=2, leader=a.id)
    assert room.member_ids == {a.id, again.id}


@pytest.mark.proves("JG-47", "JG-48")
def test_static_rejoin_in_initial_delay_replaces_join(room: Room) -> None:
    a = room.member("a", instance="a")
    first = a.join()
    again = a.restarted()
    second = again.join()
    (old_id,) = [event.detail.old_member for event in room.events.all if isinstance(event.detail, MemberReplaced)]

    assert first.answer == JoinGroupResponse(Error.FENCED_INSTANCE_ID, member_id=old_id)
    room.end_initial_delay()
    assert second.answer == again.joined_answer(generation=1, leader=again.id, members=[again])


@pytest.mark.proves("JG-48")
def test_parked_join_of_old_static_id_is_fenced(room: Room) -> None:
    a, b = room.settled("a", "b", static=True)
    parked = a.join()
    again = a.restarted()
    again.join()

    assert parked.answer == JoinGroupResponse(Error.FENCED_INSTANCE_ID, member_id=a.id)
    assert room.state is PR
    b.join()
    assert (room.state, room.group.leader_id) == (CR, again.id)
    (fenced,) = room.events.of(EventKind.MEMBER_FENCED)
    assert (fenced.member, fenced.detail) == (a.id, MemberFenced("join-group", holder=again.id))


@pytest.mark.proves("JG-48")
def test_old_ids_parked_sync_is_fenced_at_once(room: Room) -> None:
    a, b = (room.member(name, instance=name) for name in "ab")
    a.join()
    b.join()
    room.end_initial_delay()
    syncing = b.sync()
    again = b.restarted()
    again.join()

    assert syncing.answer == SyncGroupResponse(Error.FENCED_INSTANCE_ID)
    (fenced,) = room.events.of(EventKind.MEMBER_FENCED)
    assert fenced.member == b.id
    assert isinstance(fenced.detail, MemberFenced)
    assert fenced.detail.operation == "sync-group"
    assert fenced.detail.holder in room.member_ids - {b.id}


@pytest.mark.proves("JG-48", "JG-41")
def test_two_static_rejoins_during_write_get_responses(room: Room) -> None:
    a, b = room.settled("a", "b", static=True)
    room.hold_writes()
    first, second = b.restarted(), b.restarted()
    joining = [first.join(), second.join()]
    room.release_writes()

    assert joining[0].answer.error is Error.FENCED_INSTANCE_ID
    assert joining[1].answer == second.joined_answer(generation=1, leader=a.id)
    assert (room.state, room.member_ids) == (S, {a.id, second.id})


@pytest.mark.proves("JG-41")
def test_rebalance_during_static_write_uses_new_id(room: Room) -> None:
    a, b = room.settled("a", "b", static=True)
    room.hold_writes()
    again = b.restarted()
    joining = again.join()
    a.join()
    room.release_writes()

    assert joining.answer.error is Error.NONE
    assert room.member_ids == {a.id, again.id}
    assert b.heartbeat() is Error.FENCED_INSTANCE_ID


@pytest.mark.proves("JG-49", "HB-03")
def test_old_static_id_is_fenced_or_unknown(room: Room) -> None:
    a, b = room.settled("a", "b", static=True)
    again = b.restarted()
    again.join()

    assert b.heartbeat() is Error.FENCED_INSTANCE_ID
    assert b.sync().answer == SyncGroupResponse(Error.FENCED_INSTANCE_ID)
    assert b.join().answer == JoinGroupResponse(Error.FENCED_INSTANCE_ID, member_id=b.id)
    assert b.commit(1).answer.partitions == (("t", 0, Error.FENCED_INSTANCE_ID),)
    assert b.leave().answer == LeaveGroupResponse(Error.NONE, (LeftMember(b.id, "b", Error.FENCED_INSTANCE_ID),))
    assert room.ask(Heartbeat(GROUP, b.id, None, 1)).answer == HeartbeatResponse(Error.UNKNOWN_MEMBER_ID)
    assert room.ask(SyncGroup(GROUP, b.id, None, 1)).answer == SyncGroupResponse(Error.UNKNOWN_MEMBER_ID)
    b.instance = None
    assert b.join().answer == JoinGroupResponse(Error.UNKNOWN_MEMBER_ID, member_id=b.id)
    assert room.member_ids == {a.id, again.id}


@pytest.mark.proves("JG-49")
def test_fenced_event_has_operation_and_holder(room: Room) -> None:
    _, b = room.settled("a", "b", static=True)
    again = b.restarted()
    again.join()
    before = room.events.mark()
    b.join()
    b.sync()
    b.heartbeat()
    b.leave()
    b.commit(1)

    told = room.events.since(before, EventKind.MEMBER_FENCED)
    assert [(event.kind, event.member, event.instance) for event in told] == [(EventKind.MEMBER_FENCED, b.id, "b")] * 5
    operations = ["join-group", "sync-group", "heartbeat", "leave-group", "offset-commit"]
    assert [event.detail for event in told] == [MemberFenced(operation, again.id) for operation in operations]


# --- absence ----------------------------------------------------------------------------------------------------


@pytest.mark.proves("JG-29", "SE-06")
def test_absent_static_member_stays_in_the_next_generation(room: Room) -> None:
    a = room.member("a", rebalance_timeout_ms=20_000)
    b = room.member("b", instance="b", session_timeout_ms=45_000, rebalance_timeout_ms=20_000)
    a.join()
    b.join()
    room.end_initial_delay()
    room.sync(a, b)
    joining = a.join()
    room.pass_ms(20_000)

    assert set(joining.answer.members) == {a.as_listed(), b.as_listed()}
    assert (room.state, room.generation, room.member_ids) == (CR, 2, {a.id, b.id})
    a.sync()
    assert room.state is S


@pytest.mark.proves("SE-06", "JG-25")
def test_absent_static_member_gets_new_session(room: Room) -> None:
    a = room.member("a", session_timeout_ms=45_000, rebalance_timeout_ms=40_000)
    b = room.member("b", instance="b", session_timeout_ms=50_000, rebalance_timeout_ms=40_000)
    a.join()
    b.join()
    room.end_initial_delay()
    room.sync(a, b)
    a.join()
    room.pass_ms(40_000)
    assert (room.state, room.member_ids) == (CR, {a.id, b.id})
    a.sync()
    room.pass_ms(39_999, beating=[a])

    assert (room.state, room.member_ids) == (S, {a.id, b.id}), "well past 50 s since it was last heard of"


@pytest.mark.proves("SE-06", "SE-02")
def test_absent_static_member_expires(room: Room) -> None:
    a, b = room.settled("a", "b", static=True, session_timeout_ms=30_000)
    a.join()
    room.pass_ms(29_999)
    assert (room.state, room.member_ids) == (PR, {a.id, b.id})
    room.pass_ms(1)

    assert (room.state, room.generation, room.member_ids) == (CR, 2, {a.id})


@pytest.mark.proves("SE-06", "SE-02", "SG-11")
def test_sync_timer_removes_absent_static_member(room: Room) -> None:
    a = room.member("a", rebalance_timeout_ms=20_000)
    b = room.member("b", instance="b", session_timeout_ms=600_000, rebalance_timeout_ms=20_000)
    a.join()
    b.join()
    room.end_initial_delay()
    room.sync(a, b)
    a.join()
    room.pass_ms(20_000)
    a.sync()
    assert room.state is S
    room.pass_ms(20_000, beating=[a])

    assert (room.state, room.member_ids) == (PR, {a.id})


@pytest.mark.proves("SE-06", "LG-04")
def test_absent_static_member_is_removed_by_an_administrator(room: Room) -> None:
    a, b = room.settled("a", "b", static=True)
    before = room.events.mark()
    leaving = room.ask(LeaveGroup(GROUP, (LeavingMember("", "b"),)))

    assert leaving.answer == LeaveGroupResponse(Error.NONE, (LeftMember("", "b", Error.NONE),))
    assert (room.state, room.member_ids) == (PR, {a.id})
    assert room.rebalances(before) == [(Trigger.ADMIN_REMOVAL, b.id)]


@pytest.mark.proves("JG-30")
def test_absent_static_members_restart_join_timer(room: Room) -> None:
    static = room.member("static", instance="s", session_timeout_ms=600_000, rebalance_timeout_ms=20_000)
    dynamic = room.member("dynamic", rebalance_timeout_ms=20_000)
    static.join()
    dynamic.join()
    room.end_initial_delay()
    room.sync(static, dynamic)
    dynamic.leave()
    assert (room.state, room.generation) == (PR, 1)
    for _ in range(3):
        room.pass_ms(20_000)
        assert (room.state, room.generation, room.member_ids) == (PR, 1, {static.id})
    newcomer = room.member("newcomer")
    joining = newcomer.join()
    room.pass_ms(19_999)
    assert joining.parked
    room.pass_ms(1)

    assert joining.answer.error is Error.NONE
    assert (room.state, room.generation, room.group.leader_id) == (CR, 2, newcomer.id)
    assert set(joining.answer.members) == {static.as_listed(), newcomer.as_listed()}


@pytest.mark.proves("JG-30", "SE-02")
def test_join_phase_ends_when_absent_static_members_expire(room: Room) -> None:
    a, b = room.settled("a", "b", static=True, session_timeout_ms=90_000)
    b.leave()
    room.pass_ms(REBALANCE_MS)
    assert (room.state, room.generation) == (PR, 1)
    room.pass_ms(90_000 - REBALANCE_MS)

    assert (room.state, room.generation, room.member_ids) == (E, 2, set())
    assert a.heartbeat() is Error.UNKNOWN_MEMBER_ID
