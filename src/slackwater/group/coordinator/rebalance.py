"""A rebalance from its trigger to a stable group, shared by JoinGroup, SyncGroup, LeaveGroup and the timers.

Invariants:
- A rebalance starts from Empty, Stable or CompletingRebalance; a trigger in PreparingRebalance only tries to end the
  join phase (ST-06).
- Every start emits an event with its cause: member, reason, generation.
- A waiting request gets exactly one response, also when its member is removed, replaced, or sends the request again.
"""

from slackwater.group.coordinator.effect_collector import EffectCollector
from slackwater.group.coordinator.group import ClassicGroup, ClassicGroupMember, OngoingRebalance, RebalanceCause
from slackwater.group.coordinator.records import GroupMetadata
from slackwater.group.coordinator.states import (
    COMPLETING,
    EMPTY,
    INITIAL,
    PREPARING,
    STABLE,
    TRANSITIONS,
    GroupAction,
    GroupInput,
)
from slackwater.group.errors import Error
from slackwater.group.events import (
    LEADER_FAILED_TO_JOIN,
    LEADER_LEFT,
    EventKind,
    GenerationFormed,
    GroupLifecycle,
    LeaderChanged,
    MemberTimedOut,
    RebalanceCompleted,
    RebalanceFailed,
    RebalanceStarted,
    RebalanceWaiting,
    Trigger,
)
from slackwater.group.messages import NO_MEMBER, JoinGroupResponse, SyncGroupResponse
from slackwater.group.write_errors import group_response_error

WAITING_EVENT_INTERVAL_MS = 1_000  # also the minimum duration of a rebalance that is reported


def trigger(collector: EffectCollector, group: ClassicGroup, group_input: GroupInput, cause: RebalanceCause) -> None:
    """Start a rebalance, or try to end the join phase, as TRANSITIONS says."""
    match TRANSITIONS[group_input][group.state].action:
        case GroupAction.REBALANCE:
            start(collector, group, cause)
        case GroupAction.AWAIT | GroupAction.TRY_COMPLETE_JOIN:
            complete_if_joined(collector, group)
        case _:
            pass


def start(
    collector: EffectCollector,
    group: ClassicGroup,
    cause: RebalanceCause,
    *,
    sync_error: Error = Error.REBALANCE_IN_PROGRESS,
) -> None:
    """Start a rebalance; waiting syncs get `sync_error` (ST-05, ST-06, ST-10)."""
    if group.state is COMPLETING:
        _abort(collector, group, sync_error)
    if group.rebalance is not None:
        group.rebalance.cancel()
    rebalance = group.rebalance = OngoingRebalance(group, cause, collector.now_ms)
    config = collector.state.config
    initial = group.state is EMPTY
    before = group.transition_to(INITIAL if initial else PREPARING, collector.wall_ms)
    collector.emit(
        group,
        EventKind.REBALANCE_STARTED,
        RebalanceStarted(
            culprit=cause.culprit.member_id if cause.culprit is not None else None,
            old_generation=group.generation_id,
            timeout_ms=rebalance.timeout_ms,
            initial_delay=initial,
            reason=cause.reason,
            topics=cause.topics,
        ),
        member=cause.culprit,
        trigger=cause.trigger,
        before=before,
    )
    if initial:  # JG-34
        rebalance.delay_ms = config.group_initial_rebalance_delay_ms
        rebalance.remaining_ms = max(rebalance.timeout_ms - rebalance.delay_ms, 0)
        collector.state.timers.arm(rebalance.join_timer, collector.now_ms + rebalance.delay_ms)
    elif group.all_joined() or not group.members:  # ST-11: an empty group does not wait for pending members
        end_join_phase(collector, group)
        return
    else:
        collector.state.timers.arm(rebalance.join_timer, collector.now_ms + rebalance.timeout_ms)
    collector.state.timers.arm(rebalance.waiting_timer, collector.now_ms + WAITING_EVENT_INTERVAL_MS)


def complete_if_joined(collector: EffectCollector, group: ClassicGroup) -> None:
    """End the join phase early when all members have joined (JG-28)."""
    if group.all_joined():
        end_join_phase(collector, group)


