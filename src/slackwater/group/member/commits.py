"""Committing offsets: what is sent, what is refused, what is tried again, and who hears of it in which order.

Rules kept here
- A commit under a subscription carries the member's generation and is not even sent unless the member is STABLE
  (CL-33); one under a manual assignment carries none (CL-34).
- A partition that was lost since the commit was made is not committed, even if it has come back: somebody else may
  have gone on from an earlier offset. The commit fails then, and says so.
- A synchronous commit is tried again until default.api.timeout.ms; an asynchronous one never, because the next one
  overtakes it (CL-36). An asynchronous commit that finds the coordinator unknown waits for one look-up.
- `CommitDone` comes in the order of the commits: asynchronous ones among themselves, and all earlier ones before a
  synchronous one, even if that had nothing to commit (CL-38).
- Auto-commits are asynchronous commits that nobody hears of; after a passing fault the next one comes after a backoff
  instead of an interval (CL-37).
"""

from collections.abc import Mapping

from slackwater.group.errors import BrokerError, Error, SlackwaterError, UsageError
from slackwater.group.events import EventKind, RequestRejected
from slackwater.group.member.core import MemberContext, PendingRequest
from slackwater.group.member.effects import CommitDone
from slackwater.group.member.errors import (
    COMMIT_GROUP_REBALANCING,
    COMMIT_LOST,
    COMMIT_MID_REBALANCE,
    COMMIT_STALE,
    CommitFailed,
    FencedInstanceId,
    OperationTimedOut,
    RebalanceInProgress,
    RetriableCommitFailed,
)
from slackwater.group.member.states import MemberAction, MemberInput
from slackwater.group.messages import (
    NO_GENERATION,
    NO_MEMBER,
    CommittedPartition,
    OffsetCommit,
    OffsetCommitResponse,
    OffsetToCommit,
)
from slackwater.group.offset_and_metadata import OffsetAndMetadata
from slackwater.group.topic_partition import TopicPartition

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class OffsetCommitOperation:
    """One commit on its way."""

    __slots__ = (
        "commit_id",
        "deadline_ms",
        "done",
        "error",
        "offsets",
        "request_id",
        "retry_due_ms",
        "started_ms",
        "stints",
        "sync",
        "tries",
    )

    def __init__(self, offsets: Offsets, now_ms: int, *, commit_id: int | None, deadline_ms: int, sync: bool) -> None:
        self.offsets = offsets
        self.stints: dict[TopicPartition, int | None] = {}  # of each partition, when the commit was made
        self.commit_id = commit_id  # None: an auto-commit
        self.sync = sync
        self.started_ms = now_ms
        self.deadline_ms = deadline_ms
        self.retry_due_ms = now_ms
        self.tries = 0
        self.request_id: int | None = None
        self.done = False
        self.error: SlackwaterError | None = None

    @property
    def waiting(self) -> bool:
        """Whether it is neither done nor under way: the coordinator is unknown, or a backoff runs."""
        return not self.done and self.request_id is None

    @property
    def retriable(self) -> bool:
        """Whether it failed in a way that may pass."""
        return isinstance(self.error, RetriableCommitFailed)


