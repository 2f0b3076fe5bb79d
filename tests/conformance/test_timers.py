"""Section 7 of the catalogue: session timers and the two timeouts of KIP-62."""

import pytest

from slackwater.group.errors import Error
from slackwater.group.events import EventKind, GroupState, MemberTimedOut, Trigger
from slackwater.group.messages import JoinGroupResponse

from .coordinator_harness import GROUP, REBALANCE_MS, SESSION_MS, CoordinatorHarness, join_protocols

E = GroupState.EMPTY
PR = GroupState.PREPARING_REBALANCE
CR = GroupState.COMPLETING_REBALANCE
S = GroupState.STABLE


# --- sessions ---------------------------------------------------------------------------------------------------------


@pytest.mark.proves("SE-02")
def test_silent_member_expires_at_session_timeout(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    harness.advance_ms(4_000)
    a.heartbeat()
    b.heartbeat()
    heartbeat_ms = harness.now_ms
    harness.advance_ms(SESSION_MS - 1, heartbeating=[a])
    assert (harness.state, harness.member_ids) == (S, {a.id, b.id})
    before = harness.events.mark()
    harness.advance_ms(1)

    assert (harness.state, harness.generation, harness.member_ids) == (PR, 1, {a.id})
    assert harness.rebalances(before) == [(Trigger.SESSION_TIMEOUT, b.id)]
    (expired,) = harness.events.since(before, EventKind.MEMBER_EXPIRED)
    assert (expired.member, expired.time_ms) == (b.id, heartbeat_ms + SESSION_MS)
    assert isinstance(expired.detail, MemberTimedOut)
    assert (expired.detail.timer_ms, expired.detail.last_heard_ms) == (SESSION_MS, heartbeat_ms)


@pytest.mark.proves("SE-02")
def test_manual_expiration_equals_session_timeout(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    before = harness.events.mark()
    harness.execute(harness.coordinator.expire_member(GROUP, b.id, harness.now_ms))

    assert (harness.state, harness.member_ids) == (PR, {a.id})
    assert harness.rebalances(before) == [(Trigger.SESSION_TIMEOUT, b.id)]
    assert b.heartbeat() is Error.UNKNOWN_MEMBER_ID


@pytest.mark.proves("SE-02", "ST-11")
def test_expiration_of_last_member_empties_group(harness: CoordinatorHarness) -> None:
    harness.stable_group("a")
    harness.advance_ms(SESSION_MS)

    assert (harness.state, harness.generation) == (E, 2)


@pytest.mark.proves("SE-02")
def test_expiration_during_rebalance_can_end_join_phase(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    join_call = a.join()
    harness.advance_ms(SESSION_MS - 1)
    assert join_call.parked
    before = harness.events.mark()
    harness.advance_ms(1)

    assert join_call.response == a.expected_join_response(generation=2, leader=a.id, members=[a])
    assert b.heartbeat() is Error.UNKNOWN_MEMBER_ID
    assert harness.rebalances(before) == []


@pytest.mark.proves("SE-02")
def test_all_expired_members_are_removed(harness: CoordinatorHarness) -> None:
    a, b, c = harness.stable_group("a", "b", "c")
    harness.advance_ms(SESSION_MS - 1, heartbeating=[a])
    harness.advance_ms(1)

    assert harness.member_ids == {a.id}
    assert {event.member for event in harness.events.of(EventKind.MEMBER_EXPIRED)} == {b.id, c.id}


@pytest.mark.proves("SE-03")
def test_member_with_parked_join_does_not_expire(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    join_call = a.join()
    harness.advance_ms(3 * SESSION_MS, heartbeating=[b])

    assert join_call.parked
    assert harness.member_ids == {a.id, b.id}


@pytest.mark.proves("SE-03")
def test_member_with_parked_sync_does_not_expire(harness: CoordinatorHarness) -> None:
    a, b = harness.completing_group("a", "b")
    sync_call = b.sync()
    harness.advance_ms(3 * SESSION_MS, heartbeating=[a])

    assert sync_call.parked
    assert harness.member_ids == {a.id, b.id}


@pytest.mark.proves("SE-03", "JG-25")
def test_response_restarts_session_of_parked_member(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    a.join()
    harness.advance_ms(3 * SESSION_MS, heartbeating=[b])
    b.join()
    assert harness.state is CR
    harness.advance_ms(SESSION_MS - 1, heartbeating=[b])
    assert a.id in harness.member_ids
    harness.advance_ms(1)

    assert a.id not in harness.member_ids


@pytest.mark.proves("SE-04")
def test_session_timer_of_replaced_id_has_no_effect(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b", static=True)
    harness.advance_ms(5_000, heartbeating=[a])
    restarted = b.restarted()
    restarted.join()
    before = harness.events.mark()
    harness.advance_ms(30_000, heartbeating=[a, restarted])

    assert (harness.state, harness.generation, harness.member_ids) == (S, 1, {a.id, restarted.id})
    assert harness.events.since(before) == []


@pytest.mark.proves("SE-04")
def test_session_timer_of_former_member_has_no_effect(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    b.leave()
    harness.rebalance(a)
    before = harness.events.mark()
    harness.advance_ms(3 * SESSION_MS, heartbeating=[a])

    assert (harness.state, harness.generation) == (S, 2)
    assert harness.events.since(before) == []


@pytest.mark.proves("SE-05", "JG-29")
def test_member_that_does_not_rejoin_is_removed(
    harness: CoordinatorHarness,
) -> None:
    a, b = harness.stable_group("a", "b")
    a.join()
    harness.advance_ms(REBALANCE_MS - 1, heartbeating=[b])
    assert b.heartbeat() is Error.REBALANCE_IN_PROGRESS
    harness.advance_ms(1)

    assert b.heartbeat() is Error.UNKNOWN_MEMBER_ID
    assert b.join().response == JoinGroupResponse(Error.UNKNOWN_MEMBER_ID, member_id=b.id)
    assert harness.member_ids == {a.id}


@pytest.mark.proves("SE-01", "CO-06")
def test_load_starts_full_sessions(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    harness.advance_ms(SESSION_MS - 1)
    harness.restart()
    harness.advance_ms(SESSION_MS - 1)
    assert harness.member_ids == {a.id, b.id}
    harness.advance_ms(1)

    assert harness.member_ids == set()


# --- KIP-62 -----------------------------------------------------------------------------------------------------------


def test_kip_62_rebalance_timeout_bounds_join_phase(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b", session_timeout_ms=6_000, rebalance_timeout_ms=120_000)
    a.join()
    harness.advance_ms(119_999, heartbeating=[b])
    assert (harness.state, harness.member_ids) == (PR, {a.id, b.id})
    harness.advance_ms(1)

    assert (harness.state, harness.member_ids) == (CR, {a.id})


def test_kip_62_session_detects_dead_process(harness: CoordinatorHarness) -> None:
    a, _ = harness.stable_group("a", "b", session_timeout_ms=6_000, rebalance_timeout_ms=120_000)
    harness.advance_ms(6_000, heartbeating=[a])

    assert harness.member_ids == {a.id}


def test_kip_62_rebalance_timeout_below_session_timeout(harness: CoordinatorHarness) -> None:
    a, _ = harness.stable_group("a", "b", session_timeout_ms=30_000, rebalance_timeout_ms=8_000)
    a.join()
    harness.advance_ms(7_999)
    assert harness.state is PR
    harness.advance_ms(1)

    assert (harness.state, harness.member_ids) == (CR, {a.id})


@pytest.mark.proves("JG-26")
@pytest.mark.parametrize("timeouts_ms", [(20_000, 40_000, 90_000), (90_000, 20_000, 40_000)])
def test_kip_62_longest_rebalance_timeout_counts(harness: CoordinatorHarness, timeouts_ms: tuple[int, ...]) -> None:
    members = [
        harness.member(f"m{number}", rebalance_timeout_ms=timeout_ms) for number, timeout_ms in enumerate(timeouts_ms)
    ]
    for member in members:
        member.join()
    harness.end_initial_delay()
    harness.sync(*members)
    first, *others = members
    first.join()
    harness.advance_ms(89_999, heartbeating=others)
    assert harness.state is PR
    harness.advance_ms(1)

    assert (harness.state, harness.member_ids) == (CR, {first.id})


@pytest.mark.proves("JG-26")
def test_kip_62_timeout_of_former_member_does_not_count(harness: CoordinatorHarness) -> None:
    a = harness.member("a", rebalance_timeout_ms=20_000)
    b = harness.member("b", rebalance_timeout_ms=20_000)
    former = harness.member("former", rebalance_timeout_ms=500_000)
    for member in (a, b, former):
        member.join()
    harness.end_initial_delay()
    harness.sync(a, b, former)
    former.leave()
    a.join()
    harness.advance_ms(20_000, heartbeating=[b])

    assert (harness.state, harness.member_ids) == (CR, {a.id})


@pytest.mark.proves("JG-27")
def test_kip_62_v0_client_uses_session_timeout(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b", requires_known_id=False, session_timeout_ms=12_000, rebalance_timeout_ms=-1)
    a.join()
    harness.advance_ms(11_999, heartbeating=[b])
    assert harness.state is PR
    harness.advance_ms(1)

    assert (harness.state, harness.member_ids) == (CR, {a.id})


@pytest.mark.proves("JG-27", "SG-11")
def test_kip_62_rebalance_timeout_0_is_a_value(harness: CoordinatorHarness) -> None:
    a = harness.member("a", rebalance_timeout_ms=0)
    join_call = a.join()
    harness.end_initial_delay()

    assert join_call.response.error is Error.NONE
    assert (harness.state, harness.generation, harness.member_ids) == (E, 2, set())


@pytest.mark.proves("JG-27", "JG-26")
def test_kip_62_old_and_new_clients_share_longest_timeout(harness: CoordinatorHarness) -> None:
    old = harness.member(
        "old", requires_known_id=False, skips_assignment=False, session_timeout_ms=12_000, rebalance_timeout_ms=-1
    )
    new = harness.member("new", session_timeout_ms=10_000, rebalance_timeout_ms=45_000)
    old.join()
    new.join()
    harness.end_initial_delay()
    harness.sync(old, new)
    new.protocols = join_protocols("range", topics=["u"])
    new.join()
    harness.advance_ms(44_999, heartbeating=[old])
    assert (harness.state, old.heartbeat()) == (PR, Error.REBALANCE_IN_PROGRESS)
    harness.advance_ms(1)

    assert (harness.state, harness.member_ids) == (CR, {new.id})


@pytest.mark.proves("HB-05", "HB-06", "HB-07")
def test_kip_62_heartbeats_get_responses_during_rebalance(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    errors = [b.heartbeat()]
    a.join()
    errors.append(b.heartbeat())
    harness.advance_ms(5_000)
    errors.append(b.heartbeat())
    b.join()
    errors += [a.heartbeat(), b.heartbeat()]
    a.sync()
    errors += [a.heartbeat(), b.heartbeat()]

    assert errors == [
        Error.NONE,
        Error.REBALANCE_IN_PROGRESS,
        Error.REBALANCE_IN_PROGRESS,
        Error.NONE,
        Error.NONE,
        Error.NONE,
        Error.NONE,
    ]


# --- waiting members --------------------------------------------------------------------------------------------------


def waiting_events(harness: CoordinatorHarness, since: int) -> list[tuple[int, tuple[str, ...]]]:
    """Return time and member ids of the REBALANCE_WAITING events."""
    return [
        (event.time_ms, tuple(sorted(event.detail.waiting_for)))  # type: ignore[union-attr]
        for event in harness.events.since(since, EventKind.REBALANCE_WAITING)
    ]


def test_long_rebalance_emits_waiting_members(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    before, started_ms = harness.events.mark(), harness.now_ms
    c = harness.member("c")
    c.join()
    harness.advance_ms(999)
    assert waiting_events(harness, before) == []
    harness.advance_ms(2)
    ((emitted_ms, waiting_for),) = waiting_events(harness, before)

    assert waiting_for == tuple(sorted([a.id, b.id]))
    assert emitted_ms - started_ms in (1_000, 1_001)
    (event,) = harness.events.since(before, EventKind.REBALANCE_WAITING)
    waiting = harness.coordinator.waiting_for(GROUP)
    assert event.detail == waiting
    assert waiting is not None
    assert waiting.until_ms == started_ms + REBALANCE_MS


def test_waiting_members_event_is_rate_limited(
    harness: CoordinatorHarness,
) -> None:
    a, b = harness.stable_group("a", "b")
    before = harness.events.mark()
    harness.member("c").join()
    harness.advance_ms(5_000)
    assert len(waiting_events(harness, before)) == 1
    a.join()
    harness.advance_ms(1_000)
    assert [waiting_for for _, waiting_for in waiting_events(harness, before)] == [tuple(sorted([a.id, b.id])), (b.id,)]
    harness.advance_ms(3_000)
    b.heartbeat()
    assert len(waiting_events(harness, before)) == 2
    b.join()

    assert harness.state is CR
    assert len(waiting_events(harness, before)) == 2


def test_short_rebalance_emits_no_waiting_event(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    before = harness.events.mark()
    a.join()
    harness.advance_ms(500)
    b.join()
    harness.advance_ms(400)
    harness.sync(a, b)
    harness.advance_ms(5_000)

    assert waiting_events(harness, before) == []
    assert harness.coordinator.waiting_for(GROUP) is None


def test_waiting_members_include_pending_id(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    b = harness.member("b")
    b.send_join()
    before = harness.events.mark()
    a.join()
    harness.advance_ms(1_001)

    assert [waiting_for for _, waiting_for in waiting_events(harness, before)] == [(b.id,)]


def test_waiting_members_include_leader_without_sync(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    a.join()
    b.join()
    b.sync()
    before = harness.events.mark()
    harness.advance_ms(1_001)

    assert [waiting_for for _, waiting_for in waiting_events(harness, before)] == [(a.id,)]


def test_no_waiting_members_without_rebalance(harness: CoordinatorHarness) -> None:
    assert harness.coordinator.waiting_for(GROUP) is None
    (a,) = harness.stable_group("a")
    assert harness.coordinator.waiting_for(GROUP) is None
    a.leave()

    assert harness.coordinator.waiting_for(GROUP) is None
