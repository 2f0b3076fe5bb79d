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
def test_a_heartbeat_to_an_unknown_group_is_refused_and_creates_nothing(room: Room) -> None:
    assert beat(room, "a", 1) is Error.UNKNOWN_MEMBER_ID
    assert dict(room.coordinator.groups) == {}


@pytest.mark.proves("HB-01")
def test_a_heartbeat_to_an_empty_group_is_refused(room: Room) -> None:
    (a,) = room.settled("a")
    a.leave()

    assert a.heartbeat() is Error.UNKNOWN_MEMBER_ID
    assert beat(room, a.id, 2) is Error.UNKNOWN_MEMBER_ID


@pytest.mark.proves("HB-01")
@pytest.mark.parametrize("generation", [1, 7])
def test_a_heartbeat_of_a_stranger_is_refused(room: Room, generation: int) -> None:
    room.settled("a")

    assert beat(room, "stranger", generation) is Error.UNKNOWN_MEMBER_ID


@pytest.mark.proves("HB-03")
def test_a_heartbeat_under_an_instance_id_of_another_is_fenced(room: Room) -> None:
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
def test_a_heartbeat_of_another_generation_is_refused_before_the_state_is_looked_at(
    room: Room, stage: str, generation: int
) -> None:
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
def test_a_refused_heartbeat_does_not_extend_the_session(room: Room) -> None:
    a, b = room.settled("a", "b")
    room.pass_ms(SESSION_MS - 1, beating=[a])
    beat(room, b.id, 7)
    room.pass_ms(1)

    assert room.member_ids == {a.id}


@pytest.mark.proves("HB-05", "SE-01")
def test_a_heartbeat_while_members_join_extends_the_session_and_asks_to_rejoin(room: Room) -> None:
    a, b = room.settled("a", "b")
    a.join()
    assert room.state is PR
    for _ in range(4):
        room.pass_ms(SESSION_MS - 1)
        assert b.heartbeat() is Error.REBALANCE_IN_PROGRESS

    assert room.member_ids == {a.id, b.id}


@pytest.mark.proves("HB-06", "SE-01")
def test_a_heartbeat_while_the_assignment_is_on_its_way_extends_the_session_and_asks_for_nothing(room: Room) -> None:
    a = room.member("a")
    a.join()
    room.end_initial_delay()
    for _ in range(4):
        room.pass_ms(SESSION_MS - 1)
        assert a.heartbeat() is Error.NONE

    assert (room.state, room.member_ids) == (CR, {a.id})


@pytest.mark.proves("HB-07", "SE-01")
def test_a_heartbeat_to_a_stable_group_extends_the_session(room: Room) -> None:
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
def test_a_heartbeat_while_the_shard_loads_is_answered_none_blindly(room: Room) -> None:
    room.unload(1)
    room.leader_epoch = 2
    room.start_loading()

    assert beat(room, "whoever", 77, "whatever") is Error.NONE
    room.finish_loading()
    assert beat(room, "whoever", 77) is Error.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("group_id", [None, ""])
def test_a_heartbeat_without_a_group_id_is_refused(room: Room, group_id: str | None) -> None:
    assert room.ask(Heartbeat(group_id, "a", None, 1)).answer == HeartbeatResponse(Error.INVALID_GROUP_ID)
