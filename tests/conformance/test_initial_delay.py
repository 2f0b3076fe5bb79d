"""The initial delay of KIP-134 (JG-34 … JG-37)."""

import pytest

from slackwater.group.errors import Error
from slackwater.group.events import EventKind, GroupState, RebalanceStarted, Trigger
from slackwater.group.messages import JoinGroupResponse

from .coordinator_harness import GROUP, SESSION_MS, Call, CoordinatorHarness, join_protocols

DELAY_MS = 3_000
E = GroupState.EMPTY
IR = GroupState.INITIAL_REBALANCE
PR = GroupState.PREPARING_REBALANCE
CR = GroupState.COMPLETING_REBALANCE


def join_at(
    harness: CoordinatorHarness, *arrivals_ms: int, **settings: int
) -> tuple[int, list[Call[JoinGroupResponse]]]:
    """Let members join at these times; return the length of the initial delay and the JoinGroup calls."""
    started_ms, join_calls = harness.now_ms, []
    for number, arrival_ms in enumerate(arrivals_ms):
        harness.advance_ms(started_ms + arrival_ms - harness.now_ms)
        assert number == 0 or harness.state is IR, f"the delay ended before {arrival_ms} ms"
        join_calls.append(harness.member(f"m{number}", requires_known_id=False, **settings).join())
    harness.end_initial_delay()
    return harness.now_ms - started_ms, join_calls


@pytest.mark.proves("JG-34", "JG-36")
def test_kip_134_single_member_waits_one_delay(harness: CoordinatorHarness) -> None:
    lasted_ms, join_calls = join_at(harness, 0)

    assert lasted_ms == DELAY_MS
    assert (harness.state, harness.generation) == (CR, 1)
    assert join_calls[0].response.error is Error.NONE


@pytest.mark.proves("JG-34", "JG-35")
@pytest.mark.parametrize(
    ("arrivals_ms", "rebalance_timeout_ms", "lasts_ms"),
    [
        ((0, 1_000), 60_000, 6_000),
        ((0, 2_999), 60_000, 6_000),
        ((0, 1_000, 2_000), 60_000, 6_000),
        ((0, 2_000, 5_000), 60_000, 9_000),
        ((0, 1_000), 4_000, 4_000),
        ((0, 1_000, 3_500), 7_500, 7_500),
        ((0, 1_000), 3_000, 3_000),
        ((0, 1_000), 2_000, 3_000),
    ],
    ids=[
        "one new member, one extension",
        "one new member before the deadline",
        "two new members, one extension",
        "one new member per delay",
        "limited by the rebalance timeout",
        "the last extension is shorter",
        "no time left for an extension",
        "the delay is longer than the rebalance timeout",
    ],
)
def test_kip_134_new_member_extends_delay(
    harness: CoordinatorHarness, arrivals_ms: tuple[int, ...], rebalance_timeout_ms: int, lasts_ms: int
) -> None:
    lasted_ms, join_calls = join_at(harness, *arrivals_ms, rebalance_timeout_ms=rebalance_timeout_ms)

    assert lasted_ms == lasts_ms
    assert {call.response.generation_id for call in join_calls} == {1}
    assert harness.state is CR


@pytest.mark.proves("JG-35")
@pytest.mark.parametrize("rebalance_timeout_ms", [10_000, 12_000, 12_500])
def test_kip_134_delay_is_capped_by_rebalance_timeout(harness: CoordinatorHarness, rebalance_timeout_ms: int) -> None:
    arrivals_ms = range(0, rebalance_timeout_ms, 500)
    lasted_ms, join_calls = join_at(harness, *arrivals_ms, rebalance_timeout_ms=rebalance_timeout_ms)

    assert lasted_ms == rebalance_timeout_ms
    assert len(harness.group.members) == len(join_calls) == len(arrivals_ms)
    assert {call.response.generation_id for call in join_calls} == {1}


@pytest.mark.proves("JG-34")
def test_kip_134_first_member_sets_the_cap(harness: CoordinatorHarness) -> None:
    started_ms = harness.now_ms
    harness.member("a", rebalance_timeout_ms=5_000).join()
    harness.member("b", rebalance_timeout_ms=600_000).join()
    harness.end_initial_delay()

    assert harness.now_ms - started_ms == 5_000


@pytest.mark.proves("JG-34")
def test_kip_134_delay_of_0_responds_at_once() -> None:
    harness = CoordinatorHarness(group_initial_rebalance_delay_ms=0)
    a = harness.member("a")

    assert a.join().response == a.expected_join_response(generation=1, leader=a.id, members=[a])
    assert harness.state is CR


@pytest.mark.proves("JG-34", "JG-35")
def test_kip_134_delay_above_timeout_is_not_extended() -> None:
    harness = CoordinatorHarness(group_initial_rebalance_delay_ms=20_000)
    lasted_ms, _ = join_at(harness, 0, 1_000, 19_999, rebalance_timeout_ms=15_000)

    assert lasted_ms == 20_000