class CommitManager:
    """All commits of a member."""

    def __init__(self, core: MemberContext) -> None:
        self._core = core
        self._open: list[OffsetCommitOperation] = []  # in the order of the calls
        self._auto_due_ms: int | None = None

    # --- inputs -----------------------------------------------------------------------------------------------

    def commit(self, offsets: Offsets, now_ms: int, *, commit_id: int, sync: bool) -> None:
        """Commit these offsets and tell `CommitDone(commit_id)`."""
        for partition, at in offsets.items():
            if at.offset < 0:
                raise UsageError(f"offset {at.offset} of {partition} cannot be committed; offsets are 0 or higher.")
        deadline_ms = now_ms + self._core.config.default_api_timeout_ms
        self._begin(
            OffsetCommitOperation(dict(offsets), now_ms, commit_id=commit_id, deadline_ms=deadline_ms, sync=sync),
            now_ms,
        )

    def auto_commit(self, now_ms: int) -> OffsetCommitOperation:
        """Commit everything consumed, without waiting for it."""
        consumed = self._core.subscription.all_consumed()
        deadline_ms = now_ms + self._core.config.default_api_timeout_ms
        return self._begin(
            OffsetCommitOperation(consumed, now_ms, commit_id=None, deadline_ms=deadline_ms, sync=False), now_ms
        )

    def last_commit(self, now_ms: int, deadline_ms: int) -> OffsetCommitOperation:
        """Commit everything consumed before closing, and try again until the deadline (CL-37)."""
        consumed = self._core.subscription.all_consumed()
        return self._begin(
            OffsetCommitOperation(consumed, now_ms, commit_id=None, deadline_ms=deadline_ms, sync=True), now_ms
        )

    def auto_commit_if_due(self, now_ms: int) -> None:
        """The interval of auto.commit.interval.ms, checked inside poll (CL-37)."""
        if not self._core.config.enable_auto_commit:
            return
        if self._auto_due_ms is None:
            self.restart_interval(now_ms)
        elif now_ms >= self._auto_due_ms:
            self.restart_interval(now_ms)
            self.auto_commit(now_ms)

    def restart_interval(self, now_ms: int) -> None:
        """Count the interval from now, as every new assignment does."""
        self._auto_due_ms = now_ms + self._core.config.auto_commit_interval_ms

    @property
    def auto_due_ms(self) -> int | None:
        """When the next auto-commit is due."""
        return self._auto_due_ms if self._core.config.enable_auto_commit else None

    @property
    def any_open(self) -> bool:
        """Whether some commit is not done."""
        return any(not commit.done for commit in self._open)

    def tick(self, now_ms: int) -> None:
        """Send again what is due, give up what is late."""
        for commit in list(self._open):
            if commit.sync and not commit.done and now_ms >= commit.deadline_ms:
                seconds = (commit.deadline_ms - commit.started_ms) / 1_000
                self._finish(commit, OperationTimedOut(f"offsets were not committed within {seconds:g} s."), now_ms)
            elif commit.waiting and now_ms >= commit.retry_due_ms:
                self._try(commit, now_ms)

    def due_ms(self) -> int | None:
        """When `tick` has something to do."""
        dues = [commit.deadline_ms for commit in self._open if commit.sync and not commit.done]
        for commit in self._open:
            if commit.waiting:
                lookup_ms = self._core.lookup_due_ms
                if self._core.coordinator is not None:
                    dues.append(commit.retry_due_ms)
                elif lookup_ms is not None:
                    dues.append(max(lookup_ms, commit.retry_due_ms))
        return min(dues, default=None)

    def coordinator_found(self, now_ms: int) -> None:
        """Send what waited for the coordinator."""
        self.tick(now_ms)

    def lookup_failed(self, now_ms: int) -> None:
        """An asynchronous commit waits for one look-up only."""
        for commit in list(self._open):
            if commit.waiting and not commit.sync:
                self._finish(commit, _passing(Error.COORDINATOR_NOT_AVAILABLE), now_ms)

    def abandon(self, now_ms: int) -> None:
        """The member is closed: nothing waits any longer."""
        for commit in list(self._open):
            if not commit.done:
                self._finish(commit, OperationTimedOut("the consumer was closed before the commit ended."), now_ms)

    # --- one commit -------------------------------------------------------------------------------------------

    def _begin(self, commit: OffsetCommitOperation, now_ms: int) -> OffsetCommitOperation:
        self._open.append(commit)
        commit.stints = {partition: self._core.subscription.stint(partition) for partition in commit.offsets}
        if commit.offsets:
            self._try(commit, now_ms)
        else:
            self._finish(commit, None, now_ms)
        return commit

    def _try(self, commit: OffsetCommitOperation, now_ms: int) -> None:
        core = self._core
        generation_id, member_id, instance_id = NO_GENERATION, NO_MEMBER, None
        if core.subscription.managed:
            # Between the call and this try the member may have lost a partition and rejoined (in the background nothing
            # waits for a commit): its new generation would let through what the old one had no right to any more.
            lost = [at for at, stint in commit.stints.items() if stint != core.subscription.stint(at)]
            if lost:
                return self._finish(commit, CommitFailed(COMMIT_LOST.format(", ".join(map(str, lost)))), now_ms)
            match core.step(MemberInput.COMMIT):
                case MemberAction.COMMIT_FAILED:
                    return self._finish(commit, CommitFailed(), now_ms)
                case MemberAction.COMMIT_REBALANCING:
                    return self._finish(commit, RebalanceInProgress(COMMIT_MID_REBALANCE), now_ms)
                case _:
                    generation_id, member_id, _ = core.generation
                    instance_id = core.config.group_instance_id
        if not core.find_coordinator(now_ms):
            return None
        offsets = tuple(
            OffsetToCommit(topic, partition, at.offset, at.leader_epoch, at.metadata)
            for (topic, partition), at in commit.offsets.items()
        )
        request = OffsetCommit(core.config.group_id, member_id, instance_id, generation_id, offsets)
        commit.request_id = core.send(request, now_ms)
        return None

    def answered(self, pending: PendingRequest, response: OffsetCommitResponse, now_ms: int) -> None:
        """OffsetCommit was answered: the first error decides, except that unauthorised topics are gathered."""
        self._core.metrics.commit.record(now_ms - pending.sent_ms, now_ms)
        commit = self._of(pending)
        unauthorized: set[str] = set()
        for partition in response.partitions:
            if partition.error is Error.TOPIC_AUTHORIZATION_FAILED:
                unauthorized.add(partition.topic)
            elif partition.error is not Error.NONE:
                return self._refused(commit, partition, pending, now_ms)
        if unauthorized:
            error = Error.TOPIC_AUTHORIZATION_FAILED
            message = f"Not authorized to access topics: [{', '.join(sorted(unauthorized))}]"
            self._core.emit(
                EventKind.COMMIT_REFUSED, now_ms, RequestRejected(error.name, pending.generation.generation_id)
            )
            return self._finish(commit, BrokerError(error, message), now_ms)
        return self._finish(commit, None, now_ms)

    def unanswered(self, pending: PendingRequest, now_ms: int) -> None:
        """OffsetCommit got no answer: the connection is gone."""
        commit = self._of(pending)
        self._again(commit, Error.NETWORK_EXCEPTION, now_ms)
        self._core.lose_coordinator("null", now_ms, disconnected=True)

    def _of(self, pending: PendingRequest) -> OffsetCommitOperation | None:
        return next((commit for commit in self._open if commit.request_id == pending.request_id), None)

    def _refused(
        self, commit: OffsetCommitOperation | None, at: CommittedPartition, pending: PendingRequest, now_ms: int
    ) -> None:
        core = self._core
        error = at.error
        match error:
            case Error.COORDINATOR_LOAD_IN_PROGRESS | Error.UNKNOWN_TOPIC_OR_PARTITION:
                return self._again(commit, error, now_ms)
            case Error.COORDINATOR_NOT_AVAILABLE | Error.NOT_COORDINATOR | Error.REQUEST_TIMED_OUT:
                self._again(commit, error, now_ms)
                return core.lose_coordinator(f"error response {error.name}", now_ms)
        core.emit(EventKind.COMMIT_REFUSED, now_ms, RequestRejected(error.name, pending.generation.generation_id))
        cause = _cause(error, stale=core.stale(pending))
        if cause is None:
            message = f"Unexpected error in commit: {error.name} on {at.topic}-{at.partition}"
            return self._finish(commit, BrokerError(error, message), now_ms)
        reset = f"encountered {error.name} from OFFSET_COMMIT response"
        outcome: SlackwaterError
        match core.step(cause):
            case MemberAction.COMMIT_REBALANCING_REJOIN:
                core.request_rejoin("offset commit failed since group is already rebalancing", now_ms)
                outcome = RebalanceInProgress(COMMIT_GROUP_REBALANCING)
            case MemberAction.COMMIT_REBALANCING:
                outcome = RebalanceInProgress(COMMIT_STALE)
            case MemberAction.COMMIT_FAILED_RESET_ID:
                core.reset(reset, now_ms, member_id=True)
                outcome = CommitFailed()
            case MemberAction.COMMIT_FAILED_RESET_GENERATION:
                core.reset(reset, now_ms, member_id=False)
                outcome = CommitFailed()
            case MemberAction.COMMIT_FENCED:
                outcome = FencedInstanceId(core.config.group_instance_id, pending.generation.member_id)
                if commit is None or not commit.sync:
                    core.fail(outcome)
            case _:
                outcome = CommitFailed()
        return self._finish(commit, outcome, now_ms)

    def _again(self, commit: OffsetCommitOperation | None, error: Error, now_ms: int) -> None:
        if commit is None or commit.done:
            return
        if not commit.sync:
            self._finish(commit, _passing(error), now_ms)
            return
        commit.request_id = None
        commit.retry_due_ms = now_ms + self._core.backoff_ms(commit.tries)
        commit.tries += 1

    def _finish(self, commit: OffsetCommitOperation | None, error: SlackwaterError | None, now_ms: int) -> None:
        if commit is None or commit.done:
            return
        commit.done = True
        commit.error = error
        if commit.commit_id is None:
            if commit.retriable and not commit.sync:
                self._auto_due_ms = now_ms + self._core.config.retry_backoff_ms
            self._open.remove(commit)
        self._tell(now_ms)

    def _tell(self, now_ms: int) -> None:
        """Tell what is done, in order (CL-38)."""
        held_up = False
        for commit in list(self._open):
            if commit.done and not held_up and commit.commit_id is not None:
                self._open.remove(commit)
                if commit.sync:
                    self._core.metrics.commit_sync_ms += now_ms - commit.started_ms
                self._core.effects.append(CommitDone(commit.commit_id, commit.error))
            held_up = held_up or (not commit.done and not commit.sync and commit.commit_id is not None)


def _passing(error: Error) -> RetriableCommitFailed:
    return RetriableCommitFailed(f"Offset commit failed with a retriable error ({error.name}); commit again later.")


def _cause(error: Error, *, stale: bool) -> MemberInput | None:
    match error:
        case Error.REBALANCE_IN_PROGRESS:
            return MemberInput.COMMIT_REBALANCING
        case Error.UNKNOWN_MEMBER_ID:
            return MemberInput.COMMIT_UNKNOWN_MEMBER_STALE if stale else MemberInput.COMMIT_UNKNOWN_MEMBER
        case Error.ILLEGAL_GENERATION:
            return MemberInput.COMMIT_ILLEGAL_GENERATION_STALE if stale else MemberInput.COMMIT_ILLEGAL_GENERATION
        case Error.FENCED_INSTANCE_ID:
            return MemberInput.COMMIT_FENCED_STALE if stale else MemberInput.COMMIT_FENCED
        case _:
            return None
