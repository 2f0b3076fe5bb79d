"""Heartbeat: keep a member's session alive, and tell it when to rejoin (HB-01 … HB-08).

Rules kept here
- This is the hot path: no turn, no event, no heap. A session moves on by one assignment; the timer that is armed for
  an earlier time puts itself back when it comes up (`timers.py`).
- The answers are the table's, made once.
"""

from typing import Final

from slackwater.group.coordinator.effect_collector import CoordinatorState, EffectCollector
from slackwater.group.coordinator.effects import Effect, SendResponse
from slackwater.group.coordinator.identity import tell_fenced
from slackwater.group.coordinator.states import DEAD, TRANSITIONS, GroupInput
from slackwater.group.errors import Error
from slackwater.group.events import GroupState
from slackwater.group.messages import Heartbeat, HeartbeatResponse

_ANSWERS: Final[dict[GroupState, HeartbeatResponse]] = {
    state: HeartbeatResponse(outcome.error) for state, outcome in TRANSITIONS[GroupInput.HEARTBEAT].items()
}


def heartbeat(desk: CoordinatorState, beat: Heartbeat, caller: object, now_ms: int) -> list[Effect]:
    """Answer a heartbeat."""
    group = desk.groups.get(beat.group_id or "")
    if group is None:
        return [SendResponse(caller, HeartbeatResponse(_absent(desk, beat.group_id)))]
    member = group.members.get(beat.member_id)
    if member is None or beat.group_instance_id is not None:
        if not beat.group_id:  # "" may hold offsets, never members (OC-14)
            return [SendResponse(caller, HeartbeatResponse(Error.INVALID_GROUP_ID))]
        if group.state is DEAD:
            return [SendResponse(caller, _ANSWERS[DEAD])]
        error = group.identify(beat.member_id, beat.group_instance_id)
        if error is Error.FENCED_INSTANCE_ID:
            turn = EffectCollector(desk, now_ms)
            tell_fenced(turn, group, beat.member_id, beat.group_instance_id, "heartbeat")
            turn.answer(caller, HeartbeatResponse(error))
            return turn.effects
        if member is None or error is not Error.NONE:
            return [SendResponse(caller, HeartbeatResponse(error))]
    answer = _ANSWERS[group.state]
    if beat.generation_id != group.generation_id:
        return [SendResponse(caller, HeartbeatResponse(Error.ILLEGAL_GENERATION))]  # HB-04
    member.last_heard_ms = now_ms
    deadline_ms = now_ms + member.session_timeout_ms
    session = member.session
    if session.armed_ms <= deadline_ms:
        session.deadline_ms = deadline_ms
    else:  # its timer came up while it was parked, and was let pass (SE-03); or a shorter timeout than before
        desk.timers.arm(session, deadline_ms)
    return [SendResponse(caller, answer)]


def _absent(desk: CoordinatorState, group_id: str | None) -> Error:
    if not group_id:
        return Error.INVALID_GROUP_ID
    error = desk.refusal(group_id)
    if error is Error.COORDINATOR_LOAD_IN_PROGRESS:
        return Error.NONE  # HB-08, CO-03: nobody is expired while loading, so nobody need know
    return Error.UNKNOWN_MEMBER_ID if error is Error.NONE else error
