"""The virtual clock."""

import pytest

from slackwater.sim.event_queue import EventQueue, NoProgressError


def test_things_happen_in_order_of_time_and_at_the_same_time_in_the_order_planned() -> None:
    agenda, seen = EventQueue(), list[str]()
    agenda.at(20, lambda: seen.append("c"))
    agenda.at(10, lambda: seen.append("a"))
    agenda.at(10, lambda: seen.append("b"))

    agenda.run_until(20)

    assert seen == ["a", "b", "c"]
    assert agenda.now_ms == 20


def test_what_is_planned_for_the_past_happens_now() -> None:
    agenda, seen = EventQueue(now_ms=50), list[int]()
    agenda.at(10, lambda: seen.append(agenda.now_ms))

    agenda.run_until(60)

    assert seen == [50]


def test_a_standstill_is_an_error_and_not_an_endless_loop() -> None:
    agenda = EventQueue()

    def again() -> None:
        agenda.after(0, again)

    agenda.after(0, again)

    with pytest.raises(NoProgressError, match="time does not move on"):
        agenda.run_until(1)
