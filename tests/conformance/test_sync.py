"""Section 3 of the catalogue: SyncGroup."""

import pytest

from slackwater.group.coordinator.records import GroupMetadata, StoredGroup, StoredMember
from slackwater.group.errors import Error
from slackwater.group.events import EventKind, GroupState, MemberTimedOut, RebalanceFailed, Trigger
from slackwater.group.messages import SyncGroup, SyncGroupResponse

from .room import GROUP, HOST, REBALANCE_MS, SESSION_MS, Member, Room, subscription

E = GroupState.EMPTY
PR = GroupState.PREPARING_REBALANCE
CR = GroupState.COMPLETING_REBALANCE
S = GroupState.STABLE


def completing(room: Room, *names: str, static: bool = False, **settings: int) -> list[Member]:
    """Members of a generation that waits for its leader's assignment; the first leads."""
    members = [room.member(name, instance=name if static else None, **settings) for name in names]
    for member in members:
        member.join()
    room.end_initial_delay()
    assert room.state is CR
    return members


# --- who may ask ------------------------------------------------------------------------------------------------


@pytest.mark.proves("SG-01")
def test_sync_with_an_unknown_group_is_refused(room: Room) -> None:
    assert room.ask(SyncGroup(GROUP, "a", None, 1)).answer == SyncGroupResponse(Error.UNKNOWN_MEMBER_ID)
    assert dict(room.coordinator.groups) == {}


@pytest.mark.proves("SG-01")
def test_sync_with_an_empty_group_is_refused(room: Room) -> None:
    (a,) = room.settled("a")
    a.leave()

    assert a.sync().answer == SyncGroupResponse(Error.UNKNOWN_MEMBER_ID)


@pytest.mark.proves("SG-02")
@pytest.mark.parametrize(("protocol_type", "protocol_name"), [(None, "range"), ("consumer", None), (None, None)])
@pytest.mark.parametrize("group_id", [GROUP, "absent", "", None])
def test_sync_without_protocol_is_checked_first(
    room: Room, protocol_type: str | None, protocol_name: str | None, group_id: str | None
) -> None:
    completing(room, "a")
    request = SyncGroup(group_id, "nobody", "nothing", 77, protocol_type, protocol_name, (), requires_protocol=True)

    assert room.ask(request).answer == SyncGroupResponse(Error.INCONSISTENT_GROUP_PROTOCOL)


@pytest.mark.proves("SG-03")
@pytest.mark.parametrize("stage", ["completing", "preparing", "stable"])
def test_checks_of_a_sync_come_in_order(room: Room, stage: str) -> None:
    a, b = completing(room, "a", "b", static=True)
    if stage != "completing":
        room.sync(a, b)
    if stage == "preparing":
        a.join()
    before = room.snapshot()

    def sync(member: str, instance: str | None, generation: int, kind: str | None, name: str | None) -> Error:
        return room.ask(SyncGroup(GROUP, member, instance, generation, kind, name)).answer.error

    assert sync(a.id, "b", 9, "x", "x") is Error.FENCED_INSTANCE_ID
    assert sync(a.id, "nobody", 9, "x", "x") is Error.UNKNOWN_MEMBER_ID
    assert sync("nobody", None, 9, "x", "x") is Error.UNKNOWN_MEMBER_ID
    assert sync(a.id, "a", 9, "x", "x") is Error.ILLEGAL_GENERATION
    assert sync(a.id, "a", 1, "x", "range") is Error.INCONSISTENT_GROUP_PROTOCOL
    assert sync(a.id, "a", 1, "consumer", "x") is Error.INCONSISTENT_GROUP_PROTOCOL
    assert room.snapshot() == before


@pytest.mark.proves("SG-03")
def test_old_clients_sync_without_protocol_skips_that_check(room: Room) -> None:
    (a,) = room.settled("a")

    assert room.ask(SyncGroup(GROUP, a.id, None, 1)).answer == a.synced_answer()


# --- by state ---------------------------------------------------------------------------------------------------


