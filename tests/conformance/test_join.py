"""Section 2 of the catalogue: JoinGroup of dynamic members, protocols, leaders, size limits."""

import pytest

from slackwater.group.coordinator.records import GroupMetadata
from slackwater.group.errors import Error
from slackwater.group.events import (
    EventKind,
    GroupState,
    JoinRefused,
    MemberJoined,
    MemberTimedOut,
    RebalanceStarted,
    Trigger,
)
from slackwater.group.messages import JoinGroupResponse, JoinProtocol, SyncGroupResponse

from .room import GROUP, REBALANCE_MS, SESSION_MS, Member, Room, offering, subscription

E = GroupState.EMPTY
PR = GroupState.PREPARING_REBALANCE
CR = GroupState.COMPLETING_REBALANCE
S = GroupState.STABLE


def completing(room: Room, *names: str) -> list[Member]:
    """Members of a generation that waits for its leader's assignment; the first leads."""
    members = [room.member(name) for name in names]
    for member in members:
        member.join()
    room.end_initial_delay()
    assert room.state is CR
    return members


# --- who may ask ------------------------------------------------------------------------------------------------


@pytest.mark.proves("JG-01")
@pytest.mark.parametrize("group_id", [None, ""])
def test_join_without_a_group_id_is_refused(room: Room, group_id: str | None) -> None:
    a = room.member("a")
    a.group_id = group_id  # type: ignore[assignment]
    a.id = "someone"

    assert a.ask_to_join().answer == JoinGroupResponse(Error.INVALID_GROUP_ID, member_id="someone")
    assert dict(room.coordinator.groups) == {}


@pytest.mark.proves("JG-02")
@pytest.mark.parametrize("session_timeout_ms", [5_999, 1_800_001, 0, -1])
def test_session_timeout_out_of_bounds_is_rejected(room: Room, session_timeout_ms: int) -> None:
    a, _ = room.settled("a", "b")
    before, log = room.snapshot(), len(room.log)
    a.session_timeout_ms = session_timeout_ms

    assert a.join().answer == JoinGroupResponse(Error.INVALID_SESSION_TIMEOUT, member_id=a.id)
    assert (room.snapshot(), len(room.log)) == (before, log)


@pytest.mark.proves("JG-02")
@pytest.mark.parametrize("session_timeout_ms", [6_000, 1_800_000])
def test_session_timeout_bounds_are_inclusive(room: Room, session_timeout_ms: int) -> None:
    a = room.member("a", session_timeout_ms=session_timeout_ms)

    assert a.ask_to_join().answer.error is Error.MEMBER_ID_REQUIRED


@pytest.mark.proves("JG-02")
def test_rejected_session_timeout_creates_no_group(room: Room) -> None:
    a = room.member("a", session_timeout_ms=1)

    assert a.ask_to_join().answer == JoinGroupResponse(Error.INVALID_SESSION_TIMEOUT)
    assert dict(room.coordinator.groups) == {}


@pytest.mark.proves("JG-03")
def test_member_id_in_missing_group_is_unknown(room: Room) -> None:
    a = room.member("a")
    a.id = "a-from-before"

    assert a.join().answer == JoinGroupResponse(Error.UNKNOWN_MEMBER_ID, member_id="a-from-before")
    assert dict(room.coordinator.groups) == {}


@pytest.mark.proves("JG-04")
def test_first_join_writes_empty_group_record(room: Room) -> None:
    room.member("a").ask_to_join()

    (record,) = room.log
    assert isinstance(record, GroupMetadata)
    assert record.value is not None
    assert (record.group_id, record.value.generation_id, record.value.members) == (GROUP, 0, ())
    assert record.value.protocol_name is None
    assert record.value.leader is None


@pytest.mark.proves("JG-05")
@pytest.mark.parametrize(("protocol_type", "protocols"), [("", offering("range")), ("consumer", ())])
def test_first_join_that_is_refused_leaves_no_group_behind(
    room: Room, protocol_type: str, protocols: tuple[JoinProtocol, ...]
) -> None:
    """A deliberate difference: Kafka 4.3.1 creates the empty group all the same."""
    a = room.member("a", protocol_type=protocol_type, protocols=protocols)

    assert a.ask_to_join().answer == JoinGroupResponse(Error.INCONSISTENT_GROUP_PROTOCOL)
    assert not room.coordinator.groups
    assert not room.log


