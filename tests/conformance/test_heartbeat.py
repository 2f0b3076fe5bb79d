"""Section 4 of the catalogue: Heartbeat."""

import pytest

from slackwater.group.errors import Error
from slackwater.group.events import EventKind, GroupState, MemberFenced
from slackwater.group.messages import Heartbeat, HeartbeatResponse

from .coordinator_harness import GROUP, SESSION_MS, CoordinatorHarness

PR = GroupState.PREPARING_REBALANCE
CR = GroupState.COMPLETING_REBALANCE
S = GroupState.STABLE


def send_heartbeat(harness: CoordinatorHarness, member_id: str, generation: int, instance: str | None = None) -> Error:
    """Send a heartbeat and return its error."""
    response = harness.send(Heartbeat(GROUP, member_id, instance, generation)).response
    assert response == HeartbeatResponse(response.error)
    return response.error


@pytest.mark.proves("HB-01")
def test_heartbeat_to_unknown_group_is_rejected(harness: CoordinatorHarness) -> None:
    assert send_heartbeat(harness, "a", 1) is Error.UNKNOWN_MEMBER_ID
    assert dict(harness.coordinator.groups) == {}


@pytest.mark.proves("HB-01")
def test_heartbeat_to_empty_group_is_rejected(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    a.leave()

    assert a.heartbeat() is Error.UNKNOWN_MEMBER_ID
    assert send_heartbeat(harness, a.id, 2) is Error.UNKNOWN_MEMBER_ID


@pytest.mark.proves("HB-01")
@pytest.mark.parametrize("generation", [1, 7])
def test_heartbeat_of_unknown_member_is_rejected(harness: CoordinatorHarness, generation: int) -> None:
    harness.stable_group("a")

    assert send_heartbeat(harness, "unknown", generation) is Error.UNKNOWN_MEMBER_ID


@pytest.mark.proves("HB-03")
def test_heartbeat_with_foreign_instance_id_is_fenced(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b", static=True)
    before = harness.events.mark()

    assert send_heartbeat(harness, b.id, 1, "a") is Error.FENCED_INSTANCE_ID
    assert send_heartbeat(harness, b.id, 99, "a") is Error.FENCED_INSTANCE_ID
    assert send_heartbeat(harness, b.id, 1, "unknown") is Error.UNKNOWN_MEMBER_ID
    fenced = harness.events.since(before, EventKind.MEMBER_FENCED)
    assert fenced[0].detail == MemberFenced(operation="heartbeat", holder=a.id)
    assert fenced[0].member == b.id


@pytest.mark.proves("HB-04")
@pytest.mark.parametrize("stage", ["completing", "stable", "preparing"])
@pytest.mark.parametrize("generation", [-1, 0, 2])
def test_generation_is_checked_before_state(harness: CoordinatorHarness, stage: str, generation: int) -> None:
    _, b = harness.group_in(stage, "a", "b")

    assert send_heartbeat(harness, b.id, generation) is Error.ILLEGAL_GENERATION


@pytest.mark.proves("HB-04")
def test_rejected_heartbeat_does_not_extend_session(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    harness.advance_ms(SESSION_MS - 1, heartbeating=[a])
    send_heartbeat(harness, b.id, 7)
    harness.advance_ms(1)

    assert harness.member_ids == {a.id}


@pytest.mark.proves("HB-05", "SE-01")
def test_heartbeat_while_preparing_extends_session(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    a.join()
    assert harness.state is PR
    for _ in range(4):
        harness.advance_ms(SESSION_MS - 1)
        assert b.heartbeat() is Error.REBALANCE_IN_PROGRESS

    assert harness.member_ids == {a.id, b.id}


@pytest.mark.proves("HB-06", "SE-01")
def test_heartbeat_while_completing_extends_session(harness: CoordinatorHarness) -> None:
    (a,) = harness.completing_group("a")
    for _ in range(4):
        harness.advance_ms(SESSION_MS - 1)
        assert a.heartbeat() is Error.NONE

    assert (harness.state, harness.member_ids) == (CR, {a.id})


@pytest.mark.proves("HB-07", "SE-01")
def test_heartbeat_to_stable_group_extends_session(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    for _ in range(20):
        harness.advance_ms(SESSION_MS - 1)
        assert a.heartbeat() is Error.NONE

    assert (harness.state, harness.generation) == (S, 1)


@pytest.mark.proves("HB-07")
def test_heartbeats_are_not_events(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    before = harness.events.mark()
    harness.advance_ms(60_000, heartbeating=[a, b])

    assert harness.events.since(before) == []


@pytest.mark.proves("HB-08", "CO-03")
def test_heartbeat_while_loading_gets_none(harness: CoordinatorHarness) -> None:
    harness.unload(1)
    harness.leader_epoch = 2
    harness.start_loading()

    assert send_heartbeat(harness, "any-member", 77, "any-instance") is Error.NONE
    harness.finish_loading()
    assert send_heartbeat(harness, "any-member", 77) is Error.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("group_id", [None, ""])
def test_heartbeat_without_group_id_is_rejected(harness: CoordinatorHarness, group_id: str | None) -> None:
    assert harness.send(Heartbeat(group_id, "a", None, 1)).response == HeartbeatResponse(Error.INVALID_GROUP_ID)