def join_timer_expired(collector: EffectCollector, rebalance: OngoingRebalance) -> None:
    """End the join phase, or extend the initial delay."""
    match TRANSITIONS[GroupInput.JOIN_TIMER_EXPIRED][rebalance.group.state].action:
        case GroupAction.EXTEND_DELAY:
            initial_delay_expired(collector, rebalance)
        case GroupAction.END_JOIN_PHASE:
            end_join_phase(collector, rebalance.group)  # JG-29: without the members that did not rejoin in time
        case _:
            pass


def initial_delay_expired(collector: EffectCollector, rebalance: OngoingRebalance) -> None:
    """Extend the initial delay if a member joined since, up to the first member's rebalance timeout (JG-35)."""
    if rebalance.has_new_member and rebalance.remaining_ms > 0:
        rebalance.has_new_member = False
        previous_ms = rebalance.delay_ms
        rebalance.delay_ms = min(collector.state.config.group_initial_rebalance_delay_ms, rebalance.remaining_ms)
        rebalance.remaining_ms = max(rebalance.remaining_ms - previous_ms, 0)
        collector.state.timers.arm(rebalance.join_timer, collector.now_ms + rebalance.delay_ms)
    else:
        end_join_phase(collector, rebalance.group)


def end_join_phase(collector: EffectCollector, group: ClassicGroup) -> None:
    """Remove absent members, form the next generation and respond to the joins (ST-07, ST-08, JG-29 … JG-33)."""
    rebalance = group.rebalance
    assert rebalance is not None
    rebalance.join_timer.cancel()
    for member in [m for m in group.members.values() if m.awaiting_join is None and m.group_instance_id is None]:
        remove_member(collector, member)
        detail = MemberTimedOut("rebalance", rebalance.timeout_ms, member.last_seen_ms)
        collector.emit(group, EventKind.MEMBER_DROPPED, detail, member=member, trigger=Trigger.REBALANCE_TIMEOUT)
    if group.members and not elect_leader(collector, group):
        # JG-30: only absent static members are left. The rebalance ends when one rejoins or all sessions expire.
        rebalance.timeout_ms = group.rebalance_timeout_ms()
        collector.state.timers.arm(rebalance.join_timer, collector.now_ms + rebalance.timeout_ms)
        return
    group.begin_generation()
    if not group.members:
        _become_empty(collector, group, rebalance)
        return
    before = group.transition_to(COMPLETING, collector.wall_ms)
    assert group.leader_id is not None
    assert group.protocol_name is not None
    static = len(group.static_members)
    formed = GenerationFormed(group.leader_id, group.protocol_name, static, collector.now_ms - rebalance.started_ms)
    collector.emit(group, EventKind.GENERATION_FORMED, formed, before=before, trigger=rebalance.cause.trigger)
    for member in group.members.values():
        if (reply_to := group.pop_awaiting_join(member)) is not None:
            collector.respond(reply_to, join_response(group, member))
        member.is_new = False
        extend_session(collector, member)  # JG-25, SE-06: also for an absent static member
    rebalance.timeout_ms = group.rebalance_timeout_ms()
    collector.state.timers.arm(rebalance.sync_timer, collector.now_ms + rebalance.timeout_ms)
    collector.state.timers.arm(rebalance.waiting_timer, collector.now_ms + WAITING_EVENT_INTERVAL_MS)
    rebalance.reported_waiting = ()


def join_response(group: ClassicGroup, member: ClassicGroupMember) -> JoinGroupResponse:
    """Build a join response for the current generation (JG-20, JG-32)."""
    assert group.leader_id is not None
    return JoinGroupResponse(
        Error.NONE,
        member.member_id,
        group.generation_id,
        group.protocol_type,
        group.protocol_name,
        group.leader_id,
        False,  # skip_assignment
        group.joined_members() if member.member_id == group.leader_id else (),
    )


def elect_leader(collector: EffectCollector, group: ClassicGroup) -> bool:
    """Choose a leader that has rejoined (JG-31); return False when no member has."""
    leader_id = group.leader_id
    if leader_id is not None and group.members[leader_id].awaiting_join is not None:
        return True
    for member in group.members.values():
        if member.awaiting_join is not None:
            group.leader_id = member.member_id
            detail = LeaderChanged(leader_id, LEADER_FAILED_TO_JOIN)
            collector.emit(group, EventKind.LEADER_CHANGED, detail, member=member)
            return True
    return False


