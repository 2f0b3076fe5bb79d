"""JoinGroup: join a group, or rejoin it for the next generation (JG-01 … JG-51).

Invariants:
- A rejected request changes nothing, with one exception as in Kafka: a member id rejected because the group is full is
  removed (JG-38).
- This module classifies a request (`GroupInput`); the table names the action.
"""

from typing import Final

from slackwater.group.coordinator import rebalance, triggers
from slackwater.group.coordinator.effect_collector import EffectCollector
from slackwater.group.coordinator.group import ClassicGroup, ClassicGroupMember, PendingMember, RebalanceCause
from slackwater.group.coordinator.identity import check_identity, emit_fenced
from slackwater.group.coordinator.records import GroupMetadata
from slackwater.group.coordinator.states import (
    COMPLETING,
    DEAD,
    INITIAL,
    PREPARING,
    STABLE,
    TRANSITIONS,
    GroupAction,
    GroupInput,
)
from slackwater.group.coordinator.subscriptions import CONSUMER, is_overlong, subscribed_topics
from slackwater.group.errors import Error
from slackwater.group.events import (
    EventKind,
    GroupLifecycle,
    JoinRefused,
    MemberIdTimeout,
    MemberJoined,
    MemberReplaced,
    Trigger,
)
from slackwater.group.messages import NO_MEMBER, JoinGroup, JoinGroupResponse, JoinProtocol
from slackwater.group.write_errors import group_response_error

NO_REASON: Final = "not provided"  # JG-51


def join(collector: EffectCollector, request: JoinGroup, reply_to: object) -> None:
    """Respond to a join, keep it waiting, or reject it."""
    state = collector.state
    group_id = request.group_id
    if not group_id:
        return _reject(collector, None, request, reply_to, Error.INVALID_GROUP_ID)
    config = state.config
    if not config.group_min_session_timeout_ms <= request.session_timeout_ms <= config.group_max_session_timeout_ms:
        return _reject(collector, state.groups.get(group_id), request, reply_to, Error.INVALID_SESSION_TIMEOUT)
    group = state.groups.get(group_id)
    if group is None:
        if (error := state.unavailable_error(group_id)) is not Error.NONE:
            return collector.respond(
                reply_to, JoinGroupResponse(error)
            )  # the group is not loaded here: no id is echoed
        if request.member_id != NO_MEMBER:
            return _reject(collector, None, request, reply_to, Error.UNKNOWN_MEMBER_ID)  # JG-03
        return _create_and_join(collector, group_id, request, reply_to)
    if (error := _request_error(request)) is not Error.NONE:
        return _reject(collector, group, request, reply_to, error)
    if not _has_capacity(collector, group, request.member_id):
        return _reject_full(collector, group, request, reply_to)
    if request.member_id == NO_MEMBER:
        _join_new(collector, group, request, reply_to)
    else:
        _join_known(collector, group, request, reply_to)


def _create_and_join(collector: EffectCollector, group_id: str, request: JoinGroup, reply_to: object) -> None:
    """Create a group with its first join (JG-04)."""
    group = ClassicGroup(group_id, collector.state.offsets_partition_of(group_id), collector.wall_ms)
    if (error := _request_error(request)) is Error.NONE and not group.supports(
        request.protocol_type, request.protocols
    ):
        error = Error.INCONSISTENT_GROUP_PROTOCOL  # JG-05
    if error is not Error.NONE:
        return _reject(collector, None, request, reply_to, error)
    collector.state.groups[group_id] = group
    collector.emit(group, EventKind.GROUP_CREATED, GroupLifecycle())
    issued_id: JoinGroupResponse | None = None  # sent only after the new group is written

    def written(collector: EffectCollector, error: Error) -> None:
        if error is Error.NONE:
            if issued_id is not None:
                collector.respond(reply_to, issued_id)
            return
        if collector.state.groups.get(group_id) is group and group.stored is None:
            _drop_unwritten_group(collector, group, group_response_error(error))
        if issued_id is not None:
            collector.respond(reply_to, JoinGroupResponse(group_response_error(error)))

    collector.append(group.offsets_partition, [GroupMetadata(group_id, group.to_record_value())], written)
    transition = TRANSITIONS[_first_join_input(request)][group.state]
    if transition.action is GroupAction.ISSUE_ID:
        issued_id = _issue_id(collector, group, request)
    else:
        _join_new(collector, group, request, reply_to)