@pytest.mark.proves("JG-04", "SG-08")
@pytest.mark.parametrize(
    ("write", "answer"),
    [
        (Error.NOT_ENOUGH_REPLICAS, Error.COORDINATOR_NOT_AVAILABLE),
        (Error.NOT_LEADER_OR_FOLLOWER, Error.NOT_COORDINATOR),
        (Error.RECORD_LIST_TOO_LARGE, Error.UNKNOWN_SERVER_ERROR),
    ],
)
def test_group_whose_first_record_cannot_be_written_is_gone(room: Room, write: Error, answer: Error) -> None:
    room.fail_next_write(write)
    joining = room.member("a", two_steps=False).join()

    assert joining.answer == JoinGroupResponse(answer)
    assert dict(room.coordinator.groups) == {}
    room.pass_ms(600_000)
    assert dict(room.coordinator.groups) == {}


@pytest.mark.proves("JG-04")
def test_failed_first_write_removes_group_with_pending_id(room: Room) -> None:
    room.fail_next_write(Error.REQUEST_TIMED_OUT)
    room.member("a").ask_to_join()

    assert dict(room.coordinator.groups) == {}


@pytest.mark.proves("JG-04")
def test_failed_first_write_fails_parked_joins() -> None:
    room = Room(group_initial_rebalance_delay_ms=0)
    room.hold_writes()
    a = room.member("a", two_steps=False)
    joining = a.join()
    syncing = a.sync() if not joining.parked else None
    room.release_writes(Error.NOT_ENOUGH_REPLICAS)

    assert len(joining.answers) == 1
    assert syncing is None or syncing.answer == SyncGroupResponse(Error.COORDINATOR_NOT_AVAILABLE)
    assert dict(room.coordinator.groups) == {}


@pytest.mark.proves("JG-05")
@pytest.mark.parametrize(
    ("protocol_type", "protocols"), [("", offering("range")), ("consumer", ()), ("", ())], ids=["type", "list", "both"]
)
def test_empty_group_rejects_join_without_protocols(
    room: Room, protocol_type: str, protocols: tuple[JoinProtocol, ...]
) -> None:
    (a,) = room.settled("a")
    a.leave()
    b = room.member("b", protocol_type=protocol_type, protocols=protocols)
    before = room.events.mark()

    assert b.ask_to_join().answer == JoinGroupResponse(Error.INCONSISTENT_GROUP_PROTOCOL)
    assert (room.state, dict(room.group.pending)) == (E, {})
    (refused,) = room.events.since(before)
    assert (refused.kind, refused.detail) == (EventKind.JOIN_REFUSED, JoinRefused("INCONSISTENT_GROUP_PROTOCOL"))


@pytest.mark.proves("JG-06")
@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("connect", offering("range")), ("consumer", offering("sticky")), ("consumer", ())],
    ids=["other type", "no common protocol", "no protocol"],
)
def test_newcomer_that_does_not_fit_is_refused_with_no_id(
    room: Room, protocol_type: str, protocols: tuple[JoinProtocol, ...]
) -> None:
    room.settled("a", "b")
    before = room.snapshot()
    c = room.member("c", protocol_type=protocol_type, protocols=protocols)

    assert c.ask_to_join().answer == JoinGroupResponse(Error.INCONSISTENT_GROUP_PROTOCOL)
    assert room.snapshot() == before


@pytest.mark.proves("JG-06")
def test_inconsistent_member_is_rejected_with_its_id(room: Room) -> None:
    room.settled("a")
    b = room.member("b")
    b.join()
    before = room.snapshot()
    b.protocols = offering("sticky")

    assert b.join().answer == JoinGroupResponse(Error.INCONSISTENT_GROUP_PROTOCOL, member_id=b.id)
    assert room.snapshot() == before


@pytest.mark.proves("JG-06")
def test_inconsistent_pending_member_stays_pending(room: Room) -> None:
    room.settled("a")
    b = room.member("b")
    b.ask_to_join()
    b.protocols = offering("sticky")

    assert b.ask_to_join().answer == JoinGroupResponse(Error.INCONSISTENT_GROUP_PROTOCOL, member_id=b.id)
    assert (room.state, set(room.group.pending)) == (S, {b.id})


