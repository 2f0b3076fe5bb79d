"""The steps of a rebalance: prepare, join, sync, complete.

Invariants:
- `advance` runs every step that may call the application or send JoinGroup, and returns when a step has to wait. The
  machine calls it inside the application's poll (POLL) or after every input (BACKGROUND). Responses are processed on
  arrival: JoinGroup's is followed by SyncGroup at once, SyncGroup's is stored until `advance`.
- An assignment that was not completed, because a listener raised or was interrupted, is completed at the next `advance`
  (CL-17).
- Partitions are removed after the listener's callback, and added before it.
- Held partitions (BACKGROUND only): a cooperative member keeps a held partition that it must revoke, and lists it as
  owned in every JoinGroup, so that the assignor withholds it from its new owner. It revokes the partition when it is
  released; the group does not wait. If partitions must be revoked before joining, the group waits
  (`join_preparation.py`).
"""

from functools import partial

from slackwater.group.assignors.assignor import Assignor, RebalanceProtocol
from slackwater.group.assignors.consumer_protocol import (
    PROTOCOL_TYPE,
    MalformedMetadata,
    Subscription,
    decode_assignment,
    encode_subscription,
)
from slackwater.group.errors import Error, PeerError, SlackwaterError
from slackwater.group.events import Trigger
from slackwater.group.member.commits import CommitManager
from slackwater.group.member.context import (
    MAX_REASON_CHARS,
    NO_MEMBERSHIP,
    MemberContext,
    MemberGeneration,
    PendingRequest,
)
from slackwater.group.member.effects import Callback
from slackwater.group.member.errors import Wakeup, java_message, java_name
from slackwater.group.member.join_preparation import JoinPreparation, raise_listener_error
from slackwater.group.member.leader import MetadataSnapshot, assign, decode_subscriptions, take_snapshot
from slackwater.group.member.listener import ListenerNotifier
from slackwater.group.member.response_errors import fatal_error, join_input, sync_input
from slackwater.group.member.states import MemberAction, MemberInput, MemberState
from slackwater.group.member.subscription import SubscriptionType
from slackwater.group.messages import (
    NO_GENERATION,
    JoinGroup,
    JoinGroupResponse,
    JoinProtocol,
    SyncGroup,
    SyncGroupResponse,
)
from slackwater.group.topic_partition import TopicPartition

NEED_TO_REVOKE = "need to revoke partitions and re-join"
_UNJOINED = ("UnjoinedGroupException", "null")

PartitionSet = frozenset[TopicPartition]


