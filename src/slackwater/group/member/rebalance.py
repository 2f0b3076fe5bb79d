"""One rebalance after another: prepare, join, sync, complete.

Rules kept here
- `advance` does everything that may run the application's code or send JoinGroup, and stops wherever it has to wait.
  The machine calls it inside the application's poll (POLL), or after every input (BACKGROUND). Answers are taken
  whenever they arrive: JoinGroup's is followed by SyncGroup at once, SyncGroup's is kept until `advance`.
- An assignment that could not be completed, because a listener threw or was interrupted, is completed again at the
  next `advance` (CL-17).
- What is owned changes after the listener was told of a loss, and before it is told of a gain.
- Partitions in use (`held`, BACKGROUND only): a cooperative member that is to lose one keeps it, claims it in every
  JoinGroup, so that the assignor withholds it from its new owner, and gives it up when it is released; nobody waits.
  Where partitions must go before joining, the group does wait (`preparation.py`).
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
from slackwater.group.member.core import MAX_REASON_CHARS, MemberContext, MemberGeneration, PendingRequest
from slackwater.group.member.effects import Callback
from slackwater.group.member.error_causes import join_cause, refusal, sync_cause
from slackwater.group.member.errors import Wakeup, java_message, java_name
from slackwater.group.member.join_preparation import JoinPreparation, raise_listener
from slackwater.group.member.leader import MetadataSnapshot, assign, read_members, snapshot
from slackwater.group.member.listener import ListenerNotifier
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

Taken = frozenset[TopicPartition]


class RebalanceSequence:
    """The member's side of rebalances."""

    def __init__(self, core: MemberContext, commits: CommitManager, listener: ListenerNotifier) -> None:
        self._core = core
        self._commits = commits
        self._listener = listener
        self._preparation = JoinPreparation(core, commits, listener)
        self._cooperative = core.config.protocol is RebalanceProtocol.COOPERATIVE
        self._joining = False  # from JoinGroup until its assignment is completed, or it failed
        self._assignment: bytes | None = None  # SyncGroup's answer, to be completed
        self._elected: JoinGroupResponse | None = None  # leading, but metadata of the group's topics is missing
        self._failures = 0
        self._retry_due_ms = 0
        self._matched = False  # the pattern was matched against fresh metadata for this rebalance (CL-28)
        self._is_leader = False
        self._joined_topics: frozenset[str] | None = None
        self._snapshot = MetadataSnapshot(())
        self._assigned_from: MetadataSnapshot | None = None
        self._led_generation_id = NO_GENERATION
        self._last_assigned: tuple[TopicPartition, ...] | None = None
        self._last_generation_id = NO_GENERATION
        self._first_error: BaseException | None = None
        self._missed = False  # a generation passed without this member

    # --- whether ----------------------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        """Whether this member made the assignment it lives by, and so watches the metadata behind it (CL-26)."""
        return self._is_leader

    @property
    def needed(self) -> bool:
        """Whether a rebalance is wanted or under way."""
        if not self._core.subscription.managed:
            return False
        return self._core.rejoin_needed or self._joining or self._metadata_changed() or self._subscription_changed()

    def _metadata_changed(self) -> bool:
        return self._assigned_from is not None and self._assigned_from != self._snapshot

    def _subscription_changed(self) -> bool:
        return self._joined_topics is not None and self._joined_topics != self._core.subscription.topics

    def _ask_if_changed(self, now_ms: int) -> None:
        core = self._core
        if core.rejoin_needed:
            return
        if self._metadata_changed():  # CL-26
            before, after = self._assigned_from, self._snapshot
            full = f"cached metadata has changed from {before} at the beginning of the rebalance to {after}"
            trigger = self._why_metadata_changed(before)
            core.request_rejoin("cached metadata has changed", now_ms, full_reason=full, trigger=trigger)
        elif self._subscription_changed():  # CL-27
            before_topics, after_topics = sorted(self._joined_topics or ()), sorted(core.subscription.topics)
            full = (
                f"subscription has changed from [{', '.join(before_topics)}] at the beginning of the rebalance to "
                f"[{', '.join(after_topics)}]"
            )
            trigger = self._why_topics_changed(self._joined_topics or frozenset())
            core.request_rejoin("subscription has changed", now_ms, full_reason=full, trigger=trigger)

    def _why_metadata_changed(self, before: MetadataSnapshot | None) -> Trigger:
        """What the leader sees: a topic of its pattern that came or went, another one that went, or partitions."""
        topics = before.names if before is not None else frozenset()
        if self._subscription_changed():
            return self._why_topics_changed(self._joined_topics or frozenset())
        return Trigger.TOPIC_DELETED if topics - self._snapshot.names else Trigger.PARTITIONS_ADDED

    def _why_topics_changed(self, before: frozenset[str]) -> Trigger:
        """A pattern's topics change because topics come and go, others because the application wants others."""
        if self._core.subscription.mode is not SubscriptionType.PATTERN:
            return Trigger.SUBSCRIPTION_CHANGE
        return Trigger.PATTERN_MATCHED if self._core.subscription.topics - before else Trigger.TOPIC_DELETED

    def _released(self) -> Taken:
        """What was taken away, was held, and is held no longer."""
        idle = not self._joining and not self._preparation.running and self._core.state is MemberState.STABLE
        subscription = self._core.subscription
        return subscription.leaving - subscription.held if idle else frozenset()

    def due_ms(self) -> int | None:
        """When `advance` has something to do; 0 means at once, None that only an answer can help."""
        core = self._core
        if not core.subscription.managed or self._listener.busy or core.halted:
            return None
        if self._released():
            return 0
        if not self.needed:
            return None
        if core.coordinator is None:
            return core.lookup_due_ms
        if self._must_match():
            return 0 if core.metadata_asked_ms is None else None
        if self._preparation.running:
            return self._preparation.due_ms()
        if core.needs_join_prepare or self._assignment is not None:
            return 0
        return None if self._joining else self._retry_due_ms

    # --- on and on --------------------------------------------------------------------------------------------

    def advance(self, now_ms: int) -> None:
        """Go on until there is something to wait for: an answer, a listener, a timer."""
        core = self._core
        while core.subscription.managed and not self._listener.busy and not core.halted and core.failure is None:
            self._ask_if_changed(now_ms)
            if released := self._released():
                self._listener.tell(Callback.REVOKED, released, now_ms, self._after_release)
            elif not self.needed or not core.find_coordinator(now_ms):
                return
            elif self._must_match():
                if core.metadata_asked_ms is None:
                    core.refresh_metadata(now_ms)
                return
            elif self._preparation.running:
                if not self._preparation.advance(now_ms):
                    return
            elif core.needs_join_prepare:
                self._preparation.start(now_ms)
                self._is_leader = False
            elif self._assignment is not None:
                self._complete(self._assignment, now_ms)
            else:
                if not self._joining and now_ms >= self._retry_due_ms:
                    self._join(now_ms)
                return

    def _must_match(self) -> bool:
        """CL-28: a pattern is matched against fresh metadata before every rebalance, so that a new topic seen by all
        members at different times does not cost as many rebalances."""
        return self._core.subscription.mode is SubscriptionType.PATTERN and not self._matched and not self._joining

    def metadata_came(self, now_ms: int) -> None:
        """Compare what an assignment was made from with what there is now; assign, if that is all that was missing."""
        self._matched = True
        self._look()
        if (response := self._elected) is not None:
            self._elected = None
            if self._core.state is MemberState.COMPLETING_REBALANCE:
                self._lead(response, now_ms)
            else:
                self._failed(Error.ILLEGAL_GENERATION, now_ms)

    def _look(self) -> None:
        subscription = self._core.subscription
        topics = subscription.topics | subscription.group_topics
        self._snapshot = snapshot(self._core.cluster, topics, self._core.config.client_rack)

    def abandon(self) -> None:
        """The member leaves: nothing is prepared any longer. An answer still under way fails when it comes."""
        self._preparation.stop()

    # --- join -------------------------------------------------------------------------------------------------

    def _join(self, now_ms: int) -> None:
        core = self._core
        config = core.config
        core.step(MemberInput.JOIN_DUE)
        core.metrics.rebalance_started(now_ms)
        self._joining = True
        self._joined_topics = core.subscription.topics
        request = JoinGroup(
            group_id=config.group_id,
            member_id=core.generation.member_id,
            group_instance_id=config.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=tuple(JoinProtocol(assignor.name, self._subscription(assignor)) for assignor in config.assignors),
            session_timeout_ms=config.session_timeout_ms,
            rebalance_timeout_ms=config.join_rebalance_timeout_ms,
            client_id=config.client_id,
            reason=core.rejoin_reason[:MAX_REASON_CHARS],  # CL-41
        )
        core.send(request, now_ms, timeout_ms=config.join_request_timeout_ms)

    def _subscription(self, assignor: Assignor) -> bytes:
        subscription = self._core.subscription
        return encode_subscription(
            Subscription(
                topics=tuple(sorted(subscription.topics)),
                user_data=assignor.user_data(self._last_assigned, self._last_generation_id),
                owned_partitions=tuple(sorted(subscription.owned)),
                generation_id=self._core.generation.generation_id,
                rack_id=self._core.config.client_rack,
            )
        )

    def join_answered(self, pending: PendingRequest, response: JoinGroupResponse, now_ms: int) -> None:
        """JoinGroup was answered (CL-12, CL-13)."""
        core = self._core
        error = response.error
        if error is Error.NONE and response.protocol_type not in (None, PROTOCOL_TYPE):
            error = Error.INCONSISTENT_GROUP_PROTOCOL
        if error is Error.NONE:
            core.metrics.join.record(now_ms - pending.sent_ms, now_ms)
        match core.step(join_cause(error, stale=core.stale(pending))):
            case MemberAction.SEND_SYNC:
                # A static member may miss a whole generation and stay a member (JG-29); what it owned may have been
                # somebody else's in it, because its old subscription, which is all the leader had, claimed less.
                before = core.generation.generation_id
                self._missed |= before != NO_GENERATION and response.generation_id > before + 1
                core.generation = MemberGeneration(response.generation_id, response.member_id, response.protocol_name)
                core.timers.reset(now_ms)
                if response.leader == response.member_id:
                    self._lead(response, now_ms)
                else:
                    self._sync((), now_ms)
            case MemberAction.TAKE_ID:
                core.generation = MemberGeneration(member_id=response.member_id)
                self._failed(None, now_ms)
                core.request_rejoin(f"need to re-join with the given member-id: {response.member_id}", now_ms)
            case MemberAction.RESET_ID:
                core.reset(f"encountered {error.name} from JOIN_GROUP response", now_ms, member_id=True)
                self._failed(error, now_ms)
            case MemberAction.REDISCOVER:
                core.lose_coordinator(f"error response {error.name}", now_ms)
                self._failed(error, now_ms, later=True, trigger=Trigger.COORDINATOR_FAILOVER)
            case MemberAction.REJOIN_LATER:
                self._failed(_UNJOINED if error is Error.NONE else error, now_ms, later=True)
            case MemberAction.FAIL:
                self._failed(error, now_ms)
                core.fail(refusal("JoinGroup", error, core.config, core.generation.member_id))
            case _:
                self._failed(error, now_ms)

    def join_unanswered(self, now_ms: int) -> None:
        """JoinGroup got no answer; the member id is kept (CL-18)."""
        self._unanswered(MemberInput.JOIN_DISCONNECTED, now_ms)

    # --- lead -------------------------------------------------------------------------------------------------

    def _lead(self, response: JoinGroupResponse, now_ms: int) -> None:
        """Assign, and remember from what; metadata of topics that only others want is fetched first (CL-26)."""
        core = self._core
        try:
            assignor = self._chosen(response.protocol_name)
            members = read_members(response.members)
            topics = {topic for member in members.values() for topic in member.subscription.topics}
            first_time = core.subscription.group_topics != topics
            core.subscription.group_topics = frozenset(topics)
            if first_time and not topics <= core.known_topics:
                self._elected = response
                core.refresh_metadata(now_ms)
                return
            assignments: dict[str, bytes] = {}
            if not response.skip_assignment:  # CL-30
                assignments, watched = assign(assignor, core.config.protocol, core.cluster, members)
                core.subscription.group_topics = watched
        except SlackwaterError as error:
            self._failed((type(error).__name__, str(error)), now_ms)
            core.fail(error)
            return
        self._is_leader = True
        self._look()
        # CL-30: a leader told to skip lives by an assignment made earlier. Where this very process made it, it still
        # knows from what: partitions added since it fell out of the group are missing in it. The Java client takes
        # today's metadata for that of the assignment, and nobody gets those partitions until something else happens.
        if not (response.skip_assignment and self._led_generation_id == response.generation_id):
            self._assigned_from = self._snapshot
            self._led_generation_id = response.generation_id
        self._sync(tuple(assignments.items()), now_ms)

    def _chosen(self, protocol_name: str | None) -> Assignor:
        assignor = self._core.config.assignor(protocol_name)
        if assignor is None:
            offered = ", ".join(one.name for one in self._core.config.assignors)
            raise PeerError(
                f"Coordinator selected invalid assignment protocol: {protocol_name}; this member offered {offered}."
            )
        return assignor

    # --- sync -------------------------------------------------------------------------------------------------

    def _sync(self, assignments: tuple[tuple[str, bytes], ...], now_ms: int) -> None:
        core = self._core
        if core.coordinator is None:
            self._failed(Error.COORDINATOR_NOT_AVAILABLE, now_ms, later=True, trigger=Trigger.COORDINATOR_FAILOVER)
            return
        generation_id, member_id, protocol_name = core.generation
        request = SyncGroup(
            group_id=core.config.group_id,
            member_id=member_id,
            group_instance_id=core.config.group_instance_id,
            generation_id=generation_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=protocol_name,
            assignments=assignments,
            requires_protocol=True,
        )
        core.send(request, now_ms)

    def sync_answered(self, pending: PendingRequest, response: SyncGroupResponse, now_ms: int) -> None:
        """SyncGroup was answered (CL-14, CL-15)."""
        core = self._core
        error = response.error
        if error is Error.NONE:
            core.metrics.sync.record(now_ms - pending.sent_ms, now_ms)
            named = core.generation.protocol_name if core.state is MemberState.COMPLETING_REBALANCE else None
            other_name = named is not None and response.protocol_name not in (None, named)
            if response.protocol_type not in (None, PROTOCOL_TYPE) or other_name:
                error = Error.INCONSISTENT_GROUP_PROTOCOL
        match core.step(sync_cause(error, stale=core.stale(pending))):
            case MemberAction.ACCEPT:
                core.rejoin_needed = False
                core.rejoin_reason = ""
                core.metrics.rebalance_succeeded(now_ms)
                self._failures = 0
                self._assignment = response.assignment
            case MemberAction.RESET_ID:
                core.reset(f"encountered {error.name} from SYNC_GROUP response", now_ms, member_id=True)
                self._failed(error, now_ms)
            case MemberAction.RESET_GENERATION:
                core.reset(f"encountered {error.name} from SYNC_GROUP response", now_ms, member_id=False)
                self._failed(error, now_ms)
            case MemberAction.REDISCOVER:
                core.lose_coordinator(f"error response {error.name}", now_ms)
                self._failed(error, now_ms, later=True, trigger=Trigger.COORDINATOR_FAILOVER)
            case MemberAction.FAIL:
                self._failed(error, now_ms)
                core.fail(refusal("SyncGroup", error, core.config, core.generation.member_id))
            case _:
                # CL-15: the heartbeat's side cleared the generation; rejoin at once.
                self._failed(Error.ILLEGAL_GENERATION if error is Error.NONE else error, now_ms)

    def sync_unanswered(self, now_ms: int) -> None:
        """SyncGroup got no answer; the member id is kept (CL-18)."""
        self._unanswered(MemberInput.SYNC_DISCONNECTED, now_ms)

    def _unanswered(self, cause: MemberInput, now_ms: int) -> None:
        self._core.step(cause)
        self._core.lose_coordinator("null", now_ms, disconnected=True)
        self._failed(Error.NETWORK_EXCEPTION, now_ms, later=True, trigger=Trigger.COORDINATOR_FAILOVER)

    def _failed(
        self,
        error: Error | tuple[str, str] | None,
        now_ms: int,
        *,
        later: bool = False,
        trigger: Trigger | None = None,
    ) -> None:
        """This JoinGroup, or its SyncGroup, came to nothing: the next one at once, or after a backoff."""
        core = self._core
        self._forget_join()
        core.metrics.failed_rebalance.record(1, now_ms)
        if error is not None:
            name, said = (java_name(error), java_message(error)) if isinstance(error, Error) else error
            full = f"rebalance failed due to '{said}' ({name})"
            core.request_rejoin(f"rebalance failed due to {name}", now_ms, full_reason=full, trigger=trigger)
        self._retry_due_ms = now_ms
        if later:
            self._retry_due_ms += core.backoff_ms(self._failures)
            self._failures += 1

    def _forget_join(self) -> None:
        self._joining = False
        self._assignment = None
        self._elected = None

    # --- complete ---------------------------------------------------------------------------------------------

    def _complete(self, data: bytes, now_ms: int) -> None:
        """Take what the leader gave."""
        core = self._core
        if core.generation.is_reset or core.state is not MemberState.STABLE:
            generation, state = core.generation, core.state
            core.step(MemberInput.GENERATION_MODIFIED)
            reason = (
                "rebalance failed since the generation/state was modified by heartbeat thread to "
                f"{generation.describe()}/{state.name} before the rebalance callback triggered"
            )
            core.reset(reason, now_ms, member_id=True)
            self._forget_join()
            return
        try:
            self._chosen(core.generation.protocol_name)
            assigned = frozenset(decode_assignment(data).partitions)
        except MalformedMetadata as error:
            core.fail(PeerError(f"SyncGroup answered bytes that are no assignment ({error}); the leader sent them."))
            return
        except PeerError as error:
            core.fail(error)
            return
        if not self._is_leader:
            self._assigned_from = None
            self._led_generation_id = NO_GENERATION
        subscription = core.subscription
        if not subscription.wants(assigned):  # CL-24
            full = (
                f"received assignment [{', '.join(map(str, sorted(assigned)))}] does not match the current "
                f"subscription [{', '.join(sorted(subscription.topics))}]; it is likely that the subscription has "
                "changed since we joined the group, will re-join with current subscription"
            )
            core.request_rejoin("received assignment does not match the current subscription", now_ms, full_reason=full)
            self._completed()
            return
        if self._missed and self._cooperative and core.config.group_instance_id is not None and subscription.owned:
            # Java revokes here, and a commit inside the listener, with the new generation, takes back what the owner
            # in between has committed. What cannot be told from lost is lost.
            self._listener.tell(Callback.LOST, subscription.owned, now_ms, partial(self._after_missed, assigned))
            return
        taken = subscription.owned - assigned if self._cooperative else frozenset()
        kept = taken & subscription.held if core.config.is_background else frozenset()
        self._first_error = None
        if revoked := taken - kept:  # CL-23
            self._listener.tell(Callback.REVOKED, revoked, now_ms, partial(self._after_revoke, assigned, kept))
        else:
            self._assign(assigned, kept, now_ms)

    def _after_missed(self, assigned: Taken, lost: Taken, error: BaseException | None, now_ms: int) -> None:
        if isinstance(error, Wakeup):
            return  # CL-17
        self._first_error = error
        self._missed = False
        self._core.subscription.take(lost)
        self._assign(assigned, frozenset(), now_ms)

    def _after_revoke(
        self, assigned: Taken, kept: Taken, revoked: Taken, error: BaseException | None, now_ms: int
    ) -> None:
        if isinstance(error, Wakeup):
            return  # CL-17: nothing has changed yet; completed anew at the next advance
        self._first_error = error
        self._core.subscription.take(revoked)
        self._ask_followup(revoked, now_ms)
        self._assign(assigned, kept, now_ms)

    def _ask_followup(self, revoked: Taken, now_ms: int) -> None:
        partitions = ", ".join(map(str, sorted(revoked)))
        full = f"need to revoke partitions [{partitions}] as indicated by the current assignment and re-join"
        self._core.request_rejoin(NEED_TO_REVOKE, now_ms, full_reason=full, trigger=Trigger.COOPERATIVE_FOLLOWUP)

    def _assign(self, assigned: Taken, kept: Taken, now_ms: int) -> None:
        subscription = self._core.subscription
        joined = self._joined_topics or frozenset()
        if subscription.mode is SubscriptionType.PATTERN and (seen := {tp.topic for tp in assigned} - joined):  # CL-28
            subscription.adopt(seen)
            self._joined_topics = joined | seen
        self._last_assigned = tuple(sorted(assigned))
        self._last_generation_id = self._core.generation.generation_id
        self._commits.restart_interval(now_ms)
        added = assigned - subscription.owned
        subscription.give(added)
        subscription.leaving = kept
        self._listener.tell(Callback.ASSIGNED, added, now_ms, self._after_assign)

    def _after_assign(self, added: Taken, error: BaseException | None, now_ms: int) -> None:
        if isinstance(error, Wakeup):
            return  # CL-17
        first = self._first_error or error
        self._first_error = None
        if first is None:
            self._completed()
        else:
            raise_listener(self._core, first)  # CL-31; the assignment stays, and is completed again

    def _completed(self) -> None:
        self._forget_join()
        self._missed = False
        self._matched = False
        self._core.needs_join_prepare = True

    def _after_release(self, released: Taken, error: BaseException | None, now_ms: int) -> None:
        self._core.subscription.take(released)
        self._ask_followup(released, now_ms)
        raise_listener(self._core, error)
