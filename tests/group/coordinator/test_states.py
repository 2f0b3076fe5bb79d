"""The coordinator's transition table is complete, valid, and matches simulated runs."""

import pytest

from slackwater.group.coordinator.states import NEXT_STATES, TRANSITIONS, GroupAction, GroupInput
from slackwater.group.errors import Error
from slackwater.group.events import GroupEvent, GroupState
from slackwater.sim.checkers import Checker
from slackwater.sim.scenario import scenario
from slackwater.sim.simulation import Simulation


@pytest.mark.parametrize("group_input", GroupInput)
def test_every_state_handles_every_input(group_input: GroupInput) -> None:
    assert set(TRANSITIONS[group_input]) == set(GroupState)


def test_every_state_has_next_states() -> None:
    assert set(NEXT_STATES) == set(GroupState)


def _reachable(state: GroupState) -> set[GroupState]:
    """Return the states that one input can lead to; a rebalance may end in the step that starts it."""
    first = set(NEXT_STATES[state])
    return first.union(*(NEXT_STATES[GroupState.PREPARING_REBALANCE] for _ in first & {GroupState.PREPARING_REBALANCE}))


@pytest.mark.parametrize("group_input", GroupInput)
def test_next_states_are_allowed(group_input: GroupInput) -> None:
    for state, transition in TRANSITIONS[group_input].items():
        assert set(transition.next_states) <= _reachable(state), (group_input, state)


@pytest.mark.parametrize("group_input", GroupInput)
def test_only_rejections_have_an_error(group_input: GroupInput) -> None:
    for transition in TRANSITIONS[group_input].values():
        assert (transition.error is not Error.NONE) == (transition.action is GroupAction.REJECT)
        assert not (
            transition.next_states
            and transition.action in (GroupAction.REJECT, GroupAction.RESPOND, GroupAction.IGNORE)
        )


def test_nothing_leaves_dead() -> None:
    assert all(
        not transition.next_states
        for row in TRANSITIONS.values()
        for state, transition in row.items()
        if state == "Dead"
    )


class _StateChanges(Checker):
    """Collects the state changes of the events."""

    seen: set[tuple[GroupState, GroupState]]

    def on_event(self, event: GroupEvent) -> None:
        if event.state_before is not None and event.state_after is not None:
            self.seen.add((event.state_before, event.state_after))


def test_random_runs_use_only_table_transitions() -> None:
    _StateChanges.seen = set()
    for seed in range(60):
        Simulation(scenario(seed), checkers=[_StateChanges]).run()

    in_table = {
        (state, target)
        for row in TRANSITIONS.values()
        for state, transition in row.items()
        for target in transition.next_states
    }
    assert _StateChanges.seen <= in_table
    assert {(before, after) for before, after in in_table if after in NEXT_STATES[before] and after != "Dead"} <= (
        _StateChanges.seen | {(GroupState.INITIAL_REBALANCE, GroupState.EMPTY)}
    )
