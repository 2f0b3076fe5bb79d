"""The task's transition table is complete and consistent."""

import itertools

import pytest

from slackwater.group.work.task import TASK_TRANSITIONS, TaskInput, TaskState

ENDS = {TaskState.DONE, TaskState.DROPPED}


def test_table_has_every_state_and_input() -> None:
    assert set(TASK_TRANSITIONS) == set(TaskState)
    for state, inputs in TASK_TRANSITIONS.items():
        assert set(inputs) == set(TaskInput), state


@pytest.mark.parametrize("end", sorted(ENDS))
def test_final_states_ignore_inputs(end: TaskState) -> None:
    assert set(TASK_TRANSITIONS[end].values()) == {None}


def test_every_state_is_reachable() -> None:
    targets = {target for inputs in TASK_TRANSITIONS.values() for target in inputs.values() if target is not None}
    assert targets == set(TaskState)
    for state in set(TaskState) - ENDS:
        assert any(target is not None for target in TASK_TRANSITIONS[state].values()), state


def test_done_needs_success_or_dead_letter() -> None:
    into_done = {
        (state, task_input)
        for state, task_input in itertools.product(TaskState, TaskInput)
        if TASK_TRANSITIONS[state][task_input] is TaskState.DONE
    }
    assert into_done == {
        (TaskState.RUNNING, TaskInput.FINISH),
        (TaskState.DEAD_LETTERING, TaskInput.WRITTEN),
    }


def test_drop_abandons_only_running_tasks() -> None:
    dropped = {state: TASK_TRANSITIONS[state][TaskInput.DROP] for state in TaskState}
    assert dropped.pop(TaskState.RUNNING) is TaskState.ABANDONED
    assert set(dropped.values()) == {TaskState.DROPPED, None}


def test_abandoned_task_ends_as_dropped() -> None:
    outcomes = {target for target in TASK_TRANSITIONS[TaskState.ABANDONED].values() if target is not None}
    assert outcomes == {TaskState.DROPPED}
