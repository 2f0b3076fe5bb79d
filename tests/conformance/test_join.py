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

from .coordinator_harness import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    CoordinatorHarness,
    join_protocols,
    subscription,
)

E = GroupState.EMPTY
PR = GroupState.PREPARING_REBALANCE
CR = GroupState.COMPLETING_REBALANCE
S = GroupState.STABLE


# --- request checks ---------------------------------------------------------------------------------------------------


@pytest.mark.proves("JG-01")
@pytest.mark.parametrize("group_id", [None, ""])
def test_join_without_group_id_is_rejected(harness: CoordinatorHarness, group_id: str | None) -> None:
    a = harness.member("a")
    a.group_id = group_id  # type: ignore[assignment]
    a.id = "someone"

    assert a.send_join().response == JoinGroupResponse(Error.INVALID_GROUP_ID, member_id="someone")
    assert dict(harness.coordinator.groups) == {}


@pytest.mark.proves("JG-02")
@pytest.mark.parametrize("session_timeout_ms", [5_999, 1_800_001, 0, -1])
def test_session_timeout_out_of_bounds_is_rejected(harness: CoordinatorHarness, session_timeout_ms: int) -> None:
    a, _ = harness.stable_group("a", "b")
    before, log = harness.snapshot(), len(harness.log)
    a.session_timeout_ms = session_timeout_ms

    assert a.join().response == JoinGroupResponse(Error.INVALID_SESSION_TIMEOUT, member_id=a.id)
    assert (harness.snapshot(), len(harness.log)) == (before, log)


@pytest.mark.proves("JG-02")
@pytest.mark.parametrize("session_timeout_ms", [6_000, 1_800_000])
def test_session_timeout_bounds_are_inclusive(harness: CoordinatorHarness, session_timeout_ms: int) -> None:
    a = harness.member("a", session_timeout_ms=session_timeout_ms)

    assert a.send_join().response.error is Error.MEMBER_ID_REQUIRED


@pytest.mark.proves("JG-02")
def test_rejected_session_timeout_creates_no_group(harness: CoordinatorHarness) -> None:
    a = harness.member("a", session_timeout_ms=1)

    assert a.send_join().response == JoinGroupResponse(Error.INVALID_SESSION_TIMEOUT)
    assert dict(harness.coordinator.groups) == {}


@pytest.mark.proves("JG-03")
def test_member_id_in_missing_group_is_unknown(harness: CoordinatorHarness) -> None:
    a = harness.member("a")
    a.id = "a-from-before"

    assert a.join().response == JoinGroupResponse(Error.UNKNOWN_MEMBER_ID, member_id="a-from-before")
    assert dict(harness.coordinator.groups) == {}


@pytest.mark.proves("JG-04")
def test_first_join_writes_empty_group_record(harness: CoordinatorHarness) -> None:
    harness.member("a").send_join()

    (record,) = harness.log
    assert isinstance(record, GroupMetadata)
    assert record.value is not None
    assert (record.group_id, record.value.generation_id, record.value.members) == (GROUP, 0, ())
    assert record.value.protocol_name is None
    assert record.value.leader is None


@pytest.mark.proves("JG-05")
@pytest.mark.parametrize(("protocol_type", "protocols"), [("", join_protocols("range")), ("consumer", ())])
def test_rejected_first_join_creates_no_group(
    harness: CoordinatorHarness, protocol_type: str, protocols: tuple[JoinProtocol, ...]
) -> None:
    """A deliberate difference: Kafka 4.3.1 creates the empty group."""
    a = harness.member("a", protocol_type=protocol_type, protocols=protocols)

    assert a.send_join().response == JoinGroupResponse(Error.INCONSISTENT_GROUP_PROTOCOL)
    assert not harness.coordinator.groups
    assert not harness.log


