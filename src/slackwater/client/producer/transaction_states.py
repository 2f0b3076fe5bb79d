"""The states of a transactional producer, under the names of Java's TransactionManager, and the transition table.

Invariants:
- An input that a state does not have in the table is a mistake of the application, and raises `UsageError`. In an error
  state the application's calls raise that error instead.
- Nothing else changes the state.
- A call that timed out may be repeated: INIT, COMMIT and ABORT keep the states that they lead to.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final


class TransactionManagerState(Enum):
    """The state of a transactional producer."""

    UNINITIALIZED = "UNINITIALIZED"
    INITIALIZING = "INITIALIZING"
    READY = "READY"
    IN_TRANSACTION = "IN_TRANSACTION"
    COMMITTING = "COMMITTING_TRANSACTION"
    ABORTING = "ABORTING_TRANSACTION"
    ABORTABLE_ERROR = "ABORTABLE_ERROR"
    FATAL_ERROR = "FATAL_ERROR"


class TransactionManagerInput(Enum):
    """What changes the state: calls of the application, responses, and errors."""

    INIT = "init_transactions()"
    BEGIN = "begin_transaction()"
    SEND = "send()"
    SEND_OFFSETS = "send_offsets_to_transaction()"
    COMMIT = "commit_transaction()"
    ABORT = "abort_transaction()"
    INITIALIZED = "InitProducerId: NONE"
    ENDED = "EndTxn: NONE"
    ABORTABLE = "an abortable error"
    FATAL = "a fatal error"


_S, _I = TransactionManagerState, TransactionManagerInput

TRANSITIONS: Final[Mapping[TransactionManagerState, Mapping[TransactionManagerInput, TransactionManagerState]]] = {
    _S.UNINITIALIZED: {_I.INIT: _S.INITIALIZING, _I.FATAL: _S.FATAL_ERROR},
    _S.INITIALIZING: {_I.INIT: _S.INITIALIZING, _I.INITIALIZED: _S.READY, _I.FATAL: _S.FATAL_ERROR},
    _S.READY: {_I.BEGIN: _S.IN_TRANSACTION, _I.FATAL: _S.FATAL_ERROR},
    _S.IN_TRANSACTION: {
        _I.SEND: _S.IN_TRANSACTION,
        _I.SEND_OFFSETS: _S.IN_TRANSACTION,
        _I.COMMIT: _S.COMMITTING,
        _I.ABORT: _S.ABORTING,
        _I.ABORTABLE: _S.ABORTABLE_ERROR,
        _I.FATAL: _S.FATAL_ERROR,
    },
    _S.COMMITTING: {
        _I.COMMIT: _S.COMMITTING,
        _I.ENDED: _S.READY,
        _I.ABORTABLE: _S.ABORTABLE_ERROR,
        _I.FATAL: _S.FATAL_ERROR,
    },
    _S.ABORTING: {
        _I.ABORT: _S.ABORTING,
        _I.ENDED: _S.READY,
        _I.ABORTABLE: _S.ABORTING,  # a batch that was in flight fails
        _I.FATAL: _S.FATAL_ERROR,
    },
    _S.ABORTABLE_ERROR: {
        _I.ABORT: _S.ABORTING,
        _I.ABORTABLE: _S.ABORTABLE_ERROR,
        _I.FATAL: _S.FATAL_ERROR,
    },
    _S.FATAL_ERROR: {_I.ABORTABLE: _S.FATAL_ERROR, _I.FATAL: _S.FATAL_ERROR},
}

# What to do instead of a call that a state does not have.
REMEDIES: Final[Mapping[TransactionManagerState, str]] = {
    _S.UNINITIALIZED: "Call init_transactions() first.",
    _S.INITIALIZING: "init_transactions() has not completed; call it again.",
    _S.READY: "There is no open transaction; call begin_transaction() first.",
    _S.IN_TRANSACTION: "A transaction is open; commit or abort it first.",
    _S.COMMITTING: "commit_transaction() has not completed; call it again.",
    _S.ABORTING: "abort_transaction() has not completed; call it again.",
}
