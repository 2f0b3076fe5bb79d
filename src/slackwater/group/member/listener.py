"""Calls the rebalance listener, one callback at a time.

Invariants:
- At most one `NotifyListener` is outstanding; the continuation is stored until `on_done`.
- The event and the latency metric include the duration of the callback and are recorded when it returns.
"""

from collections.abc import Callable
from typing import Final

from slackwater.group.events import EventKind, PartitionsChanged
from slackwater.group.member.context import MemberContext
from slackwater.group.member.effects import Callback, NotifyListener
from slackwater.group.topic_partition import TopicPartition

Continuation = Callable[[frozenset[TopicPartition], BaseException | None, int], None]

_KINDS: Final = {
    Callback.REVOKED: EventKind.PARTITIONS_REVOKED,
    Callback.ASSIGNED: EventKind.PARTITIONS_ASSIGNED,
    Callback.LOST: EventKind.PARTITIONS_LOST,
}


class ListenerNotifier:
    """The outstanding listener callback, if any."""

    def __init__(self, context: MemberContext) -> None:
        self._context = context
        self._notification: NotifyListener | None = None
        self._notified_ms = 0
        self._then: Continuation | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a `NotifyListener` is outstanding."""
        return self._notification is not None

    def notify(
        self, callback: Callback, partitions: frozenset[TopicPartition], now_ms: int, then: Continuation
    ) -> None:
        """Notify the listener and call `then(partitions, error, now_ms)` when it has returned."""
        self._notification = NotifyListener(callback, tuple(sorted(partitions)))
        self._notified_ms = now_ms
        self._then = then
        self._context.effects.append(self._notification)

    def on_done(self, now_ms: int, error: BaseException | None) -> bool:
        """Handle the return or the exception of the listener; returns False if no callback was outstanding."""
        notification, then = self._notification, self._then
        if notification is None or then is None:
            return False
        self._notification = self._then = None
        callback_ms = now_ms - self._notified_ms
        metrics = self._context.metrics
        latencies = {
            Callback.REVOKED: metrics.revoked,
            Callback.ASSIGNED: metrics.assigned,
            Callback.LOST: metrics.lost,
        }
        latencies[notification.callback].record(callback_ms, now_ms)
        self._context.emit(
            _KINDS[notification.callback], now_ms, PartitionsChanged(notification.partitions, callback_ms)
        )
        then(frozenset(notification.partitions), error, now_ms)
        return True
