"""The classic group's states, and what each does with every input.

Rules kept here
- Every state answers every input: a missing pair is a bug, and a test looks for it.
- Only `Group.move` changes a state, and only along MOVES (ST-01).
- OUTCOMES is not a picture of the code, it is what the code reads: a handler says which input a request is, and the
  table says what to do. What a request must prove first (a known id, the current generation, a protocol in common)
  is checked before the table is asked, in the order the catalogue gives, because it does not depend on the state.

How to read it
PreparingRebalance waits for members; CompletingRebalance waits for the leader's assignment. InitialRebalance is
PreparingRebalance during KIP-134's delay: on the wire they are one. Dead is a group that was deleted or unloaded while
somebody still held on to it.
"""

from enum import Enum
from typing import Final

from slackwater.group.errors import Error
from slackwater.group.events import GroupState
from slackwater.group.message import message

EMPTY: Final = GroupState.EMPTY
INITIAL: Final = GroupState.INITIAL_REBALANCE
PREPARING: Final = GroupState.PREPARING_REBALANCE
COMPLETING: Final = GroupState.COMPLETING_REBALANCE
STABLE: Final = GroupState.STABLE
DEAD: Final = GroupState.DEAD

# ST-01. A failed deletion does not move Dead: the group is built anew from its records.
NEXT_STATES: Final[dict[GroupState, frozenset[GroupState]]] = {
    EMPTY: frozenset({INITIAL, DEAD}),
    INITIAL: frozenset({COMPLETING, EMPTY, DEAD}),
    PREPARING: frozenset({COMPLETING, EMPTY, DEAD}),
    COMPLETING: frozenset({STABLE, PREPARING, DEAD}),
    STABLE: frozenset({PREPARING, DEAD}),
    DEAD: frozenset({DEAD}),
}


class GroupInput(Enum):
    """Everything that can happen to a group."""

    JOIN_WITHOUT_ID = "a dynamic member that must first be given an id joins"
    JOIN_NEW = "a new member joins"
    JOIN_LEADER = "the leader rejoins, metadata unchanged"
    JOIN_FOLLOWER = "a follower rejoins, metadata unchanged"
    JOIN_CHANGED = "a member rejoins with changed metadata"
    JOIN_STATIC = "a static member returns under a new id"
    JOIN_STATIC_OTHER_PROTOCOL = "a static member returns, and with it another protocol wins"
    SYNC_FOLLOWER = "a follower asks for its assignment"
    SYNC_LEADER = "the leader brings the assignment"
    HEARTBEAT = "a member says it lives"
    LEAVE = "members leave, or are removed by an administrator"
    LEAVE_PENDING = "only ids that never joined leave"
    COMMIT = "a member commits offsets"
    COMMIT_SIMPLE = "offsets are committed from outside the membership"
    SESSION_OVER = "a member was silent for its session timeout"
    PENDING_OVER = "an issued id was not used in time"
    DELAY_OVER = "the initial delay is over"
    JOIN_OVER = "the rebalance timeout is over"
    SYNC_OVER = "the sync timer is over"
    ASSIGNMENT_WRITTEN = "the assignment is written"
    ASSIGNMENT_REFUSED = "the assignment could not be written"
    LOADED_OVER_SIZE = "a loaded group has more members than allowed"
    DELETE = "an administrator deletes the group"
    SWEEP = "the sweep finds neither members nor offsets"
    UNLOAD = "the shard goes elsewhere"

    __hash__ = object.__hash__  # each is one object; the enum's own hash is a call, at every look into the table


class GroupAction(Enum):
    """What the coordinator does."""

    REFUSE = "answer with the error"
    ANSWER = "answer at once"
    ISSUE_ID = "answer MEMBER_ID_REQUIRED with a new id, remember it as pending"
    PARK = "park the request; end the phase if it waited for this one"
    DELAY = "park the request until the initial delay is over"
    REBALANCE = "start a rebalance"
    SWAP = "write the new id, then answer"
    PERSIST = "write the assignment, then answer every parked sync"
    STORE = "write the offsets, then answer"
    COMPLETE = "end the join phase if nobody is awaited any more"
    END = "end the join phase now"
    EXTEND = "extend the delay if somebody joined since, else end the join phase"
    DROP_UNSYNCED = "remove who never synced, start a rebalance"
    SETTLE = "answer every parked sync; the group is stable"
    DISSOLVE = "write tombstones; the group is gone"
    CLOSE = "answer everything parked NOT_COORDINATOR; the group is gone from here"
    IGNORE = "nothing"


