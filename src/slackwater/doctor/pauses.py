"""How much of a group's standing still was rebalancing: rounds and progress on one time axis.

Rules kept here
- A minute is the unit, as it is of the `progress` rows.
- In an eager group a round stops everybody; in a cooperative one, and in KIP-848, only what moves is stopped, and how
  much that is was not recorded: it is told as rounds, not as a loss.
- What was not read in a pause is what is read in the same time otherwise: the median of the minutes without a round.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from slackwater.doctor.history import GroupHistory
from slackwater.doctor.rebalances import Protocol, Rebalance
from slackwater.group.events import Kind

MINUTE_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class Minute:
    """One minute of a group."""

    began_ms: int
    rebalances: int
    stopped_ms: int
    offsets_advanced: int | None
    lost_to_pauses: int | None
    """Records that would have been read while rounds were under way; None where it cannot be told."""


def minutes(history: GroupHistory, found: Sequence[Rebalance]) -> list[Minute]:
    """The minutes of a group's history in which there was a round, or progress was recorded."""
    stopped: dict[int, int] = {}
    counts: dict[int, int] = {}
    for one in found:
        counts[one.began_ms // MINUTE_MS] = counts.get(one.began_ms // MINUTE_MS, 0) + 1
        for minute in range(one.began_ms // MINUTE_MS, one.ended_ms // MINUTE_MS + 1):
            begin, end = minute * MINUTE_MS, (minute + 1) * MINUTE_MS
            stopped[minute] = stopped.get(minute, 0) + min(end, one.ended_ms) - max(begin, one.began_ms)
    advanced: dict[int, int] = {}
    for row in history.rows:
        if row.kind == Kind.PROGRESS:
            minute = row.time_ms // MINUTE_MS
            advanced[minute] = advanced.get(minute, 0) + (row.number("offsets_advanced") or 0)
    rate = _rate(advanced, stopped)
    eager = bool(found) and found[-1].protocol == Protocol.EAGER
    return [
        Minute(
            began_ms=minute * MINUTE_MS,
            rebalances=counts.get(minute, 0),
            stopped_ms=stopped.get(minute, 0),
            offsets_advanced=advanced.get(minute),
            lost_to_pauses=round(rate * stopped.get(minute, 0)) if eager and rate is not None else None,
        )
        for minute in sorted({*counts, *advanced})
    ]


def _rate(advanced: dict[int, int], stopped: dict[int, int]) -> float | None:
    """Records read per millisecond of a minute without a round."""
    undisturbed = [count for minute, count in advanced.items() if not stopped.get(minute)]
    return median(undisturbed) / MINUTE_MS if undisturbed else None
