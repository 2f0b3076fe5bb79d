"""What producers sent in one turn, written together.

Rules kept here
- Everything that came for a partition in one turn is one write, in the order it came.
- Consumers that wait are woken after the write; producers hear of it when the write counts (`durability`).
"""

from collections.abc import Callable
from dataclasses import dataclass

from slackwater.broker.storage.durability import Durability
from slackwater.broker.storage.log.partition_log import PartitionLog
from slackwater.broker.storage.log.pending_appends import AppendInfo
from slackwater.broker.storage.log.validation import Rejection
from slackwater.broker.storage.topics import Partition
from slackwater.group.errors import Error
from slackwater.wire.records.compression import Buffer

Heard = Callable[[AppendInfo | Rejection], None]


@dataclass(slots=True)
class _Wanted:
    partition: Partition
    buffers: list[Buffer]
    heard: list[Heard]


class AppendQueue:
    """The appends that this turn has gathered."""

    def __init__(
        self, durability: Durability, *, now_ms: Callable[[], int], schedule_flush: Callable[[], None]
    ) -> None:
        self._durability = durability
        self._now_ms = now_ms
        self._schedule_flush = schedule_flush
        self._wanted: dict[Partition, _Wanted] = {}

    def add(self, partition: Partition, buffer: Buffer, heard: Heard) -> None:
        """Append this at the end of the turn; `heard` is told what became of it."""
        if not self._wanted:
            self._schedule_flush()
        wanted = self._wanted.get(partition)
        if wanted is None:
            wanted = self._wanted[partition] = _Wanted(partition, [], [])
        wanted.buffers.append(buffer)
        wanted.heard.append(heard)

    def flush_pending(self) -> None:
        """Write everything; also called by whoever must see what was sent before."""
        while self._wanted:
            turn, self._wanted = self._wanted, {}
            now_ms = self._now_ms()
            for partition, wanted in turn.items():
                self._write(partition, wanted, now_ms)

    def _write(self, partition: Partition, wanted: _Wanted, now_ms: int) -> None:
        log = partition.log
        answers = log.append_many(wanted.buffers, now_ms)
        if any(isinstance(answer, AppendInfo) and not answer.duplicate for answer in answers):
            partition.wake_waiters()

        def flushed(failed: frozenset[PartitionLog]) -> None:
            lost = Rejection(Error.KAFKA_STORAGE_ERROR, log.failed or "") if log in failed else None
            for heard, answer in zip(wanted.heard, answers, strict=True):
                heard(lost if lost is not None and isinstance(answer, AppendInfo) else answer)

        self._durability.written((log,), flushed)