@pytest.mark.proves("JG-06")
def test_single_member_cannot_switch_protocols(room: Room) -> None:
    (a,) = room.settled("a")
    before = room.snapshot()
    a.protocols = offering("sticky")

    assert a.join().answer == JoinGroupResponse(Error.INCONSISTENT_GROUP_PROTOCOL, member_id=a.id)
    assert room.snapshot() == before


# --- becoming a member ------------------------------------------------------------------------------------------


@pytest.mark.proves("JG-07")
def test_old_client_joins_without_a_pending_id(room: Room) -> None:
    a = room.member("a", two_steps=False)
    joining = a.ask_to_join()

    assert joining.parked
    assert room.member_ids == {"a-uuid-1"}
    assert dict(room.group.pending) == {}
    room.end_initial_delay()
    assert joining.answer == JoinGroupResponse(
        Error.NONE,
        member_id="a-uuid-1",
        generation_id=1,
        protocol_type="consumer",
        protocol_name="range",
        leader="a-uuid-1",
        members=(a.as_listed(),),
    )
    (joined,) = room.events.of(EventKind.MEMBER_JOINED)
    assert (joined.member, joined.instance, joined.client, joined.host) == ("a-uuid-1", None, "a", "/10.0.0.1")
    assert isinstance(joined.detail, MemberJoined)
    assert (joined.detail.session_timeout_ms, joined.detail.rebalance_timeout_ms) == (SESSION_MS, REBALANCE_MS)
    assert joined.detail.assignors == ("range",)


@pytest.mark.proves("JG-15")
@pytest.mark.parametrize("stage", ["stable", "preparing", "completing"])
def test_id_that_is_neither_member_nor_pending_is_unknown(room: Room, stage: str) -> None:
    members = completing(room, "a", "b")
    if stage != "completing":
        room.sync(*members)
    if stage == "preparing":
        members[0].join()
    before = room.snapshot()
    stranger = room.member("x")
    stranger.id = "x-from-nowhere"

    assert stranger.join().answer == JoinGroupResponse(Error.UNKNOWN_MEMBER_ID, member_id="x-from-nowhere")
    assert room.snapshot() == before


@pytest.mark.proves("JG-23")
def test_id_from_before_the_group_emptied_is_unknown(room: Room) -> None:
    (a,) = room.settled("a")
    a.leave()

    assert a.join().answer == JoinGroupResponse(Error.UNKNOWN_MEMBER_ID, member_id=a.id)
    assert (room.state, room.generation) == (E, 2)


@pytest.mark.proves("JG-51")
@pytest.mark.parametrize(
    ("reason", "told"), [(None, "not provided"), ("", "not provided"), ("rolling out 1.2", "rolling out 1.2")]
)
def test_missing_reason_is_not_provided(room: Room, reason: str | None, told: str) -> None:
    a = room.member("a", two_steps=False)
    a.join(reason)

    (started,) = room.events.of(EventKind.REBALANCE_STARTED)
    (member_id,) = room.member_ids
    assert isinstance(started.detail, RebalanceStarted)
    assert (started.detail.culprit, started.detail.old_generation, started.detail.initial_delay) == (member_id, 0, True)
    assert started.detail.reason == f"Adding new member {member_id} with group instance id null; client reason: {told}"


# --- joining again ----------------------------------------------------------------------------------------------


@pytest.mark.proves("JG-17")
def test_unchanged_leader_rejoin_starts_rebalance(room: Room) -> None:
    a, b = room.settled("a", "b")
    before = room.events.mark()
    joining = a.join()

    assert joining.parked
    assert (room.state, room.generation) == (PR, 1)
    assert room.rebalances(before) == [(Trigger.LEADER_REJOIN, a.id)]
    assert b.heartbeat() is Error.REBALANCE_IN_PROGRESS


@pytest.mark.proves("JG-17")
def test_single_leader_rejoin_completes_at_once(room: Room) -> None:
    (a,) = room.settled("a")

    assert a.join().answer == a.joined_answer(generation=2, leader=a.id, members=[a])
    assert room.state is CR


