"""Verification of transactional batches: whether the coordinator knows the partition as part of the transaction.

Invariants, as in Kafka (KIP-890):
- A transactional batch is appended if its producer's transaction is open in this log, or with the guard of a
  verification that started before it and is still valid.
- A marker, or the first batch of the transaction, ends the verification: a batch that the coordinator confirmed before
  it aborted the transaction is rejected.
"""

from slackwater.broker.storage.log.producer_state import ProducerStateEntry
from slackwater.group.errors import Error


class VerificationGuard:
    """The verification of one producer in one log; it is compared by identity."""

    __slots__ = ("created_ms", "epoch", "lowest_sequence", "supports_epoch_bump")

    def __init__(self, epoch: int, sequence: int, now_ms: int, *, supports_epoch_bump: bool) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence
        self.created_ms = now_ms
        self.supports_epoch_bump = supports_epoch_bump

    def add(self, epoch: int, sequence: int) -> None:
        """Add another batch of the producer that is verified."""
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)

    def sequence_error(self, known: ProducerStateEntry, sequence: int) -> tuple[Error, str] | None:
        """Return the error for a first batch that is not the first one sent, or None."""
        if sequence and self.supports_epoch_bump and not known.batches:
            message = f"Sequence {sequence} is out of order; expected 0 for a producer without state."
            return Error.OUT_OF_ORDER_SEQUENCE_NUMBER, message
        if sequence > self.lowest_sequence:
            message = f"Sequence {sequence} is out of order; {self.lowest_sequence} was seen before."
            return Error.OUT_OF_ORDER_SEQUENCE_NUMBER, message
        return None
