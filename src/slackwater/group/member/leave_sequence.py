"""Leaving the group: unsubscribe and close.

Invariants:
- The listener is called first: onPartitionsLost if the generation is lost or a rebalance runs, else
  onPartitionsRevoked, and neither if no partition is owned. Then one LeaveGroup is sent without a retry (CL-32); a
  static member sends none (CL-07). `close(leave_group=…)` overrides this (KIP-1092).
- Closing first commits consumed offsets, with retries until the deadline, and waits for pending commits (CL-37). It
  does not wait for partitions in use: after close the application no longer releases them.
- A running listener callback finishes first.
"""

from enum import Enum

from slackwater.group.member.commits import CommitManager, OffsetCommitOperation
from slackwater.group.member.committed_offsets import CommittedOffsetFetcher
from slackwater.group.member.context import MemberContext
from slackwater.group.member.effects import Callback
from slackwater.group.member.join_preparation import raise_listener_error
from slackwater.group.member.listener import ListenerNotifier
from slackwater.group.member.rebalance import RebalanceSequence
from slackwater.group.member.states import MemberInput
from slackwater.group.topic_partition import TopicPartition

UNSUBSCRIBED = "the consumer unsubscribed from all topics"
CLOSED = "the consumer is being closed"


class _LeaveStage(Enum):
    STAYING = "not leaving"
    COMMITTING = "waiting for the last commit"
    NOTIFYING = "calling the listener"
    LEAVING = "LeaveGroup is in flight"
    CLOSED = "closed"


class LeaveSequence:
    """The steps of leaving the group."""

    def __init__(
        self,
        context: MemberContext,
        commits: CommitManager,
        committed: CommittedOffsetFetcher,
        rebalance: RebalanceSequence,
        listener: ListenerNotifier,
    ) -> None:
        self._context = context
        self._commits = commits
        self._committed_offsets = committed
        self._rebalance = rebalance
        self._listener = listener
        self._stage = _LeaveStage.STAYING
        self._closing = False
        self._reason = UNSUBSCRIBED
        self._leave_group: bool | None = None
        self._deadline_ms = 0
        self._last_commit: OffsetCommitOperation | None = None
        self._leave_id: int | None = None

    @property
    def has_begun(self) -> bool:
        """Whether the member is leaving or has left."""
        return self._stage is not _LeaveStage.STAYING

    @property
    def is_closing(self) -> bool:
        """Whether `close` was called."""
        return self._closing

    @property
    def is_closed(self) -> bool:
        """Whether every step is complete."""
        return self._stage is _LeaveStage.CLOSED

    def due_ms(self) -> int | None:
        """When `advance` has something to do."""
        return self._deadline_ms if self._closing and not self.is_closed else None

    def unsubscribe(self, now_ms: int, reason: str = UNSUBSCRIBED) -> None:
        """Leave the group and clear the subscription."""
        self._reason = reason
        self._begin(_LeaveStage.NOTIFYING, now_ms)

    def close(self, now_ms: int, timeout_ms: int, leave_group: bool | None = None) -> None:
        """Commit, leave and close within `timeout_ms`."""
        if self._closing:
            return
        self._closing = True
        self._leave_group = leave_group
        self._deadline_ms = now_ms + timeout_ms
        self._begin(_LeaveStage.COMMITTING, now_ms)

    def _begin(self, stage: _LeaveStage, now_ms: int) -> None:
        self._stage = stage
        self._rebalance.abandon()
        self.advance(now_ms)

    def advance(self, now_ms: int) -> None:
        """Run the steps until one has to wait."""
        if self._stage is _LeaveStage.COMMITTING and self._is_committed(now_ms):
            self._stage = _LeaveStage.NOTIFYING
        if self._stage is _LeaveStage.NOTIFYING and (not self._listener.is_busy or self._is_past_deadline(now_ms)):
            self._notify_listener(now_ms)
        if self._stage is _LeaveStage.LEAVING and (
            self._leave_id not in self._context.requests or self._is_past_deadline(now_ms)
        ):
            self._finish_close(now_ms)

    def _is_past_deadline(self, now_ms: int) -> bool:
        return self._closing and now_ms >= self._deadline_ms

    def _is_committed(self, now_ms: int) -> bool:
        if self._is_past_deadline(now_ms):
            return True
        if self._last_commit is None and self._context.config.enable_auto_commit:
            self._last_commit = self._commits.last_commit(now_ms, self._deadline_ms)
        return not self._commits.has_open_commits

    def _notify_listener(self, now_ms: int) -> None:
        context = self._context
        owned = context.subscription.owned
        if context.subscription.is_group_managed and owned and not self._listener.is_busy:
            is_lost_generation = context.generation.is_lost or context.state.is_rebalancing
            self._listener.notify(
                Callback.LOST if is_lost_generation else Callback.REVOKED, owned, now_ms, self._on_listener_done
            )
        else:
            self._leave(now_ms)

    def _on_listener_done(
        self, partitions: frozenset[TopicPartition], error: BaseException | None, now_ms: int
    ) -> None:
        self._context.subscription.remove_owned(partitions)
        raise_listener_error(self._context, error)
        self._context.raise_failure()
        self._leave(now_ms)

    def _leave(self, now_ms: int) -> None:
        context = self._context
        stays = self._closing and not (
            context.config.leave_group_on_close if self._leave_group is None else self._leave_group
        )
        if context.subscription.is_group_managed and not stays:
            reason = CLOSED if self._closing else self._reason
            self._leave_id = context.leave(MemberInput.LEAVE, reason, now_ms, for_good=bool(self._leave_group))
        context.subscription.clear()
        context.failure = None  # it concerns the membership that ends here
        self._stage = _LeaveStage.LEAVING if self._closing else _LeaveStage.STAYING

    def _finish_close(self, now_ms: int) -> None:
        self._stage = _LeaveStage.CLOSED
        self._commits.abandon(now_ms)
        self._committed_offsets.abandon(now_ms)
        self._context.requests.clear()
