"""Deliberate differences from Kafka, where Kafka has a fault (end of section 16)."""

import struct

import pytest

from slackwater.group.errors import Error
from slackwater.group.events import GroupState
from slackwater.group.messages import JoinGroupResponse, JoinProtocol, LeaveGroupResponse, LeftMember, SyncGroupResponse

from .coordinator_harness import CoordinatorHarness, join_protocols, subscription

PR = GroupState.PREPARING_REBALANCE
CR = GroupState.COMPLETING_REBALANCE
S = GroupState.STABLE

OVERLONG = struct.pack(">hi", 0, 1_000_000) + b"\x00\x01t"
OVERLONG_OWNED = subscription("t")[:-10] + struct.pack(">i", 2**31 - 1)


def test_parked_sync_of_leaving_member_is_unknown(harness: CoordinatorHarness) -> None:
    a, b = harness.completing_group("a", "b")
    sync_call = b.sync()
    leave_call = b.leave()

    assert sync_call.response == SyncGroupResponse(Error.UNKNOWN_MEMBER_ID)
    assert leave_call.response == LeaveGroupResponse(Error.NONE, (LeftMember(b.id, None, Error.NONE),))
    assert harness.member_ids == {a.id}


def test_parked_sync_of_leaving_leader_fails_during_write(harness: CoordinatorHarness) -> None:
    a, b = harness.completing_group("a", "b")
    harness.hold_writes()
    sync_call = a.sync()
    assert sync_call.parked
    a.leave()
    assert sync_call.response == SyncGroupResponse(Error.UNKNOWN_MEMBER_ID)
    harness.release_writes()

    assert len(sync_call.responses) == 1
    assert (harness.state, harness.member_ids) == (PR, {b.id})


def test_replaced_parked_join_gets_rebalance_in_progress(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    first = a.join()
    second = a.join()

    assert (first.response.error, first.response.generation_id) == (Error.REBALANCE_IN_PROGRESS, -1)
    assert (first.response.members, first.response.protocol_name, first.response.leader) == ((), None, "")
    assert second.parked
    b.join()
    assert second.response.error is Error.NONE
    assert len(first.responses) == 1


def test_replaced_parked_join_of_new_member_gets_response(harness: CoordinatorHarness) -> None:
    harness.stable_group("a")
    b = harness.member("b")
    first = b.join()
    second = b.join()

    assert first.response.error is Error.REBALANCE_IN_PROGRESS
    assert second.parked


def test_replaced_parked_sync_gets_rebalance_in_progress(harness: CoordinatorHarness) -> None:
    a, b = harness.completing_group("a", "b")
    first = b.sync()
    second = b.sync()

    assert first.response == SyncGroupResponse(Error.REBALANCE_IN_PROGRESS)
    assert second.parked
    a.sync()
    assert second.response == b.expected_sync_response()
    assert len(first.responses) == 1


def test_leader_that_syncs_twice_gets_two_responses(harness: CoordinatorHarness) -> None:
    a, b = harness.completing_group("a", "b")
    harness.hold_writes()
    follower_call, first, second = b.sync(), a.sync(), a.sync()
    assert first.response == SyncGroupResponse(Error.REBALANCE_IN_PROGRESS)
    harness.release_writes()

    assert second.response == a.expected_sync_response()
    assert follower_call.response == b.expected_sync_response()
    assert harness.state is S


def test_rejected_member_of_full_group_completes_join_phase() -> None:
    harness = CoordinatorHarness(group_max_size=2)
    a, b = harness.stable_group("a", "b")
    b.leave()
    c, d = harness.member("c"), harness.member("d")
    join_calls = [c.join(), d.join()]
    assert all(call.parked for call in join_calls)

    assert a.join().response == JoinGroupResponse(Error.GROUP_MAX_SIZE_REACHED)
    assert [call.response.error for call in join_calls] == [Error.NONE, Error.NONE]
    assert (harness.state, harness.member_ids) == (CR, {c.id, d.id})


def test_rejected_new_member_does_not_complete_join_phase() -> None:
    harness = CoordinatorHarness(group_max_size=2)
    a, b, c = harness.member("a"), harness.member("b"), harness.member("c", requires_known_id=False)
    a.join()
    b.join()
    harness.end_initial_delay()
    harness.sync(a, b)
    a.join()

    assert c.join().parked
    assert (harness.state, harness.member_ids >= {a.id, b.id}) == (PR, True)
    assert harness.member("d", requires_known_id=False).join().response == JoinGroupResponse(
        Error.GROUP_MAX_SIZE_REACHED
    )
    assert harness.state is PR


@pytest.mark.parametrize("metadata", [OVERLONG, OVERLONG_OWNED], ids=["topics", "owned partitions"])
@pytest.mark.parametrize("stage", ["absent", "stable", "preparing", "completing"])
def test_overlong_array_of_new_member_is_rejected(harness: CoordinatorHarness, stage: str, metadata: bytes) -> None:
    if stage != "absent":
        members = harness.completing_group("a", "b")
        if stage != "completing":
            harness.sync(*members)
        if stage == "preparing":
            members[0].join()
    before = harness.snapshot()
    x = harness.member("x", protocols=(JoinProtocol("range", metadata),))

    assert x.send_join().response == JoinGroupResponse(Error.INVALID_REQUEST)
    assert harness.snapshot() == before


def test_overlong_array_of_member_is_rejected(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    before = harness.snapshot()
    b.protocols = (*join_protocols("range"), JoinProtocol("sticky", OVERLONG))

    assert b.join().response == JoinGroupResponse(Error.INVALID_REQUEST, member_id=b.id)
    assert harness.snapshot() == before
    assert a.heartbeat() is Error.NONE


def test_overlong_array_of_pending_member_is_rejected(harness: CoordinatorHarness) -> None:
    harness.stable_group("a")
    b = harness.member("b")
    b.send_join()
    before = harness.snapshot()
    b.protocols = (JoinProtocol("range", OVERLONG),)

    assert b.send_join().response == JoinGroupResponse(Error.INVALID_REQUEST, member_id=b.id)
    assert harness.snapshot() == before


def test_metadata_of_other_protocol_types_is_not_checked(harness: CoordinatorHarness) -> None:
    a = harness.member("a", protocol_type="connect", protocols=(JoinProtocol("default", OVERLONG),))
    join_call = a.join()
    harness.end_initial_delay()

    assert join_call.response.error is Error.NONE


@pytest.mark.parametrize("stage", ["absent", "stable", "preparing"])
def test_duplicate_protocol_of_new_member_is_rejected(harness: CoordinatorHarness, stage: str) -> None:
    if stage != "absent":
        a, _ = harness.stable_group("a", "b")
        if stage == "preparing":
            a.join()
    before = harness.snapshot()
    x = harness.member("x", protocols=join_protocols("range", "range"))

    assert x.send_join().response == JoinGroupResponse(Error.INCONSISTENT_GROUP_PROTOCOL)
    assert harness.snapshot() == before


def test_duplicate_protocol_of_member_is_rejected(harness: CoordinatorHarness) -> None:
    _, b = harness.stable_group("a", "b")
    before = harness.snapshot()
    b.protocols = join_protocols("range", "sticky", "range")

    assert b.join().response == JoinGroupResponse(Error.INCONSISTENT_GROUP_PROTOCOL, member_id=b.id)
    assert harness.snapshot() == before
