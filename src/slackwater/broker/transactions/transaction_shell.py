"""The I/O shell of the transaction coordinator: requests in; records to `__transaction_state`, markers, responses out.

Invariants:
- Effects are executed in order. The appends of one event loop iteration are collected and written with one write per
  partition, at the end of the iteration. The coordinator learns of a write after it is done, and only then do the
  responses leave that depend on it.
- Timers follow a monotonic clock, timestamps in records wall time.
- A partition of a topic that waits for the coordinator (`add_or_verify`) waits at most MAX_WAIT_S for the markers
  of the producer's previous transaction.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from slackwater.broker.storage.producer_ids import RESERVE_FAILED
from slackwater.broker.transactions.interfaces import MarkerWriter, OnPartitionErrors, TxnMarkerEntry
from slackwater.broker.transactions.transactions_store import TransactionsStore
from slackwater.escaping import get_logger
from slackwater.group.errors import Error
from slackwater.group.internal_topics import TRANSACTIONS_TOPIC
from slackwater.group.topic_partition import TopicPartition
from slackwater.group.transactions import (
    AppendTransactionRecords,
    SendTransactionResponse,
    TransactionConfig,
    TransactionCoordinator,
    TransactionEffect,
    TransactionEvent,
    TransactionInput,
    TransactionRecord,
    TransactionState,
    WriteMarkers,
)
from slackwater.group.transactions.messages import (
    AddPartitions,
    AddPartitionsResponse,
    TransactionRequest,
    TransactionResponse,
    VerifyPartitions,
    VerifyPartitionsResponse,
)

log = get_logger("slackwater.broker.transactions")
RETRY_S: Final = 0.02  # add.partitions.to.txn.retry.backoff.ms of Kafka
MAX_WAIT_S: Final = 0.1  # add.partitions.to.txn.retry.backoff.max.ms
_VERSION_OF_PRODUCE: Final = 2  # only clients of transaction version 2 add partitions with Produce
_R = TypeVar("_R", bound=TransactionResponse)


class TransactionShell:
    """Executes the effects of the transaction coordinator; the `TransactionVerifier` of the broker."""

    def __init__(
        self,
        config: TransactionConfig,
        store: TransactionsStore,
        markers: MarkerWriter,
        *,
        allocate_producer_id: Callable[[], int],
        now_ms: Callable[[], int],
        wall_ms: Callable[[], int],
        wake_at: Callable[[int], None],
        schedule_end_of_iteration: Callable[[], None],
        call_later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self._store = store
        self._markers = markers
        self._allocate = allocate_producer_id
        self._now_ms = now_ms
        self._wall_ms = wall_ms
        self._wake_at = wake_at
        self._schedule_end_of_iteration = schedule_end_of_iteration
        self._call_later = call_later
        self._appends: list[AppendTransactionRecords] = []
        self._unfinished_writes: deque[list[AppendTransactionRecords]] = deque()
        self._due_ms: int | None = None
        self.has_pending = False  # whether `write_pending` has something to do
        self.config = config
        self.coordinator = TransactionCoordinator(self._allocate_producer_id, config)

    def load(self) -> None:
        """Load all partitions of the topic if it exists, and continue to end decided transactions (TX-53)."""
        count = self._store.partition_count()
        if count is None or self.coordinator.is_loaded:
            return
        self.config = replace(self.config, transaction_state_log_num_partitions=count)
        self.coordinator.reconfigure(self.config)
        now_ms = self._read_clocks()
        for partition in range(count):
            self.coordinator.load(partition, 0)
            for record in self._store.read(partition):
                self.coordinator.replay(partition, record)
            self._execute(self.coordinator.finish_loading(partition, now_ms))

    def submit(self, request: TransactionRequest, on_response: Callable[[_R], None]) -> None:
        """Pass a request to the coordinator; `on_response` gets the response, now or later."""
        self._execute(self.coordinator.handle(request, on_response, self._read_clocks()))

    def add_or_verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
        on_result: OnPartitionErrors,
    ) -> None:
        """Add the partitions to the producer's transaction, or check them; see `TransactionVerifier`."""
        requested = frozenset(partitions)
        if not add:

            def on_verified(response: VerifyPartitionsResponse) -> None:
                on_result(response.errors)

            self.submit(VerifyPartitions(transactional_id, producer_id, producer_epoch, requested), on_verified)
            return
        request = AddPartitions(transactional_id, producer_id, producer_epoch, requested, _VERSION_OF_PRODUCE)
        waited_s = 0.0

        def on_added(response: AddPartitionsResponse) -> None:
            nonlocal waited_s
            if response.error is Error.CONCURRENT_TRANSACTIONS and waited_s < MAX_WAIT_S:
                waited_s += RETRY_S
                self._call_later(RETRY_S, lambda: self.submit(request, on_added))
            else:
                on_result(dict.fromkeys(requested, response.error))

        self.submit(request, on_added)

    def next_due_ms(self) -> int | None:
        """Return when `tick` must be called next."""
        return self.coordinator.next_due_ms()

    def tick(self) -> None:
        """Fire the timers that are due."""
        self._due_ms = None
        self._execute(self.coordinator.tick(self._read_clocks()))

    def write_pending(self) -> None:
        """Write the pending appends, and those that follow from them, until none are left."""
        try:
            while self._appends:
                self._write()
        finally:
            self.has_pending = False
        due_ms = self.next_due_ms()
        if due_ms is not None and (self._due_ms is None or due_ms < self._due_ms):
            self._due_ms = due_ms
            self._wake_at(due_ms)

    def _read_clocks(self) -> int:
        """Return the time of the timers, and pass the difference to wall time to the coordinator."""
        now_ms = self._now_ms()
        self.coordinator.set_wall_offset_ms(self._wall_ms() - now_ms)
        return now_ms

    def _allocate_producer_id(self) -> int | None:
        try:
            return self._allocate()
        except OSError as problem:
            log.error(RESERVE_FAILED, problem.strerror)
            return None

    def _write(self) -> None:
        appends, self._appends = self._appends, []
        records: dict[int, list[TransactionRecord]] = {}
        for append in appends:
            records.setdefault(append.partition, []).extend(append.records)
        self._unfinished_writes.append(appends)
        self._store.write(records, self._on_written)

    def _on_written(self, errors: Mapping[int, Error]) -> None:
        """Complete the oldest write."""
        now_ms = self._read_clocks()
        for append in self._unfinished_writes.popleft():
            error = errors.get(append.partition, Error.NONE)
            self._execute(self.coordinator.on_append_result(append.write_id, error, now_ms))

    def _write_markers(self, effect: WriteMarkers) -> None:
        def on_written(errors: Mapping[TopicPartition, Error]) -> None:
            failed = [
                f"{topic_partition} {error.name}"
                for topic_partition, error in errors.items()
                if error is not Error.NONE
            ]
            if failed:
                log.warning("Markers of the transaction of %s failed: %s.", effect.transactional_id, ", ".join(failed))
            self._execute(self.coordinator.on_markers_written(effect.markers_id, errors, self._read_clocks()))

        if not effect.partitions:
            on_written({})
            return
        marker = TxnMarkerEntry(
            effect.producer_id,
            effect.producer_epoch,
            effect.coordinator_epoch,
            effect.is_commit,
            effect.partitions,
            effect.transaction_version,
        )
        self._markers.write((marker,), on_written)

    def _execute(self, effects: list[TransactionEffect]) -> None:
        if not self.has_pending:
            self.has_pending = True
            self._schedule_end_of_iteration()
        for effect in effects:
            if isinstance(effect, SendTransactionResponse):
                effect.reply_to(effect.response)  # type: ignore[operator]  # the callback of `submit`
            elif isinstance(effect, AppendTransactionRecords):
                self._appends.append(effect)
            elif isinstance(effect, WriteMarkers):
                self._write_markers(effect)
            else:
                _log_event(effect, self.coordinator.partition_of(effect.transactional_id))


def _log_event(event: TransactionEvent, partition: int) -> None:
    name = event.transactional_id
    if event.cause is TransactionInput.TIMEOUT:
        log.info("Aborting the transaction of %s: it has been open for longer than transaction.timeout.ms.", name)
    elif event.cause is TransactionInput.EXPIRATION:
        log.info("Removed %s: it was not used for transactional.id.expiration.ms.", name)
    elif event.cause is TransactionInput.INIT and event.after is TransactionState.EMPTY:
        log.info(
            "Initialized transactionalId %s with producerId %d and producer epoch %d on partition %s-%d",
            name,
            event.producer_id,
            event.producer_epoch,
            TRANSACTIONS_TOPIC,
            partition,
        )