@message
class Transition:
    """What a state does with an input, and the states it may move to (none: it stays)."""

    act: GroupAction
    error: Error = Error.NONE
    moves: tuple[GroupState, ...] = ()


def _refuse(error: Error) -> Transition:
    return Transition(GroupAction.REFUSE, error)


_UNKNOWN = _refuse(Error.UNKNOWN_MEMBER_ID)
_GONE = _refuse(Error.COORDINATOR_NOT_AVAILABLE)
_REJOIN = _refuse(Error.REBALANCE_IN_PROGRESS)
_NOT_EMPTY = _refuse(Error.NON_EMPTY_GROUP)
_IGNORE = Transition(GroupAction.IGNORE)
_ANSWER = Transition(GroupAction.ANSWER)
_PARK = Transition(GroupAction.PARK, moves=(COMPLETING,))
_DELAY = Transition(GroupAction.DELAY)
# ST-06, ST-11: a round that nobody is left to join passes through PreparingRebalance into Empty in the same step, one
# that everybody has already joined into CompletingRebalance.
_REBALANCE = Transition(GroupAction.REBALANCE, moves=(PREPARING, COMPLETING, EMPTY))
_INITIAL = Transition(GroupAction.REBALANCE, moves=(INITIAL,))
_COMPLETE = Transition(GroupAction.COMPLETE, moves=(COMPLETING, EMPTY))
_END = Transition(GroupAction.END, moves=(COMPLETING, EMPTY))
_CLOSE = Transition(GroupAction.CLOSE, moves=(DEAD,))
_DISSOLVE = Transition(GroupAction.DISSOLVE, moves=(DEAD,))


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


_ISSUE = Transition(GroupAction.ISSUE_ID)
_STORE = Transition(GroupAction.STORE)

