"""Assigning and balancing with different subscriptions."""

from random import Random

import numpy as np
import pytest

from slackwater.group.assignors import general
from slackwater.group.assignors.balance import balance_score
from slackwater.group.assignors.general import least_loaded

from .groups import GroupModel, check_balanced, check_valid, member_owning, new_member, score, swaps
from .random_groups import random_group


def test_least_loaded_matches_sequential_choice() -> None:
    random = Random(1)
    for _ in range(300):
        loads = [random.randint(0, 9) for _ in range(random.randint(1, 8))]
        count = random.randint(1, 40)
        expected = []
        current = list(loads)
        for _ in range(count):
            index = current.index(min(current))
            current[index] += 1
            expected.append(index)
        assert least_loaded(np.array(loads), count).tolist() == expected


def test_balance_score_sums_differences() -> None:
    random = Random(2)
    for _ in range(50):
        loads = [random.randint(0, 9) for _ in range(random.randint(0, 8))]
        differences = sum(abs(load - other) for load in loads for other in loads) // 2
        assert balance_score(np.array(loads, dtype=np.int64)) == differences == score(loads)


def test_reassignment_without_improvement_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    group = GroupModel(
        "sticky",
        {"t": 6, "u": 1},
        {"a": member_owning(["t"], *(("t", at) for at in range(6))), "b": new_member("t", "u")},
    )
    assert {member_id: len(held) for member_id, held in group.assigned().items()} == {"a": 4, "b": 3}
    monkeypatch.setattr(general, "balance_score", lambda _loads: 0)
    assert {member_id: len(held) for member_id, held in group.assigned().items()} == {"a": 6, "b": 1}


def test_large_group_is_balanced_by_topic() -> None:
    topics = {f"topic-{at:02}": 600 for at in range(40)}
    names = list(topics)
    members = {f"consumer-{at}": new_member(*names[: 30 + at]) for at in range(10)}
    group = GroupModel("sticky", topics, members)
    group.rebalance()
    before = group.owned()
    group.members |= {f"newcomer-{at}": new_member(*names[at:]) for at in range(3)}
    group.rebalance()
    check_valid(group, group.owned())
    check_balanced(group, group.owned())
    assert not swaps(before, group.owned())


# In these groups, undoing an earlier move replaces a move back.
@pytest.mark.parametrize("seed", [148, 227, 910, 985, 1000, 2471])
def test_random_groups_are_balanced_without_swaps(seed: int) -> None:
    random = Random(seed)
    for _ in range(10):
        group = random_group(random, "sticky", equal_subscriptions=False, racks=False, claims=False)
        before = group.owned()
        assigned = group.assigned()
        check_valid(group, assigned)
        check_balanced(group, assigned)
        assert not swaps(before, assigned)
