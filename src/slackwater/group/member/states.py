"""A member's states, and what each does with every input.

Rules kept here
- Every state answers every input: a missing pair is a bug, and a test looks for it.
- An outcome is what is done and the state that follows. Nothing else in the member changes its state.
- What an answer means depends on the generation it was asked in. That is settled before the table is read: an answer
  from an older generation is an input of its own (`…_STALE`), so a pair has exactly one outcome.

How to read it: UNJOINED has no generation. PREPARING_REBALANCE has sent JoinGroup and waits. COMPLETING_REBALANCE has
its generation and waits for its assignment; it beats already (CL-02). STABLE has both. A member whose rejoin is due
but not yet sent keeps its state: a STABLE member that heard of a rebalance goes on beating until its application
polls.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple


class MemberState(Enum):
    """Where a member stands, under the Java client's names."""

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
    """What can happen to a member."""

    JOIN_DUE = "rejoin needed, and everything prepared"
    JOIN_OK = "JoinGroup: NONE"
    JOIN_ID_GIVEN = "JoinGroup: MEMBER_ID_REQUIRED"
    JOIN_REBALANCING = "JoinGroup: REBALANCE_IN_PROGRESS"
    JOIN_UNKNOWN_MEMBER = "JoinGroup: UNKNOWN_MEMBER_ID"
    JOIN_UNKNOWN_MEMBER_STALE = "JoinGroup: UNKNOWN_MEMBER_ID, of an older generation"
    JOIN_LOADING = "JoinGroup: COORDINATOR_LOAD_IN_PROGRESS"
    JOIN_WRONG_NODE = "JoinGroup: NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE"
    JOIN_DISCONNECTED = "JoinGroup: no answer"
    JOIN_REFUSED = "JoinGroup: any other error"
    SYNC_OK = "SyncGroup: NONE"
    SYNC_REBALANCING = "SyncGroup: REBALANCE_IN_PROGRESS"
    SYNC_UNKNOWN_MEMBER = "SyncGroup: UNKNOWN_MEMBER_ID"
    SYNC_ILLEGAL_GENERATION = "SyncGroup: ILLEGAL_GENERATION"
    SYNC_STALE = "SyncGroup: UNKNOWN_MEMBER_ID or ILLEGAL_GENERATION, of an older generation"
    SYNC_WRONG_NODE = "SyncGroup: NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE"
    SYNC_DISCONNECTED = "SyncGroup: no answer"
    SYNC_REFUSED = "SyncGroup: any other error"
    BEAT_DUE = "heartbeat timer"
    BEAT_OK = "Heartbeat: NONE"
    BEAT_REBALANCING = "Heartbeat: REBALANCE_IN_PROGRESS"
    BEAT_UNKNOWN_MEMBER = "Heartbeat: UNKNOWN_MEMBER_ID"
    BEAT_ILLEGAL_GENERATION = "Heartbeat: ILLEGAL_GENERATION"
    BEAT_FENCED = "Heartbeat: FENCED_INSTANCE_ID"
    BEAT_STALE = "Heartbeat: one of these three, of an older generation"
    BEAT_WRONG_NODE = "Heartbeat: NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE"
    BEAT_DISCONNECTED = "Heartbeat: no answer"
    BEAT_REFUSED = "Heartbeat: any other error"
    SESSION_OVER = "session timer"
    POLL_OVER = "poll timer"
    COMMIT = "commit"
    COMMIT_REBALANCING = "OffsetCommit: REBALANCE_IN_PROGRESS"
    COMMIT_UNKNOWN_MEMBER = "OffsetCommit: UNKNOWN_MEMBER_ID"
    COMMIT_ILLEGAL_GENERATION = "OffsetCommit: ILLEGAL_GENERATION"
    COMMIT_UNKNOWN_MEMBER_STALE = "OffsetCommit: UNKNOWN_MEMBER_ID, of an older generation"
    COMMIT_ILLEGAL_GENERATION_STALE = "OffsetCommit: ILLEGAL_GENERATION, of an older generation"
    COMMIT_FENCED = "OffsetCommit: FENCED_INSTANCE_ID"
    COMMIT_FENCED_STALE = "OffsetCommit: FENCED_INSTANCE_ID, of an older generation"
    LEAVE = "unsubscribe, close"
    GENERATION_MODIFIED = "assignment at hand, generation gone"


