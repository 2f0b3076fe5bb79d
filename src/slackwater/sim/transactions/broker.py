"""The simulated broker of transactions: the production coordinator, its log, and partitions.

Invariants:
- Effects are executed in order. Every effect, every write of a record and every marker is one step; `crash_at` names
  the step before which the broker crashes.
- A crash loses the coordinator's memory, every pending write, and every connection. Partitions and the log stay.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from slackwater.group.errors import Error
from slackwater.group.topic_partition import TopicPartition
from slackwater.group.transactions import (
    AppendTransactionRecords,
    SendTransactionResponse,
    TransactionConfig,
    TransactionCoordinator,
    TransactionEffect,
    TransactionRecord,
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
from slackwater.sim.event_queue import EventQueue
from slackwater.sim.seeded_random import SeededRandom
from slackwater.sim.transactions.partition import Marker, SimPartition, SimRecord

RESTART_MS = 40
CHECK_MS = 200
_ADDS_PARTITIONS = 2  # transaction version
Reply = Callable[[TransactionResponse], None]
OnProduced = Callable[[Error], None]


class Crash(Exception):  # not an error: the step that the test has chosen
    """The broker stops before this step."""


class SimTransactionBroker:
    """One broker that coordinates transactions and has partitions."""

    def __init__(self, queue: EventQueue, random: SeededRandom, partitions: int, crash_at: frozenset[int]) -> None:
        self.queue = queue
        self.random = random
        self.partitions = {TopicPartition("t", index): SimPartition() for index in range(partitions)}
        self.log: list[TransactionRecord] = []
        self.steps = 0
        self.crashes = 0
        self.failing_writes = 0
        self.failing_markers = 0
        self.is_up = False
        self._crash_at = crash_at
        self._run_number = 0
        self._epoch = -1
        self._next_producer_id = 0
        self._appends: deque[AppendTransactionRecords] = deque()
        self._due_ms: int | None = None
        self.config = TransactionConfig(
            transaction_state_log_num_partitions=1,
            transaction_abort_timed_out_transaction_cleanup_interval_ms=CHECK_MS,
        )
        self.start()

    def _allocate(self) -> int:
        self._next_producer_id += 1  # durable before it is used, as in the broker
        return self._next_producer_id

    # --- steps --------------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        self.steps += 1
        if self.steps in self._crash_at:
            raise Crash

    def _run(self, work: Callable[[], None]) -> None:
        """Do work that may crash."""
        try:
            work()
        except Crash:
            self.crash()

    def _after(self, delay_ms: int, work: Callable[[], None]) -> None:
        """Do work later, unless the broker has crashed by then."""
        run_number = self._run_number

        def run() -> None:
            if run_number == self._run_number:
                self._run(work)

        self.queue.after(delay_ms, run)

    def crash(self) -> None:
        """Lose the memory, and start again a little later."""
        if not self.is_up:
            return
        self.is_up = False
        self.crashes += 1
        self._run_number += 1
        self.queue.after(RESTART_MS, self.start)

    def start(self) -> None:
        """Start with only the log."""
        self._appends.clear()
        self._due_ms = None
        self.is_up = True
        self.coordinator = TransactionCoordinator(self._allocate, self.config)
        self._epoch += 1
        self.coordinator.load(0, self._epoch)
        for record in self.log:
            value = None if record.value is None else replace(record.value, last_producer_epoch=-1)
            self.coordinator.replay(0, TransactionRecord(record.transactional_id, value))
        self._run(lambda: self._execute(self.coordinator.finish_loading(0, self.queue.now_ms)))

    # --- requests -----------------------------------------------------------------------------------------------------

    def receive(self, request: TransactionRequest, reply: Reply) -> None:
        """Handle a request; a broker that is down does not answer."""
        if self.is_up:
            self._run(lambda: self._execute(self.coordinator.handle(request, reply, self.queue.now_ms)))

    def produce(
        self, transactional_id: str, record: SimRecord, topic_partition: TopicPartition, reply: OnProduced, *, add: bool
    ) -> None:
        """Append a record if its partition belongs to the transaction; `add` adds the partition first."""
        partition = self.partitions[topic_partition]
        guard = partition.guard(record.producer_id)

        def append(error: Error) -> None:
            self._step()
            reply(partition.append(record, guard) if error is Error.NONE else error)

        producer = transactional_id, record.producer_id, record.epoch
        if add:

            def on_added(response: TransactionResponse) -> None:
                assert isinstance(response, AddPartitionsResponse)
                append(response.error)

            self.receive(AddPartitions(*producer, frozenset({topic_partition}), _ADDS_PARTITIONS), on_added)
        else:

            def on_verified(response: TransactionResponse) -> None:
                assert isinstance(response, VerifyPartitionsResponse)
                append(response.errors[topic_partition])

            self.receive(VerifyPartitions(*producer, frozenset({topic_partition})), on_verified)

    # --- effects ------------------------------------------------------------------------------------------------------

    def _execute(self, effects: list[TransactionEffect]) -> None:
        for effect in tuple(effects):
            self._step()
            if isinstance(effect, SendTransactionResponse):
                effect.reply_to(effect.response)  # type: ignore[operator]  # a Reply
            elif isinstance(effect, AppendTransactionRecords):
                self._appends.append(effect)
                if len(self._appends) == 1:
                    self._after(self.random.between(0, 3), self._write)
            elif isinstance(effect, WriteMarkers):
                self._write_markers(effect)
        self._schedule_tick()

    def _write(self) -> None:
        self._step()
        append = self._appends.popleft()
        error = Error.NONE
        if self.failing_writes:
            self.failing_writes -= 1
            error = Error.NOT_ENOUGH_REPLICAS
        else:
            self.log.extend(append.records)
        if self._appends:
            self._after(self.random.between(0, 3), self._write)
        self._execute(self.coordinator.on_append_result(append.write_id, error, self.queue.now_ms))

    def _write_markers(self, effect: WriteMarkers) -> None:
        errors: dict[TopicPartition, Error] = {}
        marker = Marker(effect.producer_id, effect.producer_epoch, effect.is_commit)

        def finish() -> None:
            self._execute(self.coordinator.on_markers_written(effect.markers_id, errors, self.queue.now_ms))

        def write(partition: TopicPartition) -> None:
            self._step()
            if self.failing_markers:
                self.failing_markers -= 1
                errors[partition] = Error.NOT_LEADER_OR_FOLLOWER
            else:
                errors[partition] = self.partitions[partition].end(marker)
            if len(errors) == len(effect.partitions):
                finish()

        for partition in effect.partitions:
            self._after(self.random.between(0, 6), lambda partition=partition: write(partition))  # type: ignore[misc]
        if not effect.partitions:
            self._after(0, finish)

    def _schedule_tick(self) -> None:
        due_ms = self.coordinator.next_due_ms()
        if due_ms is not None and (self._due_ms is None or due_ms < self._due_ms):
            self._due_ms = due_ms
            self._after(due_ms - self.queue.now_ms, lambda: self._tick(due_ms))

    def _tick(self, due_ms: int) -> None:
        if self._due_ms == due_ms:
            self._due_ms = None
            self._execute(self.coordinator.tick(self.queue.now_ms))