@pytest.mark.proves("JG-04", "SG-08")
@pytest.mark.parametrize(
    ("write", "response"),
    [
        (Error.NOT_ENOUGH_REPLICAS, Error.COORDINATOR_NOT_AVAILABLE),
        (Error.NOT_LEADER_OR_FOLLOWER, Error.NOT_COORDINATOR),
        (Error.RECORD_LIST_TOO_LARGE, Error.UNKNOWN_SERVER_ERROR),
    ],
)
def test_failed_first_write_removes_group(harness: CoordinatorHarness, write: Error, response: Error) -> None:
    harness.fail_next_write(write)
    join_call = harness.member("a", requires_known_id=False).join()

    assert join_call.response == JoinGroupResponse(response)
    assert dict(harness.coordinator.groups) == {}
    harness.advance_ms(600_000)
    assert dict(harness.coordinator.groups) == {}


@pytest.mark.proves("JG-04")
def test_failed_first_write_removes_group_with_pending_id(harness: CoordinatorHarness) -> None:
    harness.fail_next_write(Error.REQUEST_TIMED_OUT)
    harness.member("a").send_join()

    assert dict(harness.coordinator.groups) == {}


@pytest.mark.proves("JG-04")
def test_failed_first_write_fails_parked_joins() -> None:
    harness = CoordinatorHarness(group_initial_rebalance_delay_ms=0)
    harness.hold_writes()
    a = harness.member("a", requires_known_id=False)
    join_call = a.join()
    sync_call = a.sync() if not join_call.parked else None
    harness.release_writes(Error.NOT_ENOUGH_REPLICAS)

    assert len(join_call.responses) == 1
    assert sync_call is None or sync_call.response == SyncGroupResponse(Error.COORDINATOR_NOT_AVAILABLE)
    assert dict(harness.coordinator.groups) == {}


@pytest.mark.proves("JG-05")
@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("", join_protocols("range")), ("consumer", ()), ("", ())],
    ids=["type", "list", "both"],
)
def test_empty_group_rejects_join_without_protocols(
    harness: CoordinatorHarness, protocol_type: str, protocols: tuple[JoinProtocol, ...]
) -> None:
    (a,) = harness.stable_group("a")
    a.leave()
    b = harness.member("b", protocol_type=protocol_type, protocols=protocols)
    before = harness.events.mark()

    assert b.send_join().response == JoinGroupResponse(Error.INCONSISTENT_GROUP_PROTOCOL)
    assert (harness.state, dict(harness.group.pending_members)) == (E, {})
    (event,) = harness.events.since(before)
    assert (event.kind, event.detail) == (EventKind.JOIN_REFUSED, JoinRefused("INCONSISTENT_GROUP_PROTOCOL"))


@pytest.mark.proves("JG-06")
@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("connect", join_protocols("range")), ("consumer", join_protocols("sticky")), ("consumer", ())],
    ids=["other type", "no common protocol", "no protocol"],
)
def test_inconsistent_new_member_is_rejected_without_id(
    harness: CoordinatorHarness, protocol_type: str, protocols: tuple[JoinProtocol, ...]
) -> None:
    harness.stable_group("a", "b")
    before = harness.snapshot()
    c = harness.member("c", protocol_type=protocol_type, protocols=protocols)

    assert c.send_join().response == JoinGroupResponse(Error.INCONSISTENT_GROUP_PROTOCOL)
    assert harness.snapshot() == before


@pytest.mark.proves("JG-06")
def test_inconsistent_member_is_rejected_with_its_id(harness: CoordinatorHarness) -> None:
    harness.stable_group("a")
    b = harness.member("b")
    b.join()
    before = harness.snapshot()
    b.protocols = join_protocols("sticky")

    assert b.join().response == JoinGroupResponse(Error.INCONSISTENT_GROUP_PROTOCOL, member_id=b.id)
    assert harness.snapshot() == before


@pytest.mark.proves("JG-06")
def test_inconsistent_pending_member_stays_pending(harness: CoordinatorHarness) -> None:
    harness.stable_group("a")
    b = harness.member("b")
    b.send_join()
    b.protocols = join_protocols("sticky")

    assert b.send_join().response == JoinGroupResponse(Error.INCONSISTENT_GROUP_PROTOCOL, member_id=b.id)
    assert (harness.state, set(harness.group.pending_members)) == (S, {b.id})