# fmt: off
TRANSITIONS: Final[dict[GroupInput, dict[GroupState, Transition]]] = {
    # input                                 Empty      Initial    Preparing  Completing   Stable       Dead
    GroupInput.JOIN_WITHOUT_ID:            _row(_ISSUE,    _ISSUE,    _ISSUE,    _ISSUE,      _ISSUE,      _GONE),     # JG-08
    GroupInput.JOIN_NEW:                   _row(_INITIAL,  _DELAY,    _PARK,     _REBALANCE,  _REBALANCE,  _GONE),     # ST-05
    GroupInput.JOIN_LEADER:                _row(_UNKNOWN,  _DELAY,    _PARK,     _ANSWER,     _REBALANCE,  _GONE),     # JG-17, JG-20
    GroupInput.JOIN_FOLLOWER:              _row(_UNKNOWN,  _DELAY,    _PARK,     _ANSWER,     _ANSWER,     _GONE),     # JG-18, JG-20
    GroupInput.JOIN_CHANGED:               _row(_UNKNOWN,  _DELAY,    _PARK,     _REBALANCE,  _REBALANCE,  _GONE),     # JG-19, JG-21
    GroupInput.JOIN_STATIC:                _row(_UNKNOWN,  _DELAY,    _PARK,     _REBALANCE,  Transition(GroupAction.SWAP), _GONE),  # JG-41, JG-46, JG-47
    GroupInput.JOIN_STATIC_OTHER_PROTOCOL: _row(_UNKNOWN,  _DELAY,    _PARK,     _REBALANCE,  _REBALANCE,  _GONE),     # JG-45
    GroupInput.SYNC_FOLLOWER:              _row(_UNKNOWN,  _REJOIN,   _REJOIN,   Transition(GroupAction.PARK), _ANSWER, _GONE),   # SG-04, SG-05, SG-09
    GroupInput.SYNC_LEADER:                _row(_UNKNOWN,  _REJOIN,   _REJOIN,   Transition(GroupAction.PERSIST), _ANSWER, _GONE),  # SG-06
    # HB-06: no rejoin is asked for while the assignment is on its way, whatever Kafka's state documentation says.
    GroupInput.HEARTBEAT:                  _row(_UNKNOWN,  _REJOIN,   _REJOIN,   _ANSWER,     _ANSWER,     _GONE),     # HB-01 … HB-07
    GroupInput.LEAVE:                      _row(_UNKNOWN,  _IGNORE,   _COMPLETE, _REBALANCE,  _REBALANCE,  _GONE),     # LG-09
    # LG-07 as Kafka 4.3.1 does it: even an id that never joined starts a rebalance when it leaves.
    GroupInput.LEAVE_PENDING:              _row(_IGNORE,   _IGNORE,   _COMPLETE, _REBALANCE,  _REBALANCE,  _GONE),
    GroupInput.COMMIT:                     _row(_UNKNOWN,  _STORE,    _STORE,    _REJOIN,     _STORE,      _GONE),     # OC-04, OC-07, OC-08
    GroupInput.COMMIT_SIMPLE:              _row(_STORE,    _UNKNOWN,  _UNKNOWN,  _UNKNOWN,    _UNKNOWN,    _GONE),     # OC-03, OC-05
    GroupInput.SESSION_OVER:               _row(_IGNORE,   _IGNORE,   _COMPLETE, _REBALANCE,  _REBALANCE,  _IGNORE),   # SE-02, JG-24
    GroupInput.PENDING_OVER:               _row(_IGNORE,   _COMPLETE, _COMPLETE, _IGNORE,     _IGNORE,     _IGNORE),   # JG-10, JG-37
    GroupInput.DELAY_OVER:                 _row(_IGNORE,   Transition(GroupAction.EXTEND, moves=(COMPLETING, EMPTY)), _IGNORE, _IGNORE, _IGNORE, _IGNORE),  # JG-35
    GroupInput.JOIN_OVER:                  _row(_IGNORE,   _IGNORE,   _END,      _IGNORE,     _IGNORE,     _IGNORE),   # JG-29, JG-30
    GroupInput.SYNC_OVER:                  _row(_IGNORE,   _IGNORE,   _IGNORE,   Transition(GroupAction.DROP_UNSYNCED, moves=(PREPARING, COMPLETING, EMPTY)), Transition(GroupAction.DROP_UNSYNCED, moves=(PREPARING, COMPLETING, EMPTY)), _IGNORE),  # SG-11
    GroupInput.ASSIGNMENT_WRITTEN:         _row(_IGNORE,   _IGNORE,   _IGNORE,   Transition(GroupAction.SETTLE, moves=(STABLE,)), _IGNORE, _IGNORE),  # ST-09, SG-07
    GroupInput.ASSIGNMENT_REFUSED:         _row(_IGNORE,   _IGNORE,   _IGNORE,   _REBALANCE,  _IGNORE,     _IGNORE),   # SG-08
    GroupInput.LOADED_OVER_SIZE:           _row(_IGNORE,   _IGNORE,   _IGNORE,   _IGNORE,     _REBALANCE,  _IGNORE),   # CO-07
    GroupInput.DELETE:                     _row(_DISSOLVE, _NOT_EMPTY, _NOT_EMPTY, _NOT_EMPTY, _NOT_EMPTY, _refuse(Error.GROUP_ID_NOT_FOUND)),  # AD-04, ST-12
    GroupInput.SWEEP:                      _row(_DISSOLVE, _IGNORE,   _IGNORE,   _IGNORE,     _IGNORE,     _IGNORE),   # EX-07
    GroupInput.UNLOAD:                     _row(_CLOSE,    _CLOSE,    _CLOSE,    _CLOSE,      _CLOSE,      _IGNORE),   # CO-08
}
# fmt: on
