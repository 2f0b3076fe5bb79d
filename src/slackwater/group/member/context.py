"""The state shared by all parts of a member: its state, generation, coordinator and pending requests.

Invariants:
- Only `step` changes the state, and only as the transition table says (`states.py`).
- A response is interpreted in the generation of its request: `is_stale` compares whole generations, including id and
  protocol, as the Java client does.
- When the coordinator is lost, every request to it fails at once; late responses are ignored.
- At most one FindCoordinator is in flight; after a failure the next one waits for a backoff.
- Effects are collected in `effects` in order; the machine returns them at the end of each input.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from slackwater.group.assignors.assignor import TopicInfo
from slackwater.group.errors import AuthorizationError, BrokerError, Error, SlackwaterError
from slackwater.group.events import (
    CoordinatorChanged,
    EventDetail,
    EventKind,
    EventSource,
    GroupEvent,
    JoinRequested,
    PublishEvent,
    Trigger,
)
from slackwater.group.member.config import MemberConfig
from slackwater.group.member.effects import (
    CoordinatorNode,
    Disconnect,
    MemberEffect,
    MemberRequest,
    Raise,
    RefreshMetadata,
    Send,
)
from slackwater.group.member.heartbeat_timers import HeartbeatTimers, backoff_ms
from slackwater.group.member.metrics import MemberMetrics
from slackwater.group.member.states import MEMBER_TRANSITIONS, MemberAction, MemberInput, MemberState
from slackwater.group.member.subscription import SubscriptionState, SubscriptionType
from slackwater.group.messages import (
    NO_GENERATION,
    NO_MEMBER,
    FindCoordinator,
    FindCoordinatorResponse,
    LeaveGroup,
    LeavingMember,
)
from slackwater.group.value_class import value_class

MAX_REASON_CHARS: Final = 255
LEAVING: Final = "consumer pro-actively leaving the group"
UNAVAILABLE: Final = "coordinator unavailable"


class MemberGeneration(NamedTuple):
    """The member's generation, with the member id and the protocol that belong to it."""

    generation_id: int = NO_GENERATION
    member_id: str = NO_MEMBER
    protocol_name: str | None = None

    @property
    def is_reset(self) -> bool:
        """Whether the member has no generation; its member id may still be valid."""
        return self.generation_id == NO_GENERATION and self.protocol_name is None

    @property
    def is_lost(self) -> bool:
        """Whether the member's partitions may belong to other members now (CL-22)."""
        return self.generation_id == NO_GENERATION or self.member_id == NO_MEMBER

    def describe(self) -> str:
        """Format it as the Java client's log does."""
        protocol = "null" if self.protocol_name is None else f"'{self.protocol_name}'"
        return f"Generation{{generationId={self.generation_id}, memberId='{self.member_id}', protocol={protocol}}}"


NO_MEMBERSHIP: Final = MemberGeneration()


@value_class
class PendingRequest:
    """A request in flight."""

    request_id: int
    request: MemberRequest
    sent_ms: int
    generation: MemberGeneration
    to_coordinator: bool


