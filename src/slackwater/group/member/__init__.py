"""The client's side of a group: join, sync, heartbeat, revoke, lose, commit; and the hand-over of work in progress.

Rules kept here
- `GroupMember` is a machine without I/O (`machine.py`); what it does in which state stands in one table
  (`states.py`); what it wants done comes out as effects (`effects.py`).
"""

from slackwater.group.member.config import Driver, MemberConfig
from slackwater.group.member.effects import (
    Callback,
    CommitDone,
    Disconnect,
    Effect,
    Emit,
    Node,
    Notify,
    OffsetAndMetadata,
    OffsetsFetched,
    Raise,
    RefreshMetadata,
    Send,
)
from slackwater.group.member.errors import (
    AssignorFailed,
    CommitFailed,
    FencedInstanceId,
    GroupMaxSizeReached,
    ListenerFailed,
    OperationTimedOut,
    RebalanceInProgress,
    RetriableCommitFailed,
    Wakeup,
)
from slackwater.group.member.machine import GroupMember
from slackwater.group.member.metrics import METRIC_GROUPS
from slackwater.group.member.states import TABLE, Action, Input, MemberState, Outcome

__all__ = [
    "METRIC_GROUPS",
    "TABLE",
    "Action",
    "AssignorFailed",
    "Callback",
    "CommitDone",
    "CommitFailed",
    "Disconnect",
    "Driver",
    "Effect",
    "Emit",
    "FencedInstanceId",
    "GroupMaxSizeReached",
    "GroupMember",
    "Input",
    "ListenerFailed",
    "MemberConfig",
    "MemberState",
    "Node",
    "Notify",
    "OffsetAndMetadata",
    "OffsetsFetched",
    "OperationTimedOut",
    "Outcome",
    "Raise",
    "RebalanceInProgress",
    "RefreshMetadata",
    "RetriableCommitFailed",
    "Send",
    "Wakeup",
]
