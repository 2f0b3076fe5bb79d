"""Append requests from producers, gathered per event loop iteration and written together.

Invariants:
- All appends to a partition in one iteration are one write, in order of arrival.
- Waiting fetches are woken after the write. Producers get their response when the write is durable (`durability`).
"""

from collections.abc import Callable
from dataclasses import dataclass

from slackwater.broker.storage.durability import Durability
from slackwater.broker.storage.log.partition_log import AppendOrigin, PartitionLog
from slackwater.broker.storage.log.pending_appends import AppendInfo
from slackwater.broker.storage.log.validation import Rejection
from slackwater.broker.storage.log.verification import VerificationGuard
from slackwater.broker.storage.topics import Partition
from slackwater.group.errors import Error
from slackwater.wire.records.compression import Buffer

OnResult = Callable[[AppendInfo | Rejection], None]


@dataclass(slots=True)
class _PartitionAppends:
    buffers: list[Buffer]
    on_results: list[OnResult]
    guards: list[VerificationGuard | None]


class AppendQueue:
    """The appends of the current event loop iteration."""

    def __init__(
        self, durability: Durability, *, wall_ms: Callable[[], int], schedule_end_of_iteration: Callable[[], None]
    ) -> None:
        self._durability = durability
        self._wall_ms = wall_ms
        self._schedule_end_of_iteration = schedule_end_of_iteration
        self._pending: dict[Partition, _PartitionAppends] = {}

    def add(
        self, partition: Partition, buffer: Buffer, on_result: OnResult, guard: VerificationGuard | None = None
    ) -> None:
        """Append a validated buffer at the end of the iteration; `on_result` gets the outcome.

        `guard` is that of a transactional batch that the coordinator has verified.
        """
        if not self._pending:
            self._schedule_end_of_iteration()
        appends = self._pending.get(partition)
        if appends is None:
            appends = self._pending[partition] = _PartitionAppends([], [], [])
        appends.buffers.append(buffer)
        appends.on_results.append(on_result)
        appends.guards.append(guard)

    @property
    def has_pending(self) -> bool:
        """Whether `write_pending` has something to do."""
        return bool(self._pending)

    def write_pending(self) -> None:
        """Write everything; also called by requests that must see all earlier appends."""
        while self._pending:
            pending, self._pending = self._pending, {}
            wall_ms = self._wall_ms()
            for partition, appends in pending.items():
                self._write(partition, appends, wall_ms)

    def _write(self, partition: Partition, appends: _PartitionAppends, wall_ms: int) -> None:
        log = partition.log
        results = log.append_many(appends.buffers, wall_ms, AppendOrigin.VALIDATED, appends.guards)
        if any(isinstance(result, AppendInfo) and not result.duplicate for result in results):
            partition.wake_waiters()

        def on_durable(failed: frozenset[PartitionLog]) -> None:
            lost = Rejection(Error.KAFKA_STORAGE_ERROR, log.failed or "") if log in failed else None
            for on_result, result in zip(appends.on_results, results, strict=True):
                on_result(lost if lost is not None and isinstance(result, AppendInfo) else result)

        self._durability.call_when_durable((log,), on_durable)
