"""A member's metrics, under Kafka's names.

Invariants:
- Totals never decrease. Averages, maxima and rates cover the last two windows of 30 s, Kafka's default; a rate's
  denominator is at least one whole window.
- A value that was never measured is NaN, as in Kafka; `…-seconds-ago` is -1.
- A window ends when a sample or a reading arrives after its end.
"""

from collections.abc import Mapping
from math import nan
from types import MappingProxyType
from typing import Final

COORDINATOR_GROUP: Final = "consumer-coordinator-metrics"
CONSUMER_GROUP: Final = "consumer-metrics"
WINDOW_MS: Final = 30_000
WINDOWS: Final = 2
_HOUR_S: Final = 3_600.0


class _Window:
    __slots__ = ("count", "maximum", "start_ms", "total")

    def __init__(self, start_ms: int) -> None:
        self.start_ms = start_ms
        self.count = 0
        self.total = 0.0
        self.maximum = nan


class SampledStat:
    """A sampled value: all-time totals, and statistics over the last windows."""

    __slots__ = ("_windows", "count", "total")

    def __init__(self) -> None:
        self._windows: list[_Window] = []
        self.count = 0
        self.total = 0.0

    def record(self, value: float, now_ms: int) -> None:
        """Add one sample."""
        self.count += 1
        self.total += value
        if not self._windows or now_ms - self._windows[-1].start_ms >= WINDOW_MS:
            self._windows.append(_Window(now_ms))
            self._drop_old_windows(now_ms)
        window = self._windows[-1]
        window.count += 1
        window.total += value
        window.maximum = value if window.count == 1 else max(window.maximum, value)

    def avg(self, now_ms: int) -> float:
        """The mean over the last windows."""
        self._drop_old_windows(now_ms)
        count = sum(window.count for window in self._windows)
        return sum(window.total for window in self._windows) / count if count else nan

    def max(self, now_ms: int) -> float:
        """The maximum over the last windows."""
        self._drop_old_windows(now_ms)
        return max((window.maximum for window in self._windows), default=nan)

    def rate(self, now_ms: int) -> float:
        """Samples per second over the last windows."""
        self._drop_old_windows(now_ms)
        if not self._windows:
            return 0.0
        elapsed_ms = now_ms - self._windows[0].start_ms
        whole_windows = elapsed_ms // WINDOW_MS
        if whole_windows < WINDOWS - 1:
            elapsed_ms += (WINDOWS - 1 - whole_windows) * WINDOW_MS
        return sum(window.count for window in self._windows) * 1_000 / elapsed_ms

    def _drop_old_windows(self, now_ms: int) -> None:
        while self._windows and now_ms - self._windows[0].start_ms >= WINDOWS * WINDOW_MS:
            del self._windows[0]


