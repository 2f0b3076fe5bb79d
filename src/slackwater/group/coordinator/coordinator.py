"""The group coordinator: every call takes one input and returns an ordered list of effects.

Invariants:
- No I/O, no clock, no randomness: time is an argument of every call, ids come with the requests.
- `now_ms` never decreases, so a change of the wall clock does not expire any member. Timestamps in records and events
  are wall time: `now_ms` plus the offset that the shell sets with `set_wall_offset_ms`.
- A partition of the offsets topic is loaded by replaying its log through `ClassicGroup.apply`, the function that also
  applies new writes (CO-06). Load and unload with an older leader epoch are ignored (CO-10).
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from slackwater.group.coordinator import admin, expiry, join, leave, offsets, rebalance, sync
from slackwater.group.coordinator.config import CoordinatorConfig
from slackwater.group.coordinator.coordinator_state import CoordinatorState, OffsetsPartition
from slackwater.group.coordinator.effect_collector import EffectCollector
from slackwater.group.coordinator.effects import Effect
from slackwater.group.coordinator.group import (
    ClassicGroup,
    ClassicGroupMember,
    JoinPhaseTimer,
    OffsetsExpiration,
    PendingMember,
    RebalanceCause,
    SyncPhaseTimer,
    TimerOwner,
)
from slackwater.group.coordinator.heartbeat import heartbeat
from slackwater.group.coordinator.records import CoordinatorRecord, GroupMetadata
from slackwater.group.coordinator.states import DEAD, STABLE, TRANSITIONS, GroupAction, GroupInput
from slackwater.group.coordinator.triggers import KnownTopic
from slackwater.group.coordinator.writes import complete_write, time_out_write
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
    TxnOffsetCommit,
)

HANDLERS: Final[dict[type, Callable[[EffectCollector, Any, object], None]]] = {
    JoinGroup: join.join,
    SyncGroup: sync.sync,
    LeaveGroup: leave.leave,
    OffsetCommit: offsets.commit,
    TxnOffsetCommit: offsets.commit_in_transaction,
    OffsetFetch: offsets.fetch,
    OffsetDelete: offsets.delete,
    DescribeGroups: admin.describe,
    ListGroups: admin.list_groups,
    DeleteGroups: admin.delete,
}


class Coordinator:
    """Coordinates the classic groups of the partitions it owns."""

    def __init__(self, config: CoordinatorConfig | None = None) -> None:
        self._state = CoordinatorState(config or CoordinatorConfig())

    def reconfigure(self, config: CoordinatorConfig) -> None:
        """Replace the settings; running timers keep their deadlines, and the partition count cannot change."""
        state = self._state
        assert (
            not state.offsets_partitions
            or config.offsets_topic_num_partitions == state.config.offsets_topic_num_partitions
        )
        state.config = config

    # --- requests, writes, time -------------------------------------------------------------------------------------

    def handle(self, request: Request, reply_to: object, now_ms: int) -> list[Effect]:
        """Handle a request; `reply_to` is any object except None and is returned with the response."""
        if request.__class__ is Heartbeat:
            return heartbeat(self._state, request, reply_to, now_ms)
        collector = EffectCollector(self._state, now_ms)
        HANDLERS[request.__class__](collector, request, reply_to)
        return collector.effects

    def on_append_result(self, write_id: int, error: Error, now_ms: int) -> list[Effect]:
        """Handle the result of an append; results arrive in the order of the appends."""
        return self.on_append_results(((write_id, error),), now_ms)

    def on_append_results(self, results: Iterable[tuple[int, Error]], now_ms: int) -> list[Effect]:
        """Handle the results of appends that were written together."""
        collector = EffectCollector(self._state, now_ms)
        for write_id, error in results:
            complete_write(collector, write_id, error)
        return collector.effects

    def on_append_timeout(self, write_ids: Iterable[int], now_ms: int) -> list[Effect]:
        """Fail the requests that wait for these writes; the results may still arrive (OC-12)."""
        collector = EffectCollector(self._state, now_ms)
        for write_id in write_ids:
            time_out_write(collector, write_id)
        return collector.effects

    def complete_transaction(self, offsets_partition: int, producer_id: int, *, is_commit: bool) -> None:
        """Commit or drop a producer's pending offsets: a marker was written to, or read from, this partition."""
        partition = self._state.offsets_partitions.get(offsets_partition)
        for group_id in self._state.transactions.pop((offsets_partition, producer_id), ()):
            groups = partition.groups if partition is not None and partition.loading else self._state.groups
            if (group := groups.get(group_id)) is not None:
                group.complete_transaction(producer_id, is_commit=is_commit)

    def set_wall_offset_ms(self, wall_offset_ms: int) -> None:
        """Set the difference between wall time and `now_ms`; it is 0 until the wall clock is changed."""
        self._state.wall_offset_ms = wall_offset_ms

    def next_due_ms(self) -> int | None:
        """Return when `tick` must be called next, or None."""
        return self._state.timers.next_due_ms()

    def is_due(self, now_ms: int) -> bool:
        """Whether a timer may be due now; cheaper than `next_due_ms`."""
        return self._state.timers.may_be_due(now_ms)

    def tick(self, now_ms: int) -> list[Effect]:
        """Fire every timer due at or before `now_ms`, in the order of deadlines."""
        collector = EffectCollector(self._state, now_ms)
        while (timer := self._state.timers.pop(now_ms)) is not None:
            _fire(collector, timer.owner)
        return collector.effects

    def expire_member(self, group_id: str, member_id: str, now_ms: int) -> list[Effect]:
        """Expire a member's session now; a member with a waiting request stays (SE-03)."""
        collector = EffectCollector(self._state, now_ms)
        rebalance.session_expired(collector, self._state.groups[group_id].members[member_id])
        return collector.effects

    def on_topic(self, topic: str, partition_count: int, created_ms: int) -> None:
        """Learn a topic or its new number of partitions; triggers of rebalances are derived from it."""
        topics = self._state.topics
        if topics is None:
            topics = self._state.topics = {}
        known = topics.get(topic)
        topics[topic] = KnownTopic(partition_count, created_ms if known is None else known.created_ms)

    def on_topics_deleted(self, topics: Collection[str], now_ms: int) -> list[Effect]:
        """Forget deleted topics and delete their offsets (EX-10)."""
        for topic in topics:
            if self._state.topics is not None:
                self._state.topics.pop(topic, None)
        collector = EffectCollector(self._state, now_ms)
        expiry.delete_topic_offsets(collector, topics)
        return collector.effects

    # --- partitions of the offsets topic ----------------------------------------------------------------------------

    def load(self, offsets_partition: int, leader_epoch: int, now_ms: int) -> list[Effect]:
        """Start loading a partition; `replay` its records, then call `finish_loading`."""
        collector = EffectCollector(self._state, now_ms)
        partition = self._state.offsets_partitions.get(offsets_partition)
        if partition is not None:
            if leader_epoch <= partition.epoch:
                return []  # CO-10
            _unload_partition(collector, offsets_partition)
        self._state.offsets_partitions[offsets_partition] = OffsetsPartition(offsets_partition, leader_epoch)
        return collector.effects

    def replay(self, offsets_partition: int, record: CoordinatorRecord, producer_id: int | None = None) -> None:
        """Apply one record of the log; a later record of the same key wins.

        A record with a producer id belongs to a transaction, which `complete_transaction` ends.
        """
        partition = self._state.offsets_partitions.get(offsets_partition)
        if partition is None or not partition.loading:
            return  # unloaded while loading
        groups = partition.groups
        group = groups.get(record.group_id)
        if group is None:
            group = groups[record.group_id] = ClassicGroup(record.group_id, offsets_partition, 0)
        if producer_id is not None:
            group.apply_pending(producer_id, (record,))
            self._state.transactions.setdefault((offsets_partition, producer_id), {})[group.group_id] = None
            return
        group.apply((record,))
        is_empty = not group.offsets and not group.pending_offsets
        if isinstance(record, GroupMetadata) and record.value is None and is_empty:
            del groups[record.group_id]

    def finish_loading(self, offsets_partition: int, now_ms: int) -> list[Effect]:
        """Activate the replayed groups in their last stored state, without a rebalance (CO-06)."""
        collector = EffectCollector(self._state, now_ms)
        state = self._state
        partition = state.offsets_partitions.get(offsets_partition)
        if partition is None or not partition.loading:
            return []
        partition.loading = False
        for group in partition.groups.values():
            if group.stored is None and not group.offsets and not group.pending_offsets:
                continue  # only an offset that was deleted again
            group.state_since_ms = collector.wall_ms
            group.restore()
            state.groups[group.group_id] = group
            for member in group.members.values():
                rebalance.extend_session(collector, member)
            collector.emit(group, EventKind.GROUP_LOADED, GroupLifecycle(len(group.members), partition.epoch))
            if len(group.members) > state.config.group_max_size:  # CO-07
                reason = (
                    f"Freshly-loaded group is over capacity ({state.config.group_max_size}). "
                    "Rebalancing in order to give a chance for consumers to commit offsets"
                )
                rebalance.trigger(
                    collector, group, GroupInput.LOADED_OVER_CAPACITY, RebalanceCause(Trigger.OVER_CAPACITY, reason)
                )
        partition.groups = {}
        state.timers.arm(partition.expiration.timer, now_ms + state.config.offsets_retention_check_interval_ms)
        return collector.effects

    def unload(self, offsets_partition: int, leader_epoch: int | None, now_ms: int) -> list[Effect]:
        """Unload a partition; waiting requests receive NOT_COORDINATOR (CO-08)."""
        collector = EffectCollector(self._state, now_ms)
        partition = self._state.offsets_partitions.get(offsets_partition)
        if partition is None or (leader_epoch is not None and leader_epoch <= partition.epoch):
            return []  # CO-10: as in Kafka, an unload needs a newer epoch than the load, or no epoch
        _unload_partition(collector, offsets_partition)
        return collector.effects

    # --- inspection -------------------------------------------------------------------------------------------------

    @property
    def groups(self) -> Mapping[str, ClassicGroup]:
        """The groups of all loaded partitions."""
        return self._state.groups

    def offsets_partition_of(self, group_id: str) -> int:
        """Return the partition of the offsets topic that stores a group (CO-01)."""
        return self._state.offsets_partition_of(group_id)

    def waiting_for(self, group_id: str) -> RebalanceWaiting | None:
        """Return the members a rebalance waits for and its deadline, or None without a rebalance."""
        group = self._state.groups.get(group_id)
        if group is None or group.rebalance is None or group.state in (STABLE, DEAD):
            return None
        return rebalance.waiting_detail(group, group.rebalance, self._state.wall_offset_ms)