def _become_empty(collector: EffectCollector, group: ClassicGroup, rebalance: OngoingRebalance) -> None:
    before = group.transition_to(EMPTY, collector.wall_ms)
    rebalance.cancel()
    group.rebalance = None
    group.leader_id = None
    collector.emit(
        group, EventKind.GROUP_EMPTIED, GroupLifecycle(members=0), before=before, trigger=rebalance.cause.trigger
    )
    # If this write fails, a restart restores the last stored generation, and its sessions expire.
    collector.append(
        group.offsets_partition,
        [GroupMetadata(group.group_id, group.to_record_value())],
        lambda _collector, _error: None,
    )


# --- the sync phase -------------------------------------------------------------------------------------------------


def assignment_written(
    collector: EffectCollector, group: ClassicGroup, generation_id: int, assignments: dict[str, bytes]
) -> None:
    """Respond to the waiting syncs after the assignment is written (ST-09, SG-06)."""
    if group.generation_id != generation_id:
        return  # SG-07: a new generation formed during the write
    if TRANSITIONS[GroupInput.ASSIGNMENT_WRITTEN][group.state].action is not GroupAction.PROPAGATE_ASSIGNMENT:
        return
    group.assignment_in_flight = False
    before = group.transition_to(STABLE, collector.wall_ms)
    rebalance = group.rebalance
    assert rebalance is not None
    rebalance.waiting_timer.cancel()
    for member in group.members.values():
        member.assignment = assignments.get(member.member_id, b"")
        if member.awaiting_sync is not None:
            respond_to_sync(collector, group, member)
            extend_session(collector, member)  # SG-10
    collector.emit(
        group, EventKind.REBALANCE_COMPLETED, RebalanceCompleted(collector.now_ms - rebalance.started_ms), before=before
    )


def assignment_write_failed(
    collector: EffectCollector, group: ClassicGroup, generation_id: int, error: Error, leader: ClassicGroupMember
) -> None:
    """Start a rebalance because the assignment could not be written (SG-08)."""
    if group.generation_id != generation_id:
        return
    if TRANSITIONS[GroupInput.ASSIGNMENT_WRITE_FAILED][group.state].action is not GroupAction.REBALANCE:
        return
    client_error = group_response_error(error)
    reason = f"Error {client_error.name} when storing group assignment during SyncGroup (member: {leader.member_id})."
    start(collector, group, RebalanceCause(Trigger.UNKNOWN, reason, leader), sync_error=client_error)


def respond_to_sync(collector: EffectCollector, group: ClassicGroup, member: ClassicGroupMember) -> None:
    """Respond to a waiting sync with the member's assignment."""
    reply_to, member.awaiting_sync = member.awaiting_sync, None
    collector.respond(
        reply_to, SyncGroupResponse(Error.NONE, group.protocol_type, group.protocol_name, member.assignment)
    )


def _abort(collector: EffectCollector, group: ClassicGroup, error: Error) -> None:
    """Fail the waiting syncs of a generation that did not become stable; clear its assignments (ST-10)."""
    rebalance = group.rebalance
    assert rebalance is not None
    detail = RebalanceFailed(error.name, collector.now_ms - rebalance.started_ms)
    collector.emit(group, EventKind.REBALANCE_FAILED, detail, trigger=rebalance.cause.trigger)
    group.assignment_in_flight = False
    for member in group.members.values():
        member.assignment = b""
        if fail_awaiting_sync(collector, member, error):
            extend_session(collector, member)


def mark_synced(group: ClassicGroup, member: ClassicGroupMember) -> None:
    """Record that a member has synced; cancel the sync timer when all have (SG-12)."""
    group.unsynced.pop(member.member_id, None)
    if not group.unsynced and group.rebalance is not None:
        group.rebalance.sync_timer.cancel()