@pytest.mark.proves("SG-04")
def test_sync_while_members_join_is_sent_back(room: Room) -> None:
    a, b = room.settled("a", "b")
    a.join()

    assert b.sync().answer == SyncGroupResponse(Error.REBALANCE_IN_PROGRESS)


@pytest.mark.proves("SG-05")
def test_follower_sync_waits_for_leader(room: Room) -> None:
    a, b, c = completing(room, "a", "b", "c")
    syncing = b.sync()
    assert syncing.parked
    a.sync()

    assert syncing.answer == b.synced_answer()
    room.pass_ms(REBALANCE_MS, beating=[a, b, c])
    assert room.member_ids == {a.id, b.id}, "who has synced is out of the sync timer's reach, who has not is not"


@pytest.mark.proves("SG-06")
def test_leader_sync_sends_all_assignments(room: Room) -> None:
    a, b, c = completing(room, "a", "b", "c")
    following = [b.sync(), c.sync()]
    leading = a.sync([(a.id, b"for a"), (b.id, b"for b"), ("nobody", b"for nobody")])

    assert leading.answer == a.synced_answer(b"for a")
    assert following[0].answer == b.synced_answer(b"for b")
    assert following[1].answer == c.synced_answer(b""), "omitted by the leader"
    assert room.state is S


@pytest.mark.proves("SG-06")
def test_generation_is_written_with_every_members_assignment(room: Room) -> None:
    a, b = completing(room, "a", "b", static=True)
    formed_ms = room.now_ms
    a.sync([(a.id, b"for a")])

    def stored(member: Member, assignment: bytes) -> StoredMember:
        return StoredMember(
            member.id, member.instance, member.name, HOST, SESSION_MS, REBALANCE_MS, subscription("t"), assignment
        )

    *_, record = room.log
    assert isinstance(record, GroupMetadata)
    assert record.value is not None
    members = tuple(sorted(record.value.members))
    assert members == tuple(sorted([stored(a, b"for a"), stored(b, b"")]))
    assert record == GroupMetadata(GROUP, StoredGroup("consumer", 1, "range", a.id, formed_ms, record.value.members))


@pytest.mark.proves("SG-06", "ST-09")
def test_sync_responses_wait_for_write(room: Room) -> None:
    a, b = completing(room, "a", "b")
    room.hold_writes()
    syncing = [b.sync(), a.sync()]
    assert [call.parked for call in syncing] == [True, True]
    room.release_writes()

    assert [call.answer for call in syncing] == [b.synced_answer(), a.synced_answer()]


@pytest.mark.proves("SG-07")
@pytest.mark.parametrize("outcome", [Error.NONE, Error.NOT_ENOUGH_REPLICAS])
def test_late_write_after_new_rebalance_is_ignored(room: Room, outcome: Error) -> None:
    a, b = completing(room, "a", "b")
    room.hold_writes()
    syncing = [b.sync(), a.sync()]
    c = room.member("c")
    joining = c.join()
    assert [call.answer for call in syncing] == [SyncGroupResponse(Error.REBALANCE_IN_PROGRESS)] * 2
    before = room.events.mark()
    room.release_writes(outcome)

    assert (room.state, room.generation) == (PR, 1)
    assert joining.parked
    assert room.events.since(before, EventKind.REBALANCE_COMPLETED, EventKind.REBALANCE_STARTED) == []


@pytest.mark.proves("SG-07")
@pytest.mark.parametrize("outcome", [Error.NONE, Error.NOT_ENOUGH_REPLICAS])
def test_write_of_older_generation_is_ignored(room: Room, outcome: Error) -> None:
    a, b = completing(room, "a", "b")
    room.hold_writes()
    a.sync()
    b.leave()
    a.join()
    assert (room.state, room.generation) == (CR, 2)
    syncing = a.sync()
    room.release_writes(outcome)

    if outcome is Error.NONE:
        assert syncing.answer == a.synced_answer()
        assert (room.state, room.generation) == (S, 2)
    else:
        assert syncing.answer == SyncGroupResponse(Error.COORDINATOR_NOT_AVAILABLE)
        assert (room.state, room.generation) == (PR, 2)


