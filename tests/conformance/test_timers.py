"""Section 7 of the catalogue: session timers, and KIP-62's two timeouts beside each other."""

import pytest

from slackwater.group.errors import Error
from slackwater.group.events import EventKind, GroupState, MemberTimedOut, Trigger
from slackwater.group.messages import JoinGroupResponse

from .room import GROUP, REBALANCE_MS, SESSION_MS, Room, offering

E = GroupState.EMPTY
PR = GroupState.PREPARING_REBALANCE
CR = GroupState.COMPLETING_REBALANCE
S = GroupState.STABLE


# --- sessions ---------------------------------------------------------------------------------------------------


@pytest.mark.proves("SE-02")
def test_silent_member_expires_at_session_timeout(room: Room) -> None:
    a, b = room.settled("a", "b")
    room.pass_ms(4_000)
    a.heartbeat()
    b.heartbeat()
    heard_ms = room.now_ms
    room.pass_ms(SESSION_MS - 1, beating=[a])
    assert (room.state, room.member_ids) == (S, {a.id, b.id})
    before = room.events.mark()
    room.pass_ms(1)

    assert (room.state, room.generation, room.member_ids) == (PR, 1, {a.id})
    assert room.rebalances(before) == [(Trigger.SESSION_TIMEOUT, b.id)]
    (expired,) = room.events.since(before, EventKind.MEMBER_EXPIRED)
    assert (expired.member, expired.time_ms) == (b.id, heard_ms + SESSION_MS)
    assert isinstance(expired.detail, MemberTimedOut)
    assert (expired.detail.timer_ms, expired.detail.last_heard_ms) == (SESSION_MS, heard_ms)


@pytest.mark.proves("SE-02")
def test_manual_expiration_equals_session_timeout(room: Room) -> None:
    a, b = room.settled("a", "b")
    before = room.events.mark()
    room.do(room.coordinator.expire_member(GROUP, b.id, room.now_ms))

    assert (room.state, room.member_ids) == (PR, {a.id})
    assert room.rebalances(before) == [(Trigger.SESSION_TIMEOUT, b.id)]
    assert b.heartbeat() is Error.UNKNOWN_MEMBER_ID


@pytest.mark.proves("SE-02", "ST-11")
def test_last_member_expiring_empties_the_group(room: Room) -> None:
    room.settled("a")
    room.pass_ms(SESSION_MS)

    assert (room.state, room.generation) == (E, 2)


@pytest.mark.proves("SE-02")
def test_expiration_during_rebalance_can_end_join_phase(room: Room) -> None:
    a, b = room.settled("a", "b")
    joining = a.join()
    room.pass_ms(SESSION_MS - 1)
    assert joining.parked
    before = room.events.mark()
    room.pass_ms(1)

    assert joining.answer == a.joined_answer(generation=2, leader=a.id, members=[a])
    assert b.heartbeat() is Error.UNKNOWN_MEMBER_ID
    assert room.rebalances(before) == []


@pytest.mark.proves("SE-02")
def test_members_whose_sessions_end_together_are_all_removed(room: Room) -> None:
    a, b, c = room.settled("a", "b", "c")
    room.pass_ms(SESSION_MS - 1, beating=[a])
    room.pass_ms(1)

    assert room.member_ids == {a.id}
    assert {event.member for event in room.events.of(EventKind.MEMBER_EXPIRED)} == {b.id, c.id}


@pytest.mark.proves("SE-03")
def test_member_with_parked_join_does_not_expire(room: Room) -> None:
    a, b = room.settled("a", "b")
    joining = a.join()
    room.pass_ms(3 * SESSION_MS, beating=[b])

    assert joining.parked
    assert room.member_ids == {a.id, b.id}


@pytest.mark.proves("SE-03")
def test_member_with_parked_sync_does_not_expire(room: Room) -> None:
    a, b = room.member("a"), room.member("b")
    a.join()
    b.join()
    room.end_initial_delay()
    syncing = b.sync()
    room.pass_ms(3 * SESSION_MS, beating=[a])

    assert syncing.parked
    assert room.member_ids == {a.id, b.id}


@pytest.mark.proves("SE-03", "JG-25")
def test_response_restarts_session_of_parked_member(room: Room) -> None:
    a, b = room.settled("a", "b")
    a.join()
    room.pass_ms(3 * SESSION_MS, beating=[b])
    b.join()
    assert room.state is CR
    room.pass_ms(SESSION_MS - 1, beating=[b])
    assert a.id in room.member_ids
    room.pass_ms(1)

    assert a.id not in room.member_ids


@pytest.mark.proves("SE-04")
def test_session_of_a_replaced_id_ends_without_effect(room: Room) -> None:
    a, b = room.settled("a", "b", static=True)
    room.pass_ms(5_000, beating=[a])
    again = b.restarted()
    again.join()
    before = room.events.mark()
    room.pass_ms(30_000, beating=[a, again])

    assert (room.state, room.generation, room.member_ids) == (S, 1, {a.id, again.id})
    assert room.events.since(before) == []


