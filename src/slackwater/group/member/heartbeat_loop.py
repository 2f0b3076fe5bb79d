"""Heartbeats and liveness checks: one iteration of the Java client's heartbeat thread per call.

Invariants:
- Order (CL-04): look up an unknown coordinator; give up a coordinator whose session expired; leave the group if the
  application stopped polling; send a due heartbeat. While the coordinator is unknown nothing else is checked.
- Only a member with a generation sends heartbeats (CL-02).
- A background member has no poll timer: it makes progress without polls.
"""

from slackwater.group.errors import Error
from slackwater.group.events import EventKind, PollOverrun, RequestRefused, Trigger
from slackwater.group.member.context import MemberContext, PendingRequest
from slackwater.group.member.errors import FencedInstanceId
from slackwater.group.member.states import MemberAction, MemberInput
from slackwater.group.messages import Heartbeat, HeartbeatResponse

SESSION_EXPIRED = "session timed out without receiving a heartbeat response"
POLL_TIMEOUT_EXPIRED = "consumer poll timeout has expired."


class HeartbeatLoop:
    """Checks the session and poll timers and sends heartbeats."""

    def __init__(self, context: MemberContext) -> None:
        self._context = context

    @property
    def _active(self) -> bool:
        # A member with an unreported failure sends no heartbeats (CL-10).
        return (
            self._context.state.sends_heartbeats
            and self._context.subscription.is_group_managed
            and self._context.failure is None
        )

    def due_ms(self) -> int | None:
        """When `tick` has something to do."""
        if not self._active:
            return None
        if self._context.coordinator is None:
            return self._context.lookup_due_ms
        timers = self._context.timers
        due_ms = min(timers.session_due_ms, timers.heartbeat_due_ms)
        return due_ms if self._context.config.is_background else min(due_ms, timers.poll_due_ms)

    def tick(self, now_ms: int) -> None:
        """Run one iteration."""
        if not self._active:
            return
        context = self._context
        expired = context.coordinator is not None and context.timers.is_session_expired(now_ms)
        if expired and context.step(MemberInput.SESSION_EXPIRED) is MemberAction.FIND_COORDINATOR:
            context.emit(
                EventKind.SESSION_LOST, now_ms, RequestRefused(SESSION_EXPIRED, context.generation.generation_id)
            )
            context.lose_coordinator(SESSION_EXPIRED, now_ms)
        if not context.find_coordinator(now_ms):
            return
        if not context.config.is_background and context.timers.is_poll_expired(now_ms):
            limit_ms = context.config.max_poll_interval_ms
            overrun = PollOverrun(limit_ms, context.timers.poll_overrun_ms(now_ms))
            context.emit(EventKind.POLL_OVERRUN, now_ms, overrun, Trigger.POLL_TIMEOUT)
            context.leave(MemberInput.POLL_TIMEOUT_EXPIRED, POLL_TIMEOUT_EXPIRED, now_ms)
        elif (
            context.timers.is_heartbeat_due(now_ms)
            and context.step(MemberInput.HEARTBEAT_DUE) is MemberAction.SEND_HEARTBEAT
        ):
            context.timers.sent(now_ms)
            generation_id, member_id, _ = context.generation
            heartbeat = Heartbeat(context.config.group_id, member_id, context.config.group_instance_id, generation_id)
            context.send(heartbeat, now_ms)

    def on_response(self, pending: PendingRequest, response: HeartbeatResponse, now_ms: int) -> None:
        """Handle a heartbeat response."""
        context = self._context
        context.metrics.heartbeat.record(now_ms - pending.sent_ms, now_ms)
        error = response.error
        generation = context.generation
        action = context.step(_heartbeat_input(error, is_stale=context.is_stale(pending)))
        reset = f"encountered {error.name} from HEARTBEAT response"
        if action in (
            MemberAction.RESET_MEMBER_ID,
            MemberAction.RESET_GENERATION,
            MemberAction.FENCED,
            MemberAction.RETRY_HEARTBEAT,
        ):
            context.emit(EventKind.HEARTBEAT_REFUSED, now_ms, RequestRefused(error.name, generation.generation_id))
        match action:
            case MemberAction.EXTEND:
                context.timers.on_success(now_ms)
            case MemberAction.REQUEST_REJOIN:
                context.timers.on_success(now_ms)
                context.request_rejoin("group is already rebalancing", now_ms)
            case MemberAction.RESET_MEMBER_ID:
                context.reset(reset, now_ms, member_id=True)
                context.timers.failed(now_ms)
            case MemberAction.RESET_GENERATION:
                context.reset(reset, now_ms, member_id=False)
                context.timers.failed(now_ms)
            case MemberAction.FENCED:
                context.reset(reset, now_ms, member_id=True)
                context.fail(FencedInstanceId(context.config.group_instance_id, generation.member_id))
            case MemberAction.FIND_COORDINATOR:
                context.timers.failed(now_ms)
                context.lose_coordinator(f"error response {error.name}", now_ms)
            case _:
                context.timers.failed(now_ms)

    def on_no_response(self, now_ms: int) -> None:
        """Handle a heartbeat without a response: the connection is lost."""
        self._context.step(MemberInput.HEARTBEAT_DISCONNECTED)
        self._context.timers.failed(now_ms)
        self._context.lose_coordinator("null", now_ms, disconnected=True)


def _heartbeat_input(error: Error, *, is_stale: bool) -> MemberInput:
    match error:
        case Error.NONE:
            return MemberInput.HEARTBEAT_OK
        case Error.REBALANCE_IN_PROGRESS:
            return MemberInput.HEARTBEAT_REBALANCING
        case Error.UNKNOWN_MEMBER_ID | Error.ILLEGAL_GENERATION | Error.FENCED_INSTANCE_ID if is_stale:
            return MemberInput.HEARTBEAT_STALE
        case Error.UNKNOWN_MEMBER_ID:
            return MemberInput.HEARTBEAT_UNKNOWN_MEMBER
        case Error.ILLEGAL_GENERATION:
            return MemberInput.HEARTBEAT_ILLEGAL_GENERATION
        case Error.FENCED_INSTANCE_ID:
            return MemberInput.HEARTBEAT_FENCED
        case Error.NOT_COORDINATOR | Error.COORDINATOR_NOT_AVAILABLE:
            return MemberInput.HEARTBEAT_NOT_COORDINATOR
        case _:
            return MemberInput.HEARTBEAT_OTHER_ERROR
