"""JoinGroup: ask to be, or to stay, a member in the next generation (JG-01 … JG-51).

Rules kept here
- A request that is refused changes nothing, with one exception that is Kafka's: an id refused because the group is
  full is forgotten (JG-38).
- What a request is (`GroupInput`) is found out here; what to do with it stands in the table.
"""

from typing import Final

from slackwater.group.coordinator import rebalance, triggers
from slackwater.group.coordinator.effect_collector import EffectCollector, response_error
from slackwater.group.coordinator.group import ClassicGroup, ClassicGroupMember, PendingMember, RebalanceCause
from slackwater.group.coordinator.identity import identify, tell_fenced
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
from slackwater.group.coordinator.subscriptions import CONSUMER, is_overlong
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

NOT_PROVIDED: Final = "not provided"


def join(turn: EffectCollector, request: JoinGroup, caller: object) -> None:
    """Answer, park, or refuse a join."""
    desk = turn.desk
    group_id = request.group_id
    if not group_id:
        return _refuse(turn, None, request, caller, Error.INVALID_GROUP_ID)
    config = desk.config
    if not config.group_min_session_timeout_ms <= request.session_timeout_ms <= config.group_max_session_timeout_ms:
        return _refuse(turn, desk.groups.get(group_id), request, caller, Error.INVALID_SESSION_TIMEOUT)
    group = desk.groups.get(group_id)
    if group is None:
        if (error := desk.refusal(group_id)) is not Error.NONE:
            return turn.answer(caller, JoinGroupResponse(error))  # nothing is known here, so no id is echoed
        if request.member_id != NO_MEMBER:
            return _refuse(turn, None, request, caller, Error.UNKNOWN_MEMBER_ID)  # JG-03
        return _join_absent(turn, group_id, request, caller)
    if (error := _malformed(request)) is not Error.NONE:
        return _refuse(turn, group, request, caller, error)
    if not _has_room(turn, group, request.member_id):
        return _refuse_for_size(turn, group, request, caller)
    if request.member_id == NO_MEMBER:
        _join_new(turn, group, request, caller)
    else:
        _join_known(turn, group, request, caller)


def _join_absent(turn: EffectCollector, group_id: str, request: JoinGroup, caller: object) -> None:
    """The first join of a group creates it (JG-04)."""
    group = ClassicGroup(group_id, turn.desk.shard_of(group_id), turn.now_ms)
    if (error := _malformed(request)) is Error.NONE and not group.supports(request.protocol_type, request.protocols):
        error = Error.INCONSISTENT_GROUP_PROTOCOL  # JG-05
    if error is not Error.NONE:
        return _refuse(turn, None, request, caller, error)
    turn.desk.groups[group_id] = group
    turn.tell(group, EventKind.GROUP_CREATED, GroupLifecycle())
    # An id that was issued is promised only once the group that remembers it is written.
    promised: list[JoinGroupResponse] = []

    def written(later: EffectCollector, error: Error) -> None:
        if error is Error.NONE:
            for response in promised:
                later.answer(caller, response)
            return
        if later.desk.groups.get(group_id) is group and group.stored is None:
            _abandon(later, group, response_error(error))
        for _ in promised:
            later.answer(caller, JoinGroupResponse(response_error(error)))

    turn.append(group.shard, [GroupMetadata(group_id, group.to_store())], written)
    if request.group_instance_id is None and request.requires_known_member_id:
        promised.append(_issue_id(turn, group, request))
    else:
        _join_new(turn, group, request, caller)


def _abandon(turn: EffectCollector, group: ClassicGroup, error: Error) -> None:
    """A new group that could not be written is gone again; whoever waits in it hears why (JG-04)."""
    if group.round is not None:
        group.round.cancel()
    for pending in group.pending.values():
        pending.expiry.cancel()
    for member in group.members.values():
        member.session.cancel()
        rebalance.dismiss(turn, member, error)
    before = group.move(DEAD, turn.now_ms)
    del turn.desk.groups[group.group_id]
    turn.tell(group, EventKind.GROUP_DELETED, GroupLifecycle(), before=before)


# --- who may join ---------------------------------------------------------------------------------------------------


def _malformed(request: JoinGroup) -> Error:
    """Requests that would make Kafka's join phase throw and the group hang are refused at the door."""
    protocols = request.protocols
    if len(protocols) > 1 and len({protocol.name for protocol in protocols}) != len(protocols):
        return Error.INCONSISTENT_GROUP_PROTOCOL
    # What is unreadable otherwise is allowed: it counts as subscribed to everything (EX-09).
    if request.protocol_type == CONSUMER:
        for _, metadata in protocols:
            if is_overlong(metadata):
                return Error.INVALID_REQUEST
    return Error.NONE