class MemberContext:
    """The state and the operations that the parts of a member share; the machine sets `on_failure`, called for a
    request without a response.
    """

    def __init__(self, config: MemberConfig) -> None:
        self.config = config
        self.state = MemberState.UNJOINED
        self.generation = NO_MEMBERSHIP
        self.coordinator: CoordinatorNode | None = None
        self.subscription = SubscriptionState(exclude_internal_topics=config.exclude_internal_topics)
        self.timers = HeartbeatTimers(
            session_ms=config.session_timeout_ms,
            interval_ms=config.heartbeat_interval_ms,
            max_poll_ms=config.max_poll_interval_ms,
            backoff_ms=config.retry_backoff_ms,
            backoff_max_ms=config.retry_backoff_max_ms,
        )
        self.metrics = MemberMetrics()
        self.effects: list[MemberEffect] = []
        self.requests: dict[int, PendingRequest] = {}
        self.on_failure: Callable[[PendingRequest, int], None] = lambda pending, now_ms: None
        self.failure: SlackwaterError | None = None
        self.is_halted = False
        self.rejoin_needed = True
        self.rejoin_reason = ""
        self.needs_join_prepare = True
        self.cluster: dict[str, TopicInfo] = {}
        self.known_topics: frozenset[str] = frozenset()
        self.metadata_requested_ms: int | None = None
        self._next_request_id = 1
        self._lookup_id: int | None = None
        self._lookup_failures = 0
        self._lookup_due_ms = 0

    # --- effects ----------------------------------------------------------------------------------------------

    def send(
        self, request: MemberRequest, now_ms: int, *, timeout_ms: int | None = None, to_coordinator: bool = True
    ) -> int:
        """Send a request and remember the generation it was sent in."""
        request_id = self._next_request_id
        self._next_request_id += 1
        self.requests[request_id] = PendingRequest(request_id, request, now_ms, self.generation, to_coordinator)
        self.effects.append(Send(request_id, request, timeout_ms or self.config.request_timeout_ms, to_coordinator))
        return request_id

    def emit(self, kind: EventKind, now_ms: int, detail: EventDetail, trigger: Trigger | None = None) -> None:
        """Emit a group event of this member."""
        generation_id, member_id, protocol_name = self.generation
        event = GroupEvent(
            time_ms=now_ms,
            cluster=self.config.cluster,
            group=self.config.group_id,
            kind=kind,
            trigger=trigger,
            generation=None if generation_id == NO_GENERATION else generation_id,
            member=member_id or None,
            instance=self.config.group_instance_id,
            client=self.config.client_id,
            assignor=protocol_name,
            detail=detail,
            source=EventSource.MEMBER,
        )
        self.effects.append(PublishEvent(event))

    def fail(self, error: SlackwaterError) -> None:
        """Record an error for the application; the first one is raised at its next poll (CL-10)."""
        self.failure = self.failure or error

    def take_authorization_error(self) -> AuthorizationError | None:
        """Return and forget the recorded error if it is one of authorization."""
        if not isinstance(failure := self.failure, AuthorizationError):
            return None
        self.failure = None
        return failure

    def raise_failure(self) -> bool:
        """Raise the recorded error, if any; a background member halts."""
        if self.failure is None:
            return False
        self.effects.append(Raise(self.failure))
        self.failure = None
        self.is_halted = self.config.is_background
        return True

    # --- state and generation ---------------------------------------------------------------------------------

    def step(self, cause: MemberInput) -> MemberAction:
        """Apply the input to the transition table and return the action."""
        action, self.state = MEMBER_TRANSITIONS[self.state][cause]
        return action

    def is_stale(self, pending: PendingRequest) -> bool:
        """Whether the generation changed since this request was sent."""
        return pending.generation != self.generation

    def request_rejoin(
        self, reason: str, now_ms: int, *, full_reason: str | None = None, trigger: Trigger | None = None
    ) -> None:
        """Require a rejoin; `reason` goes to the coordinator, `full_reason` and `trigger` to the event (CL-41)."""
        is_new = not self.rejoin_needed or self.rejoin_reason != reason
        self.rejoin_needed = True
        self.rejoin_reason = reason
        if is_new:
            self.emit(EventKind.JOIN_REQUESTED, now_ms, JoinRequested(full_reason or reason), trigger)

    def reset(self, reason: str, now_ms: int, *, member_id: bool) -> None:
        """Reset the generation (CL-09), and with `member_id` the member id too; then rejoin."""
        self.generation = NO_MEMBERSHIP if member_id else MemberGeneration(member_id=self.generation.member_id)
        self.needs_join_prepare = True
        self.request_rejoin(reason, now_ms)

    def leave(self, cause: MemberInput, reason: str, now_ms: int, *, for_good: bool = False) -> int | None:
        """Send one LeaveGroup without a retry; a static member only resets its generation (CL-07, CL-32).

        With `for_good` a static member sends LeaveGroup too (KIP-1092). Returns the request id, None if nothing was
        sent.
        """
        previous_state = self.state
        if self.step(cause) is not MemberAction.LEAVE:
            return None
        request_id = None
        member_id = self.generation.member_id
        sends_leave = for_good or not self.config.is_static
        if sends_leave and self.coordinator and previous_state is not MemberState.UNJOINED and member_id:
            leaver = LeavingMember(member_id, self.config.group_instance_id, reason[:MAX_REASON_CHARS])
            request_id = self.send(LeaveGroup(self.config.group_id, (leaver,)), now_ms)
        self.reset(LEAVING, now_ms, member_id=True)
        return request_id

    # --- the coordinator --------------------------------------------------------------------------------------

    def find_coordinator(self, now_ms: int) -> bool:
        """Return whether the coordinator is known; if not, look it up."""
        if self.coordinator is not None:
            return True
        if self._lookup_id is None and now_ms >= self._lookup_due_ms:
            self._lookup_id = self.send(FindCoordinator(self.config.group_id), now_ms, to_coordinator=False)
        return False

    @property
    def lookup_due_ms(self) -> int | None:
        """When the next look-up may be sent; None while one is in flight or none is needed."""
        return self._lookup_due_ms if self.coordinator is None and self._lookup_id is None else None

    def on_coordinator_response(self, response: FindCoordinatorResponse, now_ms: int) -> bool:
        """Handle the FindCoordinator response; returns False if the coordinator is still unknown."""
        self._lookup_id = None
        if response.error is not Error.NONE:
            self._schedule_lookup(now_ms)
            if not response.error.retriable:
                self.fail(BrokerError(response.error, _look_up_failed(self.config.group_id, response.error)))
            return False
        self._lookup_failures = 0
        self._lookup_due_ms = now_ms
        self.coordinator = CoordinatorNode(response.node_id, response.host, response.port)
        self.timers.on_coordinator_found(now_ms)
        self.emit(EventKind.COORDINATOR_FOUND, now_ms, CoordinatorChanged(str(self.coordinator)))
        return True

    def on_lookup_failed(self, now_ms: int) -> None:
        """Schedule the next look-up: this one got no response."""
        self._lookup_id = None
        self._schedule_lookup(now_ms)

    def _schedule_lookup(self, now_ms: int) -> None:
        self._lookup_due_ms = now_ms + self.backoff_ms(self._lookup_failures)
        self._lookup_failures += 1

    def lose_coordinator(self, cause: str, now_ms: int, *, disconnected: bool = False) -> None:
        """Forget the coordinator and fail every request sent to it."""
        if (node := self.coordinator) is None:
            return
        self.coordinator = None
        self.emit(EventKind.COORDINATOR_LOST, now_ms, CoordinatorChanged(str(node), cause))
        if not disconnected:
            self.effects.append(Disconnect(node))
        for pending in [pending for pending in self.requests.values() if pending.to_coordinator]:
            del self.requests[pending.request_id]
            self.on_failure(pending, now_ms)

    def backoff_ms(self, failures: int) -> int:
        """The backoff after this many earlier failures."""
        return backoff_ms(failures, self.config.retry_backoff_ms, self.config.retry_backoff_max_ms)

    # --- metadata ---------------------------------------------------------------------------------------------

    @property
    def metadata_topics(self) -> frozenset[str] | None:
        """The topics whose metadata this member needs; None means all, because a pattern may match any."""
        if self.subscription.type is SubscriptionType.PATTERN:
            return None
        manual = {partition.topic for partition in self.subscription.owned}
        return self.subscription.topics | self.subscription.group_topics | manual

    def is_known(self, topic: str, partition: int) -> bool:
        """Whether the metadata has this partition."""
        info = self.cluster.get(topic)
        return info is not None and partition < info.partitions

    def refresh_metadata(self, now_ms: int) -> None:
        """Request metadata."""
        self.metadata_requested_ms = now_ms
        topics = self.metadata_topics
        self.effects.append(RefreshMetadata(None if topics is None else tuple(sorted(topics))))

    def on_metadata(self, topics: dict[str, TopicInfo]) -> None:
        """Store the cluster metadata and the topics it was requested for: a requested topic that is missing does not
        exist.
        """
        self.cluster = topics
        self.known_topics = frozenset(topics) | (self.metadata_topics or frozenset())
        self.metadata_requested_ms = None
        self.subscription.match(topics)


def _look_up_failed(group_id: str, error: Error) -> str:
    if error is Error.GROUP_AUTHORIZATION_FAILED:
        return f"Not authorized to access group: {group_id}"
    return f"the coordinator of group {group_id} could not be found: {error.name}"
