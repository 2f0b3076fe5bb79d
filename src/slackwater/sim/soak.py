"""Many runs, one after the other: what was run, how much virtual time it covered, and what broke."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from slackwater.sim.checkers import Violation
from slackwater.sim.scenario import scenario
from slackwater.sim.simulation import Simulation

MAX_TRACE_LINES = 60


@dataclass(slots=True)
class Failure:
    """A run that broke a promise."""

    seed: int
    what: str
    story: list[str]

    def report(self) -> str:
        """What to show: the promise, how it came to it, and the one command that plays it again."""
        tail = self.story[-MAX_TRACE_LINES:]
        return "\n".join([f"seed {self.seed}: {self.what}", *tail, f"replay: {replay_command(self.seed)}"])


@dataclass(slots=True)
class SoakReport:
    """The account of many runs."""

    runs: int = 0
    steps: int = 0
    virtual_ms: int = 0
    member_ms: int = 0
    failures: list[Failure] = field(default_factory=list)


def replay_command(seed: int) -> str:
    """The command that plays one run again, with its story."""
    return f".venv/bin/slackwater soak --replay {seed}"


def run_seed(seed: int) -> tuple[Simulation, Failure | None]:
    """Run one seed; an exception of the machines is a failure like a broken promise."""
    world = Simulation(scenario(seed))
    try:
        world.run()
    except Violation as violation:
        return world, Failure(seed, str(violation), world.story)
    except Exception as error:
        return world, Failure(seed, f"{type(error).__name__}: {error}", world.story)
    return world, None


def run_seeds(
    seeds: Iterable[int],
    *,
    stop_at: int = 1,
    account: SoakReport | None = None,
    progress: Callable[[SoakReport], None] | None = None,
) -> SoakReport:
    """Run seeds until `stop_at` of them failed; to have the account of an interrupted campaign, bring it along."""
    account = account or SoakReport()
    for seed in seeds:
        world, failure = run_seed(seed)
        account.runs += 1
        account.steps += world.agenda.steps
        account.virtual_ms += world.now_ms
        account.member_ms += world.now_ms * len(world.processes)
        if failure is not None:
            account.failures.append(failure)
            if len(account.failures) >= stop_at:
                break
        if progress is not None:
            progress(account)
    return account
