"""The states of a classic group, and the action each state takes for every input.

The code reads TRANSITIONS: a handler classifies a request as an input, and the table names the action. Checks that do
not depend on the state (a known id, the current generation, a common protocol) run before the table is read, in the
order that docs/kafka-behaviours.md gives.

PreparingRebalance waits for members to join; CompletingRebalance waits for the leader's assignment. InitialRebalance
is PreparingRebalance during KIP-134's delay; both have the same name on the wire. A group is Dead when it was deleted
or unloaded while a request, timer or write still refers to it.

Invariants:
- Every pair of state and input has an entry. UNREACHABLE marks pairs that an earlier check or a cancelled timer
  excludes.
- Only `ClassicGroup.transition_to` changes a state, and only as NEXT_STATES allows (ST-01).
"""

from enum import Enum
from typing import Final

from slackwater.group.errors import Error
from slackwater.group.events import GroupState
from slackwater.group.value_class import value_class

EMPTY: Final = GroupState.EMPTY
INITIAL: Final = GroupState.INITIAL_REBALANCE
PREPARING: Final = GroupState.PREPARING_REBALANCE
COMPLETING: Final = GroupState.COMPLETING_REBALANCE
STABLE: Final = GroupState.STABLE
DEAD: Final = GroupState.DEAD

# ST-01. When a deletion fails, the Dead group is replaced by a new Empty one (`ClassicGroup.copy_as_empty`).
NEXT_STATES: Final[dict[GroupState, frozenset[GroupState]]] = {
    EMPTY: frozenset({INITIAL, DEAD}),
    INITIAL: frozenset({COMPLETING, EMPTY, DEAD}),
    PREPARING: frozenset({COMPLETING, EMPTY, DEAD}),
    COMPLETING: frozenset({STABLE, PREPARING, DEAD}),
    STABLE: frozenset({PREPARING, DEAD}),
    DEAD: frozenset({DEAD}),
}


class GroupInput(Enum):
    """Requests, timers and write results that a group reacts to."""

    JOIN_WITHOUT_ID = "a dynamic member without a member id joins (v4+)"
    JOIN_NEW = "a new member joins"
    JOIN_LEADER = "the leader rejoins with unchanged metadata"
    JOIN_FOLLOWER = "a follower rejoins with unchanged metadata"
    JOIN_CHANGED = "a member rejoins with changed metadata"
    JOIN_STATIC = "a static member rejoins with a new member id"
    JOIN_STATIC_OTHER_PROTOCOL = "a static member rejoins and changes the selected protocol"
    SYNC_FOLLOWER = "a follower requests its assignment"
    SYNC_LEADER = "the leader sends the assignment"
    HEARTBEAT = "a member sends a heartbeat"
    LEAVE = "members leave or are removed by an administrator"
    LEAVE_PENDING = "only pending members leave"
    COMMIT = "a member commits offsets"
    COMMIT_SIMPLE = "a client outside the group commits offsets"
    COMMIT_TRANSACTION = "a member commits offsets in a transaction"
    COMMIT_TRANSACTION_SIMPLE = "a client outside the group commits offsets in a transaction"
    SESSION_EXPIRED = "a member's session expires"
    PENDING_MEMBER_EXPIRED = "an issued member id is not used in time"
    JOIN_TIMER_EXPIRED = "the initial delay or the rebalance timeout expires"
    SYNC_TIMER_EXPIRED = "the sync timer expires"
    ASSIGNMENT_WRITTEN = "the assignment is written"
    ASSIGNMENT_WRITE_FAILED = "writing the assignment failed"
    LOADED_OVER_CAPACITY = "a loaded group has more members than group.max.size"
    DELETE = "an administrator deletes the group"
    EXPIRATION = "the expiration check finds no offsets to keep"
    UNLOAD = "the offsets partition is unloaded"

    __hash__ = object.__hash__  # Enum.__hash__ is a Python call; the table is read on every request


class GroupAction(Enum):
    """The coordinator's reaction to an input."""

    REJECT = "respond with the error"
    RESPOND = "respond at once"
    ISSUE_ID = "respond MEMBER_ID_REQUIRED with a new id and keep it as pending"
    AWAIT = "keep the request waiting; end the phase if it waited only for this member"
    DELAY = "keep the request waiting until the initial delay expires"
    REBALANCE = "start a rebalance"
    REPLACE_MEMBER = "write the new member id, then respond"
    STORE_ASSIGNMENT = "write the assignment, then respond to every waiting SyncGroup"
    STORE_OFFSETS = "write the offsets, then respond"
    TRY_COMPLETE_JOIN = "end the join phase if all members have joined"
    END_JOIN_PHASE = "end the join phase"
    EXTEND_DELAY = "extend the delay if a member joined since, else end the join phase"
    REMOVE_UNSYNCED = "remove the members that did not sync, start a rebalance"
    PROPAGATE_ASSIGNMENT = "respond to every waiting SyncGroup; the group is stable"
    DELETE_GROUP = "write tombstones and delete the group"
    UNLOAD_GROUP = "respond NOT_COORDINATOR to every waiting request and drop the group from memory"
    IGNORE = "nothing"
    UNREACHABLE = "—"