@pytest.mark.proves("SE-04")
def test_session_of_a_member_that_left_ends_without_effect(room: Room) -> None:
    a, b = room.settled("a", "b")
    b.leave()
    room.rebalance(a)
    before = room.events.mark()
    room.pass_ms(3 * SESSION_MS, beating=[a])

    assert (room.state, room.generation) == (S, 2)
    assert room.events.since(before) == []


@pytest.mark.proves("SE-05", "JG-29")
def test_member_that_does_not_rejoin_is_removed(
    room: Room,
) -> None:
    a, b = room.settled("a", "b")
    a.join()
    room.pass_ms(REBALANCE_MS - 1, beating=[b])
    assert b.heartbeat() is Error.REBALANCE_IN_PROGRESS
    room.pass_ms(1)

    assert b.heartbeat() is Error.UNKNOWN_MEMBER_ID
    assert b.join().answer == JoinGroupResponse(Error.UNKNOWN_MEMBER_ID, member_id=b.id)
    assert room.member_ids == {a.id}


@pytest.mark.proves("SE-01", "CO-06")
def test_loading_gives_every_member_a_full_session(room: Room) -> None:
    a, b = room.settled("a", "b")
    room.pass_ms(SESSION_MS - 1)
    room.restart()
    room.pass_ms(SESSION_MS - 1)
    assert room.member_ids == {a.id, b.id}
    room.pass_ms(1)

    assert room.member_ids == set()


# --- KIP-62 -----------------------------------------------------------------------------------------------------


def test_kip_62_rebalance_timeout_bounds_join_phase(room: Room) -> None:
    a, b = room.settled("a", "b", session_timeout_ms=6_000, rebalance_timeout_ms=120_000)
    a.join()
    room.pass_ms(119_999, beating=[b])
    assert (room.state, room.member_ids) == (PR, {a.id, b.id})
    room.pass_ms(1)

    assert (room.state, room.member_ids) == (CR, {a.id})


def test_kip_62_session_detects_dead_process(room: Room) -> None:
    a, _ = room.settled("a", "b", session_timeout_ms=6_000, rebalance_timeout_ms=120_000)
    room.pass_ms(6_000, beating=[a])

    assert room.member_ids == {a.id}


def test_kip_62_rebalance_timeout_below_session_timeout(room: Room) -> None:
    a, _ = room.settled("a", "b", session_timeout_ms=30_000, rebalance_timeout_ms=8_000)
    a.join()
    room.pass_ms(7_999)
    assert room.state is PR
    room.pass_ms(1)

    assert (room.state, room.member_ids) == (CR, {a.id})


@pytest.mark.proves("JG-26")
@pytest.mark.parametrize("timeouts_ms", [(20_000, 40_000, 90_000), (90_000, 20_000, 40_000)])
def test_kip_62_longest_rebalance_timeout_counts(room: Room, timeouts_ms: tuple[int, ...]) -> None:
    members = [
        room.member(f"m{number}", rebalance_timeout_ms=timeout_ms) for number, timeout_ms in enumerate(timeouts_ms)
    ]
    for member in members:
        member.join()
    room.end_initial_delay()
    room.sync(*members)
    first, *others = members
    first.join()
    room.pass_ms(89_999, beating=others)
    assert room.state is PR
    room.pass_ms(1)

    assert (room.state, room.member_ids) == (CR, {first.id})


@pytest.mark.proves("JG-26")
def test_kip_62_the_longest_timeout_leaves_with_its_member(room: Room) -> None:
    a = room.member("a", rebalance_timeout_ms=20_000)
    b = room.member("b", rebalance_timeout_ms=20_000)
    patient = room.member("patient", rebalance_timeout_ms=500_000)
    for member in (a, b, patient):
        member.join()
    room.end_initial_delay()
    room.sync(a, b, patient)
    patient.leave()
    a.join()
    room.pass_ms(20_000, beating=[b])

    assert (room.state, room.member_ids) == (CR, {a.id})


@pytest.mark.proves("JG-27")
def test_kip_62_v0_client_uses_session_timeout(room: Room) -> None:
    a, b = room.settled("a", "b", two_steps=False, session_timeout_ms=12_000, rebalance_timeout_ms=-1)
    a.join()
    room.pass_ms(11_999, beating=[b])
    assert room.state is PR
    room.pass_ms(1)

    assert (room.state, room.member_ids) == (CR, {a.id})


@pytest.mark.proves("JG-27", "SG-11")
def test_kip_62_rebalance_timeout_0_is_a_value(room: Room) -> None:
    a = room.member("a", rebalance_timeout_ms=0)
    joining = a.join()
    room.end_initial_delay()

    assert joining.answer.error is Error.NONE
    assert (room.state, room.generation, room.member_ids) == (E, 2, set())


