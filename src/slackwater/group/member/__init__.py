"""The client's side of a group: join, sync, heartbeat, revoke, lose, commit; and the hand-over of work in progress.

Rules kept here
- `GroupMember` is a machine without I/O (`machine.py`); what it does in which state stands in one table
  (`states.py`); what it wants done comes out as effects (`effects.py`).
"""

from slackwater.group.member.config import MemberConfig, RebalanceDriver
from slackwater.group.member.effects import (
    BrokerNode,
    Callback,
    CommitDone,
    Disconnect,
    EmitEvent,
    MemberEffect,
    NotifyListener,
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
from slackwater.group.member.states import MEMBER_TRANSITIONS, MemberAction, MemberInput, MemberState, MemberTransition
from slackwater.group.offset_and_metadata import OffsetAndMetadata

__all__ = [
    "MEMBER_TRANSITIONS",
    "METRIC_GROUPS",
    "AssignorFailed",
    "BrokerNode",
    "Callback",
    "CommitDone",
    "CommitFailed",
    "Disconnect",
    "EmitEvent",
    "FencedInstanceId",
    "GroupMaxSizeReached",
    "GroupMember",
    "ListenerFailed",
    "MemberAction",
    "MemberConfig",
    "MemberEffect",
    "MemberInput",
    "MemberState",
    "MemberTransition",
    "NotifyListener",
    "OffsetAndMetadata",
    "OffsetsFetched",
    "OperationTimedOut",
    "Raise",
    "RebalanceDriver",
    "RebalanceInProgress",
    "RefreshMetadata",
    "RetriableCommitFailed",
    "Send",
    "Wakeup",
]
