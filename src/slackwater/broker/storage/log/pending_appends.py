"""The appends of one call of `PartitionLog.append_many`: they get offsets one after the other and are written together.

Invariants:
- Pending batches have offsets but are not visible: the log's end offset and producer state change after the write.
- If the write fails, all pending appends are rejected, and the next ones continue at the log's end offset.
"""

from typing import NamedTuple

from slackwater.broker.storage.log.producer_state import ProducerStateEntry, TransactionEnd, TransactionStart
from slackwater.broker.storage.log.validation import Rejection
from slackwater.wire.records.compression import Buffer


class AppendInfo(NamedTuple):
    """The offsets of an append; `duplicate` if the batch had been written before."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool = False


class BatchWithOffset(NamedTuple):
    """A batch that has an offset and is not yet written."""

    size: int
    last_offset: int
    max_timestamp: int


class PendingAppends:
    """Batches of one call that are not yet written, and the results of all its appends."""

    __slots__ = (
        "batches",
        "buffers",
        "end_offset",
        "pending_results",
        "producers",
        "results",
        "size",
        "transaction_version",
        "transactional_producers",
        "transactions",
    )

    def __init__(self, end_offset: int, transaction_version: int = 0) -> None:
        self.transaction_version = transaction_version
        self.results: list[AppendInfo | Rejection] = []
        self.end_offset = end_offset
        self.clear()

    def clear(self) -> None:
        """Forget the pending batches, after a write."""
        self.buffers: list[Buffer] = []
        self.batches: list[BatchWithOffset] = []
        self.producers: dict[int, ProducerStateEntry] = {}
        self.transactions: list[TransactionStart | TransactionEnd] = []
        self.transactional_producers: set[int] = set()
        self.pending_results: list[int] = []  # indexes into `results`
        self.size = 0
