"""Random choices from a seed, the same on every machine and Python version.

Only `Random.random()` is used: its sequence is documented to be stable, that of the other methods is not.
"""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

_T = TypeVar("_T")


class SeededRandom:
    """A seeded source of random choices."""

    def __init__(self, seed: int | str) -> None:
        self._random = Random(str(seed)).random

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self._random() < probability

    def between(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`, both inclusive."""
        return low + int(self._random() * (high - low + 1))

    def pick(self, options: Sequence[_T]) -> _T:
        """Return one of the options."""
        return options[int(self._random() * len(options))]

    def uuid(self) -> str:
        """Return a random id in the format of a UUID."""
        digits = f"{int(self._random() * 2**48):012x}{int(self._random() * 2**48):012x}{self.between(0, 2**32 - 1):08x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:32]}"