@value_class
class Transition:
    """The action of a state for an input, and the states that may follow (none: the state stays)."""

    action: GroupAction
    error: Error = Error.NONE
    next_states: tuple[GroupState, ...] = ()


def _reject(error: Error) -> Transition:
    return Transition(GroupAction.REJECT, error)


_UNKNOWN = _reject(Error.UNKNOWN_MEMBER_ID)
_DEAD = _reject(Error.COORDINATOR_NOT_AVAILABLE)
_REJOIN = _reject(Error.REBALANCE_IN_PROGRESS)
_NON_EMPTY = _reject(Error.NON_EMPTY_GROUP)
_NOT_FOUND = _reject(Error.GROUP_ID_NOT_FOUND)
_NEVER = Transition(GroupAction.UNREACHABLE)
_IGNORE = Transition(GroupAction.IGNORE)
_RESPOND = Transition(GroupAction.RESPOND)
_ISSUE = Transition(GroupAction.ISSUE_ID)
_STORE = Transition(GroupAction.STORE_OFFSETS)
_AWAIT = Transition(GroupAction.AWAIT, next_states=(COMPLETING,))
_AWAIT_SYNC = Transition(GroupAction.AWAIT)
_ASSIGN = Transition(GroupAction.STORE_ASSIGNMENT)
_REPLACE = Transition(GroupAction.REPLACE_MEMBER)
_DELAY = Transition(GroupAction.DELAY)
# ST-06, ST-11: a rebalance without members goes through PreparingRebalance to Empty in one step, and one that all
# members have already joined goes to CompletingRebalance.
_REBALANCE = Transition(GroupAction.REBALANCE, next_states=(PREPARING, COMPLETING, EMPTY))
_INITIAL = Transition(GroupAction.REBALANCE, next_states=(INITIAL,))
_TRY_JOIN = Transition(GroupAction.TRY_COMPLETE_JOIN, next_states=(COMPLETING, EMPTY))
_END_JOIN = Transition(GroupAction.END_JOIN_PHASE, next_states=(COMPLETING, EMPTY))
_EXTEND = Transition(GroupAction.EXTEND_DELAY, next_states=(COMPLETING, EMPTY))
_UNSYNCED = Transition(GroupAction.REMOVE_UNSYNCED, next_states=(PREPARING, COMPLETING, EMPTY))
_STABLE = Transition(GroupAction.PROPAGATE_ASSIGNMENT, next_states=(STABLE,))
_DELETE = Transition(GroupAction.DELETE_GROUP, next_states=(DEAD,))
_UNLOAD = Transition(GroupAction.UNLOAD_GROUP, next_states=(DEAD,))


def _row(
    empty: Transition,
    initial: Transition,
    preparing: Transition,
    completing: Transition,
    stable: Transition,
    dead: Transition,
) -> dict[GroupState, Transition]:
    return {
        EMPTY: empty,
        INITIAL: initial,
        PREPARING: preparing,
        COMPLETING: completing,
        STABLE: stable,
        DEAD: dead,
    }


