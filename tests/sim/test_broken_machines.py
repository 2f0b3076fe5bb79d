"""The bench is itself on trial: every deliberately broken machine is caught within the short run."""

import pytest

from slackwater.sim.soak import run_seeds

from .broken_machines import BROKEN
from .test_soak import RUNS


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_a_broken_machine_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BROKEN[name](monkeypatch)

    assert run_seeds(range(RUNS)).failures, f"nobody noticed: {BROKEN[name].__doc__}"


def test_there_are_at_least_twelve() -> None:
    assert len(BROKEN) >= 12
