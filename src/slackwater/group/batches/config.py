"""How a query behaves in its group, what it counts, and what ends it."""

from dataclasses import dataclass
from enum import Enum

from slackwater.group.errors import SlackwaterError, UsageError


class Handover(Enum):
    """What becomes of a partition that must leave while the running batch contains it."""

    WAIT = "wait"
    RELEASE = "release"
    HANDOFF = "handoff"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchConfig:
    """What a user may set; without a group (`grouped`) most of it means nothing."""

    in_group: bool = True
    handover: Handover = Handover.WAIT
    handover_timeout_ms: int = 600_000
    refuse_resets: bool = False
    fail_on_data_loss: bool = True


@dataclass(slots=True)
class BatchCounters:
    """What the progress tells."""

    rebalances: int = 0
    handovers: int = 0
    handover_timeouts: int = 0
    handover_wait_ms: int = 0
    without_partitions_ms: int = 0
    resets_obeyed: int = 0
    commits_refused: int = 0


class OffsetResetRefused(UsageError):
    """An operator has moved the group's offset, and the query is not to follow."""


class DataLossError(SlackwaterError):
    """Records are gone that were not read yet."""