def _has_room(turn: EffectCollector, group: ClassicGroup, member_id: str) -> bool:
    """Whether group.max.size lets this one in (JG-38, JG-39); pending ids do not count (JG-12)."""
    limit = turn.desk.config.group_max_size
    if len(group.members) < limit:
        return True
    member = group.members.get(member_id)
    if group.state in (INITIAL, PREPARING):
        return (member is not None and member.parked_join is not None) or group.parked_joins < limit
    if group.state in (COMPLETING, STABLE):
        return member is not None or len(group.members) < limit
    return True


def _refuse_for_size(turn: EffectCollector, group: ClassicGroup, request: JoinGroup, caller: object) -> None:
    """The group is full: the id is forgotten, and the join phase does not wait for it."""
    _tell_refused(turn, group, request, Error.GROUP_MAX_SIZE_REACHED)
    turn.answer(caller, JoinGroupResponse(Error.GROUP_MAX_SIZE_REACHED))
    if (pending := group.pending.pop(request.member_id, None)) is not None:
        pending.expiry.cancel()
    if (member := group.members.get(request.member_id)) is not None:
        rebalance.drop(turn, member)
    if group.state is PREPARING:
        rebalance.complete_if_joined(turn, group)


def _refuse(
    turn: EffectCollector, group: ClassicGroup | None, request: JoinGroup, caller: object, error: Error
) -> None:
    """Say no; a newcomer without an id hears "", anybody else their own id (JG-06)."""
    if group is not None:
        _tell_refused(turn, group, request, error)
    turn.answer(caller, JoinGroupResponse(error, member_id=request.member_id))


def _tell_refused(turn: EffectCollector, group: ClassicGroup, request: JoinGroup, error: Error) -> None:
    known = group.members.get(request.member_id) or group.pending.get(request.member_id)
    turn.tell(
        group,
        EventKind.JOIN_REFUSED,
        JoinRefused(error.name),
        who=known,
        member_id=request.member_id or None,
        instance_id=request.group_instance_id,
    )


# --- newcomers ------------------------------------------------------------------------------------------------------


def _join_new(turn: EffectCollector, group: ClassicGroup, request: JoinGroup, caller: object) -> None:
    """A join without an id: a new member, or a static one that returns (JG-07, JG-08, JG-13)."""
    if group.state is DEAD:
        return _refuse(turn, group, request, caller, Error.COORDINATOR_NOT_AVAILABLE)
    if not group.supports(request.protocol_type, request.protocols):
        return _refuse(turn, group, request, caller, Error.INCONSISTENT_GROUP_PROTOCOL)
    instance_id = request.group_instance_id
    if instance_id is None:
        if request.requires_known_member_id:
            turn.answer(caller, _issue_id(turn, group, request))
        else:
            _admit(turn, group, request, f"{request.client_id}-{request.uuid}", caller)
    elif instance_id in group.static_members:
        _return(turn, group, group.members[group.static_members[instance_id]], request, caller)
    else:
        _admit(turn, group, request, f"{instance_id}-{request.uuid}", caller)


def _issue_id(turn: EffectCollector, group: ClassicGroup, request: JoinGroup) -> JoinGroupResponse:
    """Give out an id, so that a lost answer does not leave a ghost behind (JG-08)."""
    pending = PendingMember(group, f"{request.client_id}-{request.uuid}", request)
    group.pending[pending.member_id] = pending
    turn.desk.timers.arm(pending.expiry, turn.now_ms + request.session_timeout_ms)
    turn.tell(group, EventKind.MEMBER_ID_ISSUED, MemberIdTimeout(request.session_timeout_ms), who=pending)
    return JoinGroupResponse(Error.MEMBER_ID_REQUIRED, member_id=pending.member_id)


def pending_over(turn: EffectCollector, pending: PendingMember) -> None:
    """An issued id that nobody used is dropped (JG-10), also ending an initial delay that waited for it (JG-37)."""
    group = pending.group
    del group.pending[pending.member_id]
    turn.tell(group, EventKind.PENDING_MEMBER_EXPIRED, MemberIdTimeout(pending.session_timeout_ms), who=pending)
    if TRANSITIONS[GroupInput.PENDING_OVER][group.state].act is GroupAction.COMPLETE:
        rebalance.complete_if_joined(turn, group)