def _drop_unwritten_group(collector: EffectCollector, group: ClassicGroup, error: Error) -> None:
    """Remove a new group whose first record could not be written; fail its waiting requests (JG-04)."""
    if group.rebalance is not None:
        group.rebalance.cancel()
    for pending in group.pending_members.values():
        pending.expiry.cancel()
    for member in group.members.values():
        member.session.cancel()
        rebalance.fail_awaiting_requests(collector, member, error)
    before = group.transition_to(DEAD, collector.wall_ms)
    del collector.state.groups[group.group_id]
    collector.emit(group, EventKind.GROUP_DELETED, GroupLifecycle(), before=before)


# --- validation -----------------------------------------------------------------------------------------------------


def _request_error(request: JoinGroup) -> Error:
    """Return the error of a request that would make Kafka's join phase throw, or NONE."""
    protocols = request.protocols
    if len(protocols) > 1 and len({protocol.name for protocol in protocols}) != len(protocols):
        return Error.INCONSISTENT_GROUP_PROTOCOL
    # Other unreadable metadata is allowed: it counts as a subscription to every topic (EX-09).
    if request.protocol_type == CONSUMER:
        for _, metadata in protocols:
            if is_overlong(metadata):
                return Error.INVALID_REQUEST
    return Error.NONE


def _has_capacity(collector: EffectCollector, group: ClassicGroup, member_id: str) -> bool:
    """Whether group.max.size allows this member (JG-38, JG-39); pending members do not count (JG-12)."""
    limit = collector.state.config.group_max_size
    if len(group.members) < limit:
        return True
    member = group.members.get(member_id)
    if group.state in (INITIAL, PREPARING):
        return (member is not None and member.awaiting_join is not None) or group.awaiting_join_count < limit
    if group.state in (COMPLETING, STABLE):
        return member is not None
    return True


def _reject_full(collector: EffectCollector, group: ClassicGroup, request: JoinGroup, reply_to: object) -> None:
    """Reject a join because the group is full; remove its id so that the join phase does not wait for it."""
    _emit_rejected(collector, group, request, Error.GROUP_MAX_SIZE_REACHED)
    collector.respond(reply_to, JoinGroupResponse(Error.GROUP_MAX_SIZE_REACHED))
    if (pending := group.pending_members.pop(request.member_id, None)) is not None:
        pending.expiry.cancel()
    if (member := group.members.get(request.member_id)) is not None:
        rebalance.remove_member(collector, member)
    if group.state is PREPARING:
        rebalance.complete_if_joined(collector, group)


def _reject(
    collector: EffectCollector, group: ClassicGroup | None, request: JoinGroup, reply_to: object, error: Error
) -> None:
    """Reject a join; the response echoes the member id of the request (JG-06)."""
    if group is not None:
        _emit_rejected(collector, group, request, error)
    collector.respond(reply_to, JoinGroupResponse(error, member_id=request.member_id))


def _emit_rejected(collector: EffectCollector, group: ClassicGroup, request: JoinGroup, error: Error) -> None:
    known = group.members.get(request.member_id) or group.pending_members.get(request.member_id)
    collector.emit(
        group,
        EventKind.JOIN_REFUSED,
        JoinRefused(error.name),
        member=known,
        member_id=request.member_id or None,
        instance_id=request.group_instance_id,
    )


# --- new members ----------------------------------------------------------------------------------------------------


