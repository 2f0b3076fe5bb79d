"""Repeated elements of a request: a small request must not cause a large response."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Final, TypeVar

T = TypeVar("T")
MAX_REPEATS: Final = 3
"""How often a group, a resource or a partition that is described in detail may appear in one request."""


def limit_repeats(elements: Iterable[T], key: Callable[[T], Hashable]) -> list[T]:
    """Return the elements without those that have appeared `MAX_REPEATS` times before."""
    counts: Counter[Hashable] = Counter()
    kept = []
    for element in elements:
        name = key(element)
        counts[name] += 1
        if counts[name] <= MAX_REPEATS:
            kept.append(element)
    return kept