# fmt: off
TRANSITIONS: Final[dict[GroupInput, dict[GroupState, Transition]]] = {
    # input                                      Empty     Initial     Preparing   Completing  Stable      Dead
    GroupInput.JOIN_WITHOUT_ID:            _row(_ISSUE,   _ISSUE,     _ISSUE,     _ISSUE,     _ISSUE,     _DEAD),   # JG-08
    GroupInput.JOIN_NEW:                   _row(_INITIAL, _DELAY,     _AWAIT,      _REBALANCE, _REBALANCE, _DEAD),   # ST-05
    GroupInput.JOIN_LEADER:                _row(_NEVER,   _DELAY,     _AWAIT,      _RESPOND,   _REBALANCE, _NEVER),  # JG-17, JG-20
    GroupInput.JOIN_FOLLOWER:              _row(_NEVER,   _DELAY,     _AWAIT,      _RESPOND,   _RESPOND,   _NEVER),  # JG-18, JG-20
    GroupInput.JOIN_CHANGED:               _row(_NEVER,   _DELAY,     _AWAIT,      _REBALANCE, _REBALANCE, _NEVER),  # JG-19, JG-21
    GroupInput.JOIN_STATIC:                _row(_NEVER,   _DELAY,     _AWAIT,      _REBALANCE, _REPLACE,   _NEVER),  # JG-41, JG-46, JG-47
    GroupInput.JOIN_STATIC_OTHER_PROTOCOL: _row(_NEVER,   _NEVER,     _NEVER,     _NEVER,     _REBALANCE, _NEVER),  # JG-45
    GroupInput.SYNC_FOLLOWER:              _row(_NEVER,   _REJOIN,    _REJOIN,    _AWAIT_SYNC, _RESPOND,   _DEAD),   # SG-04, SG-05, SG-09
    GroupInput.SYNC_LEADER:                _row(_NEVER,   _REJOIN,    _REJOIN,    _ASSIGN,    _RESPOND,   _NEVER),  # SG-06
    # HB-06: Kafka does not request a rejoin in CompletingRebalance, although the documentation of its states says so.
    GroupInput.HEARTBEAT:                  _row(_UNKNOWN, _REJOIN,    _REJOIN,    _RESPOND,   _RESPOND,   _DEAD),   # HB-01 … HB-07
    GroupInput.LEAVE:                      _row(_NEVER,   _IGNORE,    _TRY_JOIN,  _REBALANCE, _REBALANCE, _DEAD),   # LG-09
    # LG-07: in Kafka 4.3.1 a pending member that leaves also starts a rebalance.
    GroupInput.LEAVE_PENDING:              _row(_IGNORE,  _IGNORE,    _TRY_JOIN,  _REBALANCE, _REBALANCE, _NEVER),
    GroupInput.COMMIT:                     _row(_NEVER,   _STORE,     _STORE,     _REJOIN,    _STORE,     _DEAD),   # OC-04, OC-07, OC-08
    GroupInput.COMMIT_SIMPLE:              _row(_STORE,   _UNKNOWN,   _UNKNOWN,   _UNKNOWN,   _UNKNOWN,   _DEAD),   # OC-03, OC-05
    GroupInput.COMMIT_TRANSACTION:         _row(_NEVER,   _STORE,     _STORE,     _STORE,     _STORE,     _DEAD),   # TX-02
    GroupInput.COMMIT_TRANSACTION_SIMPLE:  _row(_STORE,   _STORE,     _STORE,     _STORE,     _STORE,     _DEAD),   # TX-01
    GroupInput.SESSION_EXPIRED:            _row(_NEVER,   _IGNORE,    _TRY_JOIN,  _REBALANCE, _REBALANCE, _NEVER),  # SE-02, JG-24
    GroupInput.PENDING_MEMBER_EXPIRED:     _row(_IGNORE,  _TRY_JOIN,  _TRY_JOIN,  _IGNORE,    _IGNORE,    _NEVER),  # JG-10, JG-37
    GroupInput.JOIN_TIMER_EXPIRED:         _row(_NEVER,   _EXTEND,    _END_JOIN,  _NEVER,     _NEVER,     _NEVER),  # JG-29, JG-30, JG-35
    GroupInput.SYNC_TIMER_EXPIRED:         _row(_NEVER,   _NEVER,     _NEVER,     _UNSYNCED,  _UNSYNCED,  _NEVER),  # SG-11
    GroupInput.ASSIGNMENT_WRITTEN:         _row(_NEVER,   _NEVER,     _IGNORE,    _STABLE,    _NEVER,     _NEVER),  # ST-09, SG-07
    GroupInput.ASSIGNMENT_WRITE_FAILED:    _row(_NEVER,   _NEVER,     _IGNORE,    _REBALANCE, _NEVER,     _IGNORE), # SG-08
    GroupInput.LOADED_OVER_CAPACITY:       _row(_NEVER,   _NEVER,     _NEVER,     _NEVER,     _REBALANCE, _NEVER),  # CO-07
    GroupInput.DELETE:                     _row(_DELETE,  _NON_EMPTY, _NON_EMPTY, _NON_EMPTY, _NON_EMPTY, _NOT_FOUND),  # AD-04, ST-12
    GroupInput.EXPIRATION:                 _row(_DELETE,  _IGNORE,    _IGNORE,    _IGNORE,    _IGNORE,    _IGNORE), # EX-07
    GroupInput.UNLOAD:                     _row(_UNLOAD,  _UNLOAD,    _UNLOAD,    _UNLOAD,    _UNLOAD,    _IGNORE), # CO-08
}
# fmt: on
