"""The checkers detect every deliberate fault in coordinator and member."""

from itertools import chain
from typing import Final

import pytest

from slackwater.sim.soak import run_seeds

from .broken_machines import BROKEN
from .test_soak import RUNS

KNOWN_SEEDS: Final = {
    "absent_leader_stays_leader": 56,
    "followers_rejoin_rebalances": 141,
    "heartbeat_ignores_the_generation": 310,
    "initial_delay_has_no_cap": 182,
    "static_swap_does_not_fence": 35,
    "superseded_join_is_forgotten": 159,
}
"""The first seed that detects a fault, if a search takes long. All others are tried if it no longer does."""


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_broken_machine_is_detected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BROKEN[name](monkeypatch)

    seeds = chain([KNOWN_SEEDS.get(name, 0)], range(RUNS))
    assert run_seeds(seeds).failures, f"not detected: {BROKEN[name].__doc__}"


def test_number_of_broken_machines() -> None:
    assert len(BROKEN) >= 12
