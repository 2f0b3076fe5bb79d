"""The group coordinator, as a state machine without I/O."""

from slackwater.group.coordinator.config import CoordinatorConfig
from slackwater.group.coordinator.coordinator import Coordinator
from slackwater.group.coordinator.effects import AppendRecords, Effect, ProducerTransaction, SendResponse
from slackwater.group.coordinator.records import (
    CommittedOffset,
    CoordinatorRecord,
    GroupMetadata,
    StoredGroup,
    StoredMember,
    StoredOffset,
)
from slackwater.group.events import PublishEvent

__all__ = [
    "AppendRecords",
    "CommittedOffset",
    "Coordinator",
    "CoordinatorConfig",
    "CoordinatorRecord",
    "Effect",
    "GroupMetadata",
    "ProducerTransaction",
    "PublishEvent",
    "SendResponse",
    "StoredGroup",
    "StoredMember",
    "StoredOffset",
]
