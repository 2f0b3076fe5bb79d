"""The preparation of a JoinGroup: commit consumed offsets, then revoke partitions that must go first.

Invariants:
- With auto-commit, consumed offsets are committed first. A retriable error is retried until the rebalance timeout; any
  other failure is ignored, because the rebalance does not wait (CL-19). An eager member stops fetching meanwhile:
  records fetched after the commit would be read twice (CL-20).
- An eager member revokes everything and calls the listener even with no partitions (CL-19). A cooperative member
  revokes only topics it no longer subscribes to (CL-21). A member without a generation calls onPartitionsLost (CL-22).
- In BACKGROUND the group waits up to `release_wait_ms` for partitions in use that must go. They are not fetched
  meanwhile.
- It runs once per rebalance, however often JoinGroup is retried (CL-17).
"""

from enum import Enum

from slackwater.group.assignors import RebalanceProtocol
from slackwater.group.errors import SlackwaterError
from slackwater.group.member.commits import CommitManager, OffsetCommitOperation
from slackwater.group.member.context import MemberContext
from slackwater.group.member.effects import Callback
from slackwater.group.member.errors import ListenerFailed, Wakeup
from slackwater.group.member.listener import ListenerNotifier
from slackwater.group.topic_partition import TopicPartition


class _PreparationStage(Enum):
    NONE = "not preparing"
    COMMIT = "commit consumed offsets"
    REVOKE = "revoke partitions"


class JoinPreparation:
    """Runs the preparation of each rebalance."""

    def __init__(self, context: MemberContext, commits: CommitManager, listener: ListenerNotifier) -> None:
        self._context = context
        self._commits = commits
        self._listener = listener
        self._cooperative = context.config.protocol is RebalanceProtocol.COOPERATIVE
        self._stage = _PreparationStage.NONE
        self._commit_by_ms = 0
        self._release_by_ms = 0
        self._retry_due_ms = 0
        self._commit: OffsetCommitOperation | None = None

    @property
    def is_running(self) -> bool:
        """Whether a preparation is in progress."""
        return self._stage is not _PreparationStage.NONE

    def start(self, now_ms: int) -> None:
        """Start a preparation; `advance` continues it."""
        config = self._context.config
        self._context.needs_join_prepare = False
        self._stage = _PreparationStage.COMMIT if config.enable_auto_commit else _PreparationStage.REVOKE
        self._commit_by_ms = now_ms + config.join_rebalance_timeout_ms
        self._release_by_ms = now_ms + config.release_wait_ms
        self._retry_due_ms = now_ms
        self._commit = None

    def stop(self) -> None:
        """Cancel the preparation because the member leaves."""
        self._stage = _PreparationStage.NONE
        self._context.subscription.revoking = False

    def due_ms(self) -> int:
        """When `advance` can continue without another input; 0 means at once."""
        if self._stage is _PreparationStage.REVOKE:
            return self._release_by_ms if self._must_wait_for(self._to_give_up()) else 0
        if self._commit is None:
            return self._retry_due_ms
        return 0 if self._commit.is_done else self._commit_by_ms

    def advance(self, now_ms: int) -> bool:
        """Commit, then revoke; returns False while it has to wait."""
        context = self._context
        if self._stage is _PreparationStage.COMMIT:
            if not self._is_committed(now_ms):
                return False
            self._stage = _PreparationStage.REVOKE
        partitions = self._to_give_up()
        if self._must_wait_for(partitions) and now_ms < self._release_by_ms:
            context.subscription.pending_revocation |= partitions
            return False
        if context.generation.is_lost:
            callback, notifies = Callback.LOST, bool(partitions)
        else:
            callback, notifies = Callback.REVOKED, bool(partitions) or not self._cooperative
        if notifies:
            self._listener.notify(callback, partitions, now_ms, self._on_listener_done)
        else:
            self._end(partitions)
        return True

    def _is_committed(self, now_ms: int) -> bool:
        if now_ms >= self._commit_by_ms:
            return True
        if self._commit is None:
            if now_ms < self._retry_due_ms:
                return False
            self._context.subscription.revoking = not self._cooperative
            self._commit = self._commits.auto_commit(now_ms)
        if self._commit.is_done and self._commit.retriable:
            self._commit = None
            self._retry_due_ms = now_ms + self._context.config.retry_backoff_ms
            return False
        return self._commit.is_done

    def _to_give_up(self) -> frozenset[TopicPartition]:
        subscription = self._context.subscription
        if self._context.generation.is_lost or not self._cooperative:
            return subscription.owned
        return frozenset(partition for partition in subscription.owned if partition.topic not in subscription.topics)

    def _must_wait_for(self, partitions: frozenset[TopicPartition]) -> bool:
        can_wait = self._context.config.is_background and not self._context.generation.is_lost
        return can_wait and not partitions.isdisjoint(self._context.subscription.held)

    def _on_listener_done(
        self, partitions: frozenset[TopicPartition], error: BaseException | None, now_ms: int
    ) -> None:
        self._end(partitions)
        raise_listener_error(self._context, error)

    def _end(self, partitions: frozenset[TopicPartition]) -> None:
        self._stage = _PreparationStage.NONE
        subscription = self._context.subscription
        subscription.remove_owned(partitions)
        subscription.revoking = False
        subscription.group_topics = frozenset()


def raise_listener_error(context: MemberContext, error: BaseException | None) -> None:
    """Raise a listener's exception to the application (CL-31), except a `Wakeup`."""
    if error is not None and not isinstance(error, Wakeup):
        context.fail(error if isinstance(error, SlackwaterError) else ListenerFailed(error))
