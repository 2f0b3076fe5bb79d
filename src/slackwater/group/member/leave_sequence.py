"""Leaving: unsubscribe and close.

Rules kept here
- The listener is told first: of a loss when the generation is gone or a rebalance runs, of a revocation otherwise, and
  of nothing when nothing is owned. Then one LeaveGroup leaves, without a second try (CL-32); a static member sends
  none (CL-07). Whoever closes may say otherwise (KIP-1092): to stay, until the session is over, or to leave for good.
- Closing commits what was consumed first, again and again until the deadline, and waits for the commits under way
  (CL-37). Partitions in use are not waited for: whoever closes knows that nobody will report them finished.
- A listener that is busy is let finish first.
"""

from enum import Enum

from slackwater.group.member.commits import CommitManager, OffsetCommitOperation
from slackwater.group.member.committed import CommittedOffsetFetcher
from slackwater.group.member.core import MemberContext
from slackwater.group.member.effects import Callback
from slackwater.group.member.join_preparation import raise_listener
from slackwater.group.member.listener import ListenerNotifier
from slackwater.group.member.rebalance import RebalanceSequence
from slackwater.group.member.states import MemberInput
from slackwater.group.topic_partition import TopicPartition

UNSUBSCRIBED = "the consumer unsubscribed from all topics"
CLOSED = "the consumer is being closed"


class _Stage(Enum):
    STAYING = "member"
    COMMITTING = "the last commit is out"
    TELLING = "the listener is to be told"
    LEAVING = "LeaveGroup is out"
    GONE = "closed"


class LeaveSequence:
    """The way out of the group."""

    def __init__(
        self,
        core: MemberContext,
        commits: CommitManager,
        committed: CommittedOffsetFetcher,
        rebalance: RebalanceSequence,
        listener: ListenerNotifier,
    ) -> None:
        self._core = core
        self._commits = commits
        self._committed_offsets = committed
        self._rebalance = rebalance
        self._listener = listener
        self._stage = _Stage.STAYING
        self._closing = False
        self._reason = UNSUBSCRIBED
        self._leave_group: bool | None = None
        self._deadline_ms = 0
        self._last_commit: OffsetCommitOperation | None = None
        self._leave_id: int | None = None

    @property
    def begun(self) -> bool:
        """Whether the member is on its way out, or gone."""
        return self._stage is not _Stage.STAYING

    @property
    def closing(self) -> bool:
        """Whether `close` was called."""
        return self._closing

    @property
    def closed(self) -> bool:
        """Whether everything is done."""
        return self._stage is _Stage.GONE

    def due_ms(self) -> int | None:
        """When `advance` has something to do."""
        return self._deadline_ms if self._closing and not self.closed else None

    def unsubscribe(self, now_ms: int, reason: str = UNSUBSCRIBED) -> None:
        """Leave the group, and want nothing any more."""
        self._reason = reason
        self._begin(_Stage.TELLING, now_ms)

    def close(self, now_ms: int, timeout_ms: int, leave_group: bool | None = None) -> None:
        """Commit, leave, and be gone, within `timeout_ms`."""
        if self._closing:
            return
        self._closing = True
        self._leave_group = leave_group
        self._deadline_ms = now_ms + timeout_ms
        self._begin(_Stage.COMMITTING, now_ms)

    def _begin(self, stage: _Stage, now_ms: int) -> None:
        self._stage = stage
        self._rebalance.abandon()
        self.advance(now_ms)

    def advance(self, now_ms: int) -> None:
        """Go on until there is something to wait for."""
        if self._stage is _Stage.COMMITTING and self._committed(now_ms):
            self._stage = _Stage.TELLING
        if self._stage is _Stage.TELLING and (not self._listener.busy or self._late(now_ms)):
            self._tell(now_ms)
        if self._stage is _Stage.LEAVING and (self._leave_id not in self._core.requests or self._late(now_ms)):
            self._gone(now_ms)

    def _late(self, now_ms: int) -> bool:
        return self._closing and now_ms >= self._deadline_ms

    def _committed(self, now_ms: int) -> bool:
        if self._late(now_ms):
            return True
        if self._last_commit is None and self._core.config.enable_auto_commit:
            self._last_commit = self._commits.last_commit(now_ms, self._deadline_ms)
        return not self._commits.any_open

    def _tell(self, now_ms: int) -> None:
        core = self._core
        owned = core.subscription.owned
        if core.subscription.managed and owned and not self._listener.busy:
            lost = core.generation.is_lost or core.state.is_rebalancing
            self._listener.tell(Callback.LOST if lost else Callback.REVOKED, owned, now_ms, self._told)
        else:
            self._leave(now_ms)

    def _told(self, partitions: frozenset[TopicPartition], error: BaseException | None, now_ms: int) -> None:
        self._core.subscription.take(partitions)
        raise_listener(self._core, error)
        self._core.raise_failure()
        self._leave(now_ms)

    def _leave(self, now_ms: int) -> None:
        core = self._core
        stays = self._closing and not (
            core.config.leave_group_on_close if self._leave_group is None else self._leave_group
        )
        if core.subscription.managed and not stays:
            reason = CLOSED if self._closing else self._reason
            self._leave_id = core.leave(MemberInput.LEAVE, reason, now_ms, for_good=bool(self._leave_group))
        core.subscription.clear()
        core.failure = None  # whatever it was, it concerned the membership that ends here
        self._stage = _Stage.LEAVING if self._closing else _Stage.STAYING

    def _gone(self, now_ms: int) -> None:
        self._stage = _Stage.GONE
        self._commits.abandon(now_ms)
        self._committed_offsets.abandon(now_ms)
        self._core.requests.clear()
