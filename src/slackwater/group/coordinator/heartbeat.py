"""Heartbeat: extend a member's session and request a rejoin when needed (HB-01 … HB-08).

Invariants:
- This is the hot path: no collector, no event, no heap. A heartbeat sets the session's deadline; the heap entry of the
  timer stays and is moved when it comes up (`timers.py`).
- The responses are those of the table, built once.
"""

from typing import Final

from slackwater.group.coordinator.coordinator_state import CoordinatorState
from slackwater.group.coordinator.effect_collector import EffectCollector
from slackwater.group.coordinator.effects import Effect, SendResponse
from slackwater.group.coordinator.identity import emit_fenced
from slackwater.group.coordinator.states import DEAD, TRANSITIONS, GroupInput
from slackwater.group.errors import Error
from slackwater.group.events import GroupState
from slackwater.group.messages import Heartbeat, HeartbeatResponse

_RESPONSES: Final[dict[GroupState, HeartbeatResponse]] = {
    state: HeartbeatResponse(transition.error) for state, transition in TRANSITIONS[GroupInput.HEARTBEAT].items()
}


def heartbeat(state: CoordinatorState, request: Heartbeat, reply_to: object, now_ms: int) -> list[Effect]:
    """Extend the member's session and respond; REBALANCE_IN_PROGRESS requests a rejoin."""
    group = state.groups.get(request.group_id or "")
    if group is None:
        return [SendResponse(reply_to, HeartbeatResponse(_missing_group_error(state, request.group_id)))]
    member = group.members.get(request.member_id)
    if member is None or request.group_instance_id is not None:
        if not request.group_id:  # the group "" may have offsets, but never members (OC-14)
            return [SendResponse(reply_to, HeartbeatResponse(Error.INVALID_GROUP_ID))]
        if group.state is DEAD:
            return [SendResponse(reply_to, _RESPONSES[DEAD])]
        error = group.check_identity(request.member_id, request.group_instance_id)
        if error is Error.FENCED_INSTANCE_ID:
            collector = EffectCollector(state, now_ms)
            emit_fenced(collector, group, request.member_id, request.group_instance_id, "heartbeat")
            collector.respond(reply_to, HeartbeatResponse(error))
            return collector.effects
        if member is None or error is not Error.NONE:
            return [SendResponse(reply_to, HeartbeatResponse(error))]
    response = _RESPONSES[group.state]
    if request.generation_id != group.generation_id:
        return [SendResponse(reply_to, HeartbeatResponse(Error.ILLEGAL_GENERATION))]  # HB-04
    member.last_seen_ms = now_ms
    deadline_ms = now_ms + member.session_timeout_ms
    session = member.session
    if session.armed_ms <= deadline_ms:
        session.deadline_ms = deadline_ms
    else:  # the timer fired while a request of the member was waiting (SE-03), or the session timeout became shorter
        state.timers.arm(session, deadline_ms)
    return [SendResponse(reply_to, response)]


def _missing_group_error(state: CoordinatorState, group_id: str | None) -> Error:
    if not group_id:
        return Error.INVALID_GROUP_ID
    error = state.unavailable_error(group_id)
    if error is Error.COORDINATOR_LOAD_IN_PROGRESS:
        return Error.NONE  # HB-08, CO-03: sessions do not expire while loading
    return Error.UNKNOWN_MEMBER_ID if error is Error.NONE else error