@pytest.mark.proves("SG-08")
@pytest.mark.parametrize(
    ("write", "answer"),
    [
        (Error.UNKNOWN_TOPIC_OR_PARTITION, Error.COORDINATOR_NOT_AVAILABLE),
        (Error.NOT_ENOUGH_REPLICAS, Error.COORDINATOR_NOT_AVAILABLE),
        (Error.REQUEST_TIMED_OUT, Error.COORDINATOR_NOT_AVAILABLE),
        (Error.NOT_LEADER_OR_FOLLOWER, Error.NOT_COORDINATOR),
        (Error.KAFKA_STORAGE_ERROR, Error.NOT_COORDINATOR),
        (Error.MESSAGE_TOO_LARGE, Error.UNKNOWN_SERVER_ERROR),
        (Error.RECORD_LIST_TOO_LARGE, Error.UNKNOWN_SERVER_ERROR),
        (Error.INVALID_FETCH_SIZE, Error.UNKNOWN_SERVER_ERROR),
        (Error.CORRUPT_MESSAGE, Error.CORRUPT_MESSAGE),
    ],
)
def test_failed_assignment_write_rebalances(room: Room, write: Error, answer: Error) -> None:
    a, b = room.settled("a", "b")
    a.join()
    b.join()
    room.fail_next_write(write)
    before = room.events.mark()
    syncing = [b.sync(), a.sync()]

    assert [call.answer for call in syncing] == [SyncGroupResponse(answer)] * 2
    assert (room.state, room.generation) == (PR, 2)
    assert [member.assignment for member in room.describe().members] == [b"", b""]
    (failed,) = room.events.since(before, EventKind.REBALANCE_FAILED)
    assert isinstance(failed.detail, RebalanceFailed)
    assert failed.detail.error == answer.name
    assert len(room.events.since(before, EventKind.REBALANCE_STARTED)) == 1
    room.rebalance(a, b)
    assert room.generation == 3


@pytest.mark.proves("SG-09")
def test_sync_in_stable_group_is_immediate(room: Room) -> None:
    a, b = room.settled("a", "b")

    assert a.sync([]).answer == a.synced_answer()
    assert b.sync().answer == b.synced_answer()
    assert a.sync([(b.id, b"something else")]).answer == a.synced_answer()
    assert b.sync().answer == b.synced_answer(), "a leader's second thoughts change nothing"


@pytest.mark.proves("SG-09", "SE-01")
def test_sync_with_a_stable_group_does_not_extend_the_session(room: Room) -> None:
    a, b = room.settled("a", "b")
    room.pass_ms(SESSION_MS - 1, beating=[a])
    b.sync()
    room.pass_ms(1)

    assert room.member_ids == {a.id}


@pytest.mark.proves("SG-10", "SE-01")
def test_sync_response_restarts_session(room: Room) -> None:
    a, b = completing(room, "a", "b")
    b.sync()
    room.pass_ms(9_000, beating=[a])
    a.sync()
    room.pass_ms(SESSION_MS - 1, beating=[a])
    assert room.member_ids == {a.id, b.id}
    room.pass_ms(1)

    assert room.member_ids == {a.id}


@pytest.mark.proves("SG-10", "SE-03")
def test_even_a_sync_sent_back_restarts_the_session(room: Room) -> None:
    a, b = completing(room, "a", "b")
    syncing = b.sync()
    room.pass_ms(30_000, beating=[a])
    assert syncing.parked
    room.member("c").join()
    assert syncing.answer == SyncGroupResponse(Error.REBALANCE_IN_PROGRESS)
    room.pass_ms(SESSION_MS - 1, beating=[a])
    assert b.id in room.member_ids
    room.pass_ms(1)

    assert b.id not in room.member_ids


# --- the sync timer ---------------------------------------------------------------------------------------------


