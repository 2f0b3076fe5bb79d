"""Heartbeats of members that have nothing to do with a fault: their latency, and that their sessions do not expire.

Invariants:
- A heartbeat counts unless it overlaps an interval in which the broker was stopped on purpose.
- The target is 250 ms. Only TARGET_MULTIPLE times that is a violation, because machines are noisy, and the time that
  the broker or the member waited for a processor does not count. The summary has all latencies as they were.
- A member keeps its id through everything: stalls, kills, restarts.
"""

from bisect import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

TARGET_S: Final = 0.25
TARGET_MULTIPLE: Final = 10
PENDING_S: Final = 10.0
_BUCKETS_S: Final = tuple(1.25**step * 1e-4 for step in range(75))  # 0.1 ms to 25 minutes


class Heartbeat(NamedTuple):
    """One heartbeat and its response; `error` is the name of the error, empty without one."""

    group: str
    sent_at: float
    latency_s: float
    processor_wait_s: float = 0.0
    error: str = ""


class Interval(NamedTuple):
    """Seconds of the monotonic clock in which the broker was stopped on purpose."""

    start: float
    end: float


@dataclass
class HeartbeatOracle:
    """Checks heartbeats and counts their latencies."""

    count: int = 0
    above_target: int = 0
    max_s: float = 0.0
    max_net_s: float = 0.0  # without the time that broker or member waited for a processor
    last_max_s: float = 0.0  # of the last fault
    _histogram: list[int] = field(default_factory=lambda: [0] * (len(_BUCKETS_S) + 1))

    def check(
        self, heartbeats: Iterable[Heartbeat], stopped: Sequence[Interval], pending_since: float | None, now: float
    ) -> list[str]:
        """Check the heartbeats of one fault; `pending_since` is when the unanswered heartbeat was sent."""
        violations = []
        self.last_max_s = 0.0
        worst: Heartbeat | None = None
        for heartbeat in heartbeats:
            if heartbeat.error:
                violations.append(f"a member of {heartbeat.group} lost its session: {heartbeat.error}")
            if _overlaps(heartbeat.sent_at, heartbeat.sent_at + heartbeat.latency_s, stopped):
                continue
            self._count(heartbeat)
            if worst is None or _net_latency_s(heartbeat) > _net_latency_s(worst):
                worst = heartbeat
        if worst is not None and _net_latency_s(worst) > TARGET_S * TARGET_MULTIPLE:
            violations.append(
                f"a heartbeat of {worst.group} took {worst.latency_s * 1000:.0f} ms, of which the broker or the member "
                f"waited {worst.processor_wait_s * 1000:.0f} ms for a processor; the target is {TARGET_S * 1000:.0f} ms"
            )
        if pending_since is not None and now - pending_since > PENDING_S and not _overlaps(pending_since, now, stopped):
            violations.append(f"a heartbeat has no response after {now - pending_since:.1f} s")
        return violations

    def percentile_s(self, share: float) -> float:
        """Return a latency that this share of the heartbeats does not exceed, to about 25 %."""
        left = share * self.count
        for bound, count in zip(_BUCKETS_S, self._histogram, strict=False):
            left -= count
            if left <= 0:
                return min(bound, self.max_s)
        return self.max_s

    def _count(self, heartbeat: Heartbeat) -> None:
        self.count += 1
        self.above_target += heartbeat.latency_s > TARGET_S
        self.max_s = max(self.max_s, heartbeat.latency_s)
        self.max_net_s = max(self.max_net_s, _net_latency_s(heartbeat))
        self.last_max_s = max(self.last_max_s, heartbeat.latency_s)
        self._histogram[bisect(_BUCKETS_S, heartbeat.latency_s)] += 1


def _net_latency_s(heartbeat: Heartbeat) -> float:
    return heartbeat.latency_s - heartbeat.processor_wait_s


def _overlaps(start: float, end: float, intervals: Iterable[Interval]) -> bool:
    return any(interval.start <= end and start <= interval.end for interval in intervals)