def _admit(turn: EffectCollector, group: ClassicGroup, request: JoinGroup, member_id: str, caller: object) -> None:
    """Take a new member in, and rebalance (JG-07, JG-09, JG-13)."""
    if (pending := group.pending.get(member_id)) is not None:
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
    member.last_heard_ms = turn.now_ms
    group.add(member, request.protocol_type)
    group.park_join(member, caller)
    # JG-24: its session starts with the answer; until then only this long timer can expire it.
    turn.desk.timers.arm(member.session, turn.now_ms + turn.desk.config.new_member_join_timeout_ms)
    act = TRANSITIONS[GroupInput.JOIN_NEW][group.state].act
    if act is GroupAction.DELAY:
        assert group.round is not None
        group.round.extended = True  # JG-36
    turn.tell(group, EventKind.MEMBER_JOINED, _joined(request, changed=None), who=member, trigger=Trigger.MEMBER_JOIN)
    if act is GroupAction.PARK:  # most of a crowd: the round has its cause
        return rebalance.complete_if_joined(turn, group)
    instance = "null" if request.group_instance_id is None else request.group_instance_id
    reason = f"Adding new member {member_id} with group instance id {instance}; client reason: {_reason(request)}"
    rebalance.trigger(turn, group, GroupInput.JOIN_NEW, RebalanceCause(Trigger.MEMBER_JOIN, reason, member))


def _reason(request: JoinGroup) -> str:
    return request.reason or NOT_PROVIDED  # JG-51


def _joined(request: JoinGroup, *, changed: bool | None) -> MemberJoined:
    return MemberJoined(
        request.session_timeout_ms,
        request.rebalance_timeout_ms if request.rebalance_timeout_ms >= 0 else request.session_timeout_ms,
        tuple([name for name, _ in request.protocols]),
        changed,
        _reason(request),
    )


# --- members that return --------------------------------------------------------------------------------------------


def _join_known(turn: EffectCollector, group: ClassicGroup, request: JoinGroup, caller: object) -> None:
    """A join with an id (JG-09, JG-14 … JG-23)."""
    if group.state is DEAD:
        return _refuse(turn, group, request, caller, Error.COORDINATOR_NOT_AVAILABLE)
    if not group.supports(request.protocol_type, request.protocols):
        return _refuse(turn, group, request, caller, Error.INCONSISTENT_GROUP_PROTOCOL)
    member_id = request.member_id
    if member_id in group.pending:
        if request.group_instance_id is not None:
            _tell_refused(turn, group, request, Error.UNKNOWN_SERVER_ERROR)
            return turn.answer(caller, JoinGroupResponse(Error.UNKNOWN_SERVER_ERROR))  # JG-14
        return _admit(turn, group, request, member_id, caller)
    if (error := identify(turn, group, member_id, request.group_instance_id, "join-group")) is not Error.NONE:
        return _refuse(turn, group, request, caller, error)
    _rejoin(turn, group, group.members[member_id], request, caller)


def _rejoin(
    turn: EffectCollector, group: ClassicGroup, member: ClassicGroupMember, request: JoinGroup, caller: object
) -> None:
    """A member joins again, with what it said before or with something new (JG-17 … JG-22)."""
    changed = member.protocols != request.protocols
    leader = group.leader_id == member.member_id
    happened = GroupInput.JOIN_CHANGED if changed else GroupInput.JOIN_LEADER if leader else GroupInput.JOIN_FOLLOWER
    outcome = TRANSITIONS[happened][group.state]
    if outcome.act is GroupAction.ANSWER:
        # JG-18 as Kafka 4.3.1 does it: neither the session timer nor its length is touched.
        member.last_heard_ms = turn.now_ms
        turn.tell(group, EventKind.MEMBER_REJOINED, _joined(request, changed=False), who=member)
        turn.answer(caller, rebalance.current_generation(group, member))
        return
    before = member.protocols
    why = triggers.of_rejoin(request.protocol_type, before, request.protocols, request.reason, leader=leader)
    state = group.state
    _take_over(turn, group, member, request, caller)
    turn.tell(group, EventKind.MEMBER_REJOINED, _joined(request, changed=changed), who=member, trigger=why)
    what = "Leader {} re-joining group" if leader and state is STABLE else "Updating metadata for member {}"
    reason = f"{what.format(member.member_id)} during {state.wire_name}; client reason: {_reason(request)}"
    rebalance.trigger(turn, group, happened, RebalanceCause(why, reason, member))