@pytest.mark.proves("JG-36", "ST-05")
def test_kip_134_emptied_group_is_delayed_again(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    b.leave()
    a.leave()
    assert (harness.state, harness.generation) == (E, 2)
    lasted_ms, join_calls = join_at(harness, 0, 1_000)

    assert lasted_ms == 2 * DELAY_MS
    assert {call.response.generation_id for call in join_calls} == {3}


@pytest.mark.proves("JG-36")
def test_kip_134_repeated_join_does_not_extend_delay(harness: CoordinatorHarness) -> None:
    a = harness.member("a")
    a.join()
    started_ms = harness.now_ms
    harness.advance_ms(1_000)
    joined_again = harness.member("a")
    joined_again.id = a.id
    joined_again.join()
    harness.end_initial_delay()

    assert harness.now_ms - started_ms == DELAY_MS


@pytest.mark.proves("JG-37", "JG-28")
def test_kip_134_delay_does_not_end_when_all_have_joined(harness: CoordinatorHarness) -> None:
    join_calls = [harness.member("a").join(), harness.member("b").join()]
    harness.advance_ms(DELAY_MS - 1)

    assert [call.parked for call in join_calls] == [True, True]
    assert harness.state is IR


@pytest.mark.proves("JG-37", "JG-10")
def test_kip_134_expired_pending_id_ends_delay_early() -> None:
    harness = CoordinatorHarness(group_initial_rebalance_delay_ms=20_000)
    pending = harness.member("pending", session_timeout_ms=6_000)
    pending.send_join()
    join_call = harness.member("a").join()
    harness.advance_ms(5_999)
    assert join_call.parked
    harness.advance_ms(1)

    assert join_call.response.error is Error.NONE
    assert (harness.state, harness.generation) == (CR, 1)


@pytest.mark.proves("JG-37", "LG-07")
def test_kip_134_leaving_pending_id_does_not_end_delay() -> None:
    harness = CoordinatorHarness(group_initial_rebalance_delay_ms=20_000)
    pending = harness.member("pending")
    pending.send_join()
    join_call = harness.member("a").join()
    pending.leave()

    assert join_call.parked
    assert (harness.state, dict(harness.group.pending_members)) == (IR, {})


@pytest.mark.proves("JG-37", "JG-11")
def test_kip_134_delay_does_not_wait_for_pending_id(harness: CoordinatorHarness) -> None:
    pending = harness.member("pending")
    pending.send_join()
    join_call = harness.member("a").join()
    harness.advance_ms(DELAY_MS)

    assert join_call.response.error is Error.NONE
    assert set(harness.group.pending_members) == {pending.id}


@pytest.mark.proves("LG-09")
def test_kip_134_leaving_member_does_not_end_delay(harness: CoordinatorHarness) -> None:
    a, b = harness.member("a"), harness.member("b")
    join_calls = [a.join(), b.join()]
    b.leave()

    assert join_calls[0].parked
    assert join_calls[1].response == JoinGroupResponse(Error.UNKNOWN_MEMBER_ID)
    assert harness.state is IR


@pytest.mark.proves("LG-09", "ST-08")
def test_kip_134_group_without_members_becomes_empty(harness: CoordinatorHarness) -> None:
    a = harness.member("a")
    a.join()
    a.leave()
    harness.advance_ms(DELAY_MS)

    assert (harness.state, harness.generation, harness.member_ids) == (E, 1, set())


def test_kip_134_initial_state_is_preparing_on_the_wire(
    harness: CoordinatorHarness,
) -> None:
    a = harness.member("a")
    a.join()

    assert harness.state is IR
    (started,) = harness.events.of(EventKind.REBALANCE_STARTED)
    assert (started.trigger, started.state_before, started.state_after) == (Trigger.MEMBER_JOIN, E, IR)
    assert isinstance(started.detail, RebalanceStarted)
    assert started.detail.initial_delay
    assert harness.describe().state == "PreparingRebalance"
    assert [group.state for group in harness.listed()] == ["PreparingRebalance"]
    assert [group.group_id for group in harness.listed("preparingrebalance")] == [GROUP]
    assert harness.listed("InitialRebalance") == []


def test_kip_134_group_with_members_is_not_delayed(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    b = harness.member("b")
    join_call = b.join()
    assert harness.state is PR
    a.join()

    assert join_call.responded_ms == harness.now_ms
    assert harness.state is CR
    assert harness.events.moves()[-2:] == [(GroupState.STABLE, PR), (PR, CR)]


def test_kip_134_heartbeat_during_delay_is_rejected(harness: CoordinatorHarness) -> None:
    a = harness.member("a")
    a.join()
    assert a.heartbeat() is Error.ILLEGAL_GENERATION
    a.generation = 0

    assert a.heartbeat() is Error.REBALANCE_IN_PROGRESS


@pytest.mark.proves("JG-24", "JG-37")
def test_kip_134_sessions_do_not_expire_during_delay() -> None:
    harness = CoordinatorHarness(group_initial_rebalance_delay_ms=30_000)
    a = harness.member("a", protocols=join_protocols("range"))
    join_call = a.join()
    harness.advance_ms(2 * SESSION_MS)

    assert join_call.parked
    assert harness.member_ids == {a.id}
