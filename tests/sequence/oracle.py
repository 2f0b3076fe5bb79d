"""What must hold of a group's work, whatever happens to its members and its broker.

Rules kept here
- No record is lost: a member starts where the one before it has processed, passes over nothing, and at the end every
  record of the log was processed.
- A record is processed again only if no commit that covers it had been answered when the member got the partition.
- A commit is never ahead of processing: whatever the broker says is committed was processed before.
- A commit that was answered is never taken back.
- Whoever calls is heard under one lock; the first broken promise is kept, and raised by `check`.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from slackwater.group.topic_partition import TopicPartition

P = ParamSpec("P")
T = TypeVar("T")


class Violation(AssertionError):
    """A promise was broken."""


@dataclass
class Stint:
    """A member's time with a partition: `floor` is what was committed for sure when it began."""

    member: str
    partition: TopicPartition
    floor: int
    next_offset: int | None = None  # None until it has processed something


def _heard(
    method: "Callable[Concatenate[Oracle, P], T]",
) -> "Callable[Concatenate[Oracle, P], T]":
    """Under the lock; what breaks a promise is remembered."""

    @wraps(method)
    def call(oracle: "Oracle", /, *arguments: P.args, **named: P.kwargs) -> T:
        with oracle._lock:
            try:
                return method(oracle, *arguments, **named)
            except Violation as violation:
                oracle._broken = oracle._broken or violation
                raise

    return call


class Oracle:
    """Hears everything that members do, and what the broker says is committed."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._broken: Violation | None = None
        self._done: defaultdict[TopicPartition, set[int]] = defaultdict(set)
        self._prefix: defaultdict[TopicPartition, int] = defaultdict(int)  # everything before it was processed
        self._answered: defaultdict[TopicPartition, int] = defaultdict(int)
        self.processed_count = 0
        self.again_count = 0
        self.looks = 0  # at what is committed

    def check(self) -> None:
        """Raise what was broken."""
        with self._lock:
            if self._broken is not None:
                raise self._broken

    # --- members ------------------------------------------------------------------------------------------------------

    @_heard
    def assigned(self, member: str, partition: TopicPartition) -> Stint:
        """A member gets a partition."""
        return Stint(member, partition, self._answered[partition])

    @_heard
    def processed(self, stint: Stint, offset: int) -> None:
        """A member has processed a record."""
        partition = stint.partition
        if stint.next_offset is None:
            if offset < stint.floor:
                raise Violation(
                    f"{stint.member} read {partition} from {offset} on, although {stint.floor} had been committed"
                )
            if offset > self._prefix[partition]:
                raise Violation(
                    f"{stint.member} began {partition} at {offset}, but only what is before {self._prefix[partition]} "
                    "was processed"
                )
        elif offset != stint.next_offset:
            raise Violation(f"{stint.member} read {partition} at {offset} where {stint.next_offset} was next")
        stint.next_offset = offset + 1
        self._note(partition, offset)

    def _note(self, partition: TopicPartition, offset: int) -> None:
        done = self._done[partition]
        self.processed_count += 1
        self.again_count += offset in done or offset < self._prefix[partition]
        done.add(offset)
        while self._prefix[partition] in done:
            done.discard(self._prefix[partition])
            self._prefix[partition] += 1

    @_heard
    def answered(self, partition: TopicPartition, offset: int) -> None:
        """A member's commit was answered without an error."""
        self._answered[partition] = max(self._answered[partition], offset)

    # --- the broker ---------------------------------------------------------------------------------------------------

    def floors(self) -> dict[TopicPartition, int]:
        """What has been answered so far: take it before the broker is asked."""
        with self._lock:
            return dict(self._answered)

    @_heard
    def saw_committed(self, committed: Mapping[TopicPartition, int], floors: Mapping[TopicPartition, int]) -> None:
        """The broker says what is committed; `floors` were answered before it was asked."""
        self.looks += 1
        for partition, offset in committed.items():
            if offset > self._prefix[partition]:
                raise Violation(
                    f"{offset} is committed for {partition}, but only what is before {self._prefix[partition]} was "
                    "processed"
                )
            if offset < floors.get(partition, 0):
                raise Violation(f"{offset} is committed for {partition} after {floors[partition]} had been answered")

    def is_done(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether everything before these ends was processed."""
        with self._lock:
            return all(self._prefix[partition] >= end for partition, end in ends.items())

    def progress(self) -> dict[TopicPartition, int]:
        """How far the group has come."""
        with self._lock:
            return dict(self._prefix)