@pytest.mark.proves("JG-27", "JG-26")
def test_kip_62_old_and_new_clients_share_longest_timeout(room: Room) -> None:
    old = room.member(
        "old", two_steps=False, skips_assignment=False, session_timeout_ms=12_000, rebalance_timeout_ms=-1
    )
    new = room.member("new", session_timeout_ms=10_000, rebalance_timeout_ms=45_000)
    old.join()
    new.join()
    room.end_initial_delay()
    room.sync(old, new)
    new.protocols = offering("range", topics=["u"])
    new.join()
    room.pass_ms(44_999, beating=[old])
    assert (room.state, old.heartbeat()) == (PR, Error.REBALANCE_IN_PROGRESS)
    room.pass_ms(1)

    assert (room.state, room.member_ids) == (CR, {new.id})


@pytest.mark.proves("HB-05", "HB-06", "HB-07")
def test_kip_62_heartbeats_get_responses_during_rebalance(room: Room) -> None:
    a, b = room.settled("a", "b")
    heard = [b.heartbeat()]
    a.join()
    heard.append(b.heartbeat())
    room.pass_ms(5_000)
    heard.append(b.heartbeat())
    b.join()
    heard += [a.heartbeat(), b.heartbeat()]
    a.sync()
    heard += [a.heartbeat(), b.heartbeat()]

    assert heard == [
        Error.NONE,
        Error.REBALANCE_IN_PROGRESS,
        Error.REBALANCE_IN_PROGRESS,
        Error.NONE,
        Error.NONE,
        Error.NONE,
        Error.NONE,
    ]


# --- waiting is told --------------------------------------------------------------------------------------------


def waits(room: Room, since: int) -> list[tuple[int, tuple[str, ...]]]:
    """When it was told, and for whom a round waits."""
    return [
        (event.time_ms, tuple(sorted(event.detail.waiting_for)))  # type: ignore[union-attr]
        for event in room.events.since(since, EventKind.REBALANCE_WAITING)
    ]


def test_long_rebalance_emits_waiting_members(room: Room) -> None:
    a, b = room.settled("a", "b")
    before, started_ms = room.events.mark(), room.now_ms
    c = room.member("c")
    c.join()
    room.pass_ms(999)
    assert waits(room, before) == []
    room.pass_ms(2)
    ((told_ms, waiting_for),) = waits(room, before)

    assert waiting_for == tuple(sorted([a.id, b.id]))
    assert told_ms - started_ms in (1_000, 1_001)
    (event,) = room.events.since(before, EventKind.REBALANCE_WAITING)
    waiting = room.coordinator.waiting_for(GROUP)
    assert event.detail == waiting
    assert waiting is not None
    assert waiting.until_ms == started_ms + REBALANCE_MS


def test_waiting_members_event_is_rate_limited(
    room: Room,
) -> None:
    a, b = room.settled("a", "b")
    before = room.events.mark()
    room.member("c").join()
    room.pass_ms(5_000)
    assert len(waits(room, before)) == 1
    a.join()
    room.pass_ms(1_000)
    assert [waiting_for for _, waiting_for in waits(room, before)] == [tuple(sorted([a.id, b.id])), (b.id,)]
    room.pass_ms(3_000)
    b.heartbeat()
    assert len(waits(room, before)) == 2
    b.join()

    assert room.state is CR
    assert len(waits(room, before)) == 2


def test_short_rebalance_emits_no_waiting_event(room: Room) -> None:
    a, b = room.settled("a", "b")
    before = room.events.mark()
    a.join()
    room.pass_ms(500)
    b.join()
    room.pass_ms(400)
    room.sync(a, b)
    room.pass_ms(5_000)

    assert waits(room, before) == []
    assert room.coordinator.waiting_for(GROUP) is None


def test_round_waits_for_an_issued_id_too(room: Room) -> None:
    (a,) = room.settled("a")
    b = room.member("b")
    b.ask_to_join()
    before = room.events.mark()
    a.join()
    room.pass_ms(1_001)

    assert [waiting_for for _, waiting_for in waits(room, before)] == [(b.id,)]


def test_round_whose_leader_does_not_sync_waits_for_it(room: Room) -> None:
    a, b = room.settled("a", "b")
    a.join()
    b.join()
    b.sync()
    before = room.events.mark()
    room.pass_ms(1_001)

    assert [waiting_for for _, waiting_for in waits(room, before)] == [(a.id,)]


def test_no_waiting_members_without_rebalance(room: Room) -> None:
    assert room.coordinator.waiting_for(GROUP) is None
    (a,) = room.settled("a")
    assert room.coordinator.waiting_for(GROUP) is None
    a.leave()

    assert room.coordinator.waiting_for(GROUP) is None