def sync_timer_expired(collector: EffectCollector, rebalance: OngoingRebalance) -> None:
    """Remove the members that did not sync in time, the leader included (SG-11)."""
    group = rebalance.group
    if TRANSITIONS[GroupInput.SYNC_TIMER_EXPIRED][group.state].action is not GroupAction.REMOVE_UNSYNCED:
        return
    late = [group.members[member_id] for member_id in group.unsynced]
    names = ", ".join(member.member_id for member in late)
    for member in late:
        remove_member(collector, member)
        detail = MemberTimedOut("sync", rebalance.timeout_ms, member.last_seen_ms)
        collector.emit(group, EventKind.MEMBER_UNSYNCED, detail, member=member, trigger=Trigger.SYNC_TIMEOUT)
    reason = f"Removing [{names}] on pending sync request expiration"
    start(collector, group, RebalanceCause(Trigger.SYNC_TIMEOUT, reason, late[0]))


# --- members --------------------------------------------------------------------------------------------------------


def remove_member(collector: EffectCollector, member: ClassicGroupMember) -> None:
    """Remove a member and fail its waiting requests with UNKNOWN_MEMBER_ID (JG-24, LG-10)."""
    group = member.group
    fail_awaiting_requests(collector, member, Error.UNKNOWN_MEMBER_ID)
    was_leader = group.leader_id == member.member_id
    group.remove(member)
    if was_leader and group.leader_id is not None:
        detail = LeaderChanged(member.member_id, LEADER_LEFT)
        collector.emit(group, EventKind.LEADER_CHANGED, detail, member=group.members[group.leader_id])


def fail_awaiting_requests(
    collector: EffectCollector, member: ClassicGroupMember, error: Error, *, member_id: str = NO_MEMBER
) -> None:
    """Respond to a member's waiting join and sync with an error; the join response carries `member_id`."""
    reply_to = member.group.pop_awaiting_join(member)
    if reply_to is not None:
        collector.respond(reply_to, JoinGroupResponse(error, member_id=member_id))
    fail_awaiting_sync(collector, member, error)


def fail_awaiting_sync(collector: EffectCollector, member: ClassicGroupMember, error: Error) -> bool:
    """Respond to a waiting sync with an error; return False when there is none."""
    reply_to, member.awaiting_sync = member.awaiting_sync, None
    if reply_to is None:
        return False
    collector.respond(reply_to, SyncGroupResponse(error))
    return True


def session_expired(collector: EffectCollector, member: ClassicGroupMember) -> None:
    """Remove a member whose session expired (SE-02, SE-03); removed and replaced members have no timer (SE-04)."""
    group = member.group
    if not member.is_new and (member.awaiting_join is not None or member.awaiting_sync is not None):
        return  # SE-03: a member that waits for our response does not expire
    timer_ms = collector.state.config.new_member_join_timeout_ms if member.is_new else member.session_timeout_ms
    timer = "join" if member.is_new else "session"
    remove_member(collector, member)
    detail = MemberTimedOut(timer, timer_ms, member.last_seen_ms)
    collector.emit(group, EventKind.MEMBER_EXPIRED, detail, member=member, trigger=Trigger.SESSION_TIMEOUT)
    reason = f"removing member {member.member_id} on heartbeat expiration."
    trigger(collector, group, GroupInput.SESSION_EXPIRED, RebalanceCause(Trigger.SESSION_TIMEOUT, reason, member))


def extend_session(collector: EffectCollector, member: ClassicGroupMember) -> None:
    """Restart a member's session (SE-01)."""
    collector.state.timers.arm(member.session, collector.now_ms + member.session_timeout_ms)


def emit_waiting(collector: EffectCollector, rebalance: OngoingRebalance) -> None:
    """Emit the members a long rebalance waits for: after one second, and when they change."""
    group = rebalance.group
    detail = waiting_detail(group, rebalance, collector.state.wall_offset_ms)
    if detail.waiting_for != rebalance.reported_waiting:
        rebalance.reported_waiting = detail.waiting_for
        collector.emit(group, EventKind.REBALANCE_WAITING, detail, trigger=rebalance.cause.trigger)
    collector.state.timers.arm(rebalance.waiting_timer, collector.now_ms + WAITING_EVENT_INTERVAL_MS)


def waiting_detail(group: ClassicGroup, rebalance: OngoingRebalance, wall_offset_ms: int) -> RebalanceWaiting:
    """Return the members a rebalance waits for, and its deadline in wall time."""
    deadline = rebalance.sync_timer if group.state is COMPLETING else rebalance.join_timer
    return RebalanceWaiting(group.waiting_for(), deadline.deadline_ms + wall_offset_ms)
