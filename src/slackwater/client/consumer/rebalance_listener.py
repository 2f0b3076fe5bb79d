"""The application's rebalance listener."""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from slackwater.group.member import Callback, NotifyListener
from slackwater.group.topic_partition import TopicPartition


class RebalanceListener:
    """Callbacks around a rebalance. They run inside poll(), on its thread.

    Override the methods you need. A listener may also be any other object with some of these methods.

    >>> class Listener(RebalanceListener):
    ...     def on_partitions_revoked(self, partitions):
    ...         print("revoked:", *partitions)
    >>> with Consumer(config) as consumer:
    ...     consumer.subscribe(["orders"], listener=Listener())
    ...     records = consumer.poll(timeout=10.0)
    revoked: orders-0
    """

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        """Handle newly assigned partitions, before any of their records is returned. Seeks take effect."""

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        """Handle partitions that are about to move to another member. Commits still succeed."""

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        """Handle partitions that another member may already own. Commits fail."""
        self.on_partitions_revoked(partitions)


class _HasAssigned(Protocol):
    def on_partitions_assigned(self, partitions: list[TopicPartition], /) -> object: ...


class _HasRevoked(Protocol):
    def on_partitions_revoked(self, partitions: list[TopicPartition], /) -> object: ...


class _HasLost(Protocol):
    def on_partitions_lost(self, partitions: list[TopicPartition], /) -> object: ...


# An object with at least one of the methods.
AnyListener: TypeAlias = RebalanceListener | _HasAssigned | _HasRevoked | _HasLost


def call_listener(listener: AnyListener | None, notify: NotifyListener) -> None:
    """Call the method of a listener that belongs to a notification, if it has one."""
    revoked = getattr(listener, "on_partitions_revoked", None)
    method: Callable[[list[TopicPartition]], object] | None = {
        Callback.ASSIGNED: getattr(listener, "on_partitions_assigned", None),
        Callback.REVOKED: revoked,
        Callback.LOST: getattr(listener, "on_partitions_lost", revoked),
    }[notify.callback]
    if method is not None:
        method(list(notify.partitions))
