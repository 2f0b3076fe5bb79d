"""SyncGroup: get this member's part of the assignment; the leader brings everybody's (SG-01 … SG-13)."""

from slackwater.group.coordinator import rebalance
from slackwater.group.coordinator.effect_collector import EffectCollector
from slackwater.group.coordinator.group import ClassicGroup, ClassicGroupMember
from slackwater.group.coordinator.identity import identify
from slackwater.group.coordinator.records import GroupMetadata
from slackwater.group.coordinator.states import DEAD, TRANSITIONS, GroupAction, GroupInput
from slackwater.group.errors import Error
from slackwater.group.messages import SyncGroup, SyncGroupResponse


def sync(turn: EffectCollector, request: SyncGroup, caller: object) -> None:
    """Answer, park, or refuse a sync."""
    error = _refusal(turn, request)
    if error is not Error.NONE:
        turn.answer(caller, SyncGroupResponse(error))
        return
    assert request.group_id is not None
    group = turn.desk.groups[request.group_id]
    member = group.members[request.member_id]
    happened = GroupInput.SYNC_LEADER if group.leader_id == member.member_id else GroupInput.SYNC_FOLLOWER
    outcome = TRANSITIONS[happened][group.state]
    if outcome.act is GroupAction.REFUSE:
        turn.answer(caller, SyncGroupResponse(outcome.error))
        return
    member.last_heard_ms = turn.now_ms
    rebalance.synced(group, member)
    superseded, member.parked_sync = member.parked_sync, caller
    if superseded is not None:  # Kafka never answers it
        turn.answer(superseded, SyncGroupResponse(Error.REBALANCE_IN_PROGRESS))
    match outcome.act:
        case GroupAction.ANSWER:
            rebalance.answer_sync(turn, group, member)  # SG-09: the session timer is left alone
        case GroupAction.PERSIST if not group.assignment_in_flight:
            _persist(turn, group, member, request)
        case _:
            pass  # parked until the assignment is written


def _refusal(turn: EffectCollector, request: SyncGroup) -> Error:
    """Why this sync cannot be, in the order of SG-01 … SG-03, or NONE."""
    if request.requires_protocol and not (request.protocol_type and request.protocol_name):
        return Error.INCONSISTENT_GROUP_PROTOCOL  # SG-02
    if not request.group_id:
        return Error.INVALID_GROUP_ID
    group = turn.desk.groups.get(request.group_id)
    if group is None:
        error = turn.desk.refusal(request.group_id)
        if error is Error.COORDINATOR_LOAD_IN_PROGRESS:
            return Error.REBALANCE_IN_PROGRESS  # CO-03: the Java client takes the true error for fatal
        return Error.UNKNOWN_MEMBER_ID if error is Error.NONE else error
    if group.state is DEAD:
        return Error.COORDINATOR_NOT_AVAILABLE
    if request.group_instance_id is not None or request.member_id not in group.members:
        error = identify(turn, group, request.member_id, request.group_instance_id, "sync-group")
        if error is not Error.NONE:
            return error
    if request.generation_id != group.generation_id:
        return Error.ILLEGAL_GENERATION
    if _differ(request.protocol_type, group.protocol_type) or _differ(request.protocol_name, group.protocol_name):
        return Error.INCONSISTENT_GROUP_PROTOCOL
    return Error.NONE


def _differ(named: str | None, chosen: str | None) -> bool:
    """Whether two names contradict each other; one that is not there contradicts nothing."""
    return named is not None and chosen is not None and named != chosen


def _persist(turn: EffectCollector, group: ClassicGroup, leader: ClassicGroupMember, request: SyncGroup) -> None:
    """Write what the leader brought; whom it left out gets nothing (SG-06)."""
    assignments = {member_id: data for member_id, data in request.assignments if member_id in group.members}
    generation_id = group.generation_id
    group.assignment_in_flight = True

    def written(later: EffectCollector, error: Error) -> None:
        if error is Error.NONE:
            rebalance.assignment_written(later, group, generation_id, assignments)
        else:
            rebalance.assignment_refused(later, group, generation_id, error, leader)

    turn.append(group.shard, [GroupMetadata(group.group_id, group.to_store(assignments))], written)
