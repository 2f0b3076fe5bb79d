"""The checkers detect every deliberate fault in coordinator and member."""

import pytest

from slackwater.sim.soak import run_seeds

from .broken_machines import BROKEN
from .test_soak import RUNS


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_broken_machine_is_detected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BROKEN[name](monkeypatch)

    assert run_seeds(range(RUNS)).failures, f"not detected: {BROKEN[name].__doc__}"


def test_number_of_broken_machines() -> None:
    assert len(BROKEN) >= 12
