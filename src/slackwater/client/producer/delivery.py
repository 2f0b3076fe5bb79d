"""Reports the outcome of batches to the futures and callbacks of their records.

Invariants:
- One `BatchOutcome` serves all records of a batch. A future computes its own result only when it is used.
- A `Delivery` is a `concurrent.futures.Future`: `wait`, `as_completed` and `asyncio.wrap_future` accept it. It cannot
  be cancelled, because a sent record cannot be recalled.
- Callbacks run in the order of the records, those of a future before `on_delivery`.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, NamedTuple

from slackwater.escaping import get_logger
from slackwater.group.errors import SlackwaterError
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.records.batch import NO_TIMESTAMP

log = get_logger("slackwater.client.producer")
NO_OFFSET: Final = -1


class RecordMetadata(NamedTuple):
    """Where a record was written; an offset of -1 is unknown (acks=0)."""

    topic: str
    partition: int
    offset: int
    timestamp: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)


OnDelivery = Callable[[RecordMetadata | None, SlackwaterError | None], None]


class PartOutcome(NamedTuple):
    """The outcome of the records from number `first` on; a split batch has several parts."""

    first: int
    base_offset: int
    log_append_time_ms: int
    error: SlackwaterError | None


class BatchOutcome:
    """The outcome of a batch, and the futures and callbacks that wait for it."""

    __slots__ = ("_callbacks", "_futures", "_is_complete", "_lock", "_parts", "_pending_parts", "partition")

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self._lock = threading.RLock()
        self._is_complete = False
        self._futures: list[Delivery] = []  # only those that were used before the batch was complete
        self._callbacks: list[tuple[int, int, OnDelivery]] = []  # record number, timestamp, callback
        self._parts: list[PartOutcome] = []
        self._pending_parts = 1

    def add_callback(self, number: int, timestamp: int, on_delivery: OnDelivery) -> None:
        """Call `on_delivery` with the outcome of a record."""
        self._callbacks.append((number, timestamp, on_delivery))

    def split(self) -> None:
        """Wait for one more part."""
        self._pending_parts += 1

    def add_part(
        self,
        first: int,
        base_offset: int = NO_OFFSET,
        log_append_time_ms: int = NO_TIMESTAMP,
        error: SlackwaterError | None = None,
    ) -> bool:
        """Add the outcome of a part; True if it was the last one and `complete` is due."""
        self._parts.append(PartOutcome(first, base_offset, log_append_time_ms, error))
        self._pending_parts -= 1
        return not self._pending_parts

    def complete(self) -> None:
        """Set the results of all futures and run all callbacks."""
        with self._lock:
            self._is_complete = True
            futures, self._futures = self._futures, []
        calls: list[tuple[int, int, Callable[[], object]]] = [
            (future.number, 0, partial(self._resolve, future)) for future in futures
        ]
        calls += [
            (number, 1, partial(self._call_back, number, timestamp, on_delivery))
            for number, timestamp, on_delivery in self._callbacks
        ]
        self._callbacks = []
        for _, _, call in sorted(calls, key=lambda item: item[:2]):
            try:
                call()
            except Exception:
                log.exception("A delivery callback failed.")

    def register(self, future: "Delivery") -> None:
        """Set the result of a future now, or when the batch is complete."""
        with self._lock:
            if not self._is_complete:
                self._futures.append(future)
                return
        self._resolve(future)

    @property
    def lock(self) -> threading.RLock:
        """Guards the initialization of the futures of this batch."""
        return self._lock

    def _resolve(self, future: "Delivery") -> None:
        if (error := self._part(future.number).error) is not None:
            future.set_exception(error)
        else:
            future.set_result(self._metadata(future.number, future.timestamp))

    def _call_back(self, number: int, timestamp: int, on_delivery: OnDelivery) -> None:
        error = self._part(number).error
        on_delivery(self._metadata(number, timestamp) if error is None else None, error)

    def _metadata(self, number: int, timestamp: int) -> RecordMetadata:
        first, base_offset, log_append_time_ms, _ = self._part(number)
        offset = base_offset + number - first if base_offset >= 0 else NO_OFFSET
        time_ms = timestamp if log_append_time_ms == NO_TIMESTAMP else log_append_time_ms
        return RecordMetadata(self.partition.topic, self.partition.partition, offset, time_ms)

    def _part(self, number: int) -> PartOutcome:
        if len(self._parts) == 1:
            return self._parts[0]
        return max((part for part in self._parts if part.first <= number), key=lambda part: part.first)


class Delivery(Future[RecordMetadata]):
    """The future of one record.

    Most futures are never used, and a future is the most expensive part of sending a record. The base class is
    initialized when a method first needs it.
    """

    def __init__(self, outcome: BatchOutcome, number: int, timestamp: int) -> None:
        self.outcome = outcome
        self.number = number
        self.timestamp = timestamp
        self.is_initialized = False

    def __getattr__(self, name: str) -> Any:
        """Initialize the base class; Python calls this only for attributes that do not exist yet."""
        if name == "is_initialized" or self.is_initialized:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        with self.outcome.lock:
            if not self.is_initialized:
                super().__init__()
                self.is_initialized = True
                self.set_running_or_notify_cancel()  # from now on cancel() returns False
                self.outcome.register(self)
        return getattr(self, name)