class RebalanceSequence:
    """The member's side of rebalances."""

    def __init__(self, context: MemberContext, commits: CommitManager, listener: ListenerNotifier) -> None:
        self._context = context
        self._commits = commits
        self._listener = listener
        self._preparation = JoinPreparation(context, commits, listener)
        self._cooperative = context.config.protocol is RebalanceProtocol.COOPERATIVE
        self._joining = False  # from JoinGroup until the assignment is completed or the join failed
        self._assignment: bytes | None = None  # from the SyncGroup response, to be completed
        # Of a leader that needs metadata of the group's topics first.
        self._deferred_join_response: JoinGroupResponse | None = None
        self._failures = 0
        self._retry_due_ms = 0
        self._matched = False  # the pattern was matched against fresh metadata for this rebalance (CL-28)
        self._is_leader = False
        self._joined_topics: frozenset[str] | None = None
        self._snapshot = MetadataSnapshot(())
        self._assigned_from: MetadataSnapshot | None = None
        self._led_generation_id = NO_GENERATION
        self._last_assigned: tuple[TopicPartition, ...] | None = None
        self.last_generation = NO_MEMBERSHIP  # of the last assignment
        self._first_error: BaseException | None = None
        self._missed_generation = False  # the member was absent from a generation

    # --- conditions --------------------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        """Whether this member computed the current assignment, and so watches the metadata behind it (CL-26)."""
        return self._is_leader

    @property
    def is_needed(self) -> bool:
        """Whether a rebalance is needed or in progress."""
        if not self._context.subscription.is_group_managed:
            return False
        return self._context.rejoin_needed or self._joining or self._metadata_changed() or self._subscription_changed()

    def _metadata_changed(self) -> bool:
        return self._assigned_from is not None and self._assigned_from != self._snapshot

    def _subscription_changed(self) -> bool:
        return self._joined_topics is not None and self._joined_topics != self._context.subscription.topics

    def _request_rejoin_if_changed(self, now_ms: int) -> None:
        context = self._context
        if context.rejoin_needed:
            return
        if self._metadata_changed():  # CL-26
            before, after = self._assigned_from, self._snapshot
            full = f"cached metadata has changed from {before} at the beginning of the rebalance to {after}"
            trigger = self._metadata_change_trigger(before)
            context.request_rejoin("cached metadata has changed", now_ms, full_reason=full, trigger=trigger)
        elif self._subscription_changed():  # CL-27
            before_topics, after_topics = sorted(self._joined_topics or ()), sorted(context.subscription.topics)
            full = (
                f"subscription has changed from [{', '.join(before_topics)}] at the beginning of the rebalance to "
                f"[{', '.join(after_topics)}]"
            )
            trigger = self._topics_change_trigger(self._joined_topics or frozenset())
            context.request_rejoin("subscription has changed", now_ms, full_reason=full, trigger=trigger)

    def _metadata_change_trigger(self, before: MetadataSnapshot | None) -> Trigger:
        """The leader's trigger: a topic of its pattern was created or deleted, another topic was deleted, or partitions
        were added.
        """
        topics = before.names if before is not None else frozenset()
        if self._subscription_changed():
            return self._topics_change_trigger(self._joined_topics or frozenset())
        return Trigger.TOPIC_DELETED if topics - self._snapshot.names else Trigger.PARTITIONS_ADDED

    def _topics_change_trigger(self, before: frozenset[str]) -> Trigger:
        """A pattern's topics change with the cluster, other subscriptions with the application."""
        if self._context.subscription.type is not SubscriptionType.PATTERN:
            return Trigger.SUBSCRIPTION_CHANGE
        return Trigger.PATTERN_MATCHED if self._context.subscription.topics - before else Trigger.TOPIC_DELETED

    def _released(self) -> PartitionSet:
        """Revoked partitions that are no longer held."""
        idle = not self._joining and not self._preparation.is_running and self._context.state is MemberState.STABLE
        subscription = self._context.subscription
        return subscription.pending_revocation - subscription.held if idle else frozenset()

    def due_ms(self) -> int | None:
        """When `advance` has something to do; 0 means at once, None that it needs a response."""
        context = self._context
        if not context.subscription.is_group_managed or self._listener.is_busy or context.is_halted:
            return None
        if self._released():
            return 0
        if not self.is_needed:
            return None
        if context.coordinator is None:
            return context.lookup_due_ms
        if self._must_match_pattern():
            return 0 if context.metadata_requested_ms is None else None
        if self._preparation.is_running:
            return self._preparation.due_ms()
        if context.needs_join_prepare or self._assignment is not None:
            return 0
        return None if self._joining else self._retry_due_ms

    # --- advance -----------------------------------------------------------------------------------------------

    def advance(self, now_ms: int) -> None:
        """Run the steps until one waits for a response, a listener or a timer."""
        context = self._context
        while (
            context.subscription.is_group_managed
            and not self._listener.is_busy
            and not context.is_halted
            and context.failure is None
        ):
            self._request_rejoin_if_changed(now_ms)
            if released := self._released():
                self._listener.notify(Callback.REVOKED, released, now_ms, self._after_release)
            elif not self.is_needed or not context.find_coordinator(now_ms):
                return
            elif self._must_match_pattern():
                if context.metadata_requested_ms is None:
                    context.refresh_metadata(now_ms)
                return
            elif self._preparation.is_running:
                if not self._preparation.advance(now_ms):
                    return
            elif context.needs_join_prepare:
                self._preparation.start(now_ms)
                self._is_leader = False
            elif self._assignment is not None:
                self._complete(self._assignment, now_ms)
            else:
                if not self._joining and now_ms >= self._retry_due_ms:
                    self._join(now_ms)
                return

    def _must_match_pattern(self) -> bool:
        """Whether the pattern must be matched against fresh metadata before this rebalance (CL-28).

        Otherwise a new topic that the members see at different times causes one rebalance per member.
        """
        return self._context.subscription.type is SubscriptionType.PATTERN and not self._matched and not self._joining

    def on_metadata(self, now_ms: int) -> None:
        """Compare the metadata with the assignment's; assign, if only the metadata was missing."""
        self._matched = True
        self._update_snapshot()
        if (response := self._deferred_join_response) is not None:
            self._deferred_join_response = None
            if self._context.state is MemberState.COMPLETING_REBALANCE:
                self._assign_as_leader(response, now_ms)
            else:
                self._join_failed(Error.ILLEGAL_GENERATION, now_ms)

    def _update_snapshot(self) -> None:
        subscription = self._context.subscription
        topics = subscription.topics | subscription.group_topics
        self._snapshot = take_snapshot(self._context.cluster, topics, self._context.config.client_rack)

    def abandon(self) -> None:
        """Stop the preparation because the member leaves. A response in flight fails when it arrives."""
        self._preparation.stop()

    # --- join -------------------------------------------------------------------------------------------------

    def _join(self, now_ms: int) -> None:
        context = self._context
        config = context.config
        context.step(MemberInput.JOIN_DUE)
        context.metrics.rebalance_started(now_ms)
        self._joining = True
        self._joined_topics = context.subscription.topics
        request = JoinGroup(
            group_id=config.group_id,
            member_id=context.generation.member_id,
            group_instance_id=config.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=tuple(JoinProtocol(assignor.name, self._subscription(assignor)) for assignor in config.assignors),
            session_timeout_ms=config.session_timeout_ms,
            rebalance_timeout_ms=config.join_rebalance_timeout_ms,
            client_id=config.client_id,
            reason=context.rejoin_reason[:MAX_REASON_CHARS],  # CL-41
        )
        context.send(request, now_ms, timeout_ms=config.join_request_timeout_ms)

    def _subscription(self, assignor: Assignor) -> bytes:
        subscription = self._context.subscription
        return encode_subscription(
            Subscription(
                topics=tuple(sorted(subscription.topics)),
                user_data=assignor.user_data(self._last_assigned, self.last_generation.generation_id),
                owned_partitions=tuple(sorted(subscription.owned)),
                generation_id=self._context.generation.generation_id,
                rack_id=self._context.config.client_rack,
            )
        )

    def on_join_response(self, pending: PendingRequest, response: JoinGroupResponse, now_ms: int) -> None:
        """Handle the JoinGroup response (CL-12, CL-13)."""
        context = self._context
        error = response.error
        if error is Error.NONE and response.protocol_type not in (None, PROTOCOL_TYPE):
            error = Error.INCONSISTENT_GROUP_PROTOCOL
        if error is Error.NONE:
            context.metrics.join.record(now_ms - pending.sent_ms, now_ms)
        match context.step(join_input(error, is_stale=context.is_stale(pending))):
            case MemberAction.SEND_SYNC:
                # A static member may miss a whole generation and stay a member (JG-29). Another member may have owned
                # its partitions then, because the leader only had the old subscription, which listed fewer partitions.
                before = context.generation.generation_id
                self._missed_generation |= before != NO_GENERATION and response.generation_id > before + 1
                context.generation = MemberGeneration(
                    response.generation_id, response.member_id, response.protocol_name
                )
                context.timers.reset(now_ms)
                if response.leader == response.member_id:
                    self._assign_as_leader(response, now_ms)
                else:
                    self._sync((), now_ms)
            case MemberAction.KEEP_MEMBER_ID:
                context.generation = MemberGeneration(member_id=response.member_id)
                self._join_failed(None, now_ms)
                context.request_rejoin(f"need to re-join with the given member-id: {response.member_id}", now_ms)
            case MemberAction.RESET_MEMBER_ID:
                context.reset(f"encountered {error.name} from JOIN_GROUP response", now_ms, member_id=True)
                self._join_failed(error, now_ms)
            case MemberAction.FIND_COORDINATOR_AND_REJOIN:
                context.lose_coordinator(f"error response {error.name}", now_ms)
                self._join_failed(error, now_ms, later=True, trigger=Trigger.COORDINATOR_FAILOVER)
            case MemberAction.REJOIN_AFTER_BACKOFF:
                self._join_failed(_UNJOINED if error is Error.NONE else error, now_ms, later=True)
            case MemberAction.FAIL:
                self._join_failed(error, now_ms)
                context.fail(fatal_error("JoinGroup", error, context.config, context.generation.member_id))
            case _:
                self._join_failed(error, now_ms)

    def on_join_no_response(self, now_ms: int) -> None:
        """Handle a JoinGroup without a response; the member id is kept (CL-18)."""
        self._on_no_response(MemberInput.JOIN_DISCONNECTED, now_ms)

    # --- lead -------------------------------------------------------------------------------------------------

    def _assign_as_leader(self, response: JoinGroupResponse, now_ms: int) -> None:
        """Assign, and remember the metadata; metadata of other members' topics is fetched first (CL-26)."""
        context = self._context
        try:
            assignor = self._selected_assignor(response.protocol_name)
            members = decode_subscriptions(response.members)
            topics = {topic for member in members.values() for topic in member.subscription.topics}
            first_time = context.subscription.group_topics != topics
            context.subscription.group_topics = frozenset(topics)
            if first_time and not topics <= context.known_topics:
                self._deferred_join_response = response
                context.refresh_metadata(now_ms)
                return
            assignments: dict[str, bytes] = {}
            if not response.skip_assignment:  # CL-30
                assignments, watched = assign(assignor, context.config.protocol, context.cluster, members)
                context.subscription.group_topics = watched
        except SlackwaterError as error:
            self._join_failed((type(error).__name__, str(error)), now_ms)
            context.fail(error)
            return
        self._is_leader = True
        self._update_snapshot()
        # CL-30: with skip_assignment the earlier assignment stays valid. If this process computed it, keep its
        # snapshot: partitions added since then are missing in the assignment. The Java client compares with the current
        # metadata instead, and those partitions stay unassigned until the next rebalance.
        if not (response.skip_assignment and self._led_generation_id == response.generation_id):
            self._assigned_from = self._snapshot
            self._led_generation_id = response.generation_id
        self._sync(tuple(assignments.items()), now_ms)

    def _selected_assignor(self, protocol_name: str | None) -> Assignor:
        assignor = self._context.config.assignor(protocol_name)
        if assignor is None:
            offered = ", ".join(assignor_offered.name for assignor_offered in self._context.config.assignors)
            raise PeerError(
                f"Coordinator selected invalid assignment protocol: {protocol_name}; this member offered {offered}."
            )
        return assignor

    # --- sync -------------------------------------------------------------------------------------------------

    def _sync(self, assignments: tuple[tuple[str, bytes], ...], now_ms: int) -> None:
        context = self._context
        if context.coordinator is None:
            self._join_failed(Error.COORDINATOR_NOT_AVAILABLE, now_ms, later=True, trigger=Trigger.COORDINATOR_FAILOVER)
            return
        generation_id, member_id, protocol_name = context.generation
        request = SyncGroup(
            group_id=context.config.group_id,
            member_id=member_id,
            group_instance_id=context.config.group_instance_id,
            generation_id=generation_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=protocol_name,
            assignments=assignments,
            requires_protocol=True,
        )
        context.send(request, now_ms)

    def on_sync_response(self, pending: PendingRequest, response: SyncGroupResponse, now_ms: int) -> None:
        """Handle the SyncGroup response (CL-14, CL-15)."""
        context = self._context
        error = response.error
        if error is Error.NONE:
            context.metrics.sync.record(now_ms - pending.sent_ms, now_ms)
            protocol_name = (
                context.generation.protocol_name if context.state is MemberState.COMPLETING_REBALANCE else None
            )
            has_other_name = protocol_name is not None and response.protocol_name not in (None, protocol_name)
            if response.protocol_type not in (None, PROTOCOL_TYPE) or has_other_name:
                error = Error.INCONSISTENT_GROUP_PROTOCOL
        match context.step(sync_input(error, is_stale=context.is_stale(pending))):
            case MemberAction.ACCEPT:
                context.rejoin_needed = False
                context.rejoin_reason = ""
                context.metrics.rebalance_succeeded(now_ms)
                self._failures = 0
                self._assignment = response.assignment
            case MemberAction.RESET_MEMBER_ID:
                context.reset(f"encountered {error.name} from SYNC_GROUP response", now_ms, member_id=True)
                self._join_failed(error, now_ms)
            case MemberAction.RESET_GENERATION:
                context.reset(f"encountered {error.name} from SYNC_GROUP response", now_ms, member_id=False)
                self._join_failed(error, now_ms)
            case MemberAction.FIND_COORDINATOR_AND_REJOIN:
                context.lose_coordinator(f"error response {error.name}", now_ms)
                self._join_failed(error, now_ms, later=True, trigger=Trigger.COORDINATOR_FAILOVER)
            case MemberAction.FAIL:
                self._join_failed(error, now_ms)
                context.fail(fatal_error("SyncGroup", error, context.config, context.generation.member_id))
            case _:
                # CL-15: a heartbeat response reset the generation; rejoin at once.
                self._join_failed(Error.ILLEGAL_GENERATION if error is Error.NONE else error, now_ms)

    def on_sync_no_response(self, now_ms: int) -> None:
        """Handle a SyncGroup without a response; the member id is kept (CL-18)."""
        self._on_no_response(MemberInput.SYNC_DISCONNECTED, now_ms)

    def _on_no_response(self, cause: MemberInput, now_ms: int) -> None:
        self._context.step(cause)
        self._context.lose_coordinator("null", now_ms, disconnected=True)
        self._join_failed(Error.NETWORK_EXCEPTION, now_ms, later=True, trigger=Trigger.COORDINATOR_FAILOVER)

    def _join_failed(
        self,
        error: Error | tuple[str, str] | None,
        now_ms: int,
        *,
        later: bool = False,
        trigger: Trigger | None = None,
    ) -> None:
        """Schedule the next JoinGroup, at once or after a backoff."""
        context = self._context
        self._forget_join()
        context.metrics.failed_rebalance.record(1, now_ms)
        if error is not None:
            name, message = (java_name(error), java_message(error)) if isinstance(error, Error) else error
            full = f"rebalance failed due to '{message}' ({name})"
            context.request_rejoin(f"rebalance failed due to {name}", now_ms, full_reason=full, trigger=trigger)
        self._retry_due_ms = now_ms
        if later:
            self._retry_due_ms += context.backoff_ms(self._failures)
            self._failures += 1

    def _forget_join(self) -> None:
        self._joining = False
        self._assignment = None
        self._deferred_join_response = None

    # --- complete ---------------------------------------------------------------------------------------------

    def _complete(self, data: bytes, now_ms: int) -> None:
        """Apply the assignment."""
        context = self._context
        if context.generation.is_reset or context.state is not MemberState.STABLE:
            generation, state = context.generation, context.state
            context.step(MemberInput.GENERATION_MODIFIED)
            reason = (
                "rebalance failed since the generation/state was modified by heartbeat thread to "
                f"{generation.describe()}/{state.name} before the rebalance callback triggered"
            )
            context.reset(reason, now_ms, member_id=True)
            self._forget_join()
            return
        try:
            self._selected_assignor(context.generation.protocol_name)
            assigned = frozenset(decode_assignment(data).partitions)
        except MalformedMetadata as error:
            context.fail(
                PeerError(f"the SyncGroup response contains an invalid assignment ({error}); the leader sent it.")
            )
            return
        except PeerError as error:
            context.fail(error)
            return
        if not self._is_leader:
            self._assigned_from = None
            self._led_generation_id = NO_GENERATION
        subscription = context.subscription
        if not subscription.accepts(assigned):  # CL-24
            full = (
                f"received assignment [{', '.join(map(str, sorted(assigned)))}] does not match the current "
                f"subscription [{', '.join(sorted(subscription.topics))}]; it is likely that the subscription has "
                "changed since we joined the group, will re-join with current subscription"
            )
            context.request_rejoin(
                "received assignment does not match the current subscription", now_ms, full_reason=full
            )
            self._completed()
            return
        if (
            self._missed_generation
            and self._cooperative
            and context.config.group_instance_id is not None
            and subscription.owned
        ):
            # The Java client revokes here, and a commit inside the listener, with the new generation, overwrites the
            # commits of the owner in between. These partitions are treated as lost instead.
            self._listener.notify(Callback.LOST, subscription.owned, now_ms, partial(self._after_lost, assigned))
            return
        taken = subscription.owned - assigned if self._cooperative else frozenset()
        in_use = taken & subscription.held if context.config.is_background else frozenset()
        self._first_error = None
        if revoked := taken - in_use:  # CL-23
            self._listener.notify(Callback.REVOKED, revoked, now_ms, partial(self._after_revoke, assigned, in_use))
        else:
            self._assign(assigned, in_use, now_ms)

    def _after_lost(self, assigned: PartitionSet, lost: PartitionSet, error: BaseException | None, now_ms: int) -> None:
        if isinstance(error, Wakeup):
            return  # CL-17
        self._first_error = error
        self._missed_generation = False
        self._context.subscription.remove_owned(lost)
        self._assign(assigned, frozenset(), now_ms)

    def _after_revoke(
        self,
        assigned: PartitionSet,
        in_use: PartitionSet,
        revoked: PartitionSet,
        error: BaseException | None,
        now_ms: int,
    ) -> None:
        if isinstance(error, Wakeup):
            return  # CL-17: completed again at the next advance
        self._first_error = error
        self._context.subscription.remove_owned(revoked)
        self._request_followup(revoked, now_ms)
        self._assign(assigned, in_use, now_ms)

    def _request_followup(self, revoked: PartitionSet, now_ms: int) -> None:
        partitions = ", ".join(map(str, sorted(revoked)))
        full = f"need to revoke partitions [{partitions}] as indicated by the current assignment and re-join"
        self._context.request_rejoin(NEED_TO_REVOKE, now_ms, full_reason=full, trigger=Trigger.COOPERATIVE_FOLLOWUP)

    def _assign(self, assigned: PartitionSet, in_use: PartitionSet, now_ms: int) -> None:
        subscription = self._context.subscription
        joined = self._joined_topics or frozenset()
        if subscription.type is SubscriptionType.PATTERN and (
            new_topics := {tp.topic for tp in assigned} - joined
        ):  # CL-28
            subscription.add_topics(new_topics)
            self._joined_topics = joined | new_topics
        self._last_assigned = tuple(sorted(assigned))
        self.last_generation = self._context.generation
        self._commits.restart_interval(now_ms)
        added = assigned - subscription.owned
        subscription.add_owned(added)
        subscription.pending_revocation = in_use
        self._listener.notify(Callback.ASSIGNED, added, now_ms, self._after_assign)

    def _after_assign(self, added: PartitionSet, error: BaseException | None, now_ms: int) -> None:
        if isinstance(error, Wakeup):
            return  # CL-17
        first = self._first_error or error
        self._first_error = None
        if first is None:
            self._completed()
        else:
            raise_listener_error(self._context, first)  # CL-31; the assignment is completed again

    def _completed(self) -> None:
        self._forget_join()
        self._missed_generation = False
        self._matched = False
        self._context.needs_join_prepare = True

    def _after_release(self, released: PartitionSet, error: BaseException | None, now_ms: int) -> None:
        self._context.subscription.remove_owned(released)
        self._request_followup(released, now_ms)
        raise_listener_error(self._context, error)
