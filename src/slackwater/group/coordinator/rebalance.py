"""A rebalance from its trigger to a stable group: the part that joins, syncs, leaves and timers share.

Rules kept here
- A rebalance starts from Empty, Stable or CompletingRebalance; a trigger in PreparingRebalance only tries to end the
  join phase (ST-06).
- Every start tells its cause: who, why, which generation.
- A parked request is answered exactly once, also when its member is removed, replaced, or asks again.
"""

from slackwater.group.coordinator.effect_collector import EffectCollector, response_error
from slackwater.group.coordinator.group import ClassicGroup, ClassicGroupMember, RebalanceCause, RebalanceRound
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

NOTICE_MS = 1_000  # a round that lasts longer tells whom it waits for


def trigger(turn: EffectCollector, group: ClassicGroup, happened: GroupInput, cause: RebalanceCause) -> None:
    """Do what the table says a state does when something calls for a rebalance."""
    match TRANSITIONS[happened][group.state].act:
        case GroupAction.REBALANCE:
            start(turn, group, cause)
        case GroupAction.PARK | GroupAction.COMPLETE:
            complete_if_joined(turn, group)
        case _:
            pass


def start(
    turn: EffectCollector,
    group: ClassicGroup,
    cause: RebalanceCause,
    *,
    parked_hear: Error = Error.REBALANCE_IN_PROGRESS,
) -> None:
    """Begin a round (ST-05, ST-06, ST-10)."""
    if group.state is COMPLETING:
        _abort(turn, group, parked_hear)
    if group.round is not None:
        group.round.cancel()
    round = group.round = RebalanceRound(group, cause, turn.now_ms)
    config = turn.desk.config
    initial = group.state is EMPTY
    before = group.move(INITIAL if initial else PREPARING, turn.now_ms)
    turn.tell(
        group,
        EventKind.REBALANCE_STARTED,
        RebalanceStarted(
            culprit=cause.culprit.member_id if cause.culprit is not None else None,
            old_generation=group.generation_id,
            timeout_ms=round.timeout_ms,
            initial_delay=initial,
            reason=cause.reason,
        ),
        who=cause.culprit,
        trigger=cause.trigger,
        before=before,
    )
    if initial:  # JG-34
        round.delay_ms = config.group_initial_rebalance_delay_ms
        round.remaining_ms = max(round.timeout_ms - round.delay_ms, 0)
        turn.desk.timers.arm(round.join, turn.now_ms + round.delay_ms)
    elif group.everybody_joined() or not group.members:  # ST-11: a pending id does not keep an empty group waiting
        end_join_phase(turn, group)
        return
    else:
        turn.desk.timers.arm(round.join, turn.now_ms + round.timeout_ms)
    turn.desk.timers.arm(round.notice, turn.now_ms + NOTICE_MS)


def complete_if_joined(turn: EffectCollector, group: ClassicGroup) -> None:
    """End the join phase early when it waits for nobody (JG-28)."""
    if group.everybody_joined():
        end_join_phase(turn, group)


def delay_over(turn: EffectCollector, round: RebalanceRound) -> None:
    """Extend the initial delay if somebody joined since, up to the first joiner's rebalance timeout (JG-35)."""
    group = round.group
    if TRANSITIONS[GroupInput.DELAY_OVER][group.state].act is not GroupAction.EXTEND:
        return
    if round.extended and round.remaining_ms > 0:
        round.extended = False
        previous_ms = round.delay_ms
        round.delay_ms = min(turn.desk.config.group_initial_rebalance_delay_ms, round.remaining_ms)
        round.remaining_ms = max(round.remaining_ms - previous_ms, 0)
        turn.desk.timers.arm(round.join, turn.now_ms + round.delay_ms)
    else:
        end_join_phase(turn, group)


def join_over(turn: EffectCollector, round: RebalanceRound) -> None:
    """The rebalance timeout is over: go on without those who did not rejoin."""
    if TRANSITIONS[GroupInput.JOIN_OVER][round.group.state].act is GroupAction.END:
        end_join_phase(turn, round.group)