@pytest.mark.proves("JG-18")
def test_unchanged_follower_rejoin_gets_current_generation(room: Room) -> None:
    a, b = room.settled("a", "b")
    before = room.events.mark()

    assert b.join().answer == b.joined_answer(generation=1, leader=a.id)
    assert (room.state, room.generation, room.rebalances(before)) == (S, 1, [])
    assert b.sync().answer == b.synced_answer()


@pytest.mark.proves("JG-18", "SE-01", "JG-25")
def test_unchanged_follower_rejoin_keeps_session_deadline(room: Room) -> None:
    a, b = room.settled("a", "b")
    room.pass_ms(SESSION_MS - 1)
    a.heartbeat()
    b.join()
    room.pass_ms(1)

    assert room.member_ids == {a.id}


@pytest.mark.proves("JG-18", "SE-01", "JG-25")
def test_unchanged_rejoin_keeps_running_timer(room: Room) -> None:
    a, b = room.settled("a", "b")
    b.session_timeout_ms = 600_000
    b.join()
    room.pass_ms(SESSION_MS - 1, beating=[a])
    assert room.member_ids == {a.id, b.id}
    room.pass_ms(1)

    assert room.member_ids == {a.id}


@pytest.mark.proves("JG-19")
def test_changed_follower_rejoin_starts_rebalance(room: Room) -> None:
    a, b = room.settled("a", "b")
    before = room.events.mark()
    b.protocols = offering("range", topics=["t", "u"])
    joining = b.join()

    assert joining.parked
    assert room.state is PR
    assert room.rebalances(before) == [(Trigger.SUBSCRIPTION_CHANGE, b.id)]
    assert a.join().answer == a.joined_answer(generation=2, leader=a.id, members=[a, b])


@pytest.mark.proves("JG-18", "JG-19")
def test_same_protocols_in_another_order_count_as_changed(room: Room) -> None:
    a, b = room.settled("a", "b", protocols=offering("range", "sticky"))
    b.protocols = b.protocols[::-1]
    joining = b.join()

    assert joining.parked
    assert room.state is PR
    assert a.heartbeat() is Error.REBALANCE_IN_PROGRESS


@pytest.mark.proves("JG-20")
def test_unchanged_rejoin_while_completing_gets_generation(room: Room) -> None:
    a, b = completing(room, "a", "b")

    assert b.join().answer == b.joined_answer(generation=1, leader=a.id)
    leader = a.join().answer
    assert (leader.generation_id, leader.leader, set(leader.members)) == (1, a.id, {a.as_listed(), b.as_listed()})
    assert (room.state, room.generation) == (CR, 1)


@pytest.mark.proves("JG-20")
def test_unchanged_rejoin_while_completing_keeps_syncs_parked(room: Room) -> None:
    a, b = completing(room, "a", "b")
    syncing = b.sync()
    b.join()

    assert syncing.parked
    a.sync()
    assert syncing.answer == b.synced_answer()


@pytest.mark.proves("JG-20", "SE-01")
def test_rejoin_while_completing_keeps_session_deadline(room: Room) -> None:
    a, b = completing(room, "a", "b")
    room.pass_ms(SESSION_MS - 1, beating=[a])
    b.join()
    room.pass_ms(1)

    assert room.member_ids == {a.id}


@pytest.mark.proves("JG-22")
def test_rejoin_event_reports_metadata_change(room: Room) -> None:
    a, b = room.settled("a", "b")
    before = room.events.mark()
    b.protocols = offering("range", "sticky", topics=["u"])
    b.join("subscription has changed")
    a.join()
    told = {event.member: event.detail for event in room.events.since(before, EventKind.MEMBER_REJOINED)}

    assert set(told) == {a.id, b.id}
    changed, unchanged = told[b.id], told[a.id]
    assert isinstance(changed, MemberJoined)
    assert (changed.metadata_changed, changed.assignors) == (True, ("range", "sticky"))
    assert changed.reason == "subscription has changed"
    assert isinstance(unchanged, MemberJoined)
    assert unchanged.metadata_changed is False


