"""Names and numbers in the sentences of findings and verdicts."""

from collections.abc import Sequence
from typing import Final

_MAX_NAMES: Final = 3


def shown_names(culprits: Sequence[str], otherwise: str = "a member") -> str:
    """Return the first few names: `a, b, c and 2 more`."""
    if not culprits:
        return otherwise
    more = f" and {len(culprits) - _MAX_NAMES} more" if len(culprits) > _MAX_NAMES else ""
    return ", ".join(culprits[:_MAX_NAMES]) + more


def count_of(count: int) -> str:
    """Return ` (7 times)`, or nothing for a single event."""
    return f" ({count} times)" if count > 1 else ""


def plural(number: int, noun: str) -> str:
    """Return `1 rebalance` or `2 rebalances`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
