"""LeaveGroup: members leave, or an administrator removes them (LG-01 … LG-11)."""

from slackwater.group.coordinator import rebalance, triggers
from slackwater.group.coordinator.effect_collector import EffectCollector
from slackwater.group.coordinator.group import ClassicGroup, ClassicGroupMember, PendingMember, RebalanceCause
from slackwater.group.coordinator.identity import check_identity
from slackwater.group.coordinator.join import NO_REASON
from slackwater.group.coordinator.states import DEAD, EMPTY, TRANSITIONS, GroupInput
from slackwater.group.coordinator.writes import call_after_last_write
from slackwater.group.errors import Error
from slackwater.group.events import EventKind, MemberLeft, Trigger
from slackwater.group.messages import NO_MEMBER, LeaveGroup, LeaveGroupResponse, LeavingMember, LeftMember
from slackwater.group.write_errors import group_response_error


def leave(collector: EffectCollector, request: LeaveGroup, reply_to: object) -> None:
    """Remove the members, respond with one result for each, and start at most one rebalance (LG-08)."""
    group_id = request.group_id
    if not group_id:
        collector.respond(reply_to, LeaveGroupResponse(Error.INVALID_GROUP_ID))
        return
    group = collector.state.groups.get(group_id)
    if group is None:
        error = collector.state.unavailable_error(group_id)
        unknown = Error.UNKNOWN_MEMBER_ID
        entries = tuple(LeftMember(leaver.member_id, leaver.group_instance_id, unknown) for leaver in request.members)
        collector.respond(reply_to, LeaveGroupResponse(error, entries if error is Error.NONE else ()))  # LG-02, LG-11
        return
    if group.state is DEAD:
        collector.respond(reply_to, LeaveGroupResponse(TRANSITIONS[GroupInput.LEAVE][DEAD].error))  # LG-03
        return
    results: list[LeftMember] = []
    removed: list[tuple[LeavingMember, ClassicGroupMember | PendingMember]] = []
    for leaver in request.members:
        left = _remove(collector, group, leaver)
        if isinstance(left, Error):
            results.append(LeftMember(leaver.member_id, leaver.group_instance_id, left))
        else:
            results.append(LeftMember(leaver.member_id, leaver.group_instance_id, Error.NONE))
            removed.append((leaver, left))
    response = LeaveGroupResponse(Error.NONE, tuple(results))
    before = group.state
    if removed:
        leaver, first = removed[0]
        group_input = (
            GroupInput.LEAVE
            if any(isinstance(member, ClassicGroupMember) for _, member in removed)
            else GroupInput.LEAVE_PENDING
        )
        names = ", ".join(leaver.member_id for leaver, _ in removed)
        reason = f"explicit `LeaveGroup` request for ({names}) members."
        rebalance.trigger(collector, group, group_input, RebalanceCause(_leave_trigger(leaver), reason, first))
    if group.state is before or group.state is not EMPTY:
        collector.respond(reply_to, response)
        return

    def written(collector: EffectCollector, error: Error) -> None:
        collector.respond(
            reply_to, response if error is Error.NONE else LeaveGroupResponse(group_response_error(error))
        )

    # The last write is that of the empty group: the last member gets its response when it is written.
    call_after_last_write(collector, group, written)


def _leave_trigger(leaver: LeavingMember) -> Trigger:
    return triggers.leave_trigger(leaver.reason, administrator=leaver.member_id == NO_MEMBER)


def _remove(
    collector: EffectCollector, group: ClassicGroup, leaver: LeavingMember
) -> ClassicGroupMember | PendingMember | Error:
    """Remove one leaving member; return the removed member or the error (LG-04 … LG-07)."""
    reason = leaver.reason or NO_REASON
    if (pending := group.pending_members.pop(leaver.member_id, None)) is not None:
        pending.expiry.cancel()
        detail = MemberLeft("itself", reason, pending=True)
        collector.emit(group, EventKind.MEMBER_LEFT, detail, member=pending, trigger=_leave_trigger(leaver))
        return pending
    member_id = leaver.member_id
    administrator = member_id == NO_MEMBER
    if administrator:
        member_id = group.static_members.get(leaver.group_instance_id or "", NO_MEMBER)
        if leaver.group_instance_id is None:
            return Error.UNKNOWN_MEMBER_ID
    error = check_identity(collector, group, member_id, leaver.group_instance_id, "leave-group")
    if error is not Error.NONE:
        return error
    member = group.members[member_id]
    rebalance.remove_member(collector, member)
    detail = MemberLeft("administrator" if administrator else "itself", reason)
    collector.emit(group, EventKind.MEMBER_LEFT, detail, member=member, trigger=_leave_trigger(leaver))
    return member
