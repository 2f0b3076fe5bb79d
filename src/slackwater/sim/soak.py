"""Runs many seeds and reports runs, virtual time and failures."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from slackwater.sim.checkers import Violation
from slackwater.sim.scenario import scenario
from slackwater.sim.simulation import Simulation

MAX_TRACE_LINES = 60


@dataclass(slots=True)
class Failure:
    """A run in which a check failed."""

    seed: int
    error: str
    trace: list[str]

    def report(self) -> str:
        """Return the error, the end of the trace, and the command that replays the run."""
        tail = self.trace[-MAX_TRACE_LINES:]
        return "\n".join([f"seed {self.seed}: {self.error}", *tail, f"replay: {replay_command(self.seed)}"])


@dataclass(slots=True)
class SoakReport:
    """Totals and failures of many runs."""

    runs: int = 0
    steps: int = 0
    virtual_ms: int = 0
    member_ms: int = 0
    failures: list[Failure] = field(default_factory=list)


def replay_command(seed: int) -> str:
    """Return the command that replays one run with its trace."""
    return f".venv/bin/slackwater soak --replay {seed}"


def run_seed(seed: int) -> tuple[Simulation, Failure | None]:
    """Run one seed; an exception is a failure, like a failed check."""
    simulation = Simulation(scenario(seed))
    try:
        simulation.run()
    except Violation as violation:
        return simulation, Failure(seed, str(violation), simulation.trace)
    except Exception as error:
        return simulation, Failure(seed, f"{type(error).__name__}: {error}", simulation.trace)
    return simulation, None


def run_seeds(
    seeds: Iterable[int],
    *,
    stop_at: int = 1,
    report: SoakReport | None = None,
    progress: Callable[[SoakReport], None] | None = None,
) -> SoakReport:
    """Run seeds until `stop_at` of them failed; pass a `report` to keep the totals of an interrupted run."""
    report = report or SoakReport()
    for seed in seeds:
        simulation, failure = run_seed(seed)
        report.runs += 1
        report.steps += simulation.queue.steps
        report.virtual_ms += simulation.now_ms
        report.member_ms += simulation.now_ms * len(simulation.processes)
        if failure is not None:
            report.failures.append(failure)
            if len(report.failures) >= stop_at:
                break
        if progress is not None:
            progress(report)
    return report
