"""Settings, counters and errors of a query's batches."""

from dataclasses import dataclass
from enum import Enum

from slackwater.group.errors import SlackwaterError, UsageError


class Handover(Enum):
    """The handling of a revoked partition that the running batch reads."""

    WAIT = "wait"
    RELEASE = "release"
    COMMIT_EARLY = "handoff"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchConfig:
    """Settings of the batches; without a group (`in_group`) most have no effect."""

    in_group: bool = True
    handover: Handover = Handover.WAIT
    handover_timeout_ms: int = 600_000
    reject_resets: bool = False
    fail_on_data_loss: bool = True


@dataclass(slots=True)
class BatchCounters:
    """Counters for the query's progress."""

    rebalances: int = 0
    handovers: int = 0
    handover_timeouts: int = 0
    handover_wait_ms: int = 0
    without_partitions_ms: int = 0
    resets_followed: int = 0
    commits_rejected: int = 0


class OffsetResetRejected(UsageError):
    """An operator moved the group's offset, and the query is configured not to follow."""


class DataLossError(SlackwaterError):
    """Records were deleted before they were read."""
