"""What a transactional producer raises: one class for each thing that the application can do next (KIP-1050).

    TransactionError
    ├── RetriableTransactionError   call the same method again
    ├── AbortableTransactionError   call abort_transaction(), then begin again
    └── FatalTransactionError       close the producer and create a new one
        └── ProducerFencedError     a newer producer has the same transactional.id, or the transaction timed out

A record that was dropped by abort_transaction(), or after an error, fails with `TransactionAbortedError`.
"""

from slackwater.client.errors import ClientTimeoutError
from slackwater.group.errors import Error, SlackwaterError


class TransactionError(SlackwaterError):
    """A transaction failed; `error` is the broker's error code, or NONE."""

    def __init__(self, message: str, error: Error = Error.NONE) -> None:
        super().__init__(message)
        self.error = error


class RetriableTransactionError(TransactionError, ClientTimeoutError):
    """A method did not complete within its timeout. It continues; call the same method again to wait for it."""


class AbortableTransactionError(TransactionError):
    """The transaction cannot be committed. Abort it; then the producer can begin the next one."""


class FatalTransactionError(TransactionError):
    """The producer cannot be used any more. Close it and create a new one."""


class ProducerFencedError(FatalTransactionError):
    """A newer producer uses this transactional.id, or the transaction exceeded transaction.timeout.ms."""


class TransactionAbortedError(TransactionError):
    """The record was not written because its transaction is aborted."""