class MemberAction(Enum):
    """What a member does about it."""

    IGNORE = "nothing"
    SEND_JOIN = "send JoinGroup"
    SEND_SYNC = "start the timers, send SyncGroup (the leader assigns first)"
    TAKE_ID = "keep the id given, rejoin at once"
    REJOIN = "rejoin at once"
    REJOIN_LATER = "rejoin after a backoff"
    REDISCOVER = "forget the coordinator, rejoin after a backoff"
    RESET_ID = "forget generation and member id, rejoin"
    RESET_GENERATION = "forget the generation, keep the member id, rejoin"
    FAIL = "raise to the application"
    ACCEPT = "take the assignment"
    SEND_BEAT = "send Heartbeat"
    EXTEND = "extend the session"
    ASK_REJOIN = "extend the session, rejoin when the driver lets it"
    FENCED = "forget generation and member id, raise to the application"
    RETRY_BEAT = "beat again after a backoff"
    FIND = "forget the coordinator and look for it; no rejoin"
    LEAVE = "send LeaveGroup unless static; forget generation and member id"
    SEND_COMMIT = "send OffsetCommit"
    COMMIT_REBALANCING = "RebalanceInProgress"
    COMMIT_FAILED = "CommitFailed"
    COMMIT_REBALANCING_REJOIN = "RebalanceInProgress, rejoin"
    COMMIT_FAILED_RESET_ID = "CommitFailed; forget generation and member id, rejoin"
    COMMIT_FAILED_RESET_GENERATION = "CommitFailed; forget the generation, keep the member id, rejoin"
    COMMIT_FENCED = "FencedInstanceId, raised to the application"


class MemberTransition(NamedTuple):
    """What is done, and where the member stands then."""

    action: MemberAction
    next_state: MemberState


_UNJOINED, _PREPARING, _COMPLETING, _STABLE = MemberState
_Row = tuple[MemberTransition, MemberTransition, MemberTransition, MemberTransition]


def _stay(*actions: MemberAction) -> _Row:
    """One action for all states, or one per state; the state stays."""
    each = actions * 4 if len(actions) == 1 else actions
    unjoined, preparing, completing, stable = map(MemberTransition, each, MemberState)
    return unjoined, preparing, completing, stable


def _all(action: MemberAction, next_state: MemberState) -> _Row:
    """One outcome for all states."""
    outcome = MemberTransition(action, next_state)
    return outcome, outcome, outcome, outcome


_A = MemberAction