def end_join_phase(turn: EffectCollector, group: ClassicGroup) -> None:
    """Drop who did not come, form the generation and tell it to everybody (ST-07, ST-08, JG-29 … JG-33)."""
    round = group.round
    assert round is not None
    round.join.cancel()
    for member in [m for m in group.members.values() if m.parked_join is None and m.group_instance_id is None]:
        drop(turn, member)
        detail = MemberTimedOut("rebalance", round.timeout_ms, member.last_heard_ms)
        turn.tell(group, EventKind.MEMBER_DROPPED, detail, who=member, trigger=Trigger.REBALANCE_TIMEOUT)
    if group.members and not _elect(turn, group):
        # JG-30: only absent static members are left. Their sessions end this, or their return.
        round.timeout_ms = group.rebalance_timeout_ms()
        turn.desk.timers.arm(round.join, turn.now_ms + round.timeout_ms)
        return
    group.next_generation()
    if not group.members:
        _become_empty(turn, group, round)
        return
    before = group.move(COMPLETING, turn.now_ms)
    assert group.leader_id is not None
    assert group.protocol_name is not None
    static = len(group.static_members)
    formed = GenerationFormed(group.leader_id, group.protocol_name, static, turn.now_ms - round.started_ms)
    turn.tell(group, EventKind.GENERATION_FORMED, formed, before=before, trigger=round.cause.trigger)
    for member in group.members.values():
        if (caller := group.take_join(member)) is not None:
            turn.answer(caller, current_generation(group, member))
        member.is_new = False
        extend_session(turn, member)  # JG-25, SE-06: an absent static member's session starts anew, too
    round.timeout_ms = group.rebalance_timeout_ms()
    turn.desk.timers.arm(round.sync, turn.now_ms + round.timeout_ms)
    turn.desk.timers.arm(round.notice, turn.now_ms + NOTICE_MS)
    round.told = ()


def current_generation(group: ClassicGroup, member: ClassicGroupMember) -> JoinGroupResponse:
    """The answer to a join, for the generation as it is (JG-20, JG-32)."""
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


def _elect(turn: EffectCollector, group: ClassicGroup) -> bool:
    """See that the leader is one who rejoined (JG-31); False when nobody did."""
    leader_id = group.leader_id
    if leader_id is not None and group.members[leader_id].parked_join is not None:
        return True
    for member in group.members.values():
        if member.parked_join is not None:
            group.leader_id = member.member_id
            detail = LeaderChanged(leader_id, "failed to join before the rebalance timeout")
            turn.tell(group, EventKind.LEADER_CHANGED, detail, who=member)
            return True
    return False


def _become_empty(turn: EffectCollector, group: ClassicGroup, round: RebalanceRound) -> None:
    before = group.move(EMPTY, turn.now_ms)
    round.cancel()
    group.round = None
    group.leader_id = None
    turn.tell(group, EventKind.GROUP_EMPTIED, GroupLifecycle(members=0), before=before, trigger=round.cause.trigger)
    # If this write fails, a restart brings the last generation back, and its sessions expire: nothing is lost.
    turn.append(group.shard, [GroupMetadata(group.group_id, group.to_store())], lambda _turn, _error: None)


# --- the sync phase -------------------------------------------------------------------------------------------------


def assignment_written(
    turn: EffectCollector, group: ClassicGroup, generation_id: int, assignments: dict[str, bytes]
) -> None:
    """The assignment is safe: everybody gets theirs (ST-09, SG-06)."""
    if group.generation_id != generation_id:
        return  # SG-07: somebody joined while the write was under way
    if TRANSITIONS[GroupInput.ASSIGNMENT_WRITTEN][group.state].act is not GroupAction.SETTLE:
        return
    group.assignment_in_flight = False
    before = group.move(STABLE, turn.now_ms)
    round = group.round
    assert round is not None
    round.notice.cancel()
    for member in group.members.values():
        member.assignment = assignments.get(member.member_id, b"")
        if member.parked_sync is not None:
            answer_sync(turn, group, member)
            extend_session(turn, member)  # SG-10
    turn.tell(group, EventKind.REBALANCE_COMPLETED, RebalanceCompleted(turn.now_ms - round.started_ms), before=before)


def assignment_refused(
    turn: EffectCollector, group: ClassicGroup, generation_id: int, error: Error, leader: ClassicGroupMember
) -> None:
    """The assignment could not be written: everybody rejoins (SG-08)."""
    if group.generation_id != generation_id:
        return
    if TRANSITIONS[GroupInput.ASSIGNMENT_REFUSED][group.state].act is not GroupAction.REBALANCE:
        return
    told = response_error(error)
    reason = f"Error {told.name} when storing group assignment during SyncGroup (member: {leader.member_id})."
    start(turn, group, RebalanceCause(Trigger.UNKNOWN, reason, leader), parked_hear=told)


def answer_sync(turn: EffectCollector, group: ClassicGroup, member: ClassicGroupMember) -> None:
    """Give a parked sync its assignment."""
    caller, member.parked_sync = member.parked_sync, None
    turn.answer(caller, SyncGroupResponse(Error.NONE, group.protocol_type, group.protocol_name, member.assignment))


def _abort(turn: EffectCollector, group: ClassicGroup, error: Error) -> None:
    """A generation that never became stable: parked syncs hear why, assignments are blank (ST-10)."""
    round = group.round
    assert round is not None
    failed = RebalanceFailed(error.name, turn.now_ms - round.started_ms)
    turn.tell(group, EventKind.REBALANCE_FAILED, failed, trigger=round.cause.trigger)
    group.assignment_in_flight = False
    for member in group.members.values():
        member.assignment = b""
        if dismiss_sync(turn, member, error):
            extend_session(turn, member)


