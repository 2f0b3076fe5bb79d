"""A simulated run depends only on its seed."""

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


def _digests_in_new_process(hash_seed: str) -> list[str]:
    code = _PRINT_DIGESTS.format(seeds=SEEDS)
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_same_seed_gives_same_run_in_another_process() -> None:
    here = [Simulation(scenario(seed)).run() for seed in SEEDS]

    assert here == [Simulation(scenario(seed)).run() for seed in SEEDS]
    assert here == _digests_in_new_process("1")
    assert here == _digests_in_new_process("2")


def test_different_seeds_give_different_runs() -> None:
    assert len({Simulation(scenario(seed)).run() for seed in SEEDS}) == len(SEEDS)


def test_scenarios_cover_faults_assignors_and_drivers() -> None:
    scenarios = [scenario(seed) for seed in range(400)]

    assert {fault.kind for run in scenarios for fault in run.faults} == set(FaultKind)
    assert {run.background for run in scenarios} == {True, False}
    assert {run.static for run in scenarios} == {True, False}
    assert {name for run in scenarios for name in run.assignors} == {
        "range",
        "roundrobin",
        "sticky",
        "cooperative-sticky",
    }
