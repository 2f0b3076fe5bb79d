"""A run depends on its seed alone."""

import os
import subprocess
import sys

from slackwater.sim.scenario import FaultKind, scenario
from slackwater.sim.simulation import Simulation

SEEDS = (3, 39, 148, 244)
_PRINT_DIGESTS = """
from slackwater.sim.scenario import scenario
from slackwater.sim.simulation import Simulation
for seed in {seeds}:
    print(Simulation(scenario(seed)).run())
"""


def _digests_in_a_new_process(hash_seed: str) -> list[str]:
    code = _PRINT_DIGESTS.format(seeds=SEEDS)
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_the_same_seed_gives_the_same_run_in_another_process_with_another_hash_seed() -> None:
    here = [Simulation(scenario(seed)).run() for seed in SEEDS]

    assert here == [Simulation(scenario(seed)).run() for seed in SEEDS]
    assert here == _digests_in_a_new_process("1")
    assert here == _digests_in_a_new_process("2")


def test_different_seeds_give_different_runs() -> None:
    assert len({Simulation(scenario(seed)).run() for seed in SEEDS}) == len(SEEDS)


def test_the_scenarios_use_every_fault_every_protocol_and_both_drivers() -> None:
    plans = [scenario(seed) for seed in range(400)]

    assert {mishap.fault for plan in plans for mishap in plan.mishaps} == set(FaultKind)
    assert {plan.background for plan in plans} == {True, False}
    assert {plan.static for plan in plans} == {True, False}
    assert {name for plan in plans for name in plan.assignors} == {
        "range",
        "roundrobin",
        "sticky",
        "cooperative-sticky",
    }
