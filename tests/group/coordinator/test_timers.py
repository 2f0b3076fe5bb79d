"""Timers without a clock."""

from hypothesis import given
from hypothesis import strategies as st

from slackwater.group.coordinator.timers import MIN_COMPACT_SIZE, Timer, Timers


def _fired(timers: Timers[str], now_ms: int) -> list[str]:
    names = []
    while (timer := timers.pop(now_ms)) is not None:
        names.append(timer.owner)
    return names


def test_timers_fire_in_order_of_deadline() -> None:
    timers: Timers[str] = Timers()
    for name, deadline_ms in (("b", 20), ("a", 10), ("c", 20)):
        timers.arm(Timer(name), deadline_ms)

    assert timers.next_due_ms() == 10
    assert _fired(timers, 9) == []
    assert _fired(timers, 20) == ["a", "b", "c"]
    assert timers.next_due_ms() is None


def test_may_be_due_checks_only_the_heap_top() -> None:
    timers: Timers[str] = Timers()
    assert not timers.may_be_due(1_000)
    timer = Timer("a")
    timers.arm(timer, 10)
    assert not timers.may_be_due(9)
    assert timers.may_be_due(10)
    timer.cancel()
    assert _fired(timers, 10) == []
    assert not timers.may_be_due(1_000)


def test_later_deadline_is_an_assignment() -> None:
    timers: Timers[str] = Timers()
    timer = Timer("a")
    timers.arm(timer, 10)

    timer.deadline_ms = 30

    assert timers.next_due_ms() == 30
    assert _fired(timers, 29) == []
    assert _fired(timers, 30) == ["a"]


def test_earlier_deadline_fires_once() -> None:
    timers: Timers[str] = Timers()
    timer = Timer("a")
    timers.arm(timer, 300)
    timers.arm(timer, 10)

    assert _fired(timers, 10) == ["a"]
    assert _fired(timers, 1_000) == []


def test_cancelled_timer_does_not_fire_until_armed_again() -> None:
    timers: Timers[str] = Timers()
    timer = Timer("a")
    timers.arm(timer, 10)
    timer.cancel()

    assert timers.next_due_ms() is None
    assert _fired(timers, 1_000) == []

    timers.arm(timer, 2_000)
    assert _fired(timers, 2_000) == ["a"]


_step = st.tuples(st.sampled_from(["arm", "cancel", "pass"]), st.integers(0, 4), st.integers(0, 50))


@given(st.lists(_step, max_size=60))
def test_timers_agree_with_a_plain_list(steps: list[tuple[str, int, int]]) -> None:
    timers: Timers[str] = Timers()
    all_timers = [Timer(str(number)) for number in range(5)]
    deadlines: dict[str, int] = {}
    now_ms = 0
    for action, index, amount_ms in steps:
        timer = all_timers[index]
        if action == "arm":
            timers.arm(timer, now_ms + amount_ms)
            deadlines[timer.owner] = now_ms + amount_ms
        elif action == "cancel":
            timer.cancel()
            deadlines.pop(timer.owner, None)
        else:
            now_ms += amount_ms
            due = sorted(name for name, deadline_ms in deadlines.items() if deadline_ms <= now_ms)
            assert sorted(_fired(timers, now_ms)) == due
            for name in due:
                del deadlines[name]
        assert timers.next_due_ms() == min(deadlines.values(), default=None)


def test_cancelled_timers_are_removed_from_heap() -> None:
    timers: Timers[str] = Timers()
    active = Timer("active")
    timers.arm(active, 1_000_000)
    for number in range(10_000):
        timer = Timer(f"cancelled {number}")
        timers.arm(timer, 500_000)
        timer.cancel()
    assert len(timers) <= MIN_COMPACT_SIZE
    timers.arm(timer, 400_000)
    assert _fired(timers, 1_000_000) == ["cancelled 9999", "active"]
