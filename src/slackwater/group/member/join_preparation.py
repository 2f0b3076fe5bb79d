"""What comes before JoinGroup: commit what was consumed, and give up what must be given up first.

Rules kept here
- With auto-commit, everything consumed is committed first. A passing fault is tried again for as long as the rebalance
  may take; any other failure is passed over, because the rebalance will not wait (CL-19). An eager member stops
  fetching meanwhile: what it fetched after the commit would be read twice (CL-20).
- An eager member gives up everything and is told so, even of nothing (CL-19); a cooperative one only what it no
  longer subscribes to (CL-21). Whoever lost its generation lost everything already, and is told that (CL-22).
- Where partitions in use must go (BACKGROUND only), the group waits for them, for `release_wait_ms` at most. They are
  not fetched meanwhile: new work on them would make the wait endless.
- It runs once per rebalance, however often JoinGroup is tried (CL-17).
"""

from enum import Enum

from slackwater.group.assignors import RebalanceProtocol
from slackwater.group.errors import SlackwaterError
from slackwater.group.member.commits import CommitManager, OffsetCommitOperation
from slackwater.group.member.core import MemberContext
from slackwater.group.member.effects import Callback
from slackwater.group.member.errors import ListenerFailed, Wakeup
from slackwater.group.member.listener import ListenerNotifier
from slackwater.group.topic_partition import TopicPartition


class _Stage(Enum):
    NONE = "nothing to prepare"
    COMMIT = "commit what was consumed"
    REVOKE = "give up what must go"


class JoinPreparation:
    """One preparation after the other."""

    def __init__(self, core: MemberContext, commits: CommitManager, listener: ListenerNotifier) -> None:
        self._core = core
        self._commits = commits
        self._listener = listener
        self._cooperative = core.config.protocol is RebalanceProtocol.COOPERATIVE
        self._stage = _Stage.NONE
        self._commit_by_ms = 0
        self._release_by_ms = 0
        self._retry_due_ms = 0
        self._commit: OffsetCommitOperation | None = None

    @property
    def running(self) -> bool:
        """Whether it has begun and not ended."""
        return self._stage is not _Stage.NONE

    def start(self, now_ms: int) -> None:
        """Begin; `advance` does the rest."""
        config = self._core.config
        self._core.needs_join_prepare = False
        self._stage = _Stage.COMMIT if config.enable_auto_commit else _Stage.REVOKE
        self._commit_by_ms = now_ms + config.join_rebalance_timeout_ms
        self._release_by_ms = now_ms + config.release_wait_ms
        self._retry_due_ms = now_ms
        self._commit = None

    def stop(self) -> None:
        """The member leaves: there is nothing to prepare for."""
        self._stage = _Stage.NONE
        self._core.subscription.revoking = False

    def due_ms(self) -> int:
        """When `advance` can go on by itself; 0 means at once."""
        if self._stage is _Stage.REVOKE:
            return self._release_by_ms if self._in_use(self._to_give_up()) else 0
        if self._commit is None:
            return self._retry_due_ms
        return 0 if self._commit.done else self._commit_by_ms

    def advance(self, now_ms: int) -> bool:
        """Commit, then revoke; False while there is something to wait for."""
        core = self._core
        if self._stage is _Stage.COMMIT:
            if not self._committed(now_ms):
                return False
            self._stage = _Stage.REVOKE
        partitions = self._to_give_up()
        if self._in_use(partitions) and now_ms < self._release_by_ms:
            core.subscription.leaving |= partitions
            return False
        if core.generation.is_lost:
            callback, told = Callback.LOST, bool(partitions)
        else:
            callback, told = Callback.REVOKED, bool(partitions) or not self._cooperative
        if told:
            self._listener.tell(callback, partitions, now_ms, self._told)
        else:
            self._end(partitions)
        return True

    def _committed(self, now_ms: int) -> bool:
        if now_ms >= self._commit_by_ms:
            return True
        if self._commit is None:
            if now_ms < self._retry_due_ms:
                return False
            self._core.subscription.revoking = not self._cooperative
            self._commit = self._commits.auto_commit(now_ms)
        if self._commit.done and self._commit.retriable:
            self._commit = None
            self._retry_due_ms = now_ms + self._core.config.retry_backoff_ms
            return False
        return self._commit.done

    def _to_give_up(self) -> frozenset[TopicPartition]:
        subscription = self._core.subscription
        if self._core.generation.is_lost or not self._cooperative:
            return subscription.owned
        return frozenset(partition for partition in subscription.owned if partition.topic not in subscription.topics)

    def _in_use(self, partitions: frozenset[TopicPartition]) -> bool:
        waits = self._core.config.is_background and not self._core.generation.is_lost
        return waits and not partitions.isdisjoint(self._core.subscription.held)

    def _told(self, partitions: frozenset[TopicPartition], error: BaseException | None, now_ms: int) -> None:
        self._end(partitions)
        raise_listener(self._core, error)

    def _end(self, partitions: frozenset[TopicPartition]) -> None:
        self._stage = _Stage.NONE
        subscription = self._core.subscription
        subscription.take(partitions)
        subscription.revoking = False
        subscription.group_topics = frozenset()


def raise_listener(core: MemberContext, error: BaseException | None) -> None:
    """What a listener threw is raised to the application (CL-31), unless that interrupted it itself."""
    if error is not None and not isinstance(error, Wakeup):
        core.fail(error if isinstance(error, SlackwaterError) else ListenerFailed(error))
