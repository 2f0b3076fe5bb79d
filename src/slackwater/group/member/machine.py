"""A member of a consumer group, as a machine without I/O: the client's half of classic groups (CL-01 … CL-41).

Rules kept here
- One call takes one input and the time, and returns an ordered list of effects (`effects.py`). Nothing here has a
  clock, a thread or a random number, and nothing calls the application.
- Whatever a broker answers, nothing raises: a fatal answer becomes a `Raise`, an answer to nothing is ignored. Only the
  caller's own mistakes raise, as `UsageError`.
- Under Driver.POLL, JoinGroup and `Notify` come out of `poll` alone, and of the `listener_done` that belongs to it.
  Answers are taken when they arrive; what follows from them waits for the next `poll`. A shell therefore calls `poll`
  in a loop until its own timeout, and waits in between for an answer or for `next_poll_ms`. Heartbeats, the poll timer
  and retries of commits are `tick`'s, which a second thread may call at `next_due_ms`.
- Under Driver.BACKGROUND every input moves the rebalance on, and `tick` at `next_due_ms` is all it needs; `poll` only
  counts for the metrics.

    shell                         machine
    poll(now)              ->     [Send FindCoordinator]
    answered(1, …)         ->     [Emit coordinator_found]
    poll(now)              ->     [Send JoinGroup]
    answered(2, …)         ->     [Send SyncGroup]
    answered(3, …)         ->     []                              STABLE
    poll(now)              ->     [Notify ASSIGNED]
    listener_done(now)     ->     [Emit partitions_assigned]
    tick(now)              ->     [Send Heartbeat]
"""

from collections.abc import Iterable, Mapping
from typing import Final, assert_never

from slackwater.group.assignors.assignor import RebalanceProtocol, TopicInfo
from slackwater.group.errors import UsageError
from slackwater.group.events import EventKind, PollOverrun, Trigger
from slackwater.group.member.commits import CommitManager
from slackwater.group.member.committed import CommittedOffsetFetcher
from slackwater.group.member.config import MemberConfig
from slackwater.group.member.core import UNAVAILABLE, MemberContext, PendingRequest
from slackwater.group.member.effects import BrokerNode, MemberEffect, MemberResponse
from slackwater.group.member.heartbeat import NEVER_SENT
from slackwater.group.member.leave_sequence import LeaveSequence
from slackwater.group.member.listener import ListenerNotifier
from slackwater.group.member.liveness import POLL_OVER, HeartbeatLoop
from slackwater.group.member.rebalance import RebalanceSequence
from slackwater.group.member.states import MemberState
from slackwater.group.member.subscription import SubscriptionType
from slackwater.group.messages import (
    FindCoordinator,
    FindCoordinatorResponse,
    Heartbeat,
    HeartbeatResponse,
    JoinGroup,
    JoinGroupResponse,
    LeaveGroup,
    LeaveGroupResponse,
    OffsetCommit,
    OffsetCommitResponse,
    OffsetFetch,
    OffsetFetchResponse,
    SyncGroup,
    SyncGroupResponse,
)
from slackwater.group.offset_and_metadata import OffsetAndMetadata
from slackwater.group.topic_partition import TopicPartition

CLOSE_TIMEOUT_MS: Final = 30_000
ENFORCED: Final = "rebalance enforced by user"
EAGER_IN_BACKGROUND: Final = (
    "With partition.assignment.strategy = {names} this member rebalances eagerly: before every rebalance it gives up "
    "all its partitions, and the whole group waits until the work in progress on them is done, for {seconds:g} s at "
    "most, after which they go all the same and that work may be done twice; use cooperative-sticky alone to hand "
    "over without a pause."
)