def synced(group: ClassicGroup, member: ClassicGroupMember) -> None:
    """A member has sent its sync; when all have, the sync timer is off (SG-12)."""
    group.unsynced.pop(member.member_id, None)
    if not group.unsynced and group.round is not None:
        group.round.sync.cancel()


def sync_over(turn: EffectCollector, round: RebalanceRound) -> None:
    """The sync timer is over: whoever never synced, leader or not, is out (SG-11)."""
    group = round.group
    if TRANSITIONS[GroupInput.SYNC_OVER][group.state].act is not GroupAction.DROP_UNSYNCED:
        return
    late = [group.members[member_id] for member_id in group.unsynced]
    names = ", ".join(member.member_id for member in late)
    for member in late:
        drop(turn, member)
        detail = MemberTimedOut("sync", round.timeout_ms, member.last_heard_ms)
        turn.tell(group, EventKind.MEMBER_UNSYNCED, detail, who=member, trigger=Trigger.SYNC_TIMEOUT)
    reason = f"Removing [{names}] on pending sync request expiration"
    start(turn, group, RebalanceCause(Trigger.SYNC_TIMEOUT, reason, late[0]))


# --- members --------------------------------------------------------------------------------------------------------


def drop(turn: EffectCollector, member: ClassicGroupMember) -> None:
    """Remove a member, and tell whoever still waits in its name that nobody knows it (JG-24, LG-10)."""
    group = member.group
    dismiss(turn, member, Error.UNKNOWN_MEMBER_ID)
    was_leader = group.leader_id == member.member_id
    group.remove(member)
    if was_leader and group.leader_id is not None:
        detail = LeaderChanged(member.member_id, "is no longer a member")
        turn.tell(group, EventKind.LEADER_CHANGED, detail, who=group.members[group.leader_id])


def dismiss(turn: EffectCollector, member: ClassicGroupMember, error: Error, *, member_id: str = NO_MEMBER) -> None:
    """Answer whoever waits in a member's name, join and sync, with an error; a join hears `member_id` with it."""
    caller = member.group.take_join(member)
    if caller is not None:
        turn.answer(caller, JoinGroupResponse(error, member_id=member_id))
    dismiss_sync(turn, member, error)


def dismiss_sync(turn: EffectCollector, member: ClassicGroupMember, error: Error) -> bool:
    """Answer a parked sync with an error; False when there was none."""
    caller, member.parked_sync = member.parked_sync, None
    if caller is None:
        return False
    turn.answer(caller, SyncGroupResponse(error))
    return True


def session_over(turn: EffectCollector, member: ClassicGroupMember) -> None:
    """A member was silent for too long (SE-02, SE-03); whoever was removed or replaced has no timer (SE-04)."""
    group = member.group
    if not member.is_new and (member.parked_join is not None or member.parked_sync is not None):
        return  # SE-03: whoever waits for us cannot be expected to speak
    timer_ms = turn.desk.config.new_member_join_timeout_ms if member.is_new else member.session_timeout_ms
    timer = "join" if member.is_new else "session"
    drop(turn, member)
    detail = MemberTimedOut(timer, timer_ms, member.last_heard_ms)
    turn.tell(group, EventKind.MEMBER_EXPIRED, detail, who=member, trigger=Trigger.SESSION_TIMEOUT)
    reason = f"removing member {member.member_id} on heartbeat expiration."
    trigger(turn, group, GroupInput.SESSION_OVER, RebalanceCause(Trigger.SESSION_TIMEOUT, reason, member))


def extend_session(turn: EffectCollector, member: ClassicGroupMember) -> None:
    """Give a member its full session from now on (SE-01)."""
    turn.desk.timers.arm(member.session, turn.now_ms + member.session_timeout_ms)


def waiting(turn: EffectCollector, round: RebalanceRound) -> None:
    """Tell whom a long round waits for: once it lasts longer than a second, and when that changes."""
    group = round.group
    now_waiting = waiting_of(group, round)
    if now_waiting.waiting_for != round.told:
        round.told = now_waiting.waiting_for
        turn.tell(group, EventKind.REBALANCE_WAITING, now_waiting, trigger=round.cause.trigger)
    turn.desk.timers.arm(round.notice, turn.now_ms + NOTICE_MS)


def waiting_of(group: ClassicGroup, round: RebalanceRound) -> RebalanceWaiting:
    """Whom a round waits for, and until when."""
    deadline = round.sync if group.state is COMPLETING else round.join
    return RebalanceWaiting(group.waiting_for(), deadline.deadline_ms)
