"""Deliberate faults in coordinator and member; each breaks one rule of docs/kafka-behaviours.md.

`BROKEN` maps a name to a function that applies the fault with pytest's monkeypatch. A soak run must detect each one.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from slackwater.group.assignors import CooperativeStickyAssignor
from slackwater.group.coordinator import coordinator as facade
from slackwater.group.coordinator import heartbeat as heartbeats
from slackwater.group.coordinator import join as joins
from slackwater.group.coordinator import offsets, rebalance, states, sync
from slackwater.group.coordinator.coordinator_state import CoordinatorState
from slackwater.group.coordinator.effect_collector import EffectCollector
from slackwater.group.coordinator.effects import Effect, SendResponse
from slackwater.group.coordinator.group import ClassicGroup, ClassicGroupMember, OngoingRebalance
from slackwater.group.coordinator.states import GroupAction, GroupInput, Transition
from slackwater.group.errors import Error
from slackwater.group.events import GroupState
from slackwater.group.member.context import MemberContext
from slackwater.group.member.join_preparation import JoinPreparation
from slackwater.group.messages import Heartbeat, HeartbeatResponse, OffsetCommit

Break = Callable[[pytest.MonkeyPatch], None]
BROKEN: dict[str, Break] = {}


def broken(function: Break) -> Break:
    """Register a fault."""
    BROKEN[function.__name__] = function
    return function


def _set_transition(patch: pytest.MonkeyPatch, group_input: GroupInput, state: GroupState, outcome: Transition) -> None:
    patch.setitem(states.TRANSITIONS[group_input], state, outcome)


@broken
def heartbeat_ignores_the_generation(patch: pytest.MonkeyPatch) -> None:
    """HB-04: a heartbeat of an old generation succeeds."""
    original = heartbeats.heartbeat

    def lax(state: CoordinatorState, heartbeat: Heartbeat, reply_to: object, now_ms: int) -> list[Effect]:
        group = state.groups.get(heartbeat.group_id or "")
        if group is not None and heartbeat.member_id in group.members:
            heartbeat = replace(heartbeat, generation_id=group.generation_id)
        return original(state, heartbeat, reply_to, now_ms)

    patch.setattr(facade, "heartbeat", lax)


@broken
def commit_is_not_fenced(patch: pytest.MonkeyPatch) -> None:
    """OC-06: commits of old generations and unknown members are stored."""
    original = offsets.validate_commit

    def lax(collector: EffectCollector, request: OffsetCommit, group: ClassicGroup | None) -> Error:
        error = original(collector, request, group)
        return Error.NONE if error in (Error.ILLEGAL_GENERATION, Error.UNKNOWN_MEMBER_ID) else error

    patch.setattr(offsets, "validate_commit", lax)


@broken
def cooperative_gives_too_early(patch: pytest.MonkeyPatch) -> None:
    """CS-01: a partition is assigned while another member still owns it."""
    patch.setattr(CooperativeStickyAssignor, "adjust", lambda self, owner, moving: owner)


@broken
def static_swap_does_not_fence(patch: pytest.MonkeyPatch) -> None:
    """JG-49: the old id of a static member is accepted."""
    original = heartbeats.heartbeat

    def lax(state: CoordinatorState, heartbeat: Heartbeat, reply_to: object, now_ms: int) -> list[Effect]:
        group = state.groups.get(heartbeat.group_id or "")
        if group is not None and heartbeat.group_instance_id in group.static_members:
            heartbeat = replace(heartbeat, member_id=group.static_members[heartbeat.group_instance_id or ""])
        return original(state, heartbeat, reply_to, now_ms)

    patch.setattr(facade, "heartbeat", lax)


@broken
def static_swap_forgets_the_old_join(patch: pytest.MonkeyPatch) -> None:
    """JG-48: waiting requests of the old id get no response."""

    def forget(collector: EffectCollector, group: ClassicGroup, member: ClassicGroupMember, new_id: str) -> None:
        group.pop_awaiting_join(member)
        member.awaiting_sync = None

    patch.setattr(joins, "fence_old_id", forget)


@broken
def initial_delay_has_no_cap(patch: pytest.MonkeyPatch) -> None:
    """JG-35: every new member extends the initial delay without limit."""
    original = rebalance.initial_delay_expired

    def lax(collector: EffectCollector, round: OngoingRebalance) -> None:
        round.remaining_ms = 1_000_000
        original(collector, round)

    patch.setattr(rebalance, "initial_delay_expired", lax)


@broken
def commit_does_not_extend_the_session(patch: pytest.MonkeyPatch) -> None:
    """OC-08: a commit does not extend the session."""
    original = offsets.commit

    def lax(collector: EffectCollector, request: OffsetCommit, reply_to: object) -> None:
        group = collector.state.groups.get(request.group_id or "")
        member = None if group is None else group.members.get(request.member_id)
        before_ms = None if member is None else member.session.deadline_ms
        original(collector, request, reply_to)
        if member is not None and before_ms is not None:
            collector.state.timers.arm(member.session, before_ms)

    patch.setitem(facade.HANDLERS, OffsetCommit, lax)


@broken
def followers_rejoin_rebalances(patch: pytest.MonkeyPatch) -> None:
    """JG-18: the unchanged rejoin of a follower starts a rebalance."""
    rebalances = states.TRANSITIONS[GroupInput.JOIN_CHANGED][states.STABLE]
    _set_transition(patch, GroupInput.JOIN_FOLLOWER, states.STABLE, rebalances)


@broken
def assignment_is_sent_before_it_is_written(patch: pytest.MonkeyPatch) -> None:
    """SG-06: members use an assignment that a crash can lose."""
    original = sync.store_assignment

    def hasty(collector: EffectCollector, group: ClassicGroup, leader: ClassicGroupMember, request: Any) -> None:
        original(collector, group, leader, request)
        rebalance.assignment_written(collector, group, group.generation_id, dict(request.assignments))

    patch.setattr(sync, "store_assignment", hasty)


@broken
def commit_is_acknowledged_before_it_is_written(patch: pytest.MonkeyPatch) -> None:
    """OC-12: an acknowledged offset may be lost."""
    original = EffectCollector.append

    def hasty(self: EffectCollector, offsets_partition: int, records: Any, then: Any) -> None:
        appended = tuple(records)
        if appended and all(hasattr(record, "topic") for record in appended):
            then(self, Error.NONE)
            original(self, offsets_partition, appended, lambda _collector, _error: None)
        else:
            original(self, offsets_partition, appended, then)

    patch.setattr(EffectCollector, "append", hasty)


@broken
def join_phase_waits_for_all_members(patch: pytest.MonkeyPatch) -> None:
    """JG-29: a member that sends heartbeats but does not rejoin blocks the group."""
    _set_transition(patch, GroupInput.JOIN_TIMER_EXPIRED, states.PREPARING, Transition(GroupAction.IGNORE))


@broken
def dead_members_never_expire(patch: pytest.MonkeyPatch) -> None:
    """SE-02: dead members keep their partitions."""
    patch.setattr(rebalance, "session_expired", lambda collector, member: None)


@broken
def pending_ids_never_expire(patch: pytest.MonkeyPatch) -> None:
    """JG-10: an unused member id blocks the join phase."""
    patch.setattr(joins, "pending_member_expired", lambda collector, pending: None)
    patch.setattr(
        rebalance,
        "join_timer_expired",
        lambda collector, ongoing: (
            rebalance.initial_delay_expired(collector, ongoing)
            if ongoing.group.state is states.INITIAL
            else rebalance.complete_if_joined(collector, ongoing.group)
        ),
    )


@broken
def generation_is_not_counted_up(patch: pytest.MonkeyPatch) -> None:
    """ST-07: two assignments share a generation, and no member is fenced."""
    original = ClassicGroup.begin_generation

    def still(self: ClassicGroup) -> None:
        original(self)
        if self.generation_id > 1:
            self.generation_id -= 1

    patch.setattr(ClassicGroup, "begin_generation", still)


@broken
def absent_leader_stays_leader(patch: pytest.MonkeyPatch) -> None:
    """JG-31: a member that has not joined is the leader."""
    patch.setattr(
        rebalance, "elect_leader", lambda collector, group: any(m.awaiting_join for m in group.members.values())
    )


@broken
def superseded_join_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    """JG-22: the older of two joins of one member gets no response."""
    original = ClassicGroup.await_join

    def forgetful(self: ClassicGroup, member: ClassicGroupMember, reply_to: object) -> None:
        original(self, member, reply_to)

    patch.setattr(ClassicGroup, "await_join", forgetful)


@broken
def reload_starts_a_new_generation(patch: pytest.MonkeyPatch) -> None:
    """CO-06: a reload fences all members."""
    original = ClassicGroup.restore

    def counting(self: ClassicGroup) -> None:
        original(self)
        self.generation_id += 1

    patch.setattr(ClassicGroup, "restore", counting)


@broken
def reload_forgets_offsets(patch: pytest.MonkeyPatch) -> None:
    """CO-06: a reload loses the offsets."""
    original = ClassicGroup.restore

    def forgetful(self: ClassicGroup) -> None:
        original(self)
        self.offsets.clear()

    patch.setattr(ClassicGroup, "restore", forgetful)


@broken
def eager_member_keeps_its_partitions_while_joining(patch: pytest.MonkeyPatch) -> None:
    """CL-19: the member joins without revoking its partitions."""
    patch.setattr(JoinPreparation, "_to_give_up", lambda self: frozenset())


@broken
def member_ignores_rebalance_in_progress(patch: pytest.MonkeyPatch) -> None:
    """CL-08: REBALANCE_IN_PROGRESS is ignored."""
    original = heartbeats.heartbeat

    def deaf(state: CoordinatorState, heartbeat: Heartbeat, reply_to: object, now_ms: int) -> list[Effect]:
        return [
            SendResponse(reply_to, HeartbeatResponse(Error.NONE))
            if isinstance(effect, SendResponse) and effect.response == HeartbeatResponse(Error.REBALANCE_IN_PROGRESS)
            else effect
            for effect in original(state, heartbeat, reply_to, now_ms)
        ]

    patch.setattr(facade, "heartbeat", deaf)


@broken
def fenced_member_keeps_its_partitions(patch: pytest.MonkeyPatch) -> None:
    """CL-09: a fenced member keeps its generation and commits with its old member id."""
    original = MemberContext.reset

    def stubborn(self: MemberContext, reason: str, now_ms: int, *, member_id: bool) -> None:
        generation = self.generation
        original(self, reason, now_ms, member_id=member_id)
        self.generation = generation

    patch.setattr(MemberContext, "reset", stubborn)
