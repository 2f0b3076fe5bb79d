"""Checks the guarantees of a group's processing while members and the broker fail.

Invariants:
- No record is lost: a member starts where the previous owner stopped, skips nothing, and at the end every record of the
  log was processed.
- A record is processed again only if no acknowledged commit covered it when the member got the partition.
- A commit is never ahead of processing: every committed record was processed before.
- An acknowledged commit is never reverted.
- Calls are serialized by one lock; the first violation is stored, and `check` raises it.
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
    """A guarantee was violated."""


@dataclass
class PartitionOwnership:
    """One ownership of a partition; `floor` is the acknowledged commit at its start."""

    member: str
    partition: TopicPartition
    floor: int
    next_offset: int | None = None  # None until a record was processed


def _serialized(
    method: "Callable[Concatenate[Oracle, P], T]",
) -> "Callable[Concatenate[Oracle, P], T]":
    """Run a method under the lock and store a violation."""

    @wraps(method)
    def call(oracle: "Oracle", /, *arguments: P.args, **named: P.kwargs) -> T:
        with oracle._lock:
            try:
                return method(oracle, *arguments, **named)
            except Violation as violation:
                oracle._violation = oracle._violation or violation
                raise

    return call


class Oracle:
    """Receives all actions of the members and the broker's committed offsets."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._violation: Violation | None = None
        self._done: defaultdict[TopicPartition, set[int]] = defaultdict(set)
        self._prefix: defaultdict[TopicPartition, int] = defaultdict(int)  # everything before it was processed
        self._acknowledged: defaultdict[TopicPartition, int] = defaultdict(int)
        self.processed_count = 0
        self.reprocessed_count = 0
        self.committed_checks = 0

    def check(self) -> None:
        """Raise the stored violation, if any."""
        with self._lock:
            if self._violation is not None:
                raise self._violation

    # --- members ------------------------------------------------------------------------------------------------------

    @_serialized
    def assigned(self, member: str, partition: TopicPartition) -> PartitionOwnership:
        """Record that a member gets a partition."""
        return PartitionOwnership(member, partition, self._acknowledged[partition])

    @_serialized
    def processed(self, ownership: PartitionOwnership, offset: int) -> None:
        """Record that a member processed a record."""
        partition = ownership.partition
        if ownership.next_offset is None:
            if offset < ownership.floor:
                raise Violation(
                    f"{ownership.member} read {partition} from {offset} on, "
                    f"although {ownership.floor} had been committed"
                )
            if offset > self._prefix[partition]:
                raise Violation(
                    f"{ownership.member} began {partition} at {offset}, "
                    f"but only records before {self._prefix[partition]} were processed"
                )
        elif offset != ownership.next_offset:
            raise Violation(f"{ownership.member} read {partition} at {offset} where {ownership.next_offset} was next")
        ownership.next_offset = offset + 1
        self._add(partition, offset)

    def _add(self, partition: TopicPartition, offset: int) -> None:
        done = self._done[partition]
        self.processed_count += 1
        self.reprocessed_count += offset in done or offset < self._prefix[partition]
        done.add(offset)
        while self._prefix[partition] in done:
            done.discard(self._prefix[partition])
            self._prefix[partition] += 1

    @_serialized
    def on_commit_acknowledged(self, partition: TopicPartition, offset: int) -> None:
        """Record that a member's commit was acknowledged."""
        self._acknowledged[partition] = max(self._acknowledged[partition], offset)

    # --- broker -------------------------------------------------------------------------------------------------------

    def floors(self) -> dict[TopicPartition, int]:
        """The acknowledged commits; read them before the committed offsets are requested."""
        with self._lock:
            return dict(self._acknowledged)

    @_serialized
    def check_committed(self, committed: Mapping[TopicPartition, int], floors: Mapping[TopicPartition, int]) -> None:
        """Check the committed offsets; `floors` were acknowledged before they were requested."""
        self.committed_checks += 1
        for partition, offset in committed.items():
            if offset > self._prefix[partition]:
                raise Violation(
                    f"{offset} is committed for {partition}, but only records before {self._prefix[partition]} "
                    "were processed"
                )
            if offset < floors.get(partition, 0):
                raise Violation(f"{offset} is committed for {partition} after {floors[partition]} was acknowledged")

    def is_done(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether everything before these ends was processed."""
        with self._lock:
            return all(self._prefix[partition] >= end for partition, end in ends.items())

    def progress(self) -> dict[TopicPartition, int]:
        """The processed prefix of each partition."""
        with self._lock:
            return dict(self._prefix)
