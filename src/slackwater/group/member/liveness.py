"""Heartbeats: what the Java client's heartbeat thread does, one round per call.

Rules kept here
- In this order (CL-04): an unknown coordinator is looked for; a session without an answer gives the coordinator up; an
  application that stopped polling leaves the group; a due heartbeat is sent. While the coordinator is unknown nothing
  else is looked at.
- Only a member that has its generation beats (CL-02).
- A background member has no poll timer: its application need not poll to make progress.
"""

from slackwater.group.errors import Error
from slackwater.group.events import EventKind, PollOverrun, RequestRejected, Trigger
from slackwater.group.member.core import MemberContext, PendingRequest
from slackwater.group.member.errors import FencedInstanceId
from slackwater.group.member.states import MemberAction, MemberInput
from slackwater.group.messages import Heartbeat, HeartbeatResponse

SESSION_OVER = "session timed out without receiving a heartbeat response"
POLL_OVER = "consumer poll timeout has expired."


class HeartbeatLoop:
    """The session and the poll timer, and the heartbeats between them."""

    def __init__(self, core: MemberContext) -> None:
        self._core = core

    @property
    def _active(self) -> bool:
        # A member with a failure to tell beats no longer: its application will not go on as before (CL-10).
        return self._core.state.sends_heartbeats and self._core.subscription.managed and self._core.failure is None

    def due_ms(self) -> int | None:
        """When `tick` has something to do."""
        if not self._active:
            return None
        if self._core.coordinator is None:
            return self._core.lookup_due_ms
        timers = self._core.timers
        due_ms = min(timers.session_due_ms, timers.beat_due_ms)
        return due_ms if self._core.config.is_background else min(due_ms, timers.poll_due_ms)

    def tick(self, now_ms: int) -> None:
        """One round of the heartbeat thread."""
        if not self._active:
            return
        core = self._core
        expired = core.coordinator is not None and core.timers.session_expired(now_ms)
        if expired and core.step(MemberInput.SESSION_OVER) is MemberAction.FIND:
            core.emit(EventKind.SESSION_LOST, now_ms, RequestRejected(SESSION_OVER, core.generation.generation_id))
            core.lose_coordinator(SESSION_OVER, now_ms)
        if not core.find_coordinator(now_ms):
            return
        if not core.config.is_background and core.timers.poll_expired(now_ms):
            limit_ms = core.config.max_poll_interval_ms
            overrun = PollOverrun(limit_ms, core.timers.overrun_ms(now_ms))
            core.emit(EventKind.POLL_OVERRUN, now_ms, overrun, Trigger.POLL_TIMEOUT)
            core.leave(MemberInput.POLL_OVER, POLL_OVER, now_ms)
        elif core.timers.beat_due(now_ms) and core.step(MemberInput.BEAT_DUE) is MemberAction.SEND_BEAT:
            core.timers.sent(now_ms)
            generation_id, member_id, _ = core.generation
            beat = Heartbeat(core.config.group_id, member_id, core.config.group_instance_id, generation_id)
            core.send(beat, now_ms)

    def answered(self, pending: PendingRequest, response: HeartbeatResponse, now_ms: int) -> None:
        """A heartbeat was answered."""
        core = self._core
        core.metrics.heartbeat.record(now_ms - pending.sent_ms, now_ms)
        error = response.error
        before = core.generation
        action = core.step(_cause(error, stale=core.stale(pending)))
        reset = f"encountered {error.name} from HEARTBEAT response"
        if action in (
            MemberAction.RESET_ID,
            MemberAction.RESET_GENERATION,
            MemberAction.FENCED,
            MemberAction.RETRY_BEAT,
        ):
            core.emit(EventKind.HEARTBEAT_REFUSED, now_ms, RequestRejected(error.name, before.generation_id))
        match action:
            case MemberAction.EXTEND:
                core.timers.received(now_ms)
            case MemberAction.ASK_REJOIN:
                core.timers.received(now_ms)
                core.request_rejoin("group is already rebalancing", now_ms)
            case MemberAction.RESET_ID:
                core.reset(reset, now_ms, member_id=True)
                core.timers.failed(now_ms)
            case MemberAction.RESET_GENERATION:
                core.reset(reset, now_ms, member_id=False)
                core.timers.failed(now_ms)
            case MemberAction.FENCED:
                core.reset(reset, now_ms, member_id=True)
                core.fail(FencedInstanceId(core.config.group_instance_id, before.member_id))
            case MemberAction.FIND:
                core.timers.failed(now_ms)
                core.lose_coordinator(f"error response {error.name}", now_ms)
            case _:
                core.timers.failed(now_ms)

    def unanswered(self, now_ms: int) -> None:
        """A heartbeat got no answer: the connection is gone."""
        self._core.step(MemberInput.BEAT_DISCONNECTED)
        self._core.timers.failed(now_ms)
        self._core.lose_coordinator("null", now_ms, disconnected=True)


def _cause(error: Error, *, stale: bool) -> MemberInput:
    match error:
        case Error.NONE:
            return MemberInput.BEAT_OK
        case Error.REBALANCE_IN_PROGRESS:
            return MemberInput.BEAT_REBALANCING
        case Error.UNKNOWN_MEMBER_ID | Error.ILLEGAL_GENERATION | Error.FENCED_INSTANCE_ID if stale:
            return MemberInput.BEAT_STALE
        case Error.UNKNOWN_MEMBER_ID:
            return MemberInput.BEAT_UNKNOWN_MEMBER
        case Error.ILLEGAL_GENERATION:
            return MemberInput.BEAT_ILLEGAL_GENERATION
        case Error.FENCED_INSTANCE_ID:
            return MemberInput.BEAT_FENCED
        case Error.NOT_COORDINATOR | Error.COORDINATOR_NOT_AVAILABLE:
            return MemberInput.BEAT_WRONG_NODE
        case _:
            return MemberInput.BEAT_REFUSED
