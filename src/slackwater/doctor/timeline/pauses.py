"""How much of a group's standstill was rebalancing: rebalances, progress and lag per minute.

Invariants:
- The unit is a minute, as in the `progress` rows.
- An eager rebalance stops all members. A cooperative or KIP-848 rebalance stops only the partitions that move, and
  their number is not recorded: no loss is computed.
- The loss during a pause is the usual rate times its length. The usual rate is the median of the minutes without a
  rebalance.
- A history has no log end offsets. The lag is estimated from the progress: in a minute with a rebalance records arrive
  at the rate of the last quarter of an hour; reading more than that later reduces the lag. A minute without a rebalance
  in which less is read counts as less traffic, unless nothing was read since the rebalance.
- The first and the last minute are incomplete and ignored.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final, NamedTuple

from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.doctor.timeline.rebalances import RebalanceMode, RecordedRebalance
from slackwater.group.events import EventKind

MINUTE_MS: Final = 60_000
_MAX_MINUTES: Final = 200_000
"""Maximum length of a history that is examined minute by minute: four months."""
_RATE_MINUTES: Final = 15
"""Minutes without a rebalance from which the usual rate is taken."""
_MIN_LAG: Final = 0.1
"""Part of a usual minute; a smaller lag only means that commits moved within the minute."""


class MinuteStats(NamedTuple):
    """Rebalances, progress and lag in one minute."""

    began_ms: int
    rebalances: int
    stopped_ms: int
    offsets_advanced: int | None
    lag: int | None = None
    """Estimated lag at the end of the minute; `lag_from_rebalances` of it is caused by rebalances."""
    lag_from_rebalances: int | None = None


@dataclass(frozen=True, slots=True)
class LagEstimate:
    """The largest estimated lag, and how much of it was caused by rebalances."""

    read_per_minute: int
    max_lag: int
    max_lag_ms: int
    by_pauses: int | None
    """The part of `max_lag` caused by rebalances; None if a rebalance does not stop all members."""
    stopped_ms: int
    """Total duration of the rebalances until then."""


def minutes(history: GroupHistory, rebalances: Sequence[RecordedRebalance]) -> list[MinuteStats]:
    """Return the minutes with a rebalance, recorded progress or lag."""
    stopped: dict[int, int] = {}
    counts: dict[int, int] = {}
    for rebalance in rebalances:
        counts[rebalance.began_ms // MINUTE_MS] = counts.get(rebalance.began_ms // MINUTE_MS, 0) + 1
        for minute in range(rebalance.began_ms // MINUTE_MS, rebalance.ended_ms // MINUTE_MS + 1):
            begin, end = minute * MINUTE_MS, (minute + 1) * MINUTE_MS
            stopped[minute] = stopped.get(minute, 0) + min(end, rebalance.ended_ms) - max(begin, rebalance.began_ms)
    advanced: dict[int, int] = {}
    for row in history.rows_of(EventKind.PROGRESS):
        minute = row.time_ms // MINUTE_MS
        advanced[minute] = advanced.get(minute, 0) + (row.detail_number("offsets_advanced") or 0)
    rate = _rate(advanced, stopped)
    eager = bool(rebalances) and rebalances[-1].protocol == RebalanceMode.EAGER
    lost = {minute: rate * ms for minute, ms in stopped.items()} if rate is not None else {}
    lag = _estimate_lag(advanced, stopped, lost if eager else {}) if rate is not None else {}
    return [
        MinuteStats(
            began_ms=minute * MINUTE_MS,
            rebalances=counts.get(minute, 0),
            stopped_ms=stopped.get(minute, 0),
            offsets_advanced=advanced.get(minute),
            lag=round(lag[minute][0]) if minute in lag else None,
            lag_from_rebalances=round(lag[minute][1]) if minute in lag and eager else None,
        )
        for minute in sorted({*counts, *advanced, *(minute for minute in lag if lag[minute][0])})
    ]


def lag_of(stats: Sequence[MinuteStats]) -> LagEstimate | None:
    """Return the largest lag of these minutes; None if it is unknown or the group had none."""
    known = [minute for minute in stats if minute.lag is not None]
    worst = max(known, key=lambda minute: minute.lag or 0, default=None)
    undisturbed = [m.offsets_advanced for m in stats if m.offsets_advanced is not None and not m.stopped_ms]
    if worst is None or not worst.lag or not undisturbed:
        return None
    usual = median(undisturbed)
    if worst.lag < _MIN_LAG * usual:
        return None
    return LagEstimate(
        read_per_minute=round(usual),
        max_lag=worst.lag,
        max_lag_ms=worst.began_ms + MINUTE_MS,
        by_pauses=worst.lag_from_rebalances,
        stopped_ms=sum(minute.stopped_ms for minute in stats if minute.began_ms <= worst.began_ms),
    )


def _rate(advanced: Mapping[int, int], stopped: Mapping[int, int]) -> float | None:
    """Return the records read per millisecond in minutes without a rebalance."""
    undisturbed = [count for minute, count in advanced.items() if not stopped.get(minute)]
    return median(undisturbed) / MINUTE_MS if undisturbed else None


def _estimate_lag(
    advanced: Mapping[int, int], stopped: Mapping[int, int], lost: Mapping[int, float]
) -> dict[int, tuple[float, float]]:
    """Return the lag at the end of each minute, and the part of it caused by rebalances."""
    first, last = min(advanced), max(advanced)
    usual = median(count for minute, count in advanced.items() if not stopped.get(minute))
    quiet: deque[int] = deque(maxlen=_RATE_MINUTES)
    lag = {}
    total, by_pauses, resumed = 0.0, 0.0, True
    for minute in range(max(first + 1, last - _MAX_MINUTES), last):
        read = advanced.get(minute, 0)
        if stopped.get(minute):
            resumed = False
        elif read:
            resumed = True
            if not total:  # while it catches up it reads more than arrives
                quiet.append(read)
                usual = median(quiet)
        short = usual - read
        if short > 0 and not resumed:
            total += short
            by_pauses += min(short, lost.get(minute, 0.0))
        elif short < 0:  # catching up reduces both parts in proportion
            left = max(0.0, total + short)
            by_pauses *= left / total if total else 0.0
            total = left
        lag[minute] = total, by_pauses
    return lag