def _join_new(collector: EffectCollector, group: ClassicGroup, request: JoinGroup, reply_to: object) -> None:
    """Handle a join without an id: a new member, or a static one that rejoins (JG-07, JG-08, JG-13)."""
    transition = TRANSITIONS[_first_join_input(request)][group.state]
    if transition.action is GroupAction.REJECT:
        return _reject(collector, group, request, reply_to, transition.error)
    if not group.supports(request.protocol_type, request.protocols):
        return _reject(collector, group, request, reply_to, Error.INCONSISTENT_GROUP_PROTOCOL)
    instance_id = request.group_instance_id
    if transition.action is GroupAction.ISSUE_ID:
        collector.respond(reply_to, _issue_id(collector, group, request))
    elif instance_id is None:
        _add_member(collector, group, request, f"{request.client_id}-{request.uuid}", reply_to)
    elif instance_id in group.static_members:
        _rejoin_static(collector, group, group.members[group.static_members[instance_id]], request, reply_to)
    else:
        _add_member(collector, group, request, f"{instance_id}-{request.uuid}", reply_to)


def _first_join_input(request: JoinGroup) -> GroupInput:
    """Classify a join without a member id."""
    dynamic = request.group_instance_id is None
    return GroupInput.JOIN_WITHOUT_ID if dynamic and request.requires_known_member_id else GroupInput.JOIN_NEW


def _issue_id(collector: EffectCollector, group: ClassicGroup, request: JoinGroup) -> JoinGroupResponse:
    """Issue a member id, so that a lost response does not leave an unused member in the group (JG-08)."""
    pending = PendingMember(group, f"{request.client_id}-{request.uuid}", request)
    group.pending_members[pending.member_id] = pending
    collector.state.timers.arm(pending.expiry, collector.now_ms + request.session_timeout_ms)
    collector.emit(group, EventKind.MEMBER_ID_ISSUED, MemberIdTimeout(request.session_timeout_ms), member=pending)
    return JoinGroupResponse(Error.MEMBER_ID_REQUIRED, member_id=pending.member_id)


def pending_member_expired(collector: EffectCollector, pending: PendingMember) -> None:
    """Remove an issued id that was not used in time (JG-10); an initial delay may end with it (JG-37)."""
    group = pending.group
    del group.pending_members[pending.member_id]
    collector.emit(group, EventKind.PENDING_MEMBER_EXPIRED, MemberIdTimeout(pending.session_timeout_ms), member=pending)
    if TRANSITIONS[GroupInput.PENDING_MEMBER_EXPIRED][group.state].action is GroupAction.TRY_COMPLETE_JOIN:
        rebalance.complete_if_joined(collector, group)


def _add_member(
    collector: EffectCollector, group: ClassicGroup, request: JoinGroup, member_id: str, reply_to: object
) -> None:
    """Add a new member and rebalance (JG-07, JG-09, JG-13)."""
    if (pending := group.pending_members.get(member_id)) is not None:
        pending.expiry.cancel()
    member = ClassicGroupMember(
        group,
        member_id,
        request.group_instance_id,
        request.client_id,
        request.client_host,
        request.session_timeout_ms,
        request.rebalance_timeout_ms,
        request.protocols,
    )
    member.is_new = True
    member.last_seen_ms = collector.now_ms
    group.add(member, request.protocol_type)
    group.await_join(member, reply_to)
    # JG-24: the session starts with the response; until then only this long timer expires the member.
    collector.state.timers.arm(member.session, collector.now_ms + collector.state.config.new_member_join_timeout_ms)
    action = TRANSITIONS[GroupInput.JOIN_NEW][group.state].action
    if action is GroupAction.DELAY:
        assert group.rebalance is not None
        group.rebalance.has_new_member = True  # JG-36
    collector.emit(
        group, EventKind.MEMBER_JOINED, _joined(request, changed=None), member=member, trigger=Trigger.MEMBER_JOIN
    )
    if action is GroupAction.AWAIT:  # the rebalance has its cause already
        return rebalance.complete_if_joined(collector, group)
    instance = "null" if request.group_instance_id is None else request.group_instance_id
    reason = f"Adding new member {member_id} with group instance id {instance}; client reason: {_reason(request)}"
    rebalance.trigger(collector, group, GroupInput.JOIN_NEW, RebalanceCause(Trigger.MEMBER_JOIN, reason, member))


def _reason(request: JoinGroup) -> str:
    return request.reason or NO_REASON


