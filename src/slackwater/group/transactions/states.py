"""The states of a transactional id in the transaction coordinator, and the action each state takes for every input.

The code reads TRANSITIONS: a handler classifies a request as an input, and the table names the action. Checks of the
producer id and epoch run before the table is read. While a record of the id is being written, and until the markers of
a prepared transaction are written, every request that would change the state gets CONCURRENT_TRANSACTIONS; this check
also comes before the table, and before that of id and epoch where Kafka has it there (TX-24, TX-31, TX-41).

Invariants:
- Every pair of state and input has an entry. UNREACHABLE marks pairs that an earlier check excludes.
- A state changes only when its record is written, and only as NEXT_STATES allows (TX-20).
- PrepareCommit is the decision: from then on the transaction commits, also after a restart.
"""

from enum import Enum
from typing import Final

from slackwater.group.errors import Error
from slackwater.group.value_class import value_class


class TransactionState(Enum):
    """The state of a transactional id, under Kafka's name."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"

    __hash__ = object.__hash__  # Enum.__hash__ is a Python call; the table is read on every request


EMPTY: Final = TransactionState.EMPTY
ONGOING: Final = TransactionState.ONGOING
PREPARE_COMMIT: Final = TransactionState.PREPARE_COMMIT
PREPARE_ABORT: Final = TransactionState.PREPARE_ABORT
COMPLETE_COMMIT: Final = TransactionState.COMPLETE_COMMIT
COMPLETE_ABORT: Final = TransactionState.COMPLETE_ABORT
DEAD: Final = TransactionState.DEAD

PREPARED: Final = frozenset({PREPARE_COMMIT, PREPARE_ABORT})

# TX-20
NEXT_STATES: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    EMPTY: frozenset({EMPTY, ONGOING, PREPARE_ABORT, DEAD}),
    ONGOING: frozenset({ONGOING, PREPARE_COMMIT, PREPARE_ABORT}),
    PREPARE_COMMIT: frozenset({COMPLETE_COMMIT}),
    PREPARE_ABORT: frozenset({COMPLETE_ABORT}),
    COMPLETE_COMMIT: frozenset({EMPTY, ONGOING, PREPARE_ABORT, DEAD}),
    COMPLETE_ABORT: frozenset({EMPTY, ONGOING, PREPARE_ABORT, DEAD}),
    DEAD: frozenset(),
}


class TransactionInput(Enum):
    """Requests, timers and write results that a transactional id reacts to."""

    INIT = "InitProducerId"
    ADD = "partitions are added"
    VERIFY = "a broker asks whether partitions belong to the transaction"
    COMMIT = "EndTxn: commit (transaction version 0, 1)"
    ABORT = "EndTxn: abort (transaction version 0, 1)"
    COMMIT_V2 = "EndTxn v5+: commit, current epoch"
    ABORT_V2 = "EndTxn v5+: abort, current epoch"
    COMMIT_AGAIN = "EndTxn v5+: commit, previous epoch"
    ABORT_AGAIN = "EndTxn v5+: abort, previous epoch"
    TIMEOUT = "the transaction is open longer than its timeout"
    MARKERS_WRITTEN = "the markers of all partitions are written"
    LOADED = "the coordinator has loaded the id"
    EXPIRATION = "the id was not used for transactional.id.expiration.ms"

    __hash__ = object.__hash__


class TransactionAction(Enum):
    """The coordinator's reaction to an input."""

    REJECT = "respond with the error"
    RESPOND = "respond at once"
    INITIALIZE = "write a new epoch or producer id, then respond"
    ADD_PARTITIONS = "write the partitions, then respond"
    CHECK_PARTITIONS = "respond whether each partition is in the transaction"
    PREPARE = "write the decision, then respond and write the markers"
    FENCE = "write the abort with the next epoch, then write the markers"
    WRITE_MARKERS = "write the markers again"
    COMPLETE = "write that the transaction is complete"
    EXPIRE = "write a tombstone and drop the id"
    IGNORE = "nothing"
    UNREACHABLE = "—"


@value_class
class TransactionTransition:
    """The action of a state for an input, and the state that follows (None: the state stays)."""

    action: TransactionAction
    error: Error = Error.NONE
    next_state: TransactionState | None = None


def _reject(error: Error) -> TransactionTransition:
    return TransactionTransition(TransactionAction.REJECT, error)


def _to(action: TransactionAction, next_state: TransactionState) -> TransactionTransition:
    return TransactionTransition(action, next_state=next_state)


