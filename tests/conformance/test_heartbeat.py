"""Section 4 of the catalogue: Heartbeat."""

import pytest

from slackwater.group.errors import Error
from slackwater.group.events import EventKind, GroupState, MemberFenced
from slackwater.group.messages import Heartbeat, HeartbeatResponse

from .room import GROUP, SESSION_MS, Room

PR = GroupState.PREPARING_REBALANCE
CR = GroupState.COMPLETING_REBALANCE
S = GroupState.STABLE


def beat(room: Room, member_id: str, generation: int, instance: str | None = None) -> Error:
    """The error in the answer to one heartbeat."""
    answer = room.ask(Heartbeat(GROUP, member_id, instance, generation)).answer
    assert answer == HeartbeatResponse(answer.error)
    return answer.error


@pytest.mark.proves("HB-01")
def test_heartbeat_to_unknown_group_is_rejected(room: Room) -> None:
    assert beat(room, "a", 1) is Error.UNKNOWN_MEMBER_ID
    assert dict(room.coordinator.groups) == {}


@pytest.mark.proves("HB-01")
def test_heartbeat_to_empty_group_is_rejected(room: Room) -> None:
    (a,) = room.settled("a")
    a.leave()

    assert a.heartbeat() is Error.UNKNOWN_MEMBER_ID
    assert beat(room, a.id, 2) is Error.UNKNOWN_MEMBER_ID


@pytest.mark.proves("HB-01")
@pytest.mark.parametrize("generation", [1, 7])
def test_heartbeat_of_unknown_member_is_rejected(room: Room, generation: int) -> None:
    room.settled("a")

    assert beat(room, "stranger", generation) is Error.UNKNOWN_MEMBER_ID


@pytest.mark.proves("HB-03")
def test_heartbeat_with_foreign_instance_id_is_fenced(room: Room) -> None:
    a, b = room.settled("a", "b", static=True)
    before = room.events.mark()

    assert beat(room, b.id, 1, "a") is Error.FENCED_INSTANCE_ID
    assert beat(room, b.id, 99, "a") is Error.FENCED_INSTANCE_ID
    assert beat(room, b.id, 1, "nobody") is Error.UNKNOWN_MEMBER_ID
    fenced = room.events.since(before, EventKind.MEMBER_FENCED)
    assert fenced[0].detail == MemberFenced(operation="heartbeat", holder=a.id)
    assert fenced[0].member == b.id


@pytest.mark.proves("HB-04")
@pytest.mark.parametrize("stage", ["completing", "stable", "preparing"])
@pytest.mark.parametrize("generation", [-1, 0, 2])
def test_generation_is_checked_before_state(room: Room, stage: str, generation: int) -> None:
    a, b = room.member("a"), room.member("b")
    a.join()
    b.join()
    room.end_initial_delay()
    if stage != "completing":
        room.sync(a, b)
    if stage == "preparing":
        a.join()

    assert beat(room, b.id, generation) is Error.ILLEGAL_GENERATION


@pytest.mark.proves("HB-04")
def test_rejected_heartbeat_does_not_extend_session(room: Room) -> None:
    a, b = room.settled("a", "b")
    room.pass_ms(SESSION_MS - 1, beating=[a])
    beat(room, b.id, 7)
    room.pass_ms(1)

    assert room.member_ids == {a.id}


@pytest.mark.proves("HB-05", "SE-01")
def test_heartbeat_while_preparing_extends_session(room: Room) -> None:
    a, b = room.settled("a", "b")
    a.join()
    assert room.state is PR
    for _ in range(4):
        room.pass_ms(SESSION_MS - 1)
        assert b.heartbeat() is Error.REBALANCE_IN_PROGRESS

    assert room.member_ids == {a.id, b.id}


@pytest.mark.proves("HB-06", "SE-01")
def test_heartbeat_while_completing_extends_session(room: Room) -> None:
    a = room.member("a")
    a.join()
    room.end_initial_delay()
    for _ in range(4):
        room.pass_ms(SESSION_MS - 1)
        assert a.heartbeat() is Error.NONE

    assert (room.state, room.member_ids) == (CR, {a.id})


@pytest.mark.proves("HB-07", "SE-01")
def test_heartbeat_to_a_stable_group_extends_the_session(room: Room) -> None:
    (a,) = room.settled("a")
    for _ in range(20):
        room.pass_ms(SESSION_MS - 1)
        assert a.heartbeat() is Error.NONE

    assert (room.state, room.generation) == (S, 1)


@pytest.mark.proves("HB-07")
def test_heartbeats_are_not_events(room: Room) -> None:
    a, b = room.settled("a", "b")
    before = room.events.mark()
    room.pass_ms(60_000, beating=[a, b])

    assert room.events.since(before) == []


@pytest.mark.proves("HB-08", "CO-03")
def test_heartbeat_while_loading_gets_none(room: Room) -> None:
    room.unload(1)
    room.leader_epoch = 2
    room.start_loading()

    assert beat(room, "whoever", 77, "whatever") is Error.NONE
    room.finish_loading()
    assert beat(room, "whoever", 77) is Error.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("group_id", [None, ""])
def test_heartbeat_without_group_id_is_rejected(room: Room, group_id: str | None) -> None:
    assert room.ask(Heartbeat(group_id, "a", None, 1)).answer == HeartbeatResponse(Error.INVALID_GROUP_ID)
