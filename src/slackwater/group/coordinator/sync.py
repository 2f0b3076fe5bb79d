"""SyncGroup: the leader sends the assignment, every member receives its part (SG-01 … SG-13)."""

from slackwater.group.coordinator import rebalance
from slackwater.group.coordinator.effect_collector import EffectCollector
from slackwater.group.coordinator.group import ClassicGroup, ClassicGroupMember
from slackwater.group.coordinator.identity import check_identity
from slackwater.group.coordinator.records import GroupMetadata
from slackwater.group.coordinator.states import DEAD, TRANSITIONS, GroupAction, GroupInput
from slackwater.group.errors import Error
from slackwater.group.messages import SyncGroup, SyncGroupResponse


def sync(collector: EffectCollector, request: SyncGroup, reply_to: object) -> None:
    """Respond to a sync, keep it waiting, or reject it."""
    error = _validate(collector, request)
    if error is not Error.NONE:
        collector.respond(reply_to, SyncGroupResponse(error))
        return
    assert request.group_id is not None
    group = collector.state.groups[request.group_id]
    member = group.members[request.member_id]
    group_input = GroupInput.SYNC_LEADER if group.leader_id == member.member_id else GroupInput.SYNC_FOLLOWER
    transition = TRANSITIONS[group_input][group.state]
    if transition.action is GroupAction.REJECT:
        collector.respond(reply_to, SyncGroupResponse(transition.error))
        return
    member.last_seen_ms = collector.now_ms
    rebalance.mark_synced(group, member)
    superseded, member.awaiting_sync = member.awaiting_sync, reply_to
    if superseded is not None:  # Kafka sends no response to it
        collector.respond(superseded, SyncGroupResponse(Error.REBALANCE_IN_PROGRESS))
    match transition.action:
        case GroupAction.RESPOND:
            rebalance.respond_to_sync(collector, group, member)  # SG-09: the session timer does not change
        case GroupAction.STORE_ASSIGNMENT if not group.assignment_in_flight:
            store_assignment(collector, group, member, request)
        case _:
            pass  # waiting until the assignment is written


def _validate(collector: EffectCollector, request: SyncGroup) -> Error:
    """Return why this sync is invalid, checked in the order of SG-01 … SG-03, or NONE."""
    if request.requires_protocol and not (request.protocol_type and request.protocol_name):
        return Error.INCONSISTENT_GROUP_PROTOCOL  # SG-02
    if not request.group_id:
        return Error.INVALID_GROUP_ID
    group = collector.state.groups.get(request.group_id)
    if group is None:
        error = collector.state.unavailable_error(request.group_id)
        if error is Error.COORDINATOR_LOAD_IN_PROGRESS:
            return (
                Error.REBALANCE_IN_PROGRESS
            )  # CO-03: the Java client treats COORDINATOR_LOAD_IN_PROGRESS as fatal here
        return Error.UNKNOWN_MEMBER_ID if error is Error.NONE else error
    if group.state is DEAD:
        return TRANSITIONS[GroupInput.SYNC_FOLLOWER][DEAD].error
    if request.group_instance_id is not None or request.member_id not in group.members:
        error = check_identity(collector, group, request.member_id, request.group_instance_id, "sync-group")
        if error is not Error.NONE:
            return error
    if request.generation_id != group.generation_id:
        return Error.ILLEGAL_GENERATION
    if _differ(request.protocol_type, group.protocol_type) or _differ(request.protocol_name, group.protocol_name):
        return Error.INCONSISTENT_GROUP_PROTOCOL
    return Error.NONE


def _differ(requested: str | None, selected: str | None) -> bool:
    """Whether both names are present and different."""
    return requested is not None and selected is not None and requested != selected


def store_assignment(
    collector: EffectCollector, group: ClassicGroup, leader: ClassicGroupMember, request: SyncGroup
) -> None:
    """Write the leader's assignment; a member that is not in it gets an empty one (SG-06)."""
    assignments = {member_id: data for member_id, data in request.assignments if member_id in group.members}
    generation_id = group.generation_id
    group.assignment_in_flight = True

    def written(collector: EffectCollector, error: Error) -> None:
        if error is Error.NONE:
            rebalance.assignment_written(collector, group, generation_id, assignments)
        else:
            rebalance.assignment_write_failed(collector, group, generation_id, error, leader)

    collector.append(
        group.offsets_partition, [GroupMetadata(group.group_id, group.to_record_value(assignments))], written
    )