# One row per input; the columns are UNJOINED, PREPARING_REBALANCE, COMPLETING_REBALANCE, STABLE.
_ROWS: Final[dict[MemberInput, _Row]] = {
    # CL-01. A join that failed leaves the state as it was, so the next one can start anywhere.
    MemberInput.JOIN_DUE: _all(_A.SEND_JOIN, _PREPARING),
    # Only a member that still waits takes the answer: it may have left meanwhile.
    MemberInput.JOIN_OK: (
        MemberTransition(_A.REJOIN_LATER, _UNJOINED),
        MemberTransition(_A.SEND_SYNC, _COMPLETING),
        MemberTransition(_A.REJOIN_LATER, _COMPLETING),
        MemberTransition(_A.REJOIN_LATER, _STABLE),
    ),
    # CL-12
    MemberInput.JOIN_ID_GIVEN: _stay(_A.TAKE_ID),
    MemberInput.JOIN_REBALANCING: _stay(_A.REJOIN),
    MemberInput.JOIN_UNKNOWN_MEMBER: _all(_A.RESET_ID, _UNJOINED),
    MemberInput.JOIN_UNKNOWN_MEMBER_STALE: _stay(_A.REJOIN),
    MemberInput.JOIN_LOADING: _stay(_A.REJOIN_LATER),
    MemberInput.JOIN_WRONG_NODE: _stay(_A.REDISCOVER),
    MemberInput.JOIN_DISCONNECTED: _stay(_A.REDISCOVER),  # CL-18: the member id is kept
    MemberInput.JOIN_REFUSED: _stay(_A.FAIL),  # CL-13
    # CL-15: an assignment for a generation that is gone is a failed rebalance.
    MemberInput.SYNC_OK: (
        MemberTransition(_A.REJOIN, _UNJOINED),
        MemberTransition(_A.REJOIN, _PREPARING),
        MemberTransition(_A.ACCEPT, _STABLE),
        MemberTransition(_A.REJOIN, _STABLE),
    ),
    # CL-14
    MemberInput.SYNC_REBALANCING: _stay(_A.REJOIN),
    MemberInput.SYNC_UNKNOWN_MEMBER: _all(_A.RESET_ID, _UNJOINED),
    MemberInput.SYNC_ILLEGAL_GENERATION: _all(_A.RESET_GENERATION, _UNJOINED),
    MemberInput.SYNC_STALE: _stay(_A.REJOIN),
    MemberInput.SYNC_WRONG_NODE: _stay(_A.REDISCOVER),
    MemberInput.SYNC_DISCONNECTED: _stay(_A.REDISCOVER),
    MemberInput.SYNC_REFUSED: _stay(_A.FAIL),
    # CL-02: none before the join answer.
    MemberInput.BEAT_DUE: _stay(_A.IGNORE, _A.IGNORE, _A.SEND_BEAT, _A.SEND_BEAT),
    MemberInput.BEAT_OK: _stay(_A.EXTEND),
    # CL-08, CL-05
    MemberInput.BEAT_REBALANCING: _stay(_A.EXTEND, _A.EXTEND, _A.EXTEND, _A.ASK_REJOIN),
    # CL-09, CL-10
    MemberInput.BEAT_UNKNOWN_MEMBER: _all(_A.RESET_ID, _UNJOINED),
    MemberInput.BEAT_ILLEGAL_GENERATION: _all(_A.RESET_GENERATION, _UNJOINED),
    MemberInput.BEAT_FENCED: _all(_A.FENCED, _UNJOINED),
    MemberInput.BEAT_STALE: _stay(_A.EXTEND),
    MemberInput.BEAT_WRONG_NODE: _stay(_A.FIND),  # CL-11
    MemberInput.BEAT_DISCONNECTED: _stay(_A.FIND),
    MemberInput.BEAT_REFUSED: _stay(_A.RETRY_BEAT),  # CL-05
    # CL-04: the generation is kept; a coordinator found in time knows this member still.
    MemberInput.SESSION_OVER: _stay(_A.IGNORE, _A.IGNORE, _A.FIND, _A.FIND),
    # CL-06: also between JoinGroup's answer and SyncGroup's. While JoinGroup is out nothing beats and nothing is
    # checked: its answer starts the poll timer anew (CL-02).
    MemberInput.POLL_OVER: (
        MemberTransition(_A.IGNORE, _UNJOINED),
        MemberTransition(_A.IGNORE, _PREPARING),
        MemberTransition(_A.LEAVE, _UNJOINED),
        MemberTransition(_A.LEAVE, _UNJOINED),
    ),
    # CL-33
    MemberInput.COMMIT: _stay(_A.COMMIT_FAILED, _A.COMMIT_REBALANCING, _A.COMMIT_REBALANCING, _A.SEND_COMMIT),
    # CL-35
    MemberInput.COMMIT_REBALANCING: _stay(_A.COMMIT_REBALANCING_REJOIN),
    MemberInput.COMMIT_UNKNOWN_MEMBER: _all(_A.COMMIT_FAILED_RESET_ID, _UNJOINED),
    MemberInput.COMMIT_ILLEGAL_GENERATION: _all(_A.COMMIT_FAILED_RESET_GENERATION, _UNJOINED),
    MemberInput.COMMIT_UNKNOWN_MEMBER_STALE: (
        MemberTransition(_A.COMMIT_FAILED_RESET_ID, _UNJOINED),
        MemberTransition(_A.COMMIT_REBALANCING, _PREPARING),
        MemberTransition(_A.COMMIT_FAILED_RESET_ID, _UNJOINED),
        MemberTransition(_A.COMMIT_FAILED_RESET_ID, _UNJOINED),
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
    # A heartbeat's refusal arrived between SyncGroup's answer and the application's next poll.
    MemberInput.GENERATION_MODIFIED: _all(_A.RESET_ID, _UNJOINED),
}

MEMBER_TRANSITIONS: Final[Mapping[MemberState, Mapping[MemberInput, MemberTransition]]] = {
    state: {cause: row[column] for cause, row in _ROWS.items()} for column, state in enumerate(MemberState)
}
