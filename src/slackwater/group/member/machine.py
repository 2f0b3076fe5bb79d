"""A member of a consumer group: the client side of classic groups (CL-01 … CL-41), without I/O.

Invariants:
- One call takes one input and the time and returns an ordered list of effects (`effects.py`). Nothing here has a clock,
  a thread or a random number, and nothing calls the application.
- No response makes a call raise: a fatal response becomes a `Raise` effect, an unexpected response is ignored. Only
  incorrect calls raise, with `UsageError`.
- With RebalanceDriver.POLL, only `poll` and the `on_listener_done` that belongs to it send JoinGroup and
  `NotifyListener`. Responses are processed on arrival; their consequences wait for the next `poll`. A shell therefore
  calls `poll` in a loop until its own timeout, and waits in between for a response or for `next_poll_ms`. `tick` sends
  heartbeats, checks the poll timer and retries commits; a second thread may call it at `next_due_ms`.
- With RebalanceDriver.BACKGROUND every input advances the rebalance, and `tick` at `next_due_ms` is enough; `poll` only
  updates the metrics.

    shell                         machine
    poll(now)              ->     [Send FindCoordinator]
    on_response(1, …)      ->     [PublishEvent coordinator_found]
    poll(now)              ->     [Send JoinGroup]
    on_response(2, …)      ->     [Send SyncGroup]
    on_response(3, …)      ->     []                              STABLE
    poll(now)              ->     [NotifyListener ASSIGNED]
    on_listener_done(now)  ->     [PublishEvent partitions_assigned]
    tick(now)              ->     [Send Heartbeat]
"""

from collections.abc import Iterable, Mapping
from typing import Final, assert_never

from slackwater.group.assignors.assignor import RebalanceProtocol, TopicInfo
from slackwater.group.errors import AuthorizationError, UsageError
from slackwater.group.events import EventKind, PollOverrun, Trigger
from slackwater.group.member.commits import CommitManager
from slackwater.group.member.committed_offsets import CommittedOffsetFetcher
from slackwater.group.member.config import MemberConfig
from slackwater.group.member.context import UNAVAILABLE, MemberContext, MemberGeneration, PendingRequest
from slackwater.group.member.effects import CoordinatorNode, MemberEffect, MemberResponse
from slackwater.group.member.heartbeat_loop import POLL_TIMEOUT_EXPIRED, HeartbeatLoop
from slackwater.group.member.heartbeat_timers import NEVER_SENT
from slackwater.group.member.leave_sequence import LeaveSequence
from slackwater.group.member.listener import ListenerNotifier
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
    "With partition.assignment.strategy = {names} this member rebalances eagerly: before every rebalance it revokes "
    "all its partitions, and the whole group waits up to {seconds:g} s for the work in progress on them. After that "
    "they are revoked anyway and the work may be done twice. Use cooperative-sticky alone to avoid the pause."
)