@pytest.mark.proves("JG-21", "ST-10")
def test_changed_rejoin_while_completing_starts_rebalance(room: Room) -> None:
    a, b, c = completing(room, "a", "b", "c")
    before = room.events.mark()
    syncing = c.sync()
    b.protocols = offering("range", topics=["u"])
    joining = b.join()

    assert joining.parked
    assert syncing.answer == SyncGroupResponse(Error.REBALANCE_IN_PROGRESS)
    assert (room.state, room.generation) == (PR, 1)
    assert room.rebalances(before) == [(Trigger.SUBSCRIPTION_CHANGE, b.id)]
    assert a.heartbeat() is Error.REBALANCE_IN_PROGRESS


@pytest.mark.proves("JG-22")
def test_last_metadata_of_repeated_joins_counts(room: Room) -> None:
    a, b = room.settled("a", "b")
    a.join()
    a.protocols = offering("range", topics=["u"])
    joining = a.join()
    b.join()

    assert set(joining.answer.members) == {a.as_listed(), b.as_listed()}
    assert a.as_listed().metadata == subscription("u")


@pytest.mark.proves("JG-22", "JG-25")
def test_rejoin_replaces_timeouts(room: Room) -> None:
    a, b = room.settled("a", "b")
    b.leave()
    a.session_timeout_ms, a.rebalance_timeout_ms = 20_000, 25_000
    a.join()
    assert room.state is CR
    room.pass_ms(19_999)
    assert room.member_ids == {a.id}
    room.pass_ms(1)

    assert room.member_ids == set()


# --- waiting ----------------------------------------------------------------------------------------------------


@pytest.mark.proves("JG-24")
def test_new_parked_member_expires_by_fixed_timer(room: Room) -> None:
    (a,) = room.settled("a", rebalance_timeout_ms=600_000)
    b = room.member("b")
    joining = b.join()
    room.pass_ms(299_999, beating=[a])
    assert joining.parked
    before = room.events.mark()
    room.pass_ms(1)

    assert joining.answer == JoinGroupResponse(Error.UNKNOWN_MEMBER_ID)
    assert (room.state, room.member_ids) == (PR, {a.id})
    (expired,) = room.events.since(before, EventKind.MEMBER_EXPIRED)
    assert expired.member == b.id
    assert isinstance(expired.detail, MemberTimedOut)
    assert expired.detail.timer_ms == 300_000


@pytest.mark.proves("JG-24")
def test_requests_do_not_restart_fixed_timer(room: Room) -> None:
    (a,) = room.settled("a", rebalance_timeout_ms=600_000)
    b = room.member("b")
    b.join()
    room.pass_ms(200_000, beating=[a])
    b.join()
    room.pass_ms(99_999, beating=[a])
    assert room.member_ids == {a.id, b.id}
    room.pass_ms(1)

    assert room.member_ids == {a.id}


@pytest.mark.proves("JG-25", "SE-01")
def test_join_response_starts_session(room: Room) -> None:
    a = room.member("a")
    a.join()
    room.end_initial_delay()
    room.pass_ms(SESSION_MS - 1)
    assert room.member_ids == {a.id}
    room.pass_ms(1)

    assert (room.state, room.member_ids) == (E, set())
    (expired,) = room.events.of(EventKind.MEMBER_EXPIRED)
    assert isinstance(expired.detail, MemberTimedOut)
    assert expired.detail.timer_ms == SESSION_MS


@pytest.mark.proves("JG-28")
def test_join_phase_ends_when_all_have_joined(room: Room) -> None:
    a, b = room.settled("a", "b")
    c = room.member("c")
    joining = [c.join(), a.join()]
    assert [call.parked for call in joining] == [True, True]
    joining.append(b.join())

    assert [call.answered_ms for call in joining] == [room.now_ms] * 3
    assert (room.state, room.generation) == (CR, 2)


@pytest.mark.proves("JG-28", "JG-29")
def test_join_phase_timer_removes_absent_members(room: Room) -> None:
    a, b = room.settled("a", "b")
    c = room.member("c")
    joining = [c.join(), a.join()]
    room.pass_ms(REBALANCE_MS - 1, beating=[b])
    assert (room.state, room.member_ids) == (PR, {a.id, b.id, c.id})
    before = room.events.mark()
    room.pass_ms(1)

    assert (room.state, room.generation, room.member_ids) == (CR, 2, {a.id, c.id})
    assert all(call.answer.error is Error.NONE for call in joining)
    (dropped,) = room.events.since(before, EventKind.MEMBER_DROPPED)
    assert dropped.member == b.id
    assert isinstance(dropped.detail, MemberTimedOut)
    assert dropped.detail.timer_ms == REBALANCE_MS