def _take_over(
    turn: EffectCollector, group: ClassicGroup, member: ClassicGroupMember, request: JoinGroup, caller: object
) -> None:
    """Replace what a member said before, and park its join; an older one of its own hears to try again.

    As in Kafka, client id and host stay those of the member's first join, whoever joins in its name.
    """
    group.update(member, request.protocols, request.session_timeout_ms, request.rebalance_timeout_ms)
    member.last_heard_ms = turn.now_ms
    superseded = group.park_join(member, caller)
    if superseded is not None:
        turn.answer(superseded, JoinGroupResponse(Error.REBALANCE_IN_PROGRESS, member_id=member.member_id))


# --- static members that return -------------------------------------------------------------------------------------


def _return(
    turn: EffectCollector, group: ClassicGroup, member: ClassicGroupMember, request: JoinGroup, caller: object
) -> None:
    """A static member comes back under a new id, and the old id is fenced (JG-41 … JG-48)."""
    old_id = member.member_id
    before = (member.protocols, member.session_timeout_ms, member.rebalance_timeout_ms)
    old_leader = group.leader_id
    assert old_leader is not None
    new_id = f"{member.group_instance_id}-{request.uuid}"
    _fence(turn, group, member, new_id)
    group.replace(member, new_id)
    _take_over(turn, group, member, request, caller)
    rebalance.extend_session(turn, member)
    other = group.state is STABLE and group.select_protocol() != group.protocol_name
    happened = GroupInput.JOIN_STATIC_OTHER_PROTOCOL if other else GroupInput.JOIN_STATIC
    outcome = TRANSITIONS[happened][group.state]
    needed = outcome.act is GroupAction.REBALANCE
    why = Trigger.STATIC_CHANGED if needed else None
    turn.tell(group, EventKind.MEMBER_REPLACED, MemberReplaced(old_id, needed), who=member, trigger=why)
    if outcome.act is not GroupAction.SWAP:
        instance = member.group_instance_id
        if other:
            what = (
                f"Group's selectedProtocol will change because static member {member.member_id} "
                f"with instance id {instance} joined with change of protocol"
            )
        else:
            what = f"Updating metadata for static member {member.member_id} with instance id {instance}"
        reason = f"{what}; client reason: {_reason(request)}"
        return rebalance.trigger(turn, group, happened, RebalanceCause(Trigger.STATIC_CHANGED, reason, member))

    def written(later: EffectCollector, error: Error) -> None:
        if group.members.get(new_id) is not member or member.parked_join is not caller:
            return  # it left, was replaced again, or a rebalance took its join over
        if group.state is not STABLE:
            return  # a rebalance started meanwhile: the parked join is part of it
        group.take_join(member)
        if error is Error.NONE:
            later.answer(caller, _swapped(group, member, request, old_leader))
            return
        _restore(later, group, member, old_id, before)  # JG-44
        later.answer(caller, JoinGroupResponse(response_error(error)))

    turn.append(group.shard, [GroupMetadata(group.group_id, group.to_store())], written)


def _fence(turn: EffectCollector, group: ClassicGroup, member: ClassicGroupMember, new_id: str) -> None:
    """Whoever waits under the old id hears that it is fenced, at once (JG-48)."""
    if member.parked_join is not None:
        tell_fenced(turn, group, member.member_id, member.group_instance_id, "join-group", holder=new_id)
    if member.parked_sync is not None:
        tell_fenced(turn, group, member.member_id, member.group_instance_id, "sync-group", holder=new_id)
    rebalance.dismiss(turn, member, Error.FENCED_INSTANCE_ID, member_id=member.member_id)


def _swapped(group: ClassicGroup, member: ClassicGroupMember, request: JoinGroup, old_leader: str) -> JoinGroupResponse:
    """The answer to a static member that is back without a rebalance.

    A leader that knows to skip the assignment gets the member list, to go on watching the topics (JG-42). An older
    one is told the old leader's id, so that it takes itself for a follower and does not assign anew (JG-43).
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


def _restore(
    turn: EffectCollector,
    group: ClassicGroup,
    member: ClassicGroupMember,
    old_id: str,
    before: tuple[tuple[JoinProtocol, ...], int, int],
) -> None:
    """The swap could not be written: the old id and what it said are back (JG-44)."""
    protocols, session_ms, rebalance_ms = before
    group.update(member, protocols, session_ms, rebalance_ms)
    group.replace(member, old_id)
    rebalance.extend_session(turn, member)
