"""Offset commits: sending, retries, and the order in which they complete.

Invariants:
- Under a subscription a commit carries the member's generation and is sent only in state STABLE (CL-33); under a manual
  assignment it carries none (CL-34).
- A partition that was lost since the commit was created is not committed, even if it is assigned again: its owner in
  between may have continued from an earlier offset. The commit fails.
- A synchronous commit is retried until default.api.timeout.ms; an asynchronous one never, because the next commit
  replaces it (CL-36). An asynchronous commit waits for at most one coordinator look-up.
- UNKNOWN_TOPIC_OR_PARTITION is retried only while the metadata has the partition: the coordinator may not know a new
  topic yet. Otherwise the commit fails at once; Java retries until default.api.timeout.ms.
- `CommitDone` effects keep the order of the commits: asynchronous ones among themselves, and all earlier ones before a
  synchronous one, even if that has nothing to commit (CL-38).
- Auto-commits are asynchronous commits without `CommitDone`; after a retriable error the next one follows after a
  backoff instead of an interval (CL-37).
"""

from collections.abc import Mapping

from slackwater.group.errors import BrokerError, Error, SlackwaterError, UsageError
from slackwater.group.events import EventKind, RequestRefused
from slackwater.group.member.context import MemberContext, PendingRequest
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
    OffsetCommit,
    OffsetCommitResponse,
    OffsetResult,
    OffsetToCommit,
)
from slackwater.group.offset_and_metadata import OffsetAndMetadata
from slackwater.group.topic_partition import TopicPartition

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class OffsetCommitOperation:
    """One commit, from the call to its completion."""

    __slots__ = (
        "attempts",
        "commit_id",
        "deadline_ms",
        "error",
        "is_done",
        "offsets",
        "ownership_ids",
        "request_id",
        "retry_due_ms",
        "started_ms",
        "sync",
    )

    def __init__(self, offsets: Offsets, now_ms: int, *, commit_id: int | None, deadline_ms: int, sync: bool) -> None:
        self.offsets = offsets
        self.ownership_ids: dict[TopicPartition, int | None] = {}  # per partition, when the commit was created
        self.commit_id = commit_id  # None: an auto-commit
        self.sync = sync
        self.started_ms = now_ms
        self.deadline_ms = deadline_ms
        self.retry_due_ms = now_ms
        self.attempts = 0
        self.request_id: int | None = None
        self.is_done = False
        self.error: SlackwaterError | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether it is neither done nor in flight: the coordinator is unknown, or a backoff runs."""
        return not self.is_done and self.request_id is None

    @property
    def retriable(self) -> bool:
        """Whether it failed with a retriable error."""
        return isinstance(self.error, RetriableCommitFailed)


class CommitManager:
    """All pending commits of a member."""

    def __init__(self, context: MemberContext) -> None:
        self._context = context
        self._open: list[OffsetCommitOperation] = []  # in the order of the calls
        self._auto_due_ms: int | None = None

    # --- inputs -----------------------------------------------------------------------------------------------

    def commit(self, offsets: Offsets, now_ms: int, *, commit_id: int, sync: bool) -> None:
        """Commit these offsets; `CommitDone(commit_id)` reports the result."""
        for partition, position in offsets.items():
            if position.offset < 0:
                raise UsageError(
                    f"offset {position.offset} of {partition} cannot be committed; offsets are 0 or higher."
                )
        deadline_ms = now_ms + self._context.config.default_api_timeout_ms
        self._begin(
            OffsetCommitOperation(dict(offsets), now_ms, commit_id=commit_id, deadline_ms=deadline_ms, sync=sync),
            now_ms,
        )

    def auto_commit(self, now_ms: int) -> OffsetCommitOperation:
        """Commit all consumed positions asynchronously."""
        consumed = self._context.subscription.all_consumed()
        deadline_ms = now_ms + self._context.config.default_api_timeout_ms
        return self._begin(
            OffsetCommitOperation(consumed, now_ms, commit_id=None, deadline_ms=deadline_ms, sync=False), now_ms
        )

    def last_commit(self, now_ms: int, deadline_ms: int) -> OffsetCommitOperation:
        """Commit all consumed positions before closing, with retries until the deadline (CL-37)."""
        consumed = self._context.subscription.all_consumed()
        return self._begin(
            OffsetCommitOperation(consumed, now_ms, commit_id=None, deadline_ms=deadline_ms, sync=True), now_ms
        )

    def auto_commit_if_due(self, now_ms: int) -> None:
        """Auto-commit if auto.commit.interval.ms has elapsed; called inside poll (CL-37)."""
        if not self._context.config.enable_auto_commit:
            return
        if self._auto_due_ms is None:
            self.restart_interval(now_ms)
        elif now_ms >= self._auto_due_ms:
            self.restart_interval(now_ms)
            self.auto_commit(now_ms)

    def restart_interval(self, now_ms: int) -> None:
        """Restart the auto-commit interval, as every new assignment does."""
        self._auto_due_ms = now_ms + self._context.config.auto_commit_interval_ms

    @property
    def auto_due_ms(self) -> int | None:
        """When the next auto-commit is due."""
        return self._auto_due_ms if self._context.config.enable_auto_commit else None

    @property
    def has_open_commits(self) -> bool:
        """Whether some commit is not done."""
        return any(not commit.is_done for commit in self._open)

    def tick(self, now_ms: int) -> None:
        """Retry commits that are due, fail commits that are too late."""
        for commit in list(self._open):
            if commit.sync and not commit.is_done and now_ms >= commit.deadline_ms:
                seconds = (commit.deadline_ms - commit.started_ms) / 1_000
                self._finish(commit, OperationTimedOut(f"offsets were not committed within {seconds:g} s."), now_ms)
            elif commit.is_waiting and now_ms >= commit.retry_due_ms:
                self._try(commit, now_ms)

    def due_ms(self) -> int | None:
        """When `tick` has something to do."""
        dues = [commit.deadline_ms for commit in self._open if commit.sync and not commit.is_done]
        for commit in self._open:
            if commit.is_waiting:
                lookup_ms = self._context.lookup_due_ms
                if self._context.coordinator is not None:
                    dues.append(commit.retry_due_ms)
                elif lookup_ms is not None:
                    dues.append(max(lookup_ms, commit.retry_due_ms))
        return min(dues, default=None)

    def on_coordinator_found(self, now_ms: int) -> None:
        """Send the commits that waited for the coordinator."""
        self.tick(now_ms)

    def on_lookup_failed(self, now_ms: int) -> None:
        """Fail asynchronous commits: they wait for one look-up only."""
        for commit in list(self._open):
            if commit.is_waiting and not commit.sync:
                self._finish(commit, _retriable(Error.COORDINATOR_NOT_AVAILABLE), now_ms)

    def abandon(self, now_ms: int) -> None:
        """Fail every commit because the member is closed."""
        for commit in list(self._open):
            if not commit.is_done:
                self._finish(commit, OperationTimedOut("the consumer was closed before the commit completed."), now_ms)

    # --- one commit -------------------------------------------------------------------------------------------

    def _begin(self, commit: OffsetCommitOperation, now_ms: int) -> OffsetCommitOperation:
        self._open.append(commit)
        commit.ownership_ids = {
            partition: self._context.subscription.ownership_id(partition) for partition in commit.offsets
        }
        if commit.offsets:
            self._try(commit, now_ms)
        else:
            self._finish(commit, None, now_ms)
        return commit

    def _try(self, commit: OffsetCommitOperation, now_ms: int) -> None:
        context = self._context
        generation_id, member_id, instance_id = NO_GENERATION, NO_MEMBER, None
        if context.subscription.is_group_managed:
            # Since the call the member may have lost a partition and rejoined (in the background nothing waits for a
            # commit): the coordinator would accept the commit because of the new generation.
            lost = [
                partition
                for partition, ownership_id in commit.ownership_ids.items()
                if ownership_id != context.subscription.ownership_id(partition)
            ]
            if lost:
                return self._finish(commit, CommitFailed(COMMIT_LOST.format(", ".join(map(str, lost)))), now_ms)
            match context.step(MemberInput.COMMIT):
                case MemberAction.COMMIT_FAILED:
                    return self._finish(commit, CommitFailed(), now_ms)
                case MemberAction.COMMIT_REBALANCING:
                    return self._finish(commit, RebalanceInProgress(COMMIT_MID_REBALANCE), now_ms)
                case _:
                    generation_id, member_id, _ = context.generation
                    instance_id = context.config.group_instance_id
        if not context.find_coordinator(now_ms):
            return None
        offsets = tuple(
            OffsetToCommit(topic, partition, position.offset, position.leader_epoch, position.metadata)
            for (topic, partition), position in commit.offsets.items()
        )
        request = OffsetCommit(context.config.group_id, member_id, instance_id, generation_id, offsets)
        commit.request_id = context.send(request, now_ms)
        return None

    def on_response(self, pending: PendingRequest, response: OffsetCommitResponse, now_ms: int) -> None:
        """Handle an OffsetCommit response: the first error decides; unauthorized topics are collected."""
        self._context.metrics.commit.record(now_ms - pending.sent_ms, now_ms)
        commit = self._find(pending)
        unauthorized: set[str] = set()
        for partition in response.partitions:
            if partition.error is Error.TOPIC_AUTHORIZATION_FAILED:
                unauthorized.add(partition.topic)
            elif partition.error is not Error.NONE:
                return self._on_error(commit, partition, pending, now_ms)
        if unauthorized:
            error = Error.TOPIC_AUTHORIZATION_FAILED
            message = f"Not authorized to access topics: [{', '.join(sorted(unauthorized))}]"
            self._context.emit(
                EventKind.COMMIT_REFUSED, now_ms, RequestRefused(error.name, pending.generation.generation_id)
            )
            return self._finish(commit, BrokerError(error, message), now_ms)
        return self._finish(commit, None, now_ms)

    def on_no_response(self, pending: PendingRequest, now_ms: int) -> None:
        """Handle an OffsetCommit without a response: the connection is lost."""
        commit = self._find(pending)
        self._retry(commit, Error.NETWORK_EXCEPTION, now_ms)
        self._context.lose_coordinator("null", now_ms, disconnected=True)

    def _find(self, pending: PendingRequest) -> OffsetCommitOperation | None:
        return next((commit for commit in self._open if commit.request_id == pending.request_id), None)

    def _on_error(
        self, commit: OffsetCommitOperation | None, partition: OffsetResult, pending: PendingRequest, now_ms: int
    ) -> None:
        context = self._context
        error = partition.error
        match error:
            case Error.COORDINATOR_LOAD_IN_PROGRESS:
                return self._retry(commit, error, now_ms)
            case Error.UNKNOWN_TOPIC_OR_PARTITION if context.is_known(partition.topic, partition.partition):
                context.refresh_metadata(now_ms)
                return self._retry(commit, error, now_ms)
            case Error.COORDINATOR_NOT_AVAILABLE | Error.NOT_COORDINATOR | Error.REQUEST_TIMED_OUT:
                self._retry(commit, error, now_ms)
                return context.lose_coordinator(f"error response {error.name}", now_ms)
        context.emit(EventKind.COMMIT_REFUSED, now_ms, RequestRefused(error.name, pending.generation.generation_id))
        if error is Error.UNKNOWN_TOPIC_OR_PARTITION:
            message = f"The offset of {partition.topic}-{partition.partition} was not committed: it does not exist."
            return self._finish(commit, BrokerError(error, message), now_ms)
        cause = _commit_input(error, is_stale=context.is_stale(pending))
        if cause is None:
            message = f"Unexpected error in commit: {error.name} on {partition.topic}-{partition.partition}"
            return self._finish(commit, BrokerError(error, message), now_ms)
        reset = f"encountered {error.name} from OFFSET_COMMIT response"
        outcome: SlackwaterError
        match context.step(cause):
            case MemberAction.COMMIT_REBALANCING_REJOIN:
                context.request_rejoin("offset commit failed since group is already rebalancing", now_ms)
                outcome = RebalanceInProgress(COMMIT_GROUP_REBALANCING)
            case MemberAction.COMMIT_REBALANCING:
                outcome = RebalanceInProgress(COMMIT_STALE)
            case MemberAction.COMMIT_FAILED_RESET_MEMBER_ID:
                context.reset(reset, now_ms, member_id=True)
                outcome = CommitFailed()
            case MemberAction.COMMIT_FAILED_RESET_GENERATION:
                context.reset(reset, now_ms, member_id=False)
                outcome = CommitFailed()
            case MemberAction.COMMIT_FENCED:
                outcome = FencedInstanceId(context.config.group_instance_id, pending.generation.member_id)
                if commit is None or not commit.sync:
                    context.fail(outcome)
            case _:
                outcome = CommitFailed()
        return self._finish(commit, outcome, now_ms)

    def _retry(self, commit: OffsetCommitOperation | None, error: Error, now_ms: int) -> None:
        if commit is None or commit.is_done:
            return
        if not commit.sync:
            self._finish(commit, _retriable(error), now_ms)
            return
        commit.request_id = None
        commit.retry_due_ms = now_ms + self._context.backoff_ms(commit.attempts)
        commit.attempts += 1

    def _finish(self, commit: OffsetCommitOperation | None, error: SlackwaterError | None, now_ms: int) -> None:
        if commit is None or commit.is_done:
            return
        commit.is_done = True
        commit.error = error
        if commit.commit_id is None:
            if commit.retriable and not commit.sync:
                self._auto_due_ms = now_ms + self._context.config.retry_backoff_ms
            self._open.remove(commit)
        self._report_done(now_ms)

    def _report_done(self, now_ms: int) -> None:
        """Report completed commits, in order (CL-38)."""
        is_blocked = False
        for commit in list(self._open):
            if commit.is_done and not is_blocked and commit.commit_id is not None:
                self._open.remove(commit)
                if commit.sync:
                    self._context.metrics.commit_sync_ms += now_ms - commit.started_ms
                self._context.effects.append(CommitDone(commit.commit_id, commit.error))
            is_blocked = is_blocked or (not commit.is_done and not commit.sync and commit.commit_id is not None)


def _retriable(error: Error) -> RetriableCommitFailed:
    return RetriableCommitFailed(f"Offset commit failed with a retriable error ({error.name}); commit again later.")


def _commit_input(error: Error, *, is_stale: bool) -> MemberInput | None:
    match error:
        case Error.REBALANCE_IN_PROGRESS:
            return MemberInput.COMMIT_REBALANCING
        case Error.UNKNOWN_MEMBER_ID:
            return MemberInput.COMMIT_UNKNOWN_MEMBER_STALE if is_stale else MemberInput.COMMIT_UNKNOWN_MEMBER
        case Error.ILLEGAL_GENERATION:
            return MemberInput.COMMIT_ILLEGAL_GENERATION_STALE if is_stale else MemberInput.COMMIT_ILLEGAL_GENERATION
        case Error.FENCED_INSTANCE_ID:
            return MemberInput.COMMIT_FENCED_STALE if is_stale else MemberInput.COMMIT_FENCED
        case _:
            return None