@pytest.mark.proves("JG-31")
def test_absent_leader_is_replaced(room: Room) -> None:
    a, b, c = room.settled("a", "b", "c")
    b.protocols = offering("range", topics=["u"])
    calls = [b.join(), c.join()]
    before = room.events.mark()
    room.pass_ms(REBALANCE_MS, beating=[a])

    leader = room.group.leader_id
    assert leader in {b.id, c.id}
    assert {call.answer.leader for call in calls} == {leader}
    (changed,) = room.events.since(before, EventKind.LEADER_CHANGED)
    assert changed.member == leader


@pytest.mark.proves("JG-31")
def test_leaving_leader_is_replaced(room: Room) -> None:
    a, b, c = room.settled("a", "b", "c")
    a.leave()
    assert room.group.leader_id in {b.id, c.id}
    room.rebalance(b, c)

    assert {b.leader, c.leader} == {room.group.leader_id}


@pytest.mark.proves("JG-32")
def test_only_leader_gets_member_list(room: Room) -> None:
    a = room.member("a", protocols=offering("range", topics=["t"]))
    b = room.member("b", instance="desk-2", protocols=offering("range", topics=["u"]))
    joining = [a.join(), b.join()]
    room.end_initial_delay()

    assert joining[1].answer == b.joined_answer(generation=1, leader=a.id)
    assert set(joining[0].answer.members) == {
        (a.id, None, subscription("t")),
        (b.id, "desk-2", subscription("u")),
    }


@pytest.mark.proves("JG-32", "JG-33")
def test_leader_gets_metadata_of_selected_protocol(room: Room) -> None:
    a = room.member("a", protocols=(JoinProtocol("range", b"\x00\x00"), JoinProtocol("sticky", b"\x00\x01")))
    b = room.member("b", protocols=(JoinProtocol("sticky", b"\x00\x02"),))
    joining = a.join()
    b.join()
    room.end_initial_delay()

    assert joining.answer.protocol_name == "sticky"
    assert {(member.member_id, member.metadata) for member in joining.answer.members} == {
        (a.id, b"\x00\x01"),
        (b.id, b"\x00\x02"),
    }


@pytest.mark.proves("JG-33")
@pytest.mark.parametrize(
    ("offers", "chosen"),
    [
        ([["range", "sticky"], ["sticky", "range"], ["sticky", "range"]], "sticky"),
        ([["range", "sticky"], ["range"], ["sticky", "range"]], "range"),
        ([["a", "b", "c"], ["c", "b", "d"], ["d", "b"]], "b"),
        ([["x", "b", "c"], ["y", "c", "b"], ["z", "c", "b"]], "c"),
    ],
    ids=["most votes", "supported by all", "the only common one", "votes count only candidates"],
)
def test_protocol_is_the_candidate_with_the_most_votes(room: Room, offers: list[list[str]], chosen: str) -> None:
    members = [room.member(f"m{number}", protocols=offering(*names)) for number, names in enumerate(offers)]
    for member in members:
        member.join()
    room.end_initial_delay()

    assert room.group.protocol_name == chosen
    assert {member.protocol_name for member in members} == {chosen}


@pytest.mark.proves("JG-33")
def test_tie_selects_one_of_the_tied_protocols(room: Room) -> None:
    room.member("a", protocols=offering("range", "sticky")).join()
    room.member("b", protocols=offering("sticky", "range")).join()
    room.end_initial_delay()

    assert room.group.protocol_name in {"range", "sticky"}


# --- how many ---------------------------------------------------------------------------------------------------


@pytest.mark.proves("JG-38")
def test_full_stable_group_refuses_a_newcomer_with_no_id() -> None:
    room = Room(group_max_size=2)
    room.settled("a", "b")
    before = room.snapshot()
    c = room.member("c", two_steps=False)

    assert c.join().answer == JoinGroupResponse(Error.GROUP_MAX_SIZE_REACHED)
    assert room.snapshot() == before


