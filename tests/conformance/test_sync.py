"""Section 3 of the catalogue: SyncGroup."""

import pytest

from slackwater.group.coordinator.records import GroupMetadata, StoredGroup, StoredMember
from slackwater.group.errors import Error
from slackwater.group.events import EventKind, GroupState, MemberTimedOut, RebalanceFailed, Trigger
from slackwater.group.messages import SyncGroup, SyncGroupResponse

from .coordinator_harness import GROUP, HOST, REBALANCE_MS, SESSION_MS, CoordinatorHarness, Member, subscription

E = GroupState.EMPTY
PR = GroupState.PREPARING_REBALANCE
CR = GroupState.COMPLETING_REBALANCE
S = GroupState.STABLE


# --- request checks ---------------------------------------------------------------------------------------------------


@pytest.mark.proves("SG-01")
def test_sync_with_unknown_group_is_rejected(harness: CoordinatorHarness) -> None:
    assert harness.send(SyncGroup(GROUP, "a", None, 1)).response == SyncGroupResponse(Error.UNKNOWN_MEMBER_ID)
    assert dict(harness.coordinator.groups) == {}


@pytest.mark.proves("SG-01")
def test_sync_with_empty_group_is_rejected(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    a.leave()

    assert a.sync().response == SyncGroupResponse(Error.UNKNOWN_MEMBER_ID)


@pytest.mark.proves("SG-02")
@pytest.mark.parametrize(("protocol_type", "protocol_name"), [(None, "range"), ("consumer", None), (None, None)])
@pytest.mark.parametrize("group_id", [GROUP, "absent", "", None])
def test_sync_without_protocol_is_checked_first(
    harness: CoordinatorHarness, protocol_type: str | None, protocol_name: str | None, group_id: str | None
) -> None:
    harness.completing_group("a")
    request = SyncGroup(group_id, "unknown", "unknown", 77, protocol_type, protocol_name, (), requires_protocol=True)

    assert harness.send(request).response == SyncGroupResponse(Error.INCONSISTENT_GROUP_PROTOCOL)


@pytest.mark.proves("SG-03")
@pytest.mark.parametrize("stage", ["completing", "preparing", "stable"])
def test_order_of_sync_checks(harness: CoordinatorHarness, stage: str) -> None:
    a, b = harness.completing_group("a", "b", static=True)
    if stage != "completing":
        harness.sync(a, b)
    if stage == "preparing":
        a.join()
    before = harness.snapshot()

    def sync(
        member: str, instance: str | None, generation: int, protocol_type: str | None, protocol_name: str | None
    ) -> Error:
        return harness.send(SyncGroup(GROUP, member, instance, generation, protocol_type, protocol_name)).response.error

    assert sync(a.id, "b", 9, "x", "x") is Error.FENCED_INSTANCE_ID
    assert sync(a.id, "unknown", 9, "x", "x") is Error.UNKNOWN_MEMBER_ID
    assert sync("unknown", None, 9, "x", "x") is Error.UNKNOWN_MEMBER_ID
    assert sync(a.id, "a", 9, "x", "x") is Error.ILLEGAL_GENERATION
    assert sync(a.id, "a", 1, "x", "range") is Error.INCONSISTENT_GROUP_PROTOCOL
    assert sync(a.id, "a", 1, "consumer", "x") is Error.INCONSISTENT_GROUP_PROTOCOL
    assert harness.snapshot() == before


@pytest.mark.proves("SG-03")
def test_old_client_sync_skips_protocol_check(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")

    assert harness.send(SyncGroup(GROUP, a.id, None, 1)).response == a.expected_sync_response()


# --- states -----------------------------------------------------------------------------------------------------------


@pytest.mark.proves("SG-04")
def test_sync_while_preparing_gets_rebalance_in_progress(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    a.join()

    assert b.sync().response == SyncGroupResponse(Error.REBALANCE_IN_PROGRESS)


@pytest.mark.proves("SG-05")
def test_follower_sync_waits_for_leader(harness: CoordinatorHarness) -> None:
    a, b, c = harness.completing_group("a", "b", "c")
    sync_call = b.sync()
    assert sync_call.parked
    a.sync()

    assert sync_call.response == b.expected_sync_response()
    harness.advance_ms(REBALANCE_MS, heartbeating=[a, b, c])
    assert harness.member_ids == {a.id, b.id}, "the sync timer removes only members that did not sync"


@pytest.mark.proves("SG-06")
def test_leader_sync_sends_all_assignments(harness: CoordinatorHarness) -> None:
    a, b, c = harness.completing_group("a", "b", "c")
    follower_calls = [b.sync(), c.sync()]
    leader_call = a.sync([(a.id, b"for a"), (b.id, b"for b"), ("unknown", b"for an unknown member")])

    assert leader_call.response == a.expected_sync_response(b"for a")
    assert follower_calls[0].response == b.expected_sync_response(b"for b")
    assert follower_calls[1].response == c.expected_sync_response(b""), "missing from the leader's assignment"
    assert harness.state is S


@pytest.mark.proves("SG-06")
def test_generation_record_has_all_assignments(harness: CoordinatorHarness) -> None:
    a, b = harness.completing_group("a", "b", static=True)
    formed_ms = harness.now_ms
    a.sync([(a.id, b"for a")])

    def stored(member: Member, assignment: bytes) -> StoredMember:
        return StoredMember(
            member.id, member.instance, member.name, HOST, SESSION_MS, REBALANCE_MS, subscription("t"), assignment
        )

    *_, record = harness.log
    assert isinstance(record, GroupMetadata)
    assert record.value is not None
    members = tuple(sorted(record.value.members))
    assert members == tuple(sorted([stored(a, b"for a"), stored(b, b"")]))
    assert record == GroupMetadata(GROUP, StoredGroup("consumer", 1, "range", a.id, formed_ms, record.value.members))


@pytest.mark.proves("SG-06", "ST-09")
def test_sync_responses_wait_for_write(harness: CoordinatorHarness) -> None:
    a, b = harness.completing_group("a", "b")
    harness.hold_writes()
    sync_calls = [b.sync(), a.sync()]
    assert [call.parked for call in sync_calls] == [True, True]
    harness.release_writes()

    assert [call.response for call in sync_calls] == [b.expected_sync_response(), a.expected_sync_response()]


@pytest.mark.proves("SG-07")
@pytest.mark.parametrize("outcome", [Error.NONE, Error.NOT_ENOUGH_REPLICAS])
def test_late_write_after_new_rebalance_is_ignored(harness: CoordinatorHarness, outcome: Error) -> None:
    a, b = harness.completing_group("a", "b")
    harness.hold_writes()
    sync_calls = [b.sync(), a.sync()]
    c = harness.member("c")
    join_call = c.join()
    assert [call.response for call in sync_calls] == [SyncGroupResponse(Error.REBALANCE_IN_PROGRESS)] * 2
    before = harness.events.mark()
    harness.release_writes(outcome)

    assert (harness.state, harness.generation) == (PR, 1)
    assert join_call.parked
    assert harness.events.since(before, EventKind.REBALANCE_COMPLETED, EventKind.REBALANCE_STARTED) == []


@pytest.mark.proves("SG-07")
@pytest.mark.parametrize("outcome", [Error.NONE, Error.NOT_ENOUGH_REPLICAS])
def test_write_of_older_generation_is_ignored(harness: CoordinatorHarness, outcome: Error) -> None:
    a, b = harness.completing_group("a", "b")
    harness.hold_writes()
    a.sync()
    b.leave()
    a.join()
    assert (harness.state, harness.generation) == (CR, 2)
    sync_call = a.sync()
    harness.release_writes(outcome)

    if outcome is Error.NONE:
        assert sync_call.response == a.expected_sync_response()
        assert (harness.state, harness.generation) == (S, 2)
    else:
        assert sync_call.response == SyncGroupResponse(Error.COORDINATOR_NOT_AVAILABLE)
        assert (harness.state, harness.generation) == (PR, 2)


@pytest.mark.proves("SG-08")
@pytest.mark.parametrize(
    ("write", "response"),
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
def test_failed_assignment_write_rebalances(harness: CoordinatorHarness, write: Error, response: Error) -> None:
    a, b = harness.stable_group("a", "b")
    a.join()
    b.join()
    harness.fail_next_write(write)
    before = harness.events.mark()
    sync_calls = [b.sync(), a.sync()]

    assert [call.response for call in sync_calls] == [SyncGroupResponse(response)] * 2
    assert (harness.state, harness.generation) == (PR, 2)
    assert [member.assignment for member in harness.describe().members] == [b"", b""]
    (failed,) = harness.events.since(before, EventKind.REBALANCE_FAILED)
    assert isinstance(failed.detail, RebalanceFailed)
    assert failed.detail.error == response.name
    assert len(harness.events.since(before, EventKind.REBALANCE_STARTED)) == 1
    harness.rebalance(a, b)
    assert harness.generation == 3


@pytest.mark.proves("SG-09")
def test_sync_in_stable_group_is_immediate(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")

    assert a.sync([]).response == a.expected_sync_response()
    assert b.sync().response == b.expected_sync_response()
    assert a.sync([(b.id, b"something else")]).response == a.expected_sync_response()
    assert b.sync().response == b.expected_sync_response(), "a second assignment of the leader is ignored"


@pytest.mark.proves("SG-09", "SE-01")
def test_sync_in_stable_group_does_not_extend_session(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    harness.advance_ms(SESSION_MS - 1, heartbeating=[a])
    b.sync()
    harness.advance_ms(1)

    assert harness.member_ids == {a.id}


@pytest.mark.proves("SG-10", "SE-01")
def test_sync_response_restarts_session(harness: CoordinatorHarness) -> None:
    a, b = harness.completing_group("a", "b")
    b.sync()
    harness.advance_ms(9_000, heartbeating=[a])
    a.sync()
    harness.advance_ms(SESSION_MS - 1, heartbeating=[a])
    assert harness.member_ids == {a.id, b.id}
    harness.advance_ms(1)

    assert harness.member_ids == {a.id}


@pytest.mark.proves("SG-10", "SE-03")
def test_failed_sync_restarts_session(harness: CoordinatorHarness) -> None:
    a, b = harness.completing_group("a", "b")
    sync_call = b.sync()
    harness.advance_ms(30_000, heartbeating=[a])
    assert sync_call.parked
    harness.member("c").join()
    assert sync_call.response == SyncGroupResponse(Error.REBALANCE_IN_PROGRESS)
    harness.advance_ms(SESSION_MS - 1, heartbeating=[a])
    assert b.id in harness.member_ids
    harness.advance_ms(1)

    assert b.id not in harness.member_ids


# --- sync timer -------------------------------------------------------------------------------------------------------


@pytest.mark.proves("SG-11")
def test_leader_that_never_syncs_is_removed(harness: CoordinatorHarness) -> None:
    a, b = harness.completing_group("a", "b")
    sync_call = b.sync()
    before = harness.events.mark()
    harness.advance_ms(REBALANCE_MS - 1, heartbeating=[a])
    assert (harness.state, sync_call.parked) == (CR, True)
    harness.advance_ms(1)

    assert sync_call.response == SyncGroupResponse(Error.REBALANCE_IN_PROGRESS)
    assert (harness.state, harness.member_ids) == (PR, {b.id})
    assert a.heartbeat() is Error.UNKNOWN_MEMBER_ID
    (unsynced,) = harness.events.since(before, EventKind.MEMBER_UNSYNCED)
    assert unsynced.member == a.id
    assert isinstance(unsynced.detail, MemberTimedOut)
    assert unsynced.detail.timer_ms == REBALANCE_MS
    assert harness.rebalances(before) == [(Trigger.SYNC_TIMEOUT, a.id)]


@pytest.mark.proves("SG-11")
def test_follower_that_never_syncs_is_removed(harness: CoordinatorHarness) -> None:
    a, b = harness.completing_group("a", "b")
    a.sync()
    assert harness.state is S
    harness.advance_ms(REBALANCE_MS - 1, heartbeating=[a, b])
    assert (harness.state, harness.member_ids) == (S, {a.id, b.id})
    before = harness.events.mark()
    harness.advance_ms(1)

    assert (harness.state, harness.member_ids) == (PR, {a.id})
    assert harness.rebalances(before) == [(Trigger.SYNC_TIMEOUT, b.id)]


@pytest.mark.proves("SG-11")
def test_static_member_that_never_syncs_is_removed(harness: CoordinatorHarness) -> None:
    a, b = harness.completing_group("a", "b", static=True)
    a.sync()
    harness.advance_ms(REBALANCE_MS, heartbeating=[a, b])

    assert harness.member_ids == {a.id}


@pytest.mark.proves("SG-12")
def test_sync_timer_stops_when_all_have_synced(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    harness.advance_ms(3 * REBALANCE_MS, heartbeating=[a, b])

    assert (harness.state, harness.generation, harness.member_ids) == (S, 1, {a.id, b.id})


@pytest.mark.proves("SG-12")
def test_late_sync_of_stable_group_stops_sync_timer(harness: CoordinatorHarness) -> None:
    a, b = harness.completing_group("a", "b")
    a.sync()
    harness.advance_ms(REBALANCE_MS - 1, heartbeating=[a, b])
    b.sync()
    harness.advance_ms(REBALANCE_MS, heartbeating=[a, b])

    assert (harness.state, harness.member_ids) == (S, {a.id, b.id})


@pytest.mark.proves("SG-12")
def test_new_rebalance_cancels_old_sync_timer(harness: CoordinatorHarness) -> None:
    a, b = harness.completing_group("a", "b")
    harness.advance_ms(40_000, heartbeating=[a, b])
    c = harness.member("c")
    c.join()
    a.join()
    b.join()
    assert (harness.state, harness.generation) == (CR, 2)
    harness.advance_ms(REBALANCE_MS - 1, heartbeating=[a, b, c])

    assert (harness.state, harness.member_ids) == (CR, {a.id, b.id, c.id}), "20 s after the deadline of the first timer"


@pytest.mark.proves("SG-13")
def test_leader_leaving_while_completing_fails_syncs(harness: CoordinatorHarness) -> None:
    a, b, c = harness.completing_group("a", "b", "c")
    follower_calls = [b.sync(), c.sync()]
    a.leave()

    assert [call.response for call in follower_calls] == [SyncGroupResponse(Error.REBALANCE_IN_PROGRESS)] * 2
    assert (harness.state, harness.member_ids) == (PR, {b.id, c.id})


@pytest.mark.proves("SG-13", "SE-02")
def test_leader_expiring_while_completing_fails_syncs(harness: CoordinatorHarness) -> None:
    a, b = harness.completing_group("a", "b")
    sync_call = b.sync()
    before = harness.events.mark()
    harness.advance_ms(SESSION_MS)

    assert sync_call.response == SyncGroupResponse(Error.REBALANCE_IN_PROGRESS)
    assert harness.rebalances(before) == [(Trigger.SESSION_TIMEOUT, a.id)]
    assert (harness.state, harness.member_ids) == (PR, {b.id})
