"""The work scheduler behind `Consumer.run`, as a state machine without I/O."""

from slackwater.group.work.config import ExhaustedAction, ProcessingOrder, RevokeMode, WorkConfig
from slackwater.group.work.effects import (
    AbandonTasks,
    CommitFinished,
    PartitionsDrained,
    PausePartitions,
    ResumePartitions,
    StartTask,
    StopProcessing,
    WorkEffect,
    WorkRecord,
    WriteDeadLetter,
)
from slackwater.group.work.scheduler import WorkScheduler

__all__ = [
    "AbandonTasks",
    "CommitFinished",
    "ExhaustedAction",
    "PartitionsDrained",
    "PausePartitions",
    "ProcessingOrder",
    "ResumePartitions",
    "RevokeMode",
    "StartTask",
    "StopProcessing",
    "WorkConfig",
    "WorkEffect",
    "WorkRecord",
    "WorkScheduler",
    "WriteDeadLetter",
]
