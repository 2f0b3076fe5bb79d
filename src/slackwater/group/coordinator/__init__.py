"""The coordinator's half of a consumer group, as a state machine without I/O."""

from slackwater.group.coordinator.config import CoordinatorConfig
from slackwater.group.coordinator.coordinator import Coordinator
from slackwater.group.coordinator.effects import Answer, Append, Effect, Emit
from slackwater.group.coordinator.records import (
    CommittedOffset,
    GroupMetadata,
    Record,
    StoredGroup,
    StoredMember,
    StoredOffset,
)

__all__ = [
    "Answer",
    "Append",
    "CommittedOffset",
    "Coordinator",
    "CoordinatorConfig",
    "Effect",
    "Emit",
    "GroupMetadata",
    "Record",
    "StoredGroup",
    "StoredMember",
    "StoredOffset",
]
