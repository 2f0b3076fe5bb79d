"""How much of a group's standing still was rebalancing: rounds, progress and lag on one time axis.

Rules kept here
- A minute is the unit, as it is of the `progress` rows.
- In an eager group a round stops everybody; in a cooperative one, and in KIP-848, only what moves is stopped, and how
  much that is was not recorded: it is told as rounds, not as a loss.
- What was not read in a pause is what is read in the same time otherwise: the median of the minutes without a round.
- No history has the ends of the partitions. How far a group was behind is reckoned from what it read: in a minute with
  a round, as if records had come in as in the quarter of an hour before; what it reads beyond that later, catches up.
  A quiet minute in which less is read is taken for less to read, unless nothing has been read since the round.
- The first and the last minute are not whole, and count for nothing.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final, NamedTuple

from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.doctor.timeline.rebalances import Protocol, Rebalance
from slackwater.group.events import EventKind

MINUTE_MS: Final = 60_000
_MOST: Final = 200_000
"""Minutes of a history that are gone through one by one: four months."""
_BEFORE: Final = 15
"""Quiet minutes that tell what is usual."""
_SMALL: Final = 0.1
"""Of a usual minute: who is less behind than this just commits at other seconds of the minute."""


class Minute(NamedTuple):
    """One minute of a group."""

    began_ms: int
    rebalances: int
    stopped_ms: int
    offsets_advanced: int | None
    lost_to_pauses: int | None
    """Records that would have been read while rounds were under way; None where it cannot be told."""
    behind: int | None = None
    """Records by which it was behind at the minute's end, reckoned; `behind_by_pauses` of them because of rounds."""
    behind_by_pauses: int | None = None


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a group fell behind, and how much of that was rebalancing."""

    read_per_minute: int
    most_behind: int
    most_behind_ms: int
    by_pauses: int | None
    """Of the most: what rounds cost; None where a round does not stop everybody."""
    stopped_ms: int
    """How long rounds were under way, until then."""


def minutes(history: GroupHistory, found: Sequence[Rebalance]) -> list[Minute]:
    """The minutes of a group's history in which there was a round, progress was recorded, or it was behind."""
    stopped: dict[int, int] = {}
    counts: dict[int, int] = {}
    for one in found:
        counts[one.began_ms // MINUTE_MS] = counts.get(one.began_ms // MINUTE_MS, 0) + 1
        for minute in range(one.began_ms // MINUTE_MS, one.ended_ms // MINUTE_MS + 1):
            begin, end = minute * MINUTE_MS, (minute + 1) * MINUTE_MS
            stopped[minute] = stopped.get(minute, 0) + min(end, one.ended_ms) - max(begin, one.began_ms)
    advanced: dict[int, int] = {}
    for row in history.of(EventKind.PROGRESS):
        minute = row.time_ms // MINUTE_MS
        advanced[minute] = advanced.get(minute, 0) + (row.number("offsets_advanced") or 0)
    rate = _rate(advanced, stopped)
    eager = bool(found) and found[-1].protocol == Protocol.EAGER
    lost = {minute: rate * ms for minute, ms in stopped.items()} if rate is not None else {}
    behind = _behind(advanced, stopped, lost if eager else {}) if rate is not None else {}
    return [
        Minute(
            began_ms=minute * MINUTE_MS,
            rebalances=counts.get(minute, 0),
            stopped_ms=stopped.get(minute, 0),
            offsets_advanced=advanced.get(minute),
            lost_to_pauses=round(lost.get(minute, 0)) if eager and rate is not None else None,
            behind=round(behind[minute][0]) if minute in behind else None,
            behind_by_pauses=round(behind[minute][1]) if minute in behind and eager else None,
        )
        for minute in sorted({*counts, *advanced, *(one for one in behind if behind[one][0])})
    ]


def lag_of(found: Sequence[Minute]) -> Lag | None:
    """The worst of these minutes; None where nothing tells, or the group was never behind."""
    told = [one for one in found if one.behind is not None]
    worst = max(told, key=lambda one: one.behind or 0, default=None)
    undisturbed = [one.offsets_advanced for one in found if one.offsets_advanced is not None and not one.stopped_ms]
    if worst is None or not worst.behind or not undisturbed:
        return None
    usual = median(undisturbed)
    if worst.behind < _SMALL * usual:
        return None
    return Lag(
        read_per_minute=round(usual),
        most_behind=worst.behind,
        most_behind_ms=worst.began_ms + MINUTE_MS,
        by_pauses=worst.behind_by_pauses,
        stopped_ms=sum(one.stopped_ms for one in found if one.began_ms <= worst.began_ms),
    )


def _rate(advanced: Mapping[int, int], stopped: Mapping[int, int]) -> float | None:
    """Records read per millisecond of a minute without a round."""
    undisturbed = [count for minute, count in advanced.items() if not stopped.get(minute)]
    return median(undisturbed) / MINUTE_MS if undisturbed else None


def _behind(
    advanced: Mapping[int, int], stopped: Mapping[int, int], lost: Mapping[int, float]
) -> dict[int, tuple[float, float]]:
    """Per minute how far the group was behind at its end, and how much of that rounds had cost."""
    first, last = min(advanced), max(advanced)
    usual = median(count for minute, count in advanced.items() if not stopped.get(minute))
    quiet: deque[int] = deque(maxlen=_BEFORE)
    found = {}
    total, by_pauses, resumed = 0.0, 0.0, True
    for minute in range(max(first + 1, last - _MOST), last):
        read = advanced.get(minute, 0)
        if stopped.get(minute):
            resumed = False
        elif read:
            resumed = True
            if not total:  # while it catches up it reads more than comes in
                quiet.append(read)
                usual = median(quiet)
        short = usual - read
        if short > 0 and not resumed:
            total += short
            by_pauses += min(short, lost.get(minute, 0.0))
        elif short < 0:  # it catches up, with what rounds had cost and with the rest alike
            left = max(0.0, total + short)
            by_pauses *= left / total if total else 0.0
            total = left
        found[minute] = total, by_pauses
    return found
