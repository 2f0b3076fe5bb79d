"""How much one batch takes: maxOffsetsPerTrigger, minOffsetsPerTrigger, maxTriggerDelay.

Rules kept here
- The arithmetic is that of Spark's own Kafka source: a limit is shared in proportion to the backlog, and a partition
  with any backlog gets at least one offset, so that small ones do not starve.
- A batch that is too small waits until there is more, or until `max_delay_ms` have passed since the last one.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from slackwater.group.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """What was asked for; None is no limit."""

    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay_ms: int = 0


def shared(backlog: Mapping[TopicPartition, int], limit: int | None) -> dict[TopicPartition, int]:
    """How much of each backlog is taken."""
    total = sum(backlog.values())
    if limit is None or total <= limit:
        return dict(backlog)
    taken = {}
    for partition, size in backlog.items():
        share = limit * (size / total)
        taken[partition] = min(size, math.ceil(share) if share < 1 else math.floor(share))
    return taken


class BatchAdmission:
    """Whether a batch may begin."""

    def __init__(self) -> None:
        self._last_ms: int | None = None

    def admits(self, total: int, limits: BatchLimits, now_ms: int) -> bool:
        """Whether so many offsets are enough; the first batch always is."""
        waited = self._last_ms is None or now_ms - self._last_ms >= limits.max_delay_ms
        if limits.min_offsets is not None and total < limits.min_offsets and not waited:
            return False
        self._last_ms = now_ms
        return True
