"""The group coordinator: one call, one input, an ordered list of effects.

Rules kept here
- No I/O, no clock, no randomness: time is an argument of every call, ids come with the requests.
- `now_ms` never goes back. The shell anchors it to wall time at its start and lets it run monotonically (offsets and
  states are stamped with it), so a wall clock that jumps expires nobody.
- Shards are loaded by replaying their log through the same `apply` that a write goes through (CO-06). Load and unload
  with an older leader epoch are ignored (CO-10).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from slackwater.group.coordinator import admin, expiry, join, leave, offsets, rebalance, sync
from slackwater.group.coordinator.config import CoordinatorConfig
from slackwater.group.coordinator.effect_collector import CoordinatorState, EffectCollector, OffsetsPartition
from slackwater.group.coordinator.effects import Effect
from slackwater.group.coordinator.group import (
    ClassicGroup,
    ClassicGroupMember,
    JoinPhase,
    OffsetsSweep,
    PendingMember,
    RebalanceCause,
    SyncPhase,
    TimerOwner,
)
from slackwater.group.coordinator.heartbeat import heartbeat
from slackwater.group.coordinator.records import CoordinatorRecord, GroupMetadata
from slackwater.group.coordinator.states import DEAD, INITIAL, STABLE, GroupInput
from slackwater.group.errors import Error
from slackwater.group.events import EventKind, GroupLifecycle, RebalanceFailed, RebalanceWaiting, Trigger
from slackwater.group.messages import (
    DeleteGroups,
    DescribeGroups,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    Request,
    SyncGroup,
)

_HANDLERS: Final[dict[type, Callable[[EffectCollector, Any, object], None]]] = {
    JoinGroup: join.join,
    SyncGroup: sync.sync,
    LeaveGroup: leave.leave,
    OffsetCommit: offsets.commit,
    OffsetFetch: offsets.fetch,
    OffsetDelete: offsets.delete,
    DescribeGroups: admin.describe,
    ListGroups: admin.list_groups,
    DeleteGroups: admin.delete,
}


class Coordinator:
    """Coordinates the classic groups of the shards it owns."""

    def __init__(self, config: CoordinatorConfig | None = None) -> None:
        self._desk = CoordinatorState(config or CoordinatorConfig())

    def reconfigure(self, config: CoordinatorConfig) -> None:
        """Go by other settings from now on; timers that run stay, and so does the number of shards if one is owned."""
        desk = self._desk
        assert not desk.shards or config.offsets_topic_num_partitions == desk.config.offsets_topic_num_partitions
        desk.config = config

    # --- requests, writes, time -----------------------------------------------------------------------------------

    def handle(self, request: Request, caller: object, now_ms: int) -> list[Effect]:
        """Take a request; `caller` is any object but None, and comes back with the answer."""
        if request.__class__ is Heartbeat:
            return heartbeat(self._desk, request, caller, now_ms)
        turn = EffectCollector(self._desk, now_ms)
        _HANDLERS[request.__class__](turn, request, caller)
        return turn.effects

    def handle_all(self, asked: Sequence[tuple[Request, object]], now_ms: int) -> list[Effect]:
        """Take requests that came together, one after the other; commits of one group are written together."""
        turn = EffectCollector(self._desk, now_ms)
        if all([request.__class__ is OffsetCommit for request, _ in asked]):  # noqa: C419  # a generator costs more
            offsets.commit_all(turn, asked)  # type: ignore[arg-type]  # they are all of that class
        else:
            for request, caller in asked:
                turn.effects += self.handle(request, caller, now_ms)
        return turn.effects

    def written(self, write_id: int, error: Error, now_ms: int) -> list[Effect]:
        """Take the outcome of an append; outcomes come in the order of the appends."""
        turn = EffectCollector(self._desk, now_ms)
        turn.settle(write_id, error)
        return turn.effects

    def all_written(self, outcomes: Iterable[tuple[int, Error]], now_ms: int) -> list[Effect]:
        """Take the outcomes of appends that were written together."""
        turn = EffectCollector(self._desk, now_ms)
        for write_id, error in outcomes:
            turn.settle(write_id, error)
        return turn.effects

    def overdue(self, write_ids: Iterable[int], now_ms: int) -> list[Effect]:
        """These writes take too long: whoever waits for one is told so, and the outcome may still come (OC-12)."""
        turn = EffectCollector(self._desk, now_ms)
        for write_id in write_ids:
            turn.give_up(write_id)
        return turn.effects

    def next_due_ms(self) -> int | None:
        """When `tick` next has something to do, unless something happens before."""
        return self._desk.timers.next_due_ms()

    def is_due(self, now_ms: int) -> bool:
        """Whether `tick` may have something to do now; cheaper to ask than `next_due_ms`."""
        return self._desk.timers.may_be_due(now_ms)

    def tick(self, now_ms: int) -> list[Effect]:
        """Fire every timer due at or before `now_ms`, in the order of their deadlines."""
        turn = EffectCollector(self._desk, now_ms)
        while (timer := self._desk.timers.pop(now_ms)) is not None:
            _fire(turn, timer.owner)
        return turn.effects

    def expire(self, group_id: str, member_id: str, now_ms: int) -> list[Effect]:
        """End a member's session now, as if it had been silent for all of it; whoever is parked stays (SE-03)."""
        turn = EffectCollector(self._desk, now_ms)
        rebalance.session_over(turn, self._desk.groups[group_id].members[member_id])
        return turn.effects

    def topics_deleted(self, topics: Collection[str], now_ms: int) -> list[Effect]:
        """Topics are gone, and so are their offsets (EX-10)."""
        turn = EffectCollector(self._desk, now_ms)
        expiry.topics_deleted(turn, topics)
        return turn.effects

    # --- shards ---------------------------------------------------------------------------------------------------

    def load(self, shard: int, leader_epoch: int, now_ms: int) -> list[Effect]:
        """Begin to load a shard; its records follow through `replay`, then `loaded`."""
        turn = EffectCollector(self._desk, now_ms)
        owned = self._desk.shards.get(shard)
        if owned is not None:
            if leader_epoch <= owned.epoch:
                return []  # CO-10
            _close_shard(turn, shard)
        self._desk.shards[shard] = OffsetsPartition(shard, leader_epoch)
        return turn.effects

    def replay(self, shard: int, record: CoordinatorRecord) -> None:
        """Take over one record of a shard's log; a later record of the same key wins."""
        owned = self._desk.shards.get(shard)
        if owned is None or not owned.loading:
            return  # given up while it was being loaded
        groups = owned.groups
        group = groups.get(record.group_id)
        if group is None:
            group = groups[record.group_id] = ClassicGroup(record.group_id, shard, 0)
        group.apply((record,))
        if isinstance(record, GroupMetadata) and record.value is None and not group.offsets:
            del groups[record.group_id]

    def loaded(self, shard: int, now_ms: int) -> list[Effect]:
        """The log is at its end: groups come back as they last were, without a rebalance (CO-06)."""
        turn = EffectCollector(self._desk, now_ms)
        desk = self._desk
        owned = desk.shards.get(shard)
        if owned is None or not owned.loading:
            return []
        owned.loading = False
        for group in owned.groups.values():
            if group.stored is None and not group.offsets:
                continue  # an offset that was deleted again, and nothing else
            group.state_since_ms = now_ms
            group.restore()
            desk.groups[group.group_id] = group
            for member in group.members.values():
                rebalance.extend_session(turn, member)
            turn.tell(group, EventKind.GROUP_LOADED, GroupLifecycle(len(group.members), owned.epoch))
            if len(group.members) > desk.config.group_max_size:  # CO-07
                reason = (
                    f"Freshly-loaded group is over capacity ({desk.config.group_max_size}). "
                    "Rebalancing in order to give a chance for consumers to commit offsets"
                )
                rebalance.trigger(
                    turn, group, GroupInput.LOADED_OVER_SIZE, RebalanceCause(Trigger.OVER_CAPACITY, reason)
                )
        owned.groups = {}
        desk.timers.arm(owned.sweep.timer, now_ms + desk.config.offsets_retention_check_interval_ms)
        return turn.effects

    def unload(self, shard: int, leader_epoch: int | None, now_ms: int) -> list[Effect]:
        """Give a shard up; everybody who waits is sent to look for the new coordinator (CO-08)."""
        turn = EffectCollector(self._desk, now_ms)
        owned = self._desk.shards.get(shard)
        if owned is None or (leader_epoch is not None and leader_epoch <= owned.epoch):
            return []  # CO-10: as in Kafka, an unload needs a newer epoch than the load, or none
        _close_shard(turn, shard)
        return turn.effects

    # --- looking in -----------------------------------------------------------------------------------------------

    @property
    def groups(self) -> Mapping[str, ClassicGroup]:
        """The groups of all loaded shards."""
        return self._desk.groups

    def shard_of(self, group_id: str) -> int:
        """The shard that holds a group (CO-01)."""
        return self._desk.shard_of(group_id)

    def waiting_for(self, group_id: str) -> RebalanceWaiting | None:
        """Whom a group's rebalance waits for, and until when; None when nothing is under way."""
        group = self._desk.groups.get(group_id)
        if group is None or group.round is None or group.state in (STABLE, DEAD):
            return None
        return rebalance.waiting_of(group, group.round)


