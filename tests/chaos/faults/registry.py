"""The table of faults: a fault is a function that damages something, ends the damage, and describes it in a few words.

Invariants:
- A fault takes every decision from its random number generator, so that its seed repeats it.
- When a fault returns, the broker runs and can be checked. The seconds it lasts are part of the fault.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.chaos.episode import Episode

Run = Callable[[Episode, random.Random], str]


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault; `weight` is how often it is chosen."""

    name: str
    run: Run
    weight: int
    needs_shim: bool


FAULTS: Final[dict[str, Fault]] = {}


def fault(name: str, *, weight: int = 2, needs_shim: bool = False) -> Callable[[Run], Run]:
    """Add a function to the table."""

    def add(run: Run) -> Run:
        FAULTS[name] = Fault(name, run, weight, needs_shim)
        return run

    return add
