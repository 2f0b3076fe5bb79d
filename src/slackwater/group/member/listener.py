"""The rebalance listener, told one thing at a time.

Rules kept here
- One `NotifyListener` is out at most; what is to happen afterwards is kept here until `done`.
- The event and the latency metric tell how long the listener took, and are told when it has returned.
"""

from collections.abc import Callable
from typing import Final

from slackwater.group.events import EventKind, PartitionsChanged
from slackwater.group.member.core import MemberContext
from slackwater.group.member.effects import Callback, NotifyListener
from slackwater.group.topic_partition import TopicPartition

Then = Callable[[frozenset[TopicPartition], BaseException | None, int], None]

_KINDS: Final = {
    Callback.REVOKED: EventKind.PARTITIONS_REVOKED,
    Callback.ASSIGNED: EventKind.PARTITIONS_ASSIGNED,
    Callback.LOST: EventKind.PARTITIONS_LOST,
}


class ListenerNotifier:
    """What the listener is busy with, if anything."""

    def __init__(self, core: MemberContext) -> None:
        self._core = core
        self._told: NotifyListener | None = None
        self._told_ms = 0
        self._then: Then | None = None

    @property
    def busy(self) -> bool:
        """Whether a `NotifyListener` is out."""
        return self._told is not None

    def tell(self, callback: Callback, partitions: frozenset[TopicPartition], now_ms: int, then: Then) -> None:
        """Notify, and go on with `then(partitions, error, now_ms)` when the listener has returned."""
        self._told = NotifyListener(callback, tuple(sorted(partitions)))
        self._told_ms = now_ms
        self._then = then
        self._core.effects.append(self._told)

    def done(self, now_ms: int, error: BaseException | None) -> bool:
        """The listener has returned, or thrown; False when nothing was told."""
        told, then = self._told, self._then
        if told is None or then is None:
            return False
        self._told = self._then = None
        callback_ms = now_ms - self._told_ms
        metrics = self._core.metrics
        latencies = {
            Callback.REVOKED: metrics.revoked,
            Callback.ASSIGNED: metrics.assigned,
            Callback.LOST: metrics.lost,
        }
        latencies[told.callback].record(callback_ms, now_ms)
        self._core.emit(_KINDS[told.callback], now_ms, PartitionsChanged(told.partitions, callback_ms))
        then(frozenset(told.partitions), error, now_ms)
        return True
