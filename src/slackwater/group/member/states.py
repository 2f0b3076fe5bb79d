"""A member's states and the transition table.

Invariants:
- The table has an entry for every state and input; a test checks it.
- An entry is an action and the next state. Nothing else changes a member's state.
- A response from an older generation is a separate input (`…_STALE`), so that every pair has one transition.

UNJOINED has no generation. PREPARING_REBALANCE has sent JoinGroup. COMPLETING_REBALANCE has its generation and waits
for its assignment; it sends heartbeats already (CL-02). STABLE has both. A member whose rejoin is due but not yet sent
keeps its state: a STABLE member that learned of a rebalance sends heartbeats until its application polls.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple


class MemberState(Enum):
    """A member's state, under the Java client's names."""

    UNJOINED = "UNJOINED"
    PREPARING_REBALANCE = "PREPARING_REBALANCE"
    COMPLETING_REBALANCE = "COMPLETING_REBALANCE"
    STABLE = "STABLE"

    @property
    def sends_heartbeats(self) -> bool:
        """Whether heartbeats are sent (CL-02)."""
        return self is MemberState.COMPLETING_REBALANCE or self is MemberState.STABLE

    @property
    def is_rebalancing(self) -> bool:
        """Whether the member is between its JoinGroup and its assignment."""
        return self is MemberState.PREPARING_REBALANCE or self is MemberState.COMPLETING_REBALANCE


class MemberInput(Enum):
    """The inputs of a member."""

    JOIN_DUE = "rejoin needed and preparation complete"
    JOIN_OK = "JoinGroup: NONE"
    JOIN_MEMBER_ID_REQUIRED = "JoinGroup: MEMBER_ID_REQUIRED"
    JOIN_REBALANCING = "JoinGroup: REBALANCE_IN_PROGRESS"
    JOIN_UNKNOWN_MEMBER = "JoinGroup: UNKNOWN_MEMBER_ID"
    JOIN_UNKNOWN_MEMBER_STALE = "JoinGroup: UNKNOWN_MEMBER_ID, of an older generation"
    JOIN_LOADING = "JoinGroup: COORDINATOR_LOAD_IN_PROGRESS"
    JOIN_NOT_COORDINATOR = "JoinGroup: NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE"
    JOIN_DISCONNECTED = "JoinGroup: no response"
    JOIN_OTHER_ERROR = "JoinGroup: any other error"
    SYNC_OK = "SyncGroup: NONE"
    SYNC_REBALANCING = "SyncGroup: REBALANCE_IN_PROGRESS"
    SYNC_UNKNOWN_MEMBER = "SyncGroup: UNKNOWN_MEMBER_ID"
    SYNC_ILLEGAL_GENERATION = "SyncGroup: ILLEGAL_GENERATION"
    SYNC_STALE = "SyncGroup: UNKNOWN_MEMBER_ID or ILLEGAL_GENERATION, of an older generation"
    SYNC_NOT_COORDINATOR = "SyncGroup: NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE"
    SYNC_DISCONNECTED = "SyncGroup: no response"
    SYNC_OTHER_ERROR = "SyncGroup: any other error"
    HEARTBEAT_DUE = "heartbeat timer"
    HEARTBEAT_OK = "Heartbeat: NONE"
    HEARTBEAT_REBALANCING = "Heartbeat: REBALANCE_IN_PROGRESS"
    HEARTBEAT_UNKNOWN_MEMBER = "Heartbeat: UNKNOWN_MEMBER_ID"
    HEARTBEAT_ILLEGAL_GENERATION = "Heartbeat: ILLEGAL_GENERATION"
    HEARTBEAT_FENCED = "Heartbeat: FENCED_INSTANCE_ID"
    HEARTBEAT_STALE = "Heartbeat: one of these three, of an older generation"
    HEARTBEAT_NOT_COORDINATOR = "Heartbeat: NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE"
    HEARTBEAT_DISCONNECTED = "Heartbeat: no response"
    HEARTBEAT_OTHER_ERROR = "Heartbeat: any other error"
    SESSION_EXPIRED = "session timer"
    POLL_TIMEOUT_EXPIRED = "poll timer"
    COMMIT = "commit"
    COMMIT_REBALANCING = "OffsetCommit: REBALANCE_IN_PROGRESS"
    COMMIT_UNKNOWN_MEMBER = "OffsetCommit: UNKNOWN_MEMBER_ID"
    COMMIT_ILLEGAL_GENERATION = "OffsetCommit: ILLEGAL_GENERATION"
    COMMIT_UNKNOWN_MEMBER_STALE = "OffsetCommit: UNKNOWN_MEMBER_ID, of an older generation"
    COMMIT_ILLEGAL_GENERATION_STALE = "OffsetCommit: ILLEGAL_GENERATION, of an older generation"
    COMMIT_FENCED = "OffsetCommit: FENCED_INSTANCE_ID"
    COMMIT_FENCED_STALE = "OffsetCommit: FENCED_INSTANCE_ID, of an older generation"
    LEAVE = "unsubscribe, close"
    GENERATION_MODIFIED = "assignment received, generation reset meanwhile"


class MemberAction(Enum):
    """The actions of a member."""

    IGNORE = "nothing"
    SEND_JOIN = "send JoinGroup"
    SEND_SYNC = "start the timers, send SyncGroup (the leader assigns first)"
    KEEP_MEMBER_ID = "keep the assigned member id, rejoin at once"
    REJOIN = "rejoin at once"
    REJOIN_AFTER_BACKOFF = "rejoin after a backoff"
    FIND_COORDINATOR_AND_REJOIN = "forget the coordinator, rejoin after a backoff"
    RESET_MEMBER_ID = "forget generation and member id, rejoin"
    RESET_GENERATION = "forget the generation, keep the member id, rejoin"
    FAIL = "raise to the application"
    ACCEPT = "take the assignment"
    SEND_HEARTBEAT = "send Heartbeat"
    EXTEND = "extend the session"
    REQUEST_REJOIN = "extend the session, rejoin when the driver allows it"
    FENCED = "forget generation and member id, raise to the application"
    RETRY_HEARTBEAT = "send the heartbeat again after a backoff"
    FIND_COORDINATOR = "forget the coordinator and look it up; no rejoin"
    LEAVE = "send LeaveGroup unless static; forget generation and member id"
    SEND_COMMIT = "send OffsetCommit"
    COMMIT_REBALANCING = "RebalanceInProgress"
    COMMIT_FAILED = "CommitFailed"
    COMMIT_REBALANCING_REJOIN = "RebalanceInProgress, rejoin"
    COMMIT_FAILED_RESET_MEMBER_ID = "CommitFailed; forget generation and member id, rejoin"
    COMMIT_FAILED_RESET_GENERATION = "CommitFailed; forget the generation, keep the member id, rejoin"
    COMMIT_FENCED = "FencedInstanceId, raised to the application"


class MemberTransition(NamedTuple):
    """The action for an input, and the next state."""

    action: MemberAction
    next_state: MemberState


_UNJOINED, _PREPARING, _COMPLETING, _STABLE = MemberState
_Row = tuple[MemberTransition, MemberTransition, MemberTransition, MemberTransition]


def _stay(*actions: MemberAction) -> _Row:
    """One action for all states, or one per state; the state does not change."""
    each = actions * 4 if len(actions) == 1 else actions
    unjoined, preparing, completing, stable = map(MemberTransition, each, MemberState)
    return unjoined, preparing, completing, stable


def _all(action: MemberAction, next_state: MemberState) -> _Row:
    """The same transition for all states."""
    outcome = MemberTransition(action, next_state)
    return outcome, outcome, outcome, outcome


_A = MemberAction

# One row per input; the columns are UNJOINED, PREPARING_REBALANCE, COMPLETING_REBALANCE, STABLE.
_ROWS: Final[dict[MemberInput, _Row]] = {
    # CL-01. A failed join does not change the state, so the next one can start in any state.
    MemberInput.JOIN_DUE: _all(_A.SEND_JOIN, _PREPARING),
    # Only a member that still waits accepts the response: it may have left meanwhile.
    MemberInput.JOIN_OK: (
        MemberTransition(_A.REJOIN_AFTER_BACKOFF, _UNJOINED),
        MemberTransition(_A.SEND_SYNC, _COMPLETING),
        MemberTransition(_A.REJOIN_AFTER_BACKOFF, _COMPLETING),
        MemberTransition(_A.REJOIN_AFTER_BACKOFF, _STABLE),
    ),
    # CL-12
    MemberInput.JOIN_MEMBER_ID_REQUIRED: _stay(_A.KEEP_MEMBER_ID),
    MemberInput.JOIN_REBALANCING: _stay(_A.REJOIN),
    MemberInput.JOIN_UNKNOWN_MEMBER: _all(_A.RESET_MEMBER_ID, _UNJOINED),
    MemberInput.JOIN_UNKNOWN_MEMBER_STALE: _stay(_A.REJOIN),
    MemberInput.JOIN_LOADING: _stay(_A.REJOIN_AFTER_BACKOFF),
    MemberInput.JOIN_NOT_COORDINATOR: _stay(_A.FIND_COORDINATOR_AND_REJOIN),
    MemberInput.JOIN_DISCONNECTED: _stay(_A.FIND_COORDINATOR_AND_REJOIN),  # CL-18: the member id is kept
    MemberInput.JOIN_OTHER_ERROR: _stay(_A.FAIL),  # CL-13
    # CL-15: an assignment for a reset generation is a failed rebalance.
    MemberInput.SYNC_OK: (
        MemberTransition(_A.REJOIN, _UNJOINED),
        MemberTransition(_A.REJOIN, _PREPARING),
        MemberTransition(_A.ACCEPT, _STABLE),
        MemberTransition(_A.REJOIN, _STABLE),
    ),
    # CL-14
    MemberInput.SYNC_REBALANCING: _stay(_A.REJOIN),
    MemberInput.SYNC_UNKNOWN_MEMBER: _all(_A.RESET_MEMBER_ID, _UNJOINED),
    MemberInput.SYNC_ILLEGAL_GENERATION: _all(_A.RESET_GENERATION, _UNJOINED),
    MemberInput.SYNC_STALE: _stay(_A.REJOIN),
    MemberInput.SYNC_NOT_COORDINATOR: _stay(_A.FIND_COORDINATOR_AND_REJOIN),
    MemberInput.SYNC_DISCONNECTED: _stay(_A.FIND_COORDINATOR_AND_REJOIN),
    MemberInput.SYNC_OTHER_ERROR: _stay(_A.FAIL),
    # CL-02: none before the JoinGroup response.
    MemberInput.HEARTBEAT_DUE: _stay(_A.IGNORE, _A.IGNORE, _A.SEND_HEARTBEAT, _A.SEND_HEARTBEAT),
    MemberInput.HEARTBEAT_OK: _stay(_A.EXTEND),
    # CL-08, CL-05
    MemberInput.HEARTBEAT_REBALANCING: _stay(_A.EXTEND, _A.EXTEND, _A.EXTEND, _A.REQUEST_REJOIN),
    # CL-09, CL-10
    MemberInput.HEARTBEAT_UNKNOWN_MEMBER: _all(_A.RESET_MEMBER_ID, _UNJOINED),
    MemberInput.HEARTBEAT_ILLEGAL_GENERATION: _all(_A.RESET_GENERATION, _UNJOINED),
    MemberInput.HEARTBEAT_FENCED: _all(_A.FENCED, _UNJOINED),
    MemberInput.HEARTBEAT_STALE: _stay(_A.EXTEND),
    MemberInput.HEARTBEAT_NOT_COORDINATOR: _stay(_A.FIND_COORDINATOR),  # CL-11
    MemberInput.HEARTBEAT_DISCONNECTED: _stay(_A.FIND_COORDINATOR),
    MemberInput.HEARTBEAT_OTHER_ERROR: _stay(_A.RETRY_HEARTBEAT),  # CL-05
    # CL-04: the generation is kept; a coordinator found in time still has this member.
    MemberInput.SESSION_EXPIRED: _stay(_A.IGNORE, _A.IGNORE, _A.FIND_COORDINATOR, _A.FIND_COORDINATOR),
    # CL-06: also between the JoinGroup and SyncGroup responses. While JoinGroup is in flight no heartbeat is sent and
    # no timer is checked: its response restarts the poll timer (CL-02).
    MemberInput.POLL_TIMEOUT_EXPIRED: (
        MemberTransition(_A.IGNORE, _UNJOINED),
        MemberTransition(_A.IGNORE, _PREPARING),
        MemberTransition(_A.LEAVE, _UNJOINED),
        MemberTransition(_A.LEAVE, _UNJOINED),
    ),
    # CL-33
    MemberInput.COMMIT: _stay(_A.COMMIT_FAILED, _A.COMMIT_REBALANCING, _A.COMMIT_REBALANCING, _A.SEND_COMMIT),
    # CL-35
    MemberInput.COMMIT_REBALANCING: _stay(_A.COMMIT_REBALANCING_REJOIN),
    MemberInput.COMMIT_UNKNOWN_MEMBER: _all(_A.COMMIT_FAILED_RESET_MEMBER_ID, _UNJOINED),
    MemberInput.COMMIT_ILLEGAL_GENERATION: _all(_A.COMMIT_FAILED_RESET_GENERATION, _UNJOINED),
    MemberInput.COMMIT_UNKNOWN_MEMBER_STALE: (
        MemberTransition(_A.COMMIT_FAILED_RESET_MEMBER_ID, _UNJOINED),
        MemberTransition(_A.COMMIT_REBALANCING, _PREPARING),
        MemberTransition(_A.COMMIT_FAILED_RESET_MEMBER_ID, _UNJOINED),
        MemberTransition(_A.COMMIT_FAILED_RESET_MEMBER_ID, _UNJOINED),
    ),
    MemberInput.COMMIT_ILLEGAL_GENERATION_STALE: (
        MemberTransition(_A.COMMIT_FAILED_RESET_GENERATION, _UNJOINED),
        MemberTransition(_A.COMMIT_REBALANCING, _PREPARING),
        MemberTransition(_A.COMMIT_FAILED_RESET_GENERATION, _UNJOINED),
        MemberTransition(_A.COMMIT_FAILED_RESET_GENERATION, _UNJOINED),
    ),
    MemberInput.COMMIT_FENCED: _stay(_A.COMMIT_FENCED),
    MemberInput.COMMIT_FENCED_STALE: _stay(_A.COMMIT_FAILED, _A.COMMIT_REBALANCING, _A.COMMIT_FAILED, _A.COMMIT_FAILED),
    # CL-32
    MemberInput.LEAVE: _all(_A.LEAVE, _UNJOINED),
    # A heartbeat was rejected between the SyncGroup response and the application's next poll.
    MemberInput.GENERATION_MODIFIED: _all(_A.RESET_MEMBER_ID, _UNJOINED),
}

MEMBER_TRANSITIONS: Final[Mapping[MemberState, Mapping[MemberInput, MemberTransition]]] = {
    state: {cause: row[column] for cause, row in _ROWS.items()} for column, state in enumerate(MemberState)
}
