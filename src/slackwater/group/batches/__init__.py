"""The micro-batches of a Spark query that is a group member, as a state machine without I/O."""

from slackwater.group.batches.batch_limits import BatchLimits
from slackwater.group.batches.config import BatchConfig, BatchCounters, DataLossError, Handover, OffsetResetRejected
from slackwater.group.batches.effects import (
    BatchEffect,
    BatchEvent,
    BatchEventKind,
    CommitBatchOffsets,
    FetchCommitted,
    HoldPartitions,
    ReleasePartitions,
)
from slackwater.group.batches.machine import BatchPlanner
from slackwater.group.batches.offset import BatchOffset

__all__ = [
    "BatchConfig",
    "BatchCounters",
    "BatchEffect",
    "BatchEvent",
    "BatchEventKind",
    "BatchLimits",
    "BatchOffset",
    "BatchPlanner",
    "CommitBatchOffsets",
    "DataLossError",
    "FetchCommitted",
    "Handover",
    "HoldPartitions",
    "OffsetResetRejected",
    "ReleasePartitions",
]