@pytest.mark.proves("JG-06")
def test_single_member_cannot_switch_protocols(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    before = harness.snapshot()
    a.protocols = join_protocols("sticky")

    assert a.join().response == JoinGroupResponse(Error.INCONSISTENT_GROUP_PROTOCOL, member_id=a.id)
    assert harness.snapshot() == before


# --- new members ------------------------------------------------------------------------------------------------------


@pytest.mark.proves("JG-07")
def test_old_client_joins_without_pending_id(harness: CoordinatorHarness) -> None:
    a = harness.member("a", requires_known_id=False)
    join_call = a.send_join()

    assert join_call.parked
    assert harness.member_ids == {"a-uuid-1"}
    assert dict(harness.group.pending_members) == {}
    harness.end_initial_delay()
    assert join_call.response == JoinGroupResponse(
        Error.NONE,
        member_id="a-uuid-1",
        generation_id=1,
        protocol_type="consumer",
        protocol_name="range",
        leader="a-uuid-1",
        members=(a.as_listed(),),
    )
    (joined,) = harness.events.of(EventKind.MEMBER_JOINED)
    assert (joined.member, joined.instance, joined.client, joined.host) == ("a-uuid-1", None, "a", "/10.0.0.1")
    assert isinstance(joined.detail, MemberJoined)
    assert (joined.detail.session_timeout_ms, joined.detail.rebalance_timeout_ms) == (SESSION_MS, REBALANCE_MS)
    assert joined.detail.assignors == ("range",)


@pytest.mark.proves("JG-15")
@pytest.mark.parametrize("stage", ["stable", "preparing", "completing"])
def test_unknown_member_id_is_rejected(harness: CoordinatorHarness, stage: str) -> None:
    members = harness.completing_group("a", "b")
    if stage != "completing":
        harness.sync(*members)
    if stage == "preparing":
        members[0].join()
    before = harness.snapshot()
    unknown = harness.member("x")
    unknown.id = "x-unknown"

    assert unknown.join().response == JoinGroupResponse(Error.UNKNOWN_MEMBER_ID, member_id="x-unknown")
    assert harness.snapshot() == before


@pytest.mark.proves("JG-23")
def test_former_member_id_of_empty_group_is_unknown(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    a.leave()

    assert a.join().response == JoinGroupResponse(Error.UNKNOWN_MEMBER_ID, member_id=a.id)
    assert (harness.state, harness.generation) == (E, 2)


@pytest.mark.proves("JG-51")
@pytest.mark.parametrize(
    ("reason", "expected"), [(None, "not provided"), ("", "not provided"), ("rolling out 1.2", "rolling out 1.2")]
)
def test_missing_reason_is_not_provided(harness: CoordinatorHarness, reason: str | None, expected: str) -> None:
    a = harness.member("a", requires_known_id=False)
    a.join(reason)

    (started,) = harness.events.of(EventKind.REBALANCE_STARTED)
    (member_id,) = harness.member_ids
    assert isinstance(started.detail, RebalanceStarted)
    assert (started.detail.culprit, started.detail.old_generation, started.detail.initial_delay) == (member_id, 0, True)
    assert (
        started.detail.reason == f"Adding new member {member_id} with group instance id null; client reason: {expected}"
    )


# --- rejoins ----------------------------------------------------------------------------------------------------------


@pytest.mark.proves("JG-17")
def test_unchanged_leader_rejoin_starts_rebalance(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    before = harness.events.mark()
    join_call = a.join()

    assert join_call.parked
    assert (harness.state, harness.generation) == (PR, 1)
    assert harness.rebalances(before) == [(Trigger.LEADER_REJOIN, a.id)]
    assert b.heartbeat() is Error.REBALANCE_IN_PROGRESS


@pytest.mark.proves("JG-17")
def test_single_leader_rejoin_completes_at_once(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")

    assert a.join().response == a.expected_join_response(generation=2, leader=a.id, members=[a])
    assert harness.state is CR


@pytest.mark.proves("JG-18")
def test_unchanged_follower_rejoin_gets_current_generation(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    before = harness.events.mark()

    assert b.join().response == b.expected_join_response(generation=1, leader=a.id)
    assert (harness.state, harness.generation, harness.rebalances(before)) == (S, 1, [])
    assert b.sync().response == b.expected_sync_response()


@pytest.mark.proves("JG-18", "SE-01", "JG-25")
def test_unchanged_follower_rejoin_keeps_session_deadline(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    harness.advance_ms(SESSION_MS - 1)
    a.heartbeat()
    b.join()
    harness.advance_ms(1)

    assert harness.member_ids == {a.id}


@pytest.mark.proves("JG-18", "SE-01", "JG-25")
def test_unchanged_rejoin_keeps_running_timer(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    b.session_timeout_ms = 600_000
    b.join()
    harness.advance_ms(SESSION_MS - 1, heartbeating=[a])
    assert harness.member_ids == {a.id, b.id}
    harness.advance_ms(1)

    assert harness.member_ids == {a.id}


@pytest.mark.proves("JG-19")
def test_changed_follower_rejoin_starts_rebalance(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    before = harness.events.mark()
    b.protocols = join_protocols("range", topics=["t", "u"])
    join_call = b.join()

    assert join_call.parked
    assert harness.state is PR
    assert harness.rebalances(before) == [(Trigger.SUBSCRIPTION_CHANGE, b.id)]
    assert a.join().response == a.expected_join_response(generation=2, leader=a.id, members=[a, b])


@pytest.mark.proves("JG-18", "JG-19")
def test_protocol_order_counts_as_change(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b", protocols=join_protocols("range", "sticky"))
    b.protocols = b.protocols[::-1]
    join_call = b.join()

    assert join_call.parked
    assert harness.state is PR
    assert a.heartbeat() is Error.REBALANCE_IN_PROGRESS


@pytest.mark.proves("JG-20")
def test_unchanged_rejoin_while_completing_gets_generation(harness: CoordinatorHarness) -> None:
    a, b = harness.completing_group("a", "b")

    assert b.join().response == b.expected_join_response(generation=1, leader=a.id)
    leader = a.join().response
    assert (leader.generation_id, leader.leader, set(leader.members)) == (1, a.id, {a.as_listed(), b.as_listed()})
    assert (harness.state, harness.generation) == (CR, 1)


@pytest.mark.proves("JG-20")
def test_unchanged_rejoin_while_completing_keeps_syncs_parked(harness: CoordinatorHarness) -> None:
    a, b = harness.completing_group("a", "b")
    sync_call = b.sync()
    b.join()

    assert sync_call.parked
    a.sync()
    assert sync_call.response == b.expected_sync_response()


@pytest.mark.proves("JG-20", "SE-01")
def test_rejoin_while_completing_keeps_session_deadline(harness: CoordinatorHarness) -> None:
    a, b = harness.completing_group("a", "b")
    harness.advance_ms(SESSION_MS - 1, heartbeating=[a])
    b.join()
    harness.advance_ms(1)

    assert harness.member_ids == {a.id}


@pytest.mark.proves("JG-22")
def test_rejoin_event_reports_metadata_change(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    before = harness.events.mark()
    b.protocols = join_protocols("range", "sticky", topics=["u"])
    b.join("subscription has changed")
    a.join()
    details = {event.member: event.detail for event in harness.events.since(before, EventKind.MEMBER_REJOINED)}

    assert set(details) == {a.id, b.id}
    changed, unchanged = details[b.id], details[a.id]
    assert isinstance(changed, MemberJoined)
    assert (changed.metadata_changed, changed.assignors) == (True, ("range", "sticky"))
    assert changed.reason == "subscription has changed"
    assert isinstance(unchanged, MemberJoined)
    assert unchanged.metadata_changed is False


@pytest.mark.proves("JG-21", "ST-10")
def test_changed_rejoin_while_completing_starts_rebalance(harness: CoordinatorHarness) -> None:
    a, b, c = harness.completing_group("a", "b", "c")
    before = harness.events.mark()
    sync_call = c.sync()
    b.protocols = join_protocols("range", topics=["u"])
    join_call = b.join()

    assert join_call.parked
    assert sync_call.response == SyncGroupResponse(Error.REBALANCE_IN_PROGRESS)
    assert (harness.state, harness.generation) == (PR, 1)
    assert harness.rebalances(before) == [(Trigger.SUBSCRIPTION_CHANGE, b.id)]
    assert a.heartbeat() is Error.REBALANCE_IN_PROGRESS


@pytest.mark.proves("JG-22")
def test_last_metadata_of_repeated_joins_counts(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    a.join()
    a.protocols = join_protocols("range", topics=["u"])
    join_call = a.join()
    b.join()

    assert set(join_call.response.members) == {a.as_listed(), b.as_listed()}
    assert a.as_listed().metadata == subscription("u")


@pytest.mark.proves("JG-22", "JG-25")
def test_rejoin_replaces_timeouts(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    b.leave()
    a.session_timeout_ms, a.rebalance_timeout_ms = 20_000, 25_000
    a.join()
    assert harness.state is CR
    harness.advance_ms(19_999)
    assert harness.member_ids == {a.id}
    harness.advance_ms(1)

    assert harness.member_ids == set()


# --- join phase -------------------------------------------------------------------------------------------------------


@pytest.mark.proves("JG-24")
def test_new_parked_member_expires_by_fixed_timer(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a", rebalance_timeout_ms=600_000)
    b = harness.member("b")
    join_call = b.join()
    harness.advance_ms(299_999, heartbeating=[a])
    assert join_call.parked
    before = harness.events.mark()
    harness.advance_ms(1)

    assert join_call.response == JoinGroupResponse(Error.UNKNOWN_MEMBER_ID)
    assert (harness.state, harness.member_ids) == (PR, {a.id})
    (expired,) = harness.events.since(before, EventKind.MEMBER_EXPIRED)
    assert expired.member == b.id
    assert isinstance(expired.detail, MemberTimedOut)
    assert expired.detail.timer_ms == 300_000


@pytest.mark.proves("JG-24")
def test_requests_do_not_restart_fixed_timer(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a", rebalance_timeout_ms=600_000)
    b = harness.member("b")
    b.join()
    harness.advance_ms(200_000, heartbeating=[a])
    b.join()
    harness.advance_ms(99_999, heartbeating=[a])
    assert harness.member_ids == {a.id, b.id}
    harness.advance_ms(1)

    assert harness.member_ids == {a.id}


@pytest.mark.proves("JG-25", "SE-01")
def test_join_response_starts_session(harness: CoordinatorHarness) -> None:
    (a,) = harness.completing_group("a")
    harness.advance_ms(SESSION_MS - 1)
    assert harness.member_ids == {a.id}
    harness.advance_ms(1)

    assert (harness.state, harness.member_ids) == (E, set())
    (expired,) = harness.events.of(EventKind.MEMBER_EXPIRED)
    assert isinstance(expired.detail, MemberTimedOut)
    assert expired.detail.timer_ms == SESSION_MS


@pytest.mark.proves("JG-28")
def test_join_phase_ends_when_all_have_joined(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    c = harness.member("c")
    join_calls = [c.join(), a.join()]
    assert [call.parked for call in join_calls] == [True, True]
    join_calls.append(b.join())

    assert [call.responded_ms for call in join_calls] == [harness.now_ms] * 3
    assert (harness.state, harness.generation) == (CR, 2)


@pytest.mark.proves("JG-28", "JG-29")
def test_join_phase_timer_removes_absent_members(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    c = harness.member("c")
    join_calls = [c.join(), a.join()]
    harness.advance_ms(REBALANCE_MS - 1, heartbeating=[b])
    assert (harness.state, harness.member_ids) == (PR, {a.id, b.id, c.id})
    before = harness.events.mark()
    harness.advance_ms(1)

    assert (harness.state, harness.generation, harness.member_ids) == (CR, 2, {a.id, c.id})
    assert all(call.response.error is Error.NONE for call in join_calls)
    (dropped,) = harness.events.since(before, EventKind.MEMBER_DROPPED)
    assert dropped.member == b.id
    assert isinstance(dropped.detail, MemberTimedOut)
    assert dropped.detail.timer_ms == REBALANCE_MS


@pytest.mark.proves("JG-31")
def test_absent_leader_is_replaced(harness: CoordinatorHarness) -> None:
    a, b, c = harness.stable_group("a", "b", "c")
    b.protocols = join_protocols("range", topics=["u"])
    calls = [b.join(), c.join()]
    before = harness.events.mark()
    harness.advance_ms(REBALANCE_MS, heartbeating=[a])

    leader = harness.group.leader_id
    assert leader in {b.id, c.id}
    assert {call.response.leader for call in calls} == {leader}
    (event,) = harness.events.since(before, EventKind.LEADER_CHANGED)
    assert event.member == leader


@pytest.mark.proves("JG-31")
def test_leaving_leader_is_replaced(harness: CoordinatorHarness) -> None:
    a, b, c = harness.stable_group("a", "b", "c")
    a.leave()
    assert harness.group.leader_id in {b.id, c.id}
    harness.rebalance(b, c)

    assert {b.leader, c.leader} == {harness.group.leader_id}


@pytest.mark.proves("JG-32")
def test_only_leader_gets_member_list(harness: CoordinatorHarness) -> None:
    a = harness.member("a", protocols=join_protocols("range", topics=["t"]))
    b = harness.member("b", instance="desk-2", protocols=join_protocols("range", topics=["u"]))
    join_calls = [a.join(), b.join()]
    harness.end_initial_delay()

    assert join_calls[1].response == b.expected_join_response(generation=1, leader=a.id)
    assert set(join_calls[0].response.members) == {
        (a.id, None, subscription("t")),
        (b.id, "desk-2", subscription("u")),
    }


@pytest.mark.proves("JG-32", "JG-33")
def test_leader_gets_metadata_of_selected_protocol(harness: CoordinatorHarness) -> None:
    a = harness.member("a", protocols=(JoinProtocol("range", b"\x00\x00"), JoinProtocol("sticky", b"\x00\x01")))
    b = harness.member("b", protocols=(JoinProtocol("sticky", b"\x00\x02"),))
    join_call = a.join()
    b.join()
    harness.end_initial_delay()

    assert join_call.response.protocol_name == "sticky"
    assert {(member.member_id, member.metadata) for member in join_call.response.members} == {
        (a.id, b"\x00\x01"),
        (b.id, b"\x00\x02"),
    }


@pytest.mark.proves("JG-33")
@pytest.mark.parametrize(
    ("protocols", "selected"),
    [
        ([["range", "sticky"], ["sticky", "range"], ["sticky", "range"]], "sticky"),
        ([["range", "sticky"], ["range"], ["sticky", "range"]], "range"),
        ([["a", "b", "c"], ["c", "b", "d"], ["d", "b"]], "b"),
        ([["x", "b", "c"], ["y", "c", "b"], ["z", "c", "b"]], "c"),
    ],
    ids=["most votes", "supported by all", "only common protocol", "votes count only candidates"],
)
def test_protocol_with_most_votes_is_selected(
    harness: CoordinatorHarness, protocols: list[list[str]], selected: str
) -> None:
    members = [harness.member(f"m{number}", protocols=join_protocols(*names)) for number, names in enumerate(protocols)]
    for member in members:
        member.join()
    harness.end_initial_delay()

    assert harness.group.protocol_name == selected
    assert {member.protocol_name for member in members} == {selected}


@pytest.mark.proves("JG-33")
def test_tie_selects_one_of_the_tied_protocols(harness: CoordinatorHarness) -> None:
    harness.member("a", protocols=join_protocols("range", "sticky")).join()
    harness.member("b", protocols=join_protocols("sticky", "range")).join()
    harness.end_initial_delay()

    assert harness.group.protocol_name in {"range", "sticky"}


# --- group.max.size ---------------------------------------------------------------------------------------------------


@pytest.mark.proves("JG-38")
def test_full_stable_group_rejects_new_member() -> None:
    harness = CoordinatorHarness(group_max_size=2)
    harness.stable_group("a", "b")
    before = harness.snapshot()
    c = harness.member("c", requires_known_id=False)

    assert c.join().response == JoinGroupResponse(Error.GROUP_MAX_SIZE_REACHED)
    assert harness.snapshot() == before


@pytest.mark.proves("JG-38")
def test_full_completing_group_rejects_new_members() -> None:
    harness = CoordinatorHarness(group_max_size=2)
    a, b = harness.completing_group("a", "b")

    assert harness.member("c").join().response == JoinGroupResponse(Error.GROUP_MAX_SIZE_REACHED)
    assert b.join().response == b.expected_join_response(generation=1, leader=a.id)


@pytest.mark.proves("JG-38", "JG-12")
def test_pending_member_of_full_group_is_removed() -> None:
    harness = CoordinatorHarness(group_max_size=1)
    a, b = harness.member("a"), harness.member("b")
    a.send_join()
    b.send_join()
    a.join()
    harness.end_initial_delay()
    harness.sync(a)

    assert b.send_join().response == JoinGroupResponse(Error.GROUP_MAX_SIZE_REACHED)
    assert (harness.state, dict(harness.group.pending_members), harness.member_ids) == (S, {}, {a.id})


@pytest.mark.proves("JG-38")
def test_size_limit_counts_parked_joins_in_rebalance() -> None:
    harness = CoordinatorHarness(group_max_size=2)
    a, b = harness.stable_group("a", "b")
    b.leave()
    c, d = harness.member("c"), harness.member("d", requires_known_id=False)
    assert c.join().parked
    assert harness.state is PR
    assert d.join().parked
    assert c.join().parked
    rejected = a.join()

    assert rejected.response == JoinGroupResponse(Error.GROUP_MAX_SIZE_REACHED)
    assert a.id not in harness.member_ids


@pytest.mark.proves("JG-39", "CO-07")
def test_first_members_to_rejoin_stay_in_full_group() -> None:
    unlimited = CoordinatorHarness()
    members = unlimited.stable_group("a", "b", "c")
    harness = CoordinatorHarness(group_max_size=2)
    harness.log, harness.now_ms = unlimited.log, unlimited.now_ms
    harness.restart()
    a, b, c = members
    for member in members:
        member.harness = harness
    assert harness.state is PR
    calls = [c.join(), b.join(), a.join()]

    assert [call.response.error for call in calls] == [Error.NONE, Error.NONE, Error.GROUP_MAX_SIZE_REACHED]
    assert calls[2].response == JoinGroupResponse(Error.GROUP_MAX_SIZE_REACHED)
    assert (harness.state, harness.member_ids) == (CR, {b.id, c.id})


@pytest.mark.proves("JG-40")
@pytest.mark.parametrize("stage", ["stable", "completing"])
def test_restarted_static_member_counts_as_new_when_full(stage: str) -> None:
    harness = CoordinatorHarness(group_max_size=1)
    a = harness.member("a", instance="desk-1")
    a.join()
    harness.end_initial_delay()
    if stage == "stable":
        a.sync()
    before = harness.snapshot()

    assert a.restarted().join().response == JoinGroupResponse(Error.GROUP_MAX_SIZE_REACHED)
    assert harness.snapshot() == before


@pytest.mark.proves("JG-26")
def test_join_phase_lasts_longest_rebalance_timeout(harness: CoordinatorHarness) -> None:
    a = harness.member("a", rebalance_timeout_ms=30_000)
    b = harness.member("b", rebalance_timeout_ms=50_000)
    a.join()
    b.join()
    harness.end_initial_delay()
    harness.sync(a, b)
    before = harness.events.mark()
    b.protocols = join_protocols("range", topics=["u"])
    b.join()
    (started,) = harness.events.since(before, EventKind.REBALANCE_STARTED)
    assert isinstance(started.detail, RebalanceStarted)
    assert (started.detail.timeout_ms, started.detail.initial_delay) == (50_000, False)
    harness.advance_ms(49_999, heartbeating=[a])
    assert harness.state is PR
    harness.advance_ms(1)

    assert (harness.state, harness.member_ids) == (CR, {b.id})


@pytest.mark.proves("JG-26")
def test_later_member_does_not_extend_join_phase(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b", rebalance_timeout_ms=30_000)
    b.leave()
    c = harness.member("c", rebalance_timeout_ms=300_000)
    c.join()
    harness.advance_ms(29_999, heartbeating=[a])
    assert harness.state is PR
    harness.advance_ms(1)

    assert (harness.state, harness.member_ids) == (CR, {c.id})
