"""A run: episodes of random faults until the time is over, one line per fault, a table at the end.

Invariants:
- The run's seed and a fault's number determine which fault it is and all its decisions. So `--first N --faults 1` runs
  fault N alone, on a new data directory, and `--faults N` repeats the run up to it.
- A violation ends the episode: the next fault gets a new data directory. The broker's log is kept.
"""

import random
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Final, TextIO

from tests.chaos import shim
from tests.chaos.episode import Episode
from tests.chaos.faults import FAULTS, Fault
from tests.chaos.oracles import Violation
from tests.chaos.oracles.heartbeats import TARGET_S
from tests.chaos.summary import Summary

FAULTS_PER_EPISODE: Final = 15
MAX_VIOLATIONS: Final = 20
MAX_LINE: Final = 400
LOGS: Final = Path(".cache/chaos")


class ChaosRun:
    """Random faults with one seed."""

    def __init__(
        self, seed: int, only: Sequence[str] = (), output: TextIO = sys.stdout, library: Path | None = None
    ) -> None:
        self.seed, self.only, self.output = seed, tuple(only), output
        self.summary = Summary()
        self._library = library
        self._faults = select_faults(self.only, has_shim=library is not None)
        self._episode: Episode | None = None
        self._left_in_episode = 0

    def run(self, *, seconds: float, first: int = 1, max_faults: int | None = None) -> Summary:
        """Run faults from number `first` on."""
        started_at = time.monotonic()
        number = first
        with tempfile.TemporaryDirectory(prefix="slackwater-chaos-") as directory:
            try:
                while time.monotonic() - started_at < seconds and len(self.summary.violations) < MAX_VIOLATIONS:
                    if max_faults is not None and number >= first + max_faults:
                        break
                    self._run_fault(number, Path(directory))
                    number += 1
            finally:
                self._end_episode()
                self.summary.seconds = time.monotonic() - started_at
        return self.summary

    def _run_fault(self, number: int, directory: Path) -> None:
        rng = random.Random(f"{self.seed}/{number}")
        fault = rng.choices(self._faults, [fault.weight for fault in self._faults])[0]
        self.summary.faults[fault.name] += 1
        started_at = time.monotonic()
        detail = ""
        try:
            episode = self._current_episode(directory, random.Random(f"{self.seed}/{number}/episode"))
            episode.begin_fault()
            detail = fault.run(episode, rng)
            violations = episode.check()
        except (Violation, TimeoutExpired) as error:
            violations = [str(error)]
        except (OSError, EOFError, AssertionError) as error:
            # The broker closed a connection that it must serve, or a response is wrong.
            violations = [f"{error!r}\n{traceback.format_exc()}"]
        slowest_s = self.summary.counts.heartbeats.last_max_s
        slow = f"  (slowest heartbeat {1000 * slowest_s:.0f} ms)" if slowest_s > TARGET_S else ""
        self._print(f"{number:5}  {fault.name:32} {time.monotonic() - started_at:5.1f} s  {detail}{slow}")
        self._left_in_episode -= 1
        if violations:
            self.summary.violations.append((fault.name, violations))
            self._report(number, violations)
        if violations or self._left_in_episode <= 0 or (self._episode is not None and self._episode.is_spent):
            self._end_episode()

    def _current_episode(self, directory: Path, rng: random.Random) -> Episode:
        if self._episode is None:
            path = directory / "episode"
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir()
            self._episode = Episode(path, rng, self._library, self.summary.counts)
            self._left_in_episode = FAULTS_PER_EPISODE
        return self._episode

    def _end_episode(self) -> None:
        if self._episode is not None:
            self._episode.close()
            self._episode = None

    def _report(self, number: int, violations: list[str]) -> None:
        for violation in violations:
            # It may quote a hostile id.
            line = violation.replace("\n", " | ").encode("ascii", "backslashreplace").decode()
            self._print(f"       VIOLATION: {line[:MAX_LINE]}")
        only = "".join(f" --only {name}" for name in self.only)
        command = f".venv/bin/python -m tests.chaos --seed {self.seed}{only}"
        self._print(f"       replay: {command} --first {number} --faults 1, or with all before it: --faults {number}")
        if self._episode is not None:
            LOGS.mkdir(parents=True, exist_ok=True)
            path = LOGS / f"seed-{self.seed}-fault-{number}.log"
            path.write_text("\n".join([*violations, "", self._episode.full_log()]))
            self._print(f"       log of the broker: {path}")

    def _print(self, line: str) -> None:
        print(line, file=self.output, flush=True)


def select_faults(only: Sequence[str], *, has_shim: bool) -> list[Fault]:
    """Return the faults with these names or of these families, or all."""
    unknown = [name for name in only if not any(_matches(fault, name) for fault in FAULTS.values())]
    if unknown:
        raise ValueError(f"There is no fault {unknown[0]}. The faults are: {', '.join(sorted(FAULTS))}.")
    return [
        fault
        for _, fault in sorted(FAULTS.items())
        if (has_shim or not fault.needs_shim) and (not only or any(_matches(fault, name) for name in only))
    ]


def _matches(fault: Fault, name: str) -> bool:
    return name in (fault.name, fault.name.partition(".")[0])


def build_shim(directory: Path) -> Path | None:
    """Compile the library for the broker; say so if gcc is missing."""
    library = shim.build(directory)
    if library is None:
        print(shim.MISSING, flush=True)
    return library