class GroupMember:
    """One member. See the module's text for who calls what when."""

    def __init__(self, config: MemberConfig) -> None:
        self._core = MemberContext(config)
        self._core.on_failure = self._unanswered
        self._listener = ListenerNotifier(self._core)
        self._liveness = HeartbeatLoop(self._core)
        self._commits = CommitManager(self._core)
        self._committed = CommittedOffsetFetcher(self._core)
        self._rebalance = RebalanceSequence(self._core, self._commits, self._listener)
        self._departure = LeaveSequence(self._core, self._commits, self._committed, self._rebalance, self._listener)

    # --- reads ------------------------------------------------------------------------------------------------

    @property
    def config(self) -> MemberConfig:
        """The settings."""
        return self._core.config

    @property
    def state(self) -> MemberState:
        """Where the member stands."""
        return self._core.state

    @property
    def generation_id(self) -> int:
        """The generation, -1 when there is none."""
        return self._core.generation.generation_id

    @property
    def member_id(self) -> str:
        """The id the coordinator gave, "" when there is none."""
        return self._core.generation.member_id

    @property
    def protocol_name(self) -> str | None:
        """The assignor the group agreed on."""
        return self._core.generation.protocol_name

    @property
    def coordinator(self) -> BrokerNode | None:
        """The group's coordinator, as far as known; its `connection_id` names a connection of its own (CL-40)."""
        return self._core.coordinator

    @property
    def is_leader(self) -> bool:
        """Whether this member assigned the current generation."""
        return self._rebalance.is_leader

    @property
    def subscription(self) -> frozenset[str]:
        """The topics subscribed to; under a pattern, those it matches."""
        return self._core.subscription.topics

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """The partitions this member has, by the group or by `assign`."""
        return self._core.subscription.owned

    @property
    def fetchable(self) -> frozenset[TopicPartition]:
        """The partitions to fetch: owned, and not on their way out (CL-20)."""
        return self._core.subscription.fetchable

    @property
    def leaving(self) -> frozenset[TopicPartition]:
        """BACKGROUND: partitions that were taken away and stay only because they are held."""
        return self._core.subscription.leaving

    @property
    def needs_rejoin(self) -> bool:
        """Whether a rebalance is wanted or under way."""
        return self._rebalance.needed

    @property
    def is_notifying_listener(self) -> bool:
        """Whether a `Notify` waits for its `listener_done`."""
        return self._listener.busy

    @property
    def is_closed(self) -> bool:
        """Whether `close` has run to its end: no further effect will come."""
        return self._departure.closed

    @property
    def metadata_topics(self) -> frozenset[str] | None:
        """The topics whose metadata to refresh from time to time; None means all."""
        return self._core.metadata_topics

    @property
    def eager_background_warning(self) -> str | None:
        """One sentence to log once: what a background member costs an eager group; None when it costs nothing."""
        config = self._core.config
        if config.is_background and config.protocol is RebalanceProtocol.EAGER:
            names = ", ".join(assignor.name for assignor in config.assignors)
            return EAGER_IN_BACKGROUND.format(names=names, seconds=config.release_wait_ms / 1_000)
        return None

    def next_due_ms(self) -> int | None:
        """When to call `tick` next: 0 means at once, None that nothing is due by time alone."""
        if self.is_closed:
            return None
        dues = [self._departure.due_ms(), self._commits.due_ms(), self._committed.due_ms(), self._metadata_due_ms()]
        if not self._core.halted:
            dues.append(self._liveness.due_ms())
            if self._core.config.is_background and not self._departure.begun:
                dues += [self._rebalance.due_ms(), self._auto_commit_due_ms()]
        return min((due for due in dues if due is not None), default=None)

    def next_poll_ms(self) -> int | None:
        """POLL: when another `poll` would move something: 0 means at once, None that only an answer can."""
        if self._departure.begun:
            return None
        if self._core.failure is not None:
            return 0
        dues = (self._rebalance.due_ms(), self._auto_commit_due_ms())
        return min((due for due in dues if due is not None), default=None)

    def metrics(self, now_ms: int) -> Mapping[str, float]:
        """Every metric under Kafka's name; `METRIC_GROUPS` has the groups."""
        sent_ms = self._core.timers.last_sent_ms
        return self._core.metrics.read(
            now_ms,
            assigned_partitions=len(self.owned),
            last_heartbeat_ms=None if sent_ms == NEVER_SENT else sent_ms,
        )

    # --- what the application wants ---------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str], now_ms: int) -> list[MemberEffect]:
        """Want these topics instead of the earlier ones; none at all unsubscribes."""
        self._must_stay()
        wanted = frozenset(topics)
        if not wanted:
            return self.unsubscribe(now_ms)
        self._core.subscription.subscribe(wanted)
        self._core.halted = False
        self._core.refresh_metadata(now_ms)
        return self._after(now_ms)

    def subscribe_pattern(self, pattern: str, now_ms: int) -> list[MemberEffect]:
        """Want every topic whose whole name matches the regular expression."""
        self._must_stay()
        self._core.subscription.subscribe_pattern(pattern, self._core.cluster)
        self._core.halted = False
        self._core.refresh_metadata(now_ms)
        return self._after(now_ms)

    def unsubscribe(self, now_ms: int) -> list[MemberEffect]:
        """Leave the group; the listener is told what is given up."""
        self._must_stay()
        self._departure.unsubscribe(now_ms)
        return self._after(now_ms)

    def leave_on_poll_timeout(self, over_ms: int, now_ms: int) -> list[MemberEffect]:
        """Leave as one whose poll timer ran out does, until `subscribe`: for a shell that keeps that timer itself."""
        self._must_stay()
        overrun = PollOverrun(self._core.config.max_poll_interval_ms, over_ms)
        self._core.emit(EventKind.POLL_OVERRUN, now_ms, overrun, Trigger.POLL_TIMEOUT)
        self._departure.unsubscribe(now_ms, POLL_OVER)
        return self._after(now_ms)

    def assign(self, partitions: Iterable[TopicPartition], now_ms: int) -> list[MemberEffect]:
        """Take these partitions without being a member; none at all unsubscribes."""
        self._must_stay()
        wanted = frozenset(partitions)
        if not wanted:
            return self.unsubscribe(now_ms)
        if self._core.subscription.mode is SubscriptionType.MANUAL:
            self._commits.auto_commit_if_due(now_ms)  # what is dropped here meets no rebalance that would commit it
        self._core.subscription.assign(wanted)
        self._core.refresh_metadata(now_ms)
        return self._after(now_ms)

    def enforce_rebalance(self, reason: str, now_ms: int) -> list[MemberEffect]:
        """Ask for a rebalance although nothing changed."""
        self._must_be_open()
        self._core.request_rejoin(reason or ENFORCED, now_ms, trigger=Trigger.USER_ENFORCED)
        return self._after(now_ms)

    def close(
        self, now_ms: int, *, timeout_ms: int = CLOSE_TIMEOUT_MS, leave_group: bool | None = None
    ) -> list[MemberEffect]:
        """Commit, tell the listener, leave; carry effects out and feed answers until `closed`.

        `leave_group` True leaves also where a static member would not, False leaves the group to its session timeout.
        """
        self._departure.close(now_ms, timeout_ms, leave_group)
        return self._after(now_ms)

    def hold(self, partitions: Iterable[TopicPartition]) -> None:
        """BACKGROUND: work on these partitions is in progress; do not give them up meanwhile."""
        subscription = self._core.subscription
        subscription.held |= frozenset(partitions) & subscription.owned

    def release(self, partitions: Iterable[TopicPartition], now_ms: int) -> list[MemberEffect]:
        """BACKGROUND: the work is done; what was taken away meanwhile is revoked now."""
        self._core.subscription.held -= frozenset(partitions)
        return self._after(now_ms)

    # --- polling and time -------------------------------------------------------------------------------------

    def poll(self, now_ms: int, *, again: bool = False) -> list[MemberEffect]:
        """The application polls; `again` marks further rounds of the shell's loop inside the same poll."""
        if self.is_closed:
            return []
        if not again:
            self._core.metrics.poll_started(now_ms)
        if self._departure.begun or self._core.raise_failure():
            return self._after(now_ms)
        self._core.timers.polled(now_ms)
        if not self._core.config.is_background:
            self._move_on(now_ms)
        return self._after(now_ms)

    def poll_returned(self, now_ms: int) -> None:
        """The shell's poll returns to the application; only the metrics need to know."""
        self._core.metrics.poll_returned(now_ms)

    def tick(self, now_ms: int) -> list[MemberEffect]:
        """Do whatever is due: heartbeats, timers, retries."""
        if self.is_closed:
            return []
        if not self._core.halted:
            self._liveness.tick(now_ms)
        elif self._departure.closing and self._commits.any_open:
            self._core.find_coordinator(now_ms)  # the last commit still needs one
        self._commits.tick(now_ms)
        self._committed.tick(now_ms)
        if (due_ms := self._metadata_due_ms()) is not None and now_ms >= due_ms:
            self._core.refresh_metadata(now_ms)
        return self._after(now_ms)

    # --- answers ----------------------------------------------------------------------------------------------

    def on_response(self, request_id: int, response: MemberResponse, now_ms: int) -> list[MemberEffect]:
        """A request was answered."""
        pending = self._core.requests.pop(request_id, None)
        if pending is not None:
            self._take(pending, response, now_ms)
        return self._after(now_ms)

    def on_request_failed(self, request_id: int, now_ms: int) -> list[MemberEffect]:
        """A request got no answer: disconnected, or its timeout passed."""
        pending = self._core.requests.pop(request_id, None)
        if pending is not None:
            self._unanswered(pending, now_ms)
        return self._after(now_ms)

    def on_disconnected(self, node: BrokerNode, now_ms: int) -> list[MemberEffect]:
        """The connection to this coordinator is gone, whether or not anything was asked: look for it anew, as in Java.

        It may have moved, or be away for long; whoever takes its place is known to the other brokers first.
        """
        if not self.is_closed and self._core.coordinator == node:
            self._core.lose_coordinator(UNAVAILABLE, now_ms, disconnected=True)
        return self._after(now_ms)

    def on_metadata(self, topics: Mapping[str, TopicInfo], now_ms: int) -> list[MemberEffect]:
        """Fresh metadata of the cluster: of all topics, or of those asked for."""
        if self.is_closed:
            return []
        self._core.metadata_came(dict(topics))
        self._rebalance.metadata_came(now_ms)
        return self._after(now_ms)

    def on_listener_done(self, now_ms: int, error: BaseException | None = None) -> list[MemberEffect]:
        """The listener has returned from the last `Notify`, or thrown."""
        if self.is_closed:
            return []
        if self._listener.done(now_ms, error) and error is None and not self._core.config.is_background:
            self._move_on(now_ms)  # still inside the application's poll
        elif not self._departure.begun:
            self._core.raise_failure()
        return self._after(now_ms)

    # --- offsets ----------------------------------------------------------------------------------------------

    def set_consumed(self, positions: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """How far the application has come; auto-commit would commit this."""
        self._core.subscription.consumed(positions)

    def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        now_ms: int,
        *,
        commit_id: int = 0,
        sync: bool = False,
    ) -> list[MemberEffect]:
        """Commit these offsets; a `sync` one is tried again until default.api.timeout.ms (CL-33 … CL-38)."""
        self._must_be_open()
        self._commits.commit(offsets, now_ms, commit_id=commit_id, sync=sync)
        return self._after(now_ms)

    def fetch_committed(
        self, partitions: Iterable[TopicPartition], now_ms: int, *, fetch_id: int = 0
    ) -> list[MemberEffect]:
        """Look up what the group has committed (CL-39)."""
        self._must_be_open()
        self._committed.fetch(partitions, now_ms, fetch_id=fetch_id)
        return self._after(now_ms)

    # --- inside -----------------------------------------------------------------------------------------------

    def _after(self, now_ms: int) -> list[MemberEffect]:
        """What every input ends with."""
        if self._departure.begun:
            self._departure.advance(now_ms)
        if self._core.config.is_background and not self._departure.begun:
            self._move_on(now_ms)
        effects, self._core.effects = self._core.effects, []
        return effects

    def _move_on(self, now_ms: int) -> None:
        """Everything that only the driver may do."""
        if not self._departure.begun and not self._core.halted:
            self._rebalance.advance(now_ms)
            if not self._core.raise_failure() and not self._listener.busy and not self._rebalance.needed:
                self._commits.auto_commit_if_due(now_ms)

    def _auto_commit_due_ms(self) -> int | None:
        idle = self._core.subscription.mode is SubscriptionType.NONE or self._listener.busy or self._rebalance.needed
        return None if idle else self._commits.auto_due_ms

    def _metadata_due_ms(self) -> int | None:
        asked_ms = self._core.metadata_asked_ms
        return None if asked_ms is None else asked_ms + self._core.config.request_timeout_ms

    def _take(self, pending: PendingRequest, response: MemberResponse, now_ms: int) -> None:
        match pending.request, response:
            case FindCoordinator(), FindCoordinatorResponse():
                if self._core.coordinator_answered(response, now_ms):
                    self._commits.coordinator_found(now_ms)
                    self._committed.tick(now_ms)
                else:
                    self._commits.lookup_failed(now_ms)
            case JoinGroup(), JoinGroupResponse():
                self._rebalance.join_answered(pending, response, now_ms)
            case SyncGroup(), SyncGroupResponse():
                self._rebalance.sync_answered(pending, response, now_ms)
            case Heartbeat(), HeartbeatResponse():
                self._liveness.answered(pending, response, now_ms)
            case OffsetCommit(), OffsetCommitResponse():
                self._commits.answered(pending, response, now_ms)
            case OffsetFetch(), OffsetFetchResponse():
                self._committed.answered(pending, response, now_ms)
            case LeaveGroup(), LeaveGroupResponse():
                pass  # CL-32: whatever it says, there is no second try
            case _:
                # An answer of another kind than the request: whoever sent it lost count, and so no answer of that
                # connection can be trusted.
                self._unanswered(pending, now_ms)

    def _unanswered(self, pending: PendingRequest, now_ms: int) -> None:
        match pending.request:
            case FindCoordinator():
                self._core.lookup_failed(now_ms)
                self._commits.lookup_failed(now_ms)
            case JoinGroup():
                self._rebalance.join_unanswered(now_ms)
            case SyncGroup():
                self._rebalance.sync_unanswered(now_ms)
            case Heartbeat():
                self._liveness.unanswered(now_ms)
            case OffsetCommit():
                self._commits.unanswered(pending, now_ms)
            case OffsetFetch():
                self._committed.unanswered(pending, now_ms)
            case LeaveGroup():
                self._core.lose_coordinator("null", now_ms, disconnected=True)
            case other:
                assert_never(other)

    def _must_be_open(self) -> None:
        if self._departure.closing and not self._listener.busy:  # a listener may still commit what it gives up
            raise UsageError("this consumer has already been closed; make a new one.")

    def _must_stay(self) -> None:
        self._must_be_open()
        if self._departure.begun:
            raise UsageError(
                "this consumer is still leaving its group; call listener_done before changing what it wants."
            )