class MemberMetrics:
    """All sensors of a member; `read` returns them by metric name."""

    def __init__(self) -> None:
        self.heartbeat = SampledStat()
        self.join = SampledStat()
        self.sync = SampledStat()
        self.rebalance = SampledStat()
        self.failed_rebalance = SampledStat()
        self.commit = SampledStat()
        self.revoked = SampledStat()
        self.assigned = SampledStat()
        self.lost = SampledStat()
        self.commit_sync_ms = 0
        self.committed_ms = 0
        self._between_polls = SampledStat()
        self._idle_ratio = SampledStat()
        self._last_poll_ms: int | None = None
        self._last_polling_ms = 0
        self._rebalance_started_ms: int | None = None
        self._last_rebalance_ms: int | None = None

    def poll_started(self, now_ms: int) -> None:
        """Record the start of a poll()."""
        if self._last_poll_ms is not None:
            between_ms = now_ms - self._last_poll_ms
            self._between_polls.record(between_ms, now_ms)
            if between_ms > 0:
                self._idle_ratio.record(min(self._last_polling_ms / between_ms, 1.0), now_ms)
        self._last_poll_ms = now_ms
        self._last_polling_ms = 0

    def poll_returned(self, now_ms: int) -> None:
        """Record the return of a poll()."""
        if self._last_poll_ms is not None:
            self._last_polling_ms = now_ms - self._last_poll_ms

    def rebalance_started(self, now_ms: int) -> None:
        """Record the first JoinGroup of a rebalance; retries belong to the same rebalance."""
        if self._rebalance_started_ms is None:
            self._rebalance_started_ms = now_ms

    def rebalance_succeeded(self, now_ms: int) -> None:
        """Record a SyncGroup response with an assignment."""
        started_ms = now_ms if self._rebalance_started_ms is None else self._rebalance_started_ms
        self.rebalance.record(now_ms - started_ms, now_ms)
        self._rebalance_started_ms = None
        self._last_rebalance_ms = now_ms

    def read(self, now_ms: int, *, assigned_partitions: int, last_heartbeat_ms: int | None) -> Mapping[str, float]:
        """Every metric by name; `METRIC_GROUPS` maps names to groups."""
        values: dict[str, float] = {
            "heartbeat-response-time-max": self.heartbeat.max(now_ms),
            "heartbeat-rate": self.heartbeat.rate(now_ms),
            "heartbeat-total": self.heartbeat.count,
            "last-heartbeat-seconds-ago": _seconds_ago(last_heartbeat_ms, now_ms),
            "rebalance-latency-avg": self.rebalance.avg(now_ms),
            "rebalance-latency-max": self.rebalance.max(now_ms),
            "rebalance-latency-total": self.rebalance.total,
            "rebalance-total": self.rebalance.count,
            "rebalance-rate-per-hour": self.rebalance.rate(now_ms) * _HOUR_S,
            "failed-rebalance-total": self.failed_rebalance.count,
            "failed-rebalance-rate-per-hour": self.failed_rebalance.rate(now_ms) * _HOUR_S,
            "last-rebalance-seconds-ago": _seconds_ago(self._last_rebalance_ms, now_ms),
            "assigned-partitions": assigned_partitions,
            "last-poll-seconds-ago": _seconds_ago(self._last_poll_ms, now_ms),
            "time-between-poll-avg": self._between_polls.avg(now_ms),
            "time-between-poll-max": self._between_polls.max(now_ms),
            "poll-idle-ratio-avg": self._idle_ratio.avg(now_ms),
            "commit-sync-time-ns-total": self.commit_sync_ms * 1_000_000,
            "committed-time-ns-total": self.committed_ms * 1_000_000,
        }
        for name, sampled in (("join", self.join), ("sync", self.sync)):
            values[f"{name}-time-avg"] = sampled.avg(now_ms)
            values[f"{name}-time-max"] = sampled.max(now_ms)
            values[f"{name}-rate"] = sampled.rate(now_ms)
            values[f"{name}-total"] = sampled.count
        values["commit-latency-avg"] = self.commit.avg(now_ms)
        values["commit-latency-max"] = self.commit.max(now_ms)
        values["commit-rate"] = self.commit.rate(now_ms)
        values["commit-total"] = self.commit.count
        for name, sampled in (("revoked", self.revoked), ("assigned", self.assigned), ("lost", self.lost)):
            values[f"partition-{name}-latency-avg"] = sampled.avg(now_ms)
            values[f"partition-{name}-latency-max"] = sampled.max(now_ms)
        return values


def _seconds_ago(then_ms: int | None, now_ms: int) -> float:
    return -1.0 if then_ms is None else float((now_ms - then_ms) // 1_000)


_CONSUMER_METRICS: Final = frozenset(
    {
        "last-poll-seconds-ago",
        "time-between-poll-avg",
        "time-between-poll-max",
        "poll-idle-ratio-avg",
        "commit-sync-time-ns-total",
        "committed-time-ns-total",
    }
)
METRIC_GROUPS: Final[Mapping[str, str]] = MappingProxyType(
    {
        name: CONSUMER_GROUP if name in _CONSUMER_METRICS else COORDINATOR_GROUP
        for name in MemberMetrics().read(0, assigned_partitions=0, last_heartbeat_ms=None)
    }
)