def _fire(collector: EffectCollector, owner: TimerOwner) -> None:
    match owner:
        case ClassicGroupMember():
            rebalance.session_expired(collector, owner)
        case PendingMember():
            join.pending_member_expired(collector, owner)
        case JoinPhaseTimer():
            rebalance.join_timer_expired(collector, owner.rebalance)
        case SyncPhaseTimer():
            rebalance.sync_timer_expired(collector, owner.rebalance)
        case OffsetsExpiration():
            expiry.expire_offsets(collector, owner)
        case _:
            rebalance.emit_waiting(collector, owner.rebalance)


def _unload_partition(collector: EffectCollector, number: int) -> None:
    state = collector.state
    state.offsets_partitions.pop(number).expiration.timer.cancel()
    for key in [key for key in state.transactions if key[0] == number]:
        del state.transactions[key]
    for group in [group for group in state.groups.values() if group.offsets_partition == number]:
        _unload_group(collector, group)
        del state.groups[group.group_id]
    for write_id in [key for key, write in state.writes.items() if write.offsets_partition == number]:
        complete_write(collector, write_id, Error.NOT_COORDINATOR)


def _unload_group(collector: EffectCollector, group: ClassicGroup) -> None:
    if TRANSITIONS[GroupInput.UNLOAD][group.state].action is not GroupAction.UNLOAD_GROUP:
        return
    ongoing = group.rebalance
    if ongoing is not None:
        ongoing.cancel()
        if group.state is not STABLE and group.members:
            failed = RebalanceFailed(Error.NOT_COORDINATOR.name, collector.now_ms - ongoing.started_ms)
            collector.emit(group, EventKind.REBALANCE_FAILED, failed, trigger=ongoing.cause.trigger)
    for pending in group.pending_members.values():
        pending.expiry.cancel()
    for member in group.members.values():
        member.session.cancel()
        rebalance.fail_awaiting_requests(collector, member, Error.NOT_COORDINATOR, member_id=member.member_id)
    before = group.transition_to(DEAD, collector.wall_ms)
    collector.emit(group, EventKind.GROUP_UNLOADED, GroupLifecycle(len(group.members)), before=before)