def _joined(request: JoinGroup, *, changed: bool | None) -> MemberJoined:
    is_consumer = request.protocol_type == CONSUMER
    return MemberJoined(
        request.session_timeout_ms,
        request.rebalance_timeout_ms if request.rebalance_timeout_ms >= 0 else request.session_timeout_ms,
        tuple([name for name, _ in request.protocols]),
        changed,
        _reason(request),
        # A rejoin has the same topics, or its trigger names the change.
        subscribed_topics(request.protocols[0].metadata) if changed is None and is_consumer else (),
        (request.client_software or None) if changed is None else None,
    )


# --- rejoining members ----------------------------------------------------------------------------------------------


def _join_known(collector: EffectCollector, group: ClassicGroup, request: JoinGroup, reply_to: object) -> None:
    """Handle a join with a member id (JG-09, JG-14 … JG-23)."""
    if group.state is DEAD:
        return _reject(collector, group, request, reply_to, TRANSITIONS[GroupInput.JOIN_NEW][DEAD].error)
    if not group.supports(request.protocol_type, request.protocols):
        return _reject(collector, group, request, reply_to, Error.INCONSISTENT_GROUP_PROTOCOL)
    member_id = request.member_id
    if member_id in group.pending_members:
        if request.group_instance_id is not None:
            _emit_rejected(collector, group, request, Error.UNKNOWN_SERVER_ERROR)
            return collector.respond(reply_to, JoinGroupResponse(Error.UNKNOWN_SERVER_ERROR))  # JG-14
        return _add_member(collector, group, request, member_id, reply_to)
    if (
        error := check_identity(collector, group, member_id, request.group_instance_id, "join-group")
    ) is not Error.NONE:
        return _reject(collector, group, request, reply_to, error)
    _rejoin(collector, group, group.members[member_id], request, reply_to)


def _rejoin(
    collector: EffectCollector, group: ClassicGroup, member: ClassicGroupMember, request: JoinGroup, reply_to: object
) -> None:
    """Handle the rejoin of a member, with unchanged or changed metadata (JG-17 … JG-22)."""
    changed = member.protocols != request.protocols
    leader = group.leader_id == member.member_id
    group_input = GroupInput.JOIN_CHANGED if changed else GroupInput.JOIN_LEADER if leader else GroupInput.JOIN_FOLLOWER
    transition = TRANSITIONS[group_input][group.state]
    if transition.action is GroupAction.RESPOND:
        # JG-18: Kafka 4.3.1 changes neither the session timer nor the session timeout.
        member.last_seen_ms = collector.now_ms
        collector.emit(group, EventKind.MEMBER_REJOINED, _joined(request, changed=False), member=member)
        collector.respond(reply_to, rebalance.join_response(group, member))
        return
    trigger, topics = triggers.rejoin_trigger(group, member, request, collector.state.topics)
    state = group.state
    _update_and_await_join(collector, group, member, request, reply_to)
    collector.emit(group, EventKind.MEMBER_REJOINED, _joined(request, changed=changed), member=member, trigger=trigger)
    action = "Leader {} re-joining group" if leader and state is STABLE else "Updating metadata for member {}"
    reason = f"{action.format(member.member_id)} during {state.wire_name}; client reason: {_reason(request)}"
    rebalance.trigger(collector, group, group_input, RebalanceCause(trigger, reason, member, topics))


def _update_and_await_join(
    collector: EffectCollector, group: ClassicGroup, member: ClassicGroupMember, request: JoinGroup, reply_to: object
) -> None:
    """Update a member from its request and keep the request waiting; an older waiting join must retry.

    As in Kafka, client id and host stay those of the member's first join.
    """
    group.update(member, request.protocols, request.session_timeout_ms, request.rebalance_timeout_ms)
    member.last_seen_ms = collector.now_ms
    superseded = group.await_join(member, reply_to)
    if superseded is not None:
        collector.respond(superseded, JoinGroupResponse(Error.REBALANCE_IN_PROGRESS, member_id=member.member_id))


# --- rejoining static members ---------------------------------------------------------------------------------------


