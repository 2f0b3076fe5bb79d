"""The I/O shell of the group coordinator: requests in; records to `__consumer_offsets`, responses and events out.

Invariants:
- Effects are executed in order. The appends of one event loop iteration are collected and written with one write per
  partition, at the end of the iteration or when there are many. The coordinator learns of a write after it is done, and
  only then do the responses leave that depend on it.
- One event loop timer serves the timers of all groups; it is set at the end of an iteration. Only a join that is due at
  once (`group.initial.rebalance.delay.ms=0`) fires its timer immediately, unless a write is pending that may belong to
  the group: hundreds of members may join in the same iteration, and all of them would have to join again.
- Timers follow a monotonic clock, timestamps in records and events wall time.
- After `offsets.commit.timeout.ms` the waiting requests give up on a write; the write itself continues (OC-12).
- Events are emitted immediately, to the listeners of this process.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Final, NamedTuple, Protocol, TypeVar

from slackwater.broker.groups.offsets_records import decode_record, encode_records
from slackwater.escaping import get_logger
from slackwater.group.coordinator import (
    AppendRecords,
    Coordinator,
    CoordinatorConfig,
    Effect,
    ProducerTransaction,
    SendResponse,
)
from slackwater.group.errors import Error
from slackwater.group.events import GroupEvent, PublishEvent
from slackwater.group.internal_topics import OFFSETS_TOPIC
from slackwater.group.messages import Heartbeat, JoinGroup, Request, Response
from slackwater.wire.errors import WireError

log = get_logger("slackwater.broker.offsets")  # also that of `offsets_store`: what happens to `__consumer_offsets`
KeyValue = tuple[bytes, bytes | None]
StoredRecord = tuple[bytes, bytes | None, int | None]
"""Key, value, and the producer id if the record belongs to a transaction."""
LATE_MS: Final = 100  # a timer that is overdue by more waits until the sockets have been read
MAX_PENDING_RECORDS: Final = 1024  # bounds memory held until a write completes
_R = TypeVar("_R", bound=Response)


class StoredMarker(NamedTuple):
    """A transaction marker that was read from a partition of `__consumer_offsets`."""

    producer_id: int
    is_commit: bool


class OffsetsStore(Protocol):
    """Stores the records of the `__consumer_offsets` partitions."""

    def read(self, partition: int) -> Iterable[StoredRecord | StoredMarker]:
        """Return all records and markers of a partition, in order."""
        ...

    def write(
        self,
        records: Mapping[int, list[KeyValue]],
        on_written: Callable[[Mapping[int, Error]], None],
        transaction: ProducerTransaction | None = None,
    ) -> None:
        """Write records by partition, each all or none; `on_written` gets the errors, in the order of the writes."""
        ...


class CoordinatorShell:
    """Executes the effects of the group coordinator."""

    def __init__(
        self,
        config: CoordinatorConfig,
        store: OffsetsStore,
        *,
        now_ms: Callable[[], int],
        wall_ms: Callable[[], int] | None = None,
        wake_at: Callable[[int], None],
        emit: Callable[[list[GroupEvent]], None],
        schedule_end_of_iteration: Callable[[], None],
        write_timeout_ms: int = 5_000,
    ) -> None:
        self._store = store
        self._write_timeout_ms = write_timeout_ms
        self._now_ms = now_ms
        self._wall_ms = wall_ms or now_ms
        self._wake_at = wake_at
        self._emit = emit
        self._schedule_end_of_iteration = schedule_end_of_iteration
        self._appends: list[AppendRecords] = []
        self._pending_records = 0  # in `_appends`
        self._unfinished_writes: deque[tuple[int, list[AppendRecords]]] = deque()  # with their deadlines
        self._timed_out_writes = 0  # at the start of `_unfinished_writes`
        self.has_pending = False  # whether `write_pending` has something to do
        self._due_ms: int | None = None
        self.config = config
        self.coordinator = Coordinator(config)

    def reconfigure(self, config: CoordinatorConfig) -> None:
        """Apply other settings."""
        self.config = config
        self.coordinator.reconfigure(config)

    def load(self) -> None:
        """Read all offsets partitions and restore the groups (CO-06)."""
        now_ms = self._read_clocks()
        for partition in range(self.config.offsets_topic_num_partitions):
            self._execute(self.coordinator.load(partition, 0, now_ms))
            for stored in self._store.read(partition):
                if isinstance(stored, StoredMarker):
                    self.coordinator.complete_transaction(partition, stored.producer_id, is_commit=stored.is_commit)
                    continue
                key, value, producer_id = stored
                try:
                    record = decode_record(key, value)
                except WireError as error:
                    log.error("Ignored a record of %s-%d: %s", OFFSETS_TOPIC, partition, error)
                    continue
                if record is not None:
                    self.coordinator.replay(partition, record, producer_id)
            self._execute(self.coordinator.finish_loading(partition, now_ms))

    def submit(self, request: Request, on_response: Callable[[_R], None]) -> None:
        """Pass a request to the coordinator; `on_response` gets the response, now or later."""
        # A heartbeat writes no timestamp, and there are many.
        now_ms = self._now_ms() if request.__class__ is Heartbeat else self._read_clocks()
        coordinator = self.coordinator
        self._execute(coordinator.handle(request, on_response, now_ms))
        if (
            request.__class__ is JoinGroup
            and not (self._appends or self._unfinished_writes)
            and coordinator.is_due(now_ms)
            and not coordinator.is_due(now_ms - LATE_MS)  # after a stall other members' heartbeats are read first
        ):
            self._execute(coordinator.tick(now_ms))  # an initial delay of 0 ends before the next member joins
        if self._pending_records >= MAX_PENDING_RECORDS:
            self._write()

    def topic_changed(self, topic: str, partition_count: int) -> None:
        """Report a new topic, or new partitions of a topic."""
        self.coordinator.on_topic(topic, partition_count, self._wall_ms())

    def complete_transaction(self, partition: int, producer_id: int, is_commit: bool) -> None:
        """Commit or drop the pending offsets of a producer: its marker was written to an offsets partition."""
        self.coordinator.complete_transaction(partition, producer_id, is_commit=is_commit)

    def topics_deleted(self, topics: Iterable[str]) -> None:
        """Delete the offsets of deleted topics (EX-10)."""
        self._execute(self.coordinator.on_topics_deleted(frozenset(topics), self._read_clocks()))

    def expire(self, group_id: str, member_id: str) -> None:
        """Expire a member's session at once; for tests."""
        self._execute(self.coordinator.expire_member(group_id, member_id, self._now_ms()))

    def next_due_ms(self) -> int | None:
        """Return when `tick` must be called next."""
        due_ms = self.coordinator.next_due_ms()
        if len(self._unfinished_writes) > self._timed_out_writes:
            deadline_ms = self._unfinished_writes[self._timed_out_writes][0]
            return deadline_ms if due_ms is None else min(due_ms, deadline_ms)
        return due_ms

    def tick(self) -> None:
        """Fire the timers that are due."""
        self._due_ms = None
        now_ms = self._read_clocks()
        while (
            len(self._unfinished_writes) > self._timed_out_writes
            and self._unfinished_writes[self._timed_out_writes][0] <= now_ms
        ):
            appends = self._unfinished_writes[self._timed_out_writes][1]
            self._timed_out_writes += 1
            self._execute(self.coordinator.on_append_timeout([append.write_id for append in appends], now_ms))
        self._execute(self.coordinator.tick(now_ms))

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

    def _write(self) -> None:
        appends, self._appends, self._pending_records = self._appends, [], 0
        for transaction, group in groupby(appends, key=_transaction_of):
            self._write_together(list(group), transaction)

    def _write_together(self, appends: list[AppendRecords], transaction: ProducerTransaction | None) -> None:
        """Write consecutive appends that belong to the same transaction, or to none."""
        batches: dict[int, list[KeyValue]] = {}
        for append in appends:
            if append.records:
                batches.setdefault(append.offsets_partition, []).extend(encode_records(append.records))
        self._unfinished_writes.append((self._now_ms() + self._write_timeout_ms, appends))
        if transaction is None:
            self._store.write(batches, self._on_written)
        else:
            self._store.write(batches, self._on_written, transaction)

    def _on_written(self, errors: Mapping[int, Error]) -> None:
        """Complete the oldest write."""
        _, appends = self._unfinished_writes.popleft()
        self._timed_out_writes = max(self._timed_out_writes - 1, 0)
        writes = [(append.write_id, errors.get(append.offsets_partition, Error.NONE)) for append in appends]
        self._execute(self.coordinator.on_append_results(writes, self._now_ms()))

    def _execute(self, effects: list[Effect]) -> None:
        if not self.has_pending:
            self.has_pending = True
            self._schedule_end_of_iteration()
        events: list[GroupEvent] | None = None
        for effect in effects:
            if isinstance(effect, SendResponse):
                effect.reply_to(effect.response)  # type: ignore[operator]  # the callback of `submit`; a cast costs a call
            elif isinstance(effect, PublishEvent):
                if events is None:
                    events = []
                events.append(effect.event)
            else:
                self._appends.append(effect)
                self._pending_records += len(effect.records)
        if events is not None:
            self._emit(events)


def _transaction_of(append: AppendRecords) -> ProducerTransaction | None:
    return append.transaction
