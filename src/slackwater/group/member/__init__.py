"""The client side of a classic consumer group, as a state machine without I/O.

`GroupMember` (`machine.py`) is the public machine. `states.py` holds its transition table, `effects.py` the effects
that it returns.
"""

from slackwater.group.events import PublishEvent
from slackwater.group.member.config import MemberConfig, RebalanceDriver
from slackwater.group.member.effects import (
    Callback,
    CommitDone,
    CoordinatorNode,
    Disconnect,
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
    "Callback",
    "CommitDone",
    "CommitFailed",
    "CoordinatorNode",
    "Disconnect",
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
    "PublishEvent",
    "Raise",
    "RebalanceDriver",
    "RebalanceInProgress",
    "RefreshMetadata",
    "RetriableCommitFailed",
    "Send",
    "Wakeup",
]
