"""What becomes of records: of a batch at once, told to everybody who wants to know of one of them.

Rules kept here
- All records of a batch are told of in the same moment, also if it had to be split: one state and one lock serve all
  their futures, and what a future says of its own record is worked out when somebody asks.
- A `Delivery` is a `concurrent.futures.Future` to all who use one: `wait`, `as_completed` and `asyncio.wrap_future`
  take it. It cannot be cancelled, because a record cannot be called back.
- Callbacks are called in the order of the records, a future's own before `on_delivery`.
"""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, NamedTuple

from slackwater.group.errors import SlackwaterError
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.records.batch import NO_TIMESTAMP

log = logging.getLogger("slackwater.client.producer")
NO_OFFSET: Final = -1
# The names of the states in concurrent.futures, which `wait` and `as_completed` look at.
_RUNNING: Final = "RUNNING"
_FINISHED: Final = "FINISHED"


class RecordMetadata(NamedTuple):
    """Where a record was written; an offset of -1 is not known (acks=0)."""

    topic: str
    partition: int
    offset: int
    timestamp: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)


OnDelivery = Callable[[RecordMetadata | None, SlackwaterError | None], None]


class Piece(NamedTuple):
    """What became of the records of a batch from number `first` on."""

    first: int
    base_offset: int
    log_append_time_ms: int
    error: SlackwaterError | None


class Outcome:
    """What became of a batch, and who wants to know; there are several pieces if it had to be split."""

    __slots__ = ("_pieces", "_undecided", "condition", "heard", "partition", "state", "watched")

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.condition = threading.Condition()
        self.state = _RUNNING
        self.watched: list[Delivery] = []  # futures that somebody waits for, or that have callbacks
        self.heard: list[tuple[int, int, OnDelivery]] = []  # a record's number, its timestamp, and its callback
        self._pieces: list[Piece] = []
        self._undecided = 1

    def split(self) -> None:
        """One of the pieces is two from now on."""
        self._undecided += 1

    def decided(
        self,
        first: int,
        base_offset: int = NO_OFFSET,
        log_append_time_ms: int = NO_TIMESTAMP,
        error: SlackwaterError | None = None,
    ) -> bool:
        """This became of a piece; True if it was the last, and `tell` is due."""
        self._pieces.append(Piece(first, base_offset, log_append_time_ms, error))
        self._undecided -= 1
        return not self._undecided

    def error(self, number: int) -> SlackwaterError | None:
        """Why one of the records was given up; None if it was not, or not yet."""
        return self._piece(number).error if self.state == _FINISHED else None

    def where(self, number: int, timestamp: int) -> RecordMetadata | None:
        """Where one of the records was written; None if that is not decided."""
        if self.state != _FINISHED:
            return None
        first, base_offset, log_append_time_ms, _ = self._piece(number)
        offset = base_offset + number - first if base_offset >= 0 else NO_OFFSET
        time = timestamp if log_append_time_ms == NO_TIMESTAMP else log_append_time_ms
        return RecordMetadata(self.partition.topic, self.partition.partition, offset, time)

    def _piece(self, number: int) -> Piece:
        if len(self._pieces) == 1:
            return self._pieces[0]
        return max(piece for piece in self._pieces if piece.first <= number)

    def tell(self) -> None:
        """Everything is decided: everybody hears of it now."""
        with self.condition:
            self.state = _FINISHED
            watched, self.watched = self.watched, []
            for delivery in watched:
                for waiter in delivery._waiters:
                    (waiter.add_result if delivery._exception is None else waiter.add_exception)(delivery)
            self.condition.notify_all()
        if watched or self.heard:
            self._call(watched)

    def _call(self, watched: "list[Delivery]") -> None:
        calls: list[tuple[int, int, Callable[[], object]]] = [(one.number, 0, one._invoke_callbacks) for one in watched]
        calls += [(number, 1, self._telling(number, time, hear)) for number, time, hear in self.heard]
        self.heard = []
        for _, _, call in sorted(calls, key=lambda one: one[:2]):
            try:
                call()
            except Exception:
                log.exception("A delivery callback failed.")

    def _telling(self, number: int, timestamp: int, hear: OnDelivery) -> Callable[[], object]:
        error = self.error(number)
        return lambda: hear(self.where(number, timestamp) if error is None else None, error)


class Delivery(Future[RecordMetadata]):
    """The future of one record.

    What the base class keeps in each future is here a view of the batch's outcome. `wait` and `as_completed` read and
    lock the same names.
    """

    __slots__ = ("_outcome", "_timestamp", "number")

    def __init__(self, outcome: Outcome, number: int, timestamp: int) -> None:
        self._outcome = outcome
        self.number = number
        self._timestamp = timestamp

    @property
    def _condition(self) -> threading.Condition:  # type: ignore[override]
        return self._outcome.condition

    @property
    def _state(self) -> str:  # type: ignore[override]
        return self._outcome.state

    @property
    def _exception(self) -> SlackwaterError | None:  # type: ignore[override]
        return self._outcome.error(self.number)

    @property
    def _result(self) -> RecordMetadata | None:  # type: ignore[override]
        return self._outcome.where(self.number, self._timestamp)

    def __getattr__(self, name: str) -> Any:
        """The lists of those who wait and of callbacks, made when they are first wanted, under the condition."""
        if name not in ("_waiters", "_done_callbacks"):
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        self._waiters: list[Any] = []
        self._done_callbacks: list[Any] = []
        if self._outcome.state != _FINISHED:
            self._outcome.watched.append(self)
        return self.__dict__[name]