_BUSY = _reject(Error.CONCURRENT_TRANSACTIONS)
_WRONG = _reject(Error.INVALID_TXN_STATE)
_FENCED = _reject(Error.PRODUCER_FENCED)
_NEVER = TransactionTransition(TransactionAction.UNREACHABLE)
_NOTHING = TransactionTransition(TransactionAction.IGNORE)
_RESPOND = TransactionTransition(TransactionAction.RESPOND)
_INIT = _to(TransactionAction.INITIALIZE, EMPTY)
_ADD = _to(TransactionAction.ADD_PARTITIONS, ONGOING)
_CHECK = TransactionTransition(TransactionAction.CHECK_PARTITIONS)
_COMMIT = _to(TransactionAction.PREPARE, PREPARE_COMMIT)
_ABORT = _to(TransactionAction.PREPARE, PREPARE_ABORT)
_FENCE = _to(TransactionAction.FENCE, PREPARE_ABORT)
_MARKERS = TransactionTransition(TransactionAction.WRITE_MARKERS)
_COMMITTED = _to(TransactionAction.COMPLETE, COMPLETE_COMMIT)
_ABORTED = _to(TransactionAction.COMPLETE, COMPLETE_ABORT)
_EXPIRE = _to(TransactionAction.EXPIRE, DEAD)


def _row(
    empty: TransactionTransition,
    ongoing: TransactionTransition,
    prepare_commit: TransactionTransition,
    prepare_abort: TransactionTransition,
    complete_commit: TransactionTransition,
    complete_abort: TransactionTransition,
) -> dict[TransactionState, TransactionTransition]:
    """Return one row; a Dead id is no longer in memory."""
    return {
        EMPTY: empty,
        ONGOING: ongoing,
        PREPARE_COMMIT: prepare_commit,
        PREPARE_ABORT: prepare_abort,
        COMPLETE_COMMIT: complete_commit,
        COMPLETE_ABORT: complete_abort,
        DEAD: _NEVER,
    }


# fmt: off
TRANSITIONS: Final[dict[TransactionInput, dict[TransactionState, TransactionTransition]]] = {
    # input                                Empty     Ongoing   PrepareCommit PrepareAbort CompleteCommit CompleteAbort
    TransactionInput.INIT:            _row(_INIT,    _FENCE,   _BUSY,       _BUSY,    _INIT,    _INIT),     # TX-21
    TransactionInput.ADD:             _row(_ADD,     _ADD,     _BUSY,       _BUSY,    _ADD,     _ADD),      # TX-30
    TransactionInput.VERIFY:          _row(_CHECK,   _CHECK,   _BUSY,       _BUSY,    _CHECK,   _CHECK),    # TX-33
    TransactionInput.COMMIT:          _row(_WRONG,   _COMMIT,  _BUSY,       _BUSY,    _RESPOND, _WRONG),    # TX-38
    TransactionInput.ABORT:           _row(_WRONG,   _ABORT,   _BUSY,       _BUSY,    _WRONG,   _RESPOND),  # TX-38
    TransactionInput.COMMIT_V2:       _row(_WRONG,   _COMMIT,  _BUSY,       _BUSY,    _WRONG,   _WRONG),    # TX-40
    TransactionInput.ABORT_V2:        _row(_ABORT,   _ABORT,   _BUSY,       _BUSY,    _ABORT,   _ABORT),    # TX-40
    TransactionInput.COMMIT_AGAIN:    _row(_FENCED,  _FENCED,  _BUSY,       _BUSY,    _RESPOND, _WRONG),    # TX-42
    TransactionInput.ABORT_AGAIN:     _row(_FENCED,  _FENCED,  _BUSY,       _BUSY,    _WRONG,   _RESPOND),  # TX-42
    TransactionInput.TIMEOUT:         _row(_NOTHING, _FENCE,   _NOTHING,    _NOTHING, _NOTHING, _NOTHING),  # TX-45
    TransactionInput.MARKERS_WRITTEN: _row(_NEVER,   _NEVER,   _COMMITTED,  _ABORTED, _NEVER,   _NEVER),    # TX-44
    TransactionInput.LOADED:          _row(_NOTHING, _NOTHING, _MARKERS,    _MARKERS, _NOTHING, _NOTHING),  # TX-53
    TransactionInput.EXPIRATION:      _row(_EXPIRE,  _NOTHING, _NOTHING,    _NOTHING, _EXPIRE,  _EXPIRE),   # TX-47
}
# fmt: on
