"""A task's table: complete, without dead ends where none should be."""

import itertools

import pytest

from slackwater.group.work.task import TASK_TRANSITIONS, TaskInput, TaskState

ENDS = {TaskState.DONE, TaskState.DROPPED}


def test_every_state_answers_every_input() -> None:
    assert set(TASK_TRANSITIONS) == set(TaskState)
    for state, inputs in TASK_TRANSITIONS.items():
        assert set(inputs) == set(TaskInput), state


@pytest.mark.parametrize("end", sorted(ENDS))
def test_nothing_moves_a_task_that_has_come_to_its_end(end: TaskState) -> None:
    assert set(TASK_TRANSITIONS[end].values()) == {None}


def test_every_state_can_be_reached_and_left() -> None:
    targets = {target for inputs in TASK_TRANSITIONS.values() for target in inputs.values() if target is not None}
    assert targets == set(TaskState)
    for state in set(TaskState) - ENDS:
        assert any(target is not None for target in TASK_TRANSITIONS[state].values()), state


def test_a_record_is_done_only_when_it_was_handled_or_its_dead_letter_was_written() -> None:
    into_done = {
        (state, what)
        for state, what in itertools.product(TaskState, TaskInput)
        if TASK_TRANSITIONS[state][what] is TaskState.DONE
    }
    assert into_done == {
        (TaskState.RUNNING, TaskInput.FINISH),
        (TaskState.DEAD_LETTERING, TaskInput.WRITTEN),
    }


def test_a_dropped_task_is_gone_unless_a_worker_still_holds_it() -> None:
    dropped = {state: TASK_TRANSITIONS[state][TaskInput.DROP] for state in TaskState}
    assert dropped.pop(TaskState.RUNNING) is TaskState.ABANDONED
    assert set(dropped.values()) == {TaskState.DROPPED, None}


def test_an_abandoned_task_ends_in_the_same_way_whatever_its_worker_says() -> None:
    outcomes = {target for target in TASK_TRANSITIONS[TaskState.ABANDONED].values() if target is not None}
    assert outcomes == {TaskState.DROPPED}