class GroupMember:
    """One member; the module docstring describes the order of calls."""

    def __init__(self, config: MemberConfig) -> None:
        self._context = MemberContext(config)
        self._context.on_failure = self._on_no_response
        self._listener = ListenerNotifier(self._context)
        self._heartbeats = HeartbeatLoop(self._context)
        self._commits = CommitManager(self._context)
        self._committed = CommittedOffsetFetcher(self._context)
        self._rebalance = RebalanceSequence(self._context, self._commits, self._listener)
        self._leave_sequence = LeaveSequence(
            self._context, self._commits, self._committed, self._rebalance, self._listener
        )

    # --- reads ------------------------------------------------------------------------------------------------

    @property
    def config(self) -> MemberConfig:
        """The settings."""
        return self._context.config

    @property
    def state(self) -> MemberState:
        """The member's state."""
        return self._context.state

    @property
    def generation_id(self) -> int:
        """The generation id, -1 if there is none."""
        return self._context.generation.generation_id

    @property
    def member_id(self) -> str:
        """The member id from the coordinator, "" if there is none."""
        return self._context.generation.member_id

    @property
    def commit_generation(self) -> MemberGeneration:
        """The generation to commit with; after a loss the lost one, so that the coordinator rejects the commit."""
        current, last = self._context.generation, self._rebalance.last_generation
        return last if current.is_lost and not last.is_lost else current

    @property
    def protocol_name(self) -> str | None:
        """The assignor that the group selected."""
        return self._context.generation.protocol_name

    @property
    def coordinator(self) -> CoordinatorNode | None:
        """The group's coordinator, if known; its `connection_id` names a separate connection (CL-40)."""
        return self._context.coordinator

    @property
    def is_leader(self) -> bool:
        """Whether this member computed the current assignment."""
        return self._rebalance.is_leader

    @property
    def subscription(self) -> frozenset[str]:
        """The subscribed topics; for a pattern, the matching topics."""
        return self._context.subscription.topics

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """The partitions of this member, assigned by the group or by `assign`."""
        return self._context.subscription.owned

    @property
    def fetchable(self) -> frozenset[TopicPartition]:
        """The partitions to fetch: owned, and not about to leave (CL-20)."""
        return self._context.subscription.fetchable

    @property
    def pending_revocation(self) -> frozenset[TopicPartition]:
        """BACKGROUND: partitions that were revoked and stay only because they are held."""
        return self._context.subscription.pending_revocation

    @property
    def needs_rejoin(self) -> bool:
        """Whether a rebalance is needed or in progress."""
        return self._rebalance.is_needed

    @property
    def is_notifying_listener(self) -> bool:
        """Whether a `NotifyListener` waits for its `on_listener_done`."""
        return self._listener.is_busy

    @property
    def is_closed(self) -> bool:
        """Whether `close` is complete: no further effect follows."""
        return self._leave_sequence.is_closed

    @property
    def metadata_topics(self) -> frozenset[str] | None:
        """The topics whose metadata to refresh periodically; None means all."""
        return self._context.metadata_topics

    @property
    def eager_background_warning(self) -> str | None:
        """A warning to log once if this background member rebalances eagerly, else None."""
        config = self._context.config
        if config.is_background and config.protocol is RebalanceProtocol.EAGER:
            names = ", ".join(assignor.name for assignor in config.assignors)
            return EAGER_IN_BACKGROUND.format(names=names, seconds=config.release_wait_ms / 1_000)
        return None

    def next_due_ms(self) -> int | None:
        """When to call `tick` next: 0 means at once, None that no timer runs."""
        if self.is_closed:
            return None
        dues = [
            self._leave_sequence.due_ms(),
            self._commits.due_ms(),
            self._committed.due_ms(),
            self._metadata_due_ms(),
        ]
        if not self._context.is_halted:
            dues.append(self._heartbeats.due_ms())
            if self._context.config.is_background and not self._leave_sequence.has_begun:
                dues += [self._rebalance.due_ms(), self._auto_commit_due_ms()]
        return min((due for due in dues if due is not None), default=None)

    def next_poll_ms(self) -> int | None:
        """POLL: when another `poll` makes progress: 0 means at once, None that only a response can."""
        if self._leave_sequence.has_begun:
            return None
        if self._context.failure is not None:
            return 0
        dues = (self._rebalance.due_ms(), self._auto_commit_due_ms())
        return min((due for due in dues if due is not None), default=None)

    def metrics(self, now_ms: int) -> Mapping[str, float]:
        """Every metric under Kafka's name; `METRIC_GROUPS` maps names to groups."""
        sent_ms = self._context.timers.last_sent_ms
        return self._context.metrics.read(
            now_ms,
            assigned_partitions=len(self.owned),
            last_heartbeat_ms=None if sent_ms == NEVER_SENT else sent_ms,
        )

    def take_authorization_error(self) -> AuthorizationError | None:
        """Return and forget an error of authorization, for a call that waits for the coordinator outside of a poll."""
        return self._context.take_authorization_error()

    # --- subscription ------------------------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str], now_ms: int) -> list[MemberEffect]:
        """Replace the subscription with these topics; an empty list unsubscribes."""
        self._check_not_leaving()
        requested = frozenset(topics)
        if not requested:
            return self.unsubscribe(now_ms)
        self._context.subscription.subscribe(requested)
        self._context.is_halted = False
        self._context.refresh_metadata(now_ms)
        return self._finish_input(now_ms)

    def subscribe_pattern(self, pattern: str, now_ms: int) -> list[MemberEffect]:
        """Subscribe to every topic whose whole name matches the regular expression."""
        self._check_not_leaving()
        self._context.subscription.subscribe_pattern(pattern, self._context.cluster)
        self._context.is_halted = False
        self._context.refresh_metadata(now_ms)
        return self._finish_input(now_ms)

    def unsubscribe(self, now_ms: int) -> list[MemberEffect]:
        """Leave the group; the listener is called with the revoked partitions."""
        self._check_not_leaving()
        self._leave_sequence.unsubscribe(now_ms)
        return self._finish_input(now_ms)

    def leave_on_poll_timeout(self, over_ms: int, now_ms: int) -> list[MemberEffect]:
        """Leave the group until `subscribe`, as after a poll timeout; for shells that run the poll timer."""
        self._check_not_leaving()
        overrun = PollOverrun(self._context.config.max_poll_interval_ms, over_ms)
        self._context.emit(EventKind.POLL_OVERRUN, now_ms, overrun, Trigger.POLL_TIMEOUT)
        self._leave_sequence.unsubscribe(now_ms, POLL_TIMEOUT_EXPIRED)
        return self._finish_input(now_ms)

    def assign(self, partitions: Iterable[TopicPartition], now_ms: int) -> list[MemberEffect]:
        """Take these partitions without joining the group; an empty list unsubscribes."""
        self._check_not_leaving()
        requested = frozenset(partitions)
        if not requested:
            return self.unsubscribe(now_ms)
        if self._context.subscription.type is SubscriptionType.MANUAL:
            self._commits.auto_commit_if_due(now_ms)  # no rebalance commits the dropped partitions
        self._context.subscription.assign(requested)
        self._context.refresh_metadata(now_ms)
        return self._finish_input(now_ms)

    def enforce_rebalance(self, reason: str, now_ms: int) -> list[MemberEffect]:
        """Request a rebalance although nothing changed."""
        self._check_open()
        self._context.request_rejoin(reason or ENFORCED, now_ms, trigger=Trigger.USER_ENFORCED)
        return self._finish_input(now_ms)

    def close(
        self, now_ms: int, *, timeout_ms: int = CLOSE_TIMEOUT_MS, leave_group: bool | None = None
    ) -> list[MemberEffect]:
        """Commit, call the listener, leave; execute effects and pass responses until `is_closed`.

        `leave_group=True` makes a static member leave too; `leave_group=False` leaves the member in the group until its
        session times out.
        """
        self._leave_sequence.close(now_ms, timeout_ms, leave_group)
        return self._finish_input(now_ms)

    def hold(self, partitions: Iterable[TopicPartition]) -> None:
        """BACKGROUND: mark partitions as in use, so that they are not revoked."""
        subscription = self._context.subscription
        subscription.held |= frozenset(partitions) & subscription.owned

    def release(self, partitions: Iterable[TopicPartition], now_ms: int) -> list[MemberEffect]:
        """BACKGROUND: mark partitions as no longer in use; those that must leave are revoked now."""
        self._context.subscription.held -= frozenset(partitions)
        return self._finish_input(now_ms)

    # --- polling and time -------------------------------------------------------------------------------------

    def poll(self, now_ms: int, *, is_repeated: bool = False) -> list[MemberEffect]:
        """Handle a poll; `is_repeated` marks further rounds of the shell's loop inside the same poll."""
        if self.is_closed:
            return []
        if not is_repeated:
            self._context.metrics.poll_started(now_ms)
        if self._leave_sequence.has_begun or self._context.raise_failure():
            return self._finish_input(now_ms)
        self._context.timers.on_poll(now_ms)
        if not self._context.config.is_background:
            self._advance_rebalance(now_ms)
        return self._finish_input(now_ms)

    def poll_returned(self, now_ms: int) -> None:
        """Record for the metrics that the shell's poll returns to the application."""
        self._context.metrics.poll_returned(now_ms)

    def tick(self, now_ms: int) -> list[MemberEffect]:
        """Run what is due: heartbeats, timers, retries."""
        if self.is_closed:
            return []
        if not self._context.is_halted:
            self._heartbeats.tick(now_ms)
        elif self._leave_sequence.is_closing and self._commits.has_open_commits:
            self._context.find_coordinator(now_ms)  # the last commit needs the coordinator
        self._commits.tick(now_ms)
        self._committed.tick(now_ms)
        if (due_ms := self._metadata_due_ms()) is not None and now_ms >= due_ms:
            self._context.refresh_metadata(now_ms)
        return self._finish_input(now_ms)

    # --- responses ---------------------------------------------------------------------------------------------

    def on_response(self, request_id: int, response: MemberResponse, now_ms: int) -> list[MemberEffect]:
        """Handle the response to a request."""
        pending = self._context.requests.pop(request_id, None)
        if pending is not None:
            self._dispatch_response(pending, response, now_ms)
        return self._finish_input(now_ms)

    def on_request_failed(self, request_id: int, now_ms: int) -> list[MemberEffect]:
        """Handle a request without a response: disconnected, or timed out."""
        pending = self._context.requests.pop(request_id, None)
        if pending is not None:
            self._on_no_response(pending, now_ms)
        return self._finish_input(now_ms)

    def on_disconnected(self, node: CoordinatorNode, now_ms: int) -> list[MemberEffect]:
        """Handle the loss of the connection to the coordinator: look it up again, as the Java client does.

        The coordinator may have moved; the other brokers know its new address first.
        """
        if not self.is_closed and self._context.coordinator == node:
            self._context.lose_coordinator(UNAVAILABLE, now_ms, disconnected=True)
        return self._finish_input(now_ms)

    def on_metadata(self, topics: Mapping[str, TopicInfo], now_ms: int) -> list[MemberEffect]:
        """Handle new cluster metadata: of all topics, or of those requested."""
        if self.is_closed:
            return []
        self._context.on_metadata(dict(topics))
        self._rebalance.on_metadata(now_ms)
        return self._finish_input(now_ms)

    def on_listener_done(self, now_ms: int, error: BaseException | None = None) -> list[MemberEffect]:
        """Handle the return, or the exception, of the listener for the last `NotifyListener`."""
        if self.is_closed:
            return []
        if self._listener.on_done(now_ms, error) and error is None and not self._context.config.is_background:
            self._advance_rebalance(now_ms)  # still inside the application's poll
        elif not self._leave_sequence.has_begun:
            self._context.raise_failure()
        return self._finish_input(now_ms)

    # --- offsets ----------------------------------------------------------------------------------------------

    def set_consumed(self, positions: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Set the positions that auto-commit commits."""
        self._context.subscription.set_consumed(positions)

    def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        now_ms: int,
        *,
        commit_id: int = 0,
        sync: bool = False,
    ) -> list[MemberEffect]:
        """Commit these offsets; a `sync` commit is retried until default.api.timeout.ms (CL-33 … CL-38)."""
        self._check_open()
        self._commits.commit(offsets, now_ms, commit_id=commit_id, sync=sync)
        return self._finish_input(now_ms)

    def fetch_committed(
        self, partitions: Iterable[TopicPartition], now_ms: int, *, fetch_id: int = 0
    ) -> list[MemberEffect]:
        """Fetch the group's committed offsets (CL-39)."""
        self._check_open()
        self._committed.fetch(partitions, now_ms, fetch_id=fetch_id)
        return self._finish_input(now_ms)

    # --- internal ----------------------------------------------------------------------------------------------

    def _finish_input(self, now_ms: int) -> list[MemberEffect]:
        """Run the common last step of every input."""
        if self._leave_sequence.has_begun:
            self._leave_sequence.advance(now_ms)
        if self._context.config.is_background and not self._leave_sequence.has_begun:
            self._advance_rebalance(now_ms)
        effects, self._context.effects = self._context.effects, []
        return effects

    def _advance_rebalance(self, now_ms: int) -> None:
        """Run the steps that only the driver may run."""
        if not self._leave_sequence.has_begun and not self._context.is_halted:
            self._rebalance.advance(now_ms)
            if not self._context.raise_failure() and not self._listener.is_busy and not self._rebalance.is_needed:
                self._commits.auto_commit_if_due(now_ms)

    def _auto_commit_due_ms(self) -> int | None:
        idle = (
            self._context.subscription.type is SubscriptionType.NONE
            or self._listener.is_busy
            or self._rebalance.is_needed
        )
        return None if idle else self._commits.auto_due_ms

    def _metadata_due_ms(self) -> int | None:
        requested_ms = self._context.metadata_requested_ms
        return None if requested_ms is None else requested_ms + self._context.config.request_timeout_ms

    def _dispatch_response(self, pending: PendingRequest, response: MemberResponse, now_ms: int) -> None:
        match pending.request, response:
            case FindCoordinator(), FindCoordinatorResponse():
                if self._context.on_coordinator_response(response, now_ms):
                    self._commits.on_coordinator_found(now_ms)
                    self._committed.tick(now_ms)
                else:
                    self._commits.on_lookup_failed(now_ms)
            case JoinGroup(), JoinGroupResponse():
                self._rebalance.on_join_response(pending, response, now_ms)
            case SyncGroup(), SyncGroupResponse():
                self._rebalance.on_sync_response(pending, response, now_ms)
            case Heartbeat(), HeartbeatResponse():
                self._heartbeats.on_response(pending, response, now_ms)
            case OffsetCommit(), OffsetCommitResponse():
                self._commits.on_response(pending, response, now_ms)
            case OffsetFetch(), OffsetFetchResponse():
                self._committed.on_response(pending, response, now_ms)
            case LeaveGroup(), LeaveGroupResponse():
                pass  # CL-32: LeaveGroup is not retried, whatever the response
            case _:
                # The response type does not match the request: no response of this connection can be trusted.
                self._on_no_response(pending, now_ms)

    def _on_no_response(self, pending: PendingRequest, now_ms: int) -> None:
        match pending.request:
            case FindCoordinator():
                self._context.on_lookup_failed(now_ms)
                self._commits.on_lookup_failed(now_ms)
            case JoinGroup():
                self._rebalance.on_join_no_response(now_ms)
            case SyncGroup():
                self._rebalance.on_sync_no_response(now_ms)
            case Heartbeat():
                self._heartbeats.on_no_response(now_ms)
            case OffsetCommit():
                self._commits.on_no_response(pending, now_ms)
            case OffsetFetch():
                self._committed.on_no_response(pending, now_ms)
            case LeaveGroup():
                self._context.lose_coordinator("null", now_ms, disconnected=True)
            case other:
                assert_never(other)

    def _check_open(self) -> None:
        if self._leave_sequence.is_closing and not self._listener.is_busy:  # a listener may still commit
            raise UsageError("this consumer has already been closed; create a new one.")

    def _check_not_leaving(self) -> None:
        self._check_open()
        if self._leave_sequence.has_begun:
            raise UsageError(
                "this consumer is still leaving its group; call on_listener_done before changing the subscription."
            )