def _fire(turn: EffectCollector, owner: TimerOwner) -> None:
    match owner:
        case ClassicGroupMember():
            rebalance.session_over(turn, owner)
        case PendingMember():
            join.pending_over(turn, owner)
        case JoinPhase():
            if owner.round.group.state is INITIAL:
                rebalance.delay_over(turn, owner.round)
            else:
                rebalance.join_over(turn, owner.round)
        case SyncPhase():
            rebalance.sync_over(turn, owner.round)
        case OffsetsSweep():
            expiry.sweep(turn, owner)
        case _:
            rebalance.waiting(turn, owner.round)


def _close_shard(turn: EffectCollector, number: int) -> None:
    desk = turn.desk
    desk.shards.pop(number).sweep.timer.cancel()
    for group in [group for group in desk.groups.values() if group.shard == number]:
        _close_group(turn, group)
        del desk.groups[group.group_id]
    for write_id in [key for key, write in desk.writes.items() if write.shard == number]:
        turn.settle(write_id, Error.NOT_COORDINATOR)


def _close_group(turn: EffectCollector, group: ClassicGroup) -> None:
    if group.state is DEAD:
        return
    round = group.round
    if round is not None:
        round.cancel()
        if group.state is not STABLE and group.members:
            failed = RebalanceFailed(Error.NOT_COORDINATOR.name, turn.now_ms - round.started_ms)
            turn.tell(group, EventKind.REBALANCE_FAILED, failed, trigger=round.cause.trigger)
    for pending in group.pending.values():
        pending.expiry.cancel()
    for member in group.members.values():
        member.session.cancel()
        rebalance.dismiss(turn, member, Error.NOT_COORDINATOR, member_id=member.member_id)
    before = group.move(DEAD, turn.now_ms)
    turn.tell(group, EventKind.GROUP_UNLOADED, GroupLifecycle(len(group.members)), before=before)
