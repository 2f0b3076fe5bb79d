"""LeaveGroup: members go, or an administrator removes them (LG-01 … LG-11)."""

from slackwater.group.coordinator import rebalance, triggers
from slackwater.group.coordinator.effect_collector import EffectCollector, response_error
from slackwater.group.coordinator.group import ClassicGroup, ClassicGroupMember, PendingMember, RebalanceCause
from slackwater.group.coordinator.identity import identify
from slackwater.group.coordinator.join import NOT_PROVIDED
from slackwater.group.coordinator.states import DEAD, EMPTY, GroupInput
from slackwater.group.errors import Error
from slackwater.group.events import EventKind, MemberLeft, Trigger
from slackwater.group.messages import NO_MEMBER, LeaveGroup, LeaveGroupResponse, LeavingMember, LeftMember


def leave(turn: EffectCollector, request: LeaveGroup, caller: object) -> None:
    """Remove those who can be removed, answer for each, and rebalance once for all (LG-08)."""
    group_id = request.group_id
    if not group_id:
        turn.answer(caller, LeaveGroupResponse(Error.INVALID_GROUP_ID))
        return
    group = turn.desk.groups.get(group_id)
    if group is None:
        error = turn.desk.refusal(group_id)
        unknown = Error.UNKNOWN_MEMBER_ID
        entries = tuple(LeftMember(leaver.member_id, leaver.group_instance_id, unknown) for leaver in request.members)
        turn.answer(caller, LeaveGroupResponse(error, entries if error is Error.NONE else ()))  # LG-02, LG-11
        return
    if group.state is DEAD:
        turn.answer(caller, LeaveGroupResponse(Error.COORDINATOR_NOT_AVAILABLE))  # LG-03
        return
    answers: list[LeftMember] = []
    gone: list[tuple[LeavingMember, ClassicGroupMember | PendingMember]] = []
    for leaver in request.members:
        left = _remove(turn, group, leaver)
        if isinstance(left, Error):
            answers.append(LeftMember(leaver.member_id, leaver.group_instance_id, left))
        else:
            answers.append(LeftMember(leaver.member_id, leaver.group_instance_id, Error.NONE))
            gone.append((leaver, left))
    response = LeaveGroupResponse(Error.NONE, tuple(answers))
    before = group.state
    if gone:
        leaver, first = gone[0]
        happened = (
            GroupInput.LEAVE
            if any(isinstance(who, ClassicGroupMember) for _, who in gone)
            else GroupInput.LEAVE_PENDING
        )
        names = ", ".join(leaver.member_id for leaver, _ in gone)
        reason = f"explicit `LeaveGroup` request for ({names}) members."
        rebalance.trigger(turn, group, happened, RebalanceCause(_why(leaver), reason, first))
    if group.state is before or group.state is not EMPTY:
        turn.answer(caller, response)
        return

    def written(later: EffectCollector, error: Error) -> None:
        later.answer(caller, response if error is Error.NONE else LeaveGroupResponse(response_error(error)))

    turn.also(written)  # the last one to leave is told when the empty group is written


def _why(leaver: LeavingMember) -> Trigger:
    return triggers.of_leave(leaver.reason, administrator=leaver.member_id == NO_MEMBER)


def _remove(
    turn: EffectCollector, group: ClassicGroup, leaver: LeavingMember
) -> ClassicGroupMember | PendingMember | Error:
    """Take one leaver out of the group; who it was, or why not (LG-04 … LG-07)."""
    reason = leaver.reason or NOT_PROVIDED
    if (pending := group.pending.pop(leaver.member_id, None)) is not None:
        pending.expiry.cancel()
        detail = MemberLeft("itself", reason, pending=True)
        turn.tell(group, EventKind.MEMBER_LEFT, detail, who=pending, trigger=_why(leaver))
        return pending
    member_id = leaver.member_id
    administrator = member_id == NO_MEMBER
    if administrator:
        member_id = group.static_members.get(leaver.group_instance_id or "", NO_MEMBER)
        if leaver.group_instance_id is None:
            return Error.UNKNOWN_MEMBER_ID
    error = identify(turn, group, member_id, leaver.group_instance_id, "leave-group")
    if error is not Error.NONE:
        return error
    member = group.members[member_id]
    rebalance.drop(turn, member)
    detail = MemberLeft("administrator" if administrator else "itself", reason)
    turn.tell(group, EventKind.MEMBER_LEFT, detail, who=member, trigger=_why(leaver))
    return member
