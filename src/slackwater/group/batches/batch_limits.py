"""The size of a batch: maxOffsetsPerTrigger, minOffsetsPerTrigger, maxTriggerDelay.

Invariants:
- The arithmetic is that of Spark's Kafka source: a limit is divided in proportion to the backlog, and a partition with
  any backlog gets at least one offset.
- A batch that is too small waits for more offsets, or until `max_delay_ms` after the last batch.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from slackwater.group.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The configured limits; None means no limit."""

    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay_ms: int = 0


def divide_limit(backlog: Mapping[TopicPartition, int], limit: int | None) -> dict[TopicPartition, int]:
    """The number of offsets to take from each partition's backlog."""
    total = sum(backlog.values())
    if limit is None or total <= limit:
        return dict(backlog)
    taken = {}
    for partition, size in backlog.items():
        share = limit * (size / total)
        taken[partition] = min(size, math.ceil(share) if share < 1 else math.floor(share))
    return taken


class BatchLimiter:
    """Decides whether a batch may start."""

    def __init__(self) -> None:
        self._last_ms: int | None = None

    def may_start(self, total: int, limits: BatchLimits, now_ms: int) -> bool:
        """Return whether this many offsets are enough for a batch; for the first batch they always are."""
        is_delay_over = self._last_ms is None or now_ms - self._last_ms >= limits.max_delay_ms
        if limits.min_offsets is not None and total < limits.min_offsets and not is_delay_over:
            return False
        self._last_ms = now_ms
        return True