@pytest.mark.proves("SG-11")
def test_leader_that_never_syncs_is_removed(room: Room) -> None:
    a, b = completing(room, "a", "b")
    syncing = b.sync()
    before = room.events.mark()
    room.pass_ms(REBALANCE_MS - 1, beating=[a])
    assert (room.state, syncing.parked) == (CR, True)
    room.pass_ms(1)

    assert syncing.answer == SyncGroupResponse(Error.REBALANCE_IN_PROGRESS)
    assert (room.state, room.member_ids) == (PR, {b.id})
    assert a.heartbeat() is Error.UNKNOWN_MEMBER_ID
    (unsynced,) = room.events.since(before, EventKind.MEMBER_UNSYNCED)
    assert unsynced.member == a.id
    assert isinstance(unsynced.detail, MemberTimedOut)
    assert unsynced.detail.timer_ms == REBALANCE_MS
    assert room.rebalances(before) == [(Trigger.SYNC_TIMEOUT, a.id)]


@pytest.mark.proves("SG-11")
def test_follower_that_never_syncs_is_removed(room: Room) -> None:
    a, b = completing(room, "a", "b")
    a.sync()
    assert room.state is S
    room.pass_ms(REBALANCE_MS - 1, beating=[a, b])
    assert (room.state, room.member_ids) == (S, {a.id, b.id})
    before = room.events.mark()
    room.pass_ms(1)

    assert (room.state, room.member_ids) == (PR, {a.id})
    assert room.rebalances(before) == [(Trigger.SYNC_TIMEOUT, b.id)]


@pytest.mark.proves("SG-11")
def test_static_member_that_never_syncs_is_removed(room: Room) -> None:
    a, b = completing(room, "a", "b", static=True)
    a.sync()
    room.pass_ms(REBALANCE_MS, beating=[a, b])

    assert room.member_ids == {a.id}


@pytest.mark.proves("SG-12")
def test_when_all_have_synced_the_sync_timer_is_off(room: Room) -> None:
    a, b = room.settled("a", "b")
    room.pass_ms(3 * REBALANCE_MS, beating=[a, b])

    assert (room.state, room.generation, room.member_ids) == (S, 1, {a.id, b.id})


@pytest.mark.proves("SG-12")
def test_sync_to_the_stable_group_satisfies_the_sync_timer(room: Room) -> None:
    a, b = completing(room, "a", "b")
    a.sync()
    room.pass_ms(REBALANCE_MS - 1, beating=[a, b])
    b.sync()
    room.pass_ms(REBALANCE_MS, beating=[a, b])

    assert (room.state, room.member_ids) == (S, {a.id, b.id})


@pytest.mark.proves("SG-12")
def test_new_rebalance_turns_the_old_sync_timer_off(room: Room) -> None:
    a, b = completing(room, "a", "b")
    room.pass_ms(40_000, beating=[a, b])
    c = room.member("c")
    c.join()
    a.join()
    b.join()
    assert (room.state, room.generation) == (CR, 2)
    room.pass_ms(REBALANCE_MS - 1, beating=[a, b, c])

    assert (room.state, room.member_ids) == (CR, {a.id, b.id, c.id}), "20 s past the first timer's deadline"


@pytest.mark.proves("SG-13")
def test_leader_leaving_while_completing_fails_syncs(room: Room) -> None:
    a, b, c = completing(room, "a", "b", "c")
    following = [b.sync(), c.sync()]
    a.leave()

    assert [call.answer for call in following] == [SyncGroupResponse(Error.REBALANCE_IN_PROGRESS)] * 2
    assert (room.state, room.member_ids) == (PR, {b.id, c.id})


@pytest.mark.proves("SG-13", "SE-02")
def test_leader_expiring_while_completing_fails_syncs(room: Room) -> None:
    a, b = completing(room, "a", "b")
    syncing = b.sync()
    before = room.events.mark()
    room.pass_ms(SESSION_MS)

    assert syncing.answer == SyncGroupResponse(Error.REBALANCE_IN_PROGRESS)
    assert room.rebalances(before) == [(Trigger.SESSION_TIMEOUT, a.id)]
    assert (room.state, room.member_ids) == (PR, {b.id})