def _rejoin_static(
    collector: EffectCollector, group: ClassicGroup, member: ClassicGroupMember, request: JoinGroup, reply_to: object
) -> None:
    """Handle a static member that rejoins with a new id; the old id is fenced (JG-41 … JG-48)."""
    old_id = member.member_id
    before = (member.protocols, member.session_timeout_ms, member.rebalance_timeout_ms)
    old_leader = group.leader_id
    assert old_leader is not None
    new_id = f"{member.group_instance_id}-{request.uuid}"
    fence_old_id(collector, group, member, new_id)
    group.replace(member, new_id)
    _update_and_await_join(collector, group, member, request, reply_to)
    rebalance.extend_session(collector, member)
    protocol_changes = group.state is STABLE and group.select_protocol() != group.protocol_name
    group_input = GroupInput.JOIN_STATIC_OTHER_PROTOCOL if protocol_changes else GroupInput.JOIN_STATIC
    transition = TRANSITIONS[group_input][group.state]
    rebalances = transition.action is GroupAction.REBALANCE
    trigger = Trigger.STATIC_CHANGED if rebalances else None
    collector.emit(group, EventKind.MEMBER_REPLACED, MemberReplaced(old_id, rebalances), member=member, trigger=trigger)
    if transition.action is not GroupAction.REPLACE_MEMBER:
        instance = member.group_instance_id
        if protocol_changes:
            action = (
                f"Group's selectedProtocol will change because static member {member.member_id} "
                f"with instance id {instance} joined with change of protocol"
            )
        else:
            action = f"Updating metadata for static member {member.member_id} with instance id {instance}"
        reason = f"{action}; client reason: {_reason(request)}"
        return rebalance.trigger(collector, group, group_input, RebalanceCause(Trigger.STATIC_CHANGED, reason, member))

    def written(collector: EffectCollector, error: Error) -> None:
        if group.members.get(new_id) is not member or member.awaiting_join is not reply_to:
            return  # the member left, was replaced again, or the join belongs to a rebalance
        if group.state is not STABLE:
            return  # a rebalance started since: the waiting join belongs to it
        group.pop_awaiting_join(member)
        if error is Error.NONE:
            collector.respond(reply_to, _replaced_response(group, member, request, old_leader))
            return
        _undo_replacement(collector, group, member, old_id, before)  # JG-44
        collector.respond(reply_to, JoinGroupResponse(group_response_error(error)))

    collector.append(group.offsets_partition, [GroupMetadata(group.group_id, group.to_record_value())], written)


def fence_old_id(collector: EffectCollector, group: ClassicGroup, member: ClassicGroupMember, new_id: str) -> None:
    """Fail the waiting requests of the old id with FENCED_INSTANCE_ID (JG-48)."""
    if member.awaiting_join is not None:
        emit_fenced(collector, group, member.member_id, member.group_instance_id, "join-group", holder=new_id)
    if member.awaiting_sync is not None:
        emit_fenced(collector, group, member.member_id, member.group_instance_id, "sync-group", holder=new_id)
    rebalance.fail_awaiting_requests(collector, member, Error.FENCED_INSTANCE_ID, member_id=member.member_id)


def _replaced_response(
    group: ClassicGroup, member: ClassicGroupMember, request: JoinGroup, old_leader: str
) -> JoinGroupResponse:
    """Build the response for a static member that was replaced without a rebalance.

    A leader that supports `skip_assignment` gets the member list, to monitor the topics (JG-42). An older leader gets
    the previous leader id, so that it acts as a follower and does not assign again (JG-43).
    """
    leader = member.member_id == group.leader_id
    skip = request.supports_skipping_assignment
    assert group.leader_id is not None
    return JoinGroupResponse(
        Error.NONE,
        member_id=member.member_id,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id if skip else old_leader,
        skip_assignment=leader and skip,
        members=group.joined_members() if leader and skip else (),
    )


def _undo_replacement(
    collector: EffectCollector,
    group: ClassicGroup,
    member: ClassicGroupMember,
    old_id: str,
    before: tuple[tuple[JoinProtocol, ...], int, int],
) -> None:
    """Restore the old member id and settings after the replacement could not be written (JG-44)."""
    protocols, session_ms, rebalance_ms = before
    group.update(member, protocols, session_ms, rebalance_ms)
    group.replace(member, old_id)
    rebalance.extend_session(collector, member)
