"""The event queue of the simulator."""

import pytest

from slackwater.sim.event_queue import EventQueue, NoProgressError


def test_actions_run_by_time_then_by_insertion() -> None:
    queue, calls = EventQueue(), list[str]()
    queue.at(20, lambda: calls.append("c"))
    queue.at(10, lambda: calls.append("a"))
    queue.at(10, lambda: calls.append("b"))

    queue.run_until(20)

    assert calls == ["a", "b", "c"]
    assert queue.now_ms == 20


def test_action_in_the_past_runs_now() -> None:
    queue, calls = EventQueue(now_ms=50), list[int]()
    queue.at(10, lambda: calls.append(queue.now_ms))

    queue.run_until(60)

    assert calls == [50]


def test_endless_actions_at_one_time_are_an_error() -> None:
    queue = EventQueue()

    def again() -> None:
        queue.after(0, again)

    queue.after(0, again)

    with pytest.raises(NoProgressError, match="time does not move on"):
        queue.run_until(1)