@pytest.mark.proves("JG-38")
def test_full_completing_group_rejects_new_members() -> None:
    room = Room(group_max_size=2)
    a, b = completing(room, "a", "b")

    assert room.member("c").join().answer == JoinGroupResponse(Error.GROUP_MAX_SIZE_REACHED)
    assert b.join().answer == b.joined_answer(generation=1, leader=a.id)


@pytest.mark.proves("JG-38", "JG-12")
def test_pending_member_of_full_group_is_removed() -> None:
    room = Room(group_max_size=1)
    a, b = room.member("a"), room.member("b")
    a.ask_to_join()
    b.ask_to_join()
    a.join()
    room.end_initial_delay()
    room.sync(a)

    assert b.ask_to_join().answer == JoinGroupResponse(Error.GROUP_MAX_SIZE_REACHED)
    assert (room.state, dict(room.group.pending), room.member_ids) == (S, {}, {a.id})


@pytest.mark.proves("JG-38")
def test_during_a_rebalance_those_parked_are_counted() -> None:
    room = Room(group_max_size=2)
    a, b = room.settled("a", "b")
    b.leave()
    c, d = room.member("c"), room.member("d", two_steps=False)
    assert c.join().parked
    assert room.state is PR
    assert d.join().parked
    assert c.join().parked
    kicked = a.join()

    assert kicked.answer == JoinGroupResponse(Error.GROUP_MAX_SIZE_REACHED)
    assert a.id not in room.member_ids


@pytest.mark.proves("JG-39", "CO-07")
def test_first_members_to_rejoin_stay_in_full_group() -> None:
    roomy = Room()
    members = roomy.settled("a", "b", "c")
    room = Room(group_max_size=2)
    room.log, room.now_ms = roomy.log, roomy.now_ms
    room.restart()
    a, b, c = members
    for member in members:
        member.room = room
    assert room.state is PR
    calls = [c.join(), b.join(), a.join()]

    assert [call.answer.error for call in calls] == [Error.NONE, Error.NONE, Error.GROUP_MAX_SIZE_REACHED]
    assert calls[2].answer == JoinGroupResponse(Error.GROUP_MAX_SIZE_REACHED)
    assert (room.state, room.member_ids) == (CR, {b.id, c.id})


@pytest.mark.proves("JG-40")
@pytest.mark.parametrize("stage", ["stable", "completing"])
def test_restarted_static_member_counts_as_new_when_full(stage: str) -> None:
    room = Room(group_max_size=1)
    a = room.member("a", instance="desk-1")
    a.join()
    room.end_initial_delay()
    if stage == "stable":
        a.sync()
    before = room.snapshot()

    assert a.restarted().join().answer == JoinGroupResponse(Error.GROUP_MAX_SIZE_REACHED)
    assert room.snapshot() == before


@pytest.mark.proves("JG-26")
def test_join_phase_lasts_longest_rebalance_timeout(room: Room) -> None:
    a = room.member("a", rebalance_timeout_ms=30_000)
    b = room.member("b", rebalance_timeout_ms=50_000)
    a.join()
    b.join()
    room.end_initial_delay()
    room.sync(a, b)
    before = room.events.mark()
    b.protocols = offering("range", topics=["u"])
    b.join()
    (started,) = room.events.since(before, EventKind.REBALANCE_STARTED)
    assert isinstance(started.detail, RebalanceStarted)
    assert (started.detail.timeout_ms, started.detail.initial_delay) == (50_000, False)
    room.pass_ms(49_999, beating=[a])
    assert room.state is PR
    room.pass_ms(1)

    assert (room.state, room.member_ids) == (CR, {b.id})


@pytest.mark.proves("JG-26")
def test_later_member_does_not_extend_join_phase(room: Room) -> None:
    a, b = room.settled("a", "b", rebalance_timeout_ms=30_000)
    b.leave()
    c = room.member("c", rebalance_timeout_ms=300_000)
    c.join()
    room.pass_ms(29_999, beating=[a])
    assert room.state is PR
    room.pass_ms(1)

    assert (room.state, room.member_ids) == (CR, {c.id})
