"""The application's rebalance listener."""

from collections.abc import Callable
from typing import Protocol

from slackwater.group.member import Callback, NotifyListener
from slackwater.group.topic_partition import TopicPartition


class RebalanceListener(Protocol):
    """Callbacks around a rebalance. They run inside poll(), on its thread; a class may define only some of them."""

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        """Handle newly assigned partitions, before any of their records is returned. Seeks take effect."""
        return

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        """Handle partitions that are about to move to another member. Commits still succeed."""
        return

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        """Handle partitions that another member may already own. Commits fail."""
        self.on_partitions_revoked(partitions)


def call_listener(listener: RebalanceListener | None, notify: NotifyListener) -> None:
    """Call the method of a listener that belongs to a notification, if it has one."""
    revoked = getattr(listener, "on_partitions_revoked", None)
    method: Callable[[list[TopicPartition]], None] | None = {
        Callback.ASSIGNED: getattr(listener, "on_partitions_assigned", None),
        Callback.REVOKED: revoked,
        Callback.LOST: getattr(listener, "on_partitions_lost", revoked),
    }[notify.callback]
    if method is not None:
        method(list(notify.partitions))
