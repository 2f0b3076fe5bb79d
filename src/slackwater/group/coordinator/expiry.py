"""Expiration of offsets and deletion of groups without offsets (EX-01 … EX-10).

Timestamps in records are wall time, as in Kafka: a step of the wall clock changes the age of offsets.
"""

from collections.abc import Callable, Collection

from slackwater.group.coordinator.effect_collector import EffectCollector, group_tombstones
from slackwater.group.coordinator.group import NO_TIMESTAMP, ClassicGroup, OffsetsExpiration
from slackwater.group.coordinator.records import CommittedOffset, CoordinatorRecord, StoredOffset
from slackwater.group.coordinator.states import DEAD, EMPTY, STABLE, TRANSITIONS, GroupAction, GroupInput
from slackwater.group.errors import Error
from slackwater.group.events import EventKind, GroupLifecycle, OffsetsRemoved
from slackwater.group.topic_partition import TopicPartition


def expire_offsets(collector: EffectCollector, due: OffsetsExpiration) -> None:
    """Delete the expired offsets and groups of one partition, and arm the timer again."""
    for group in [
        group for group in collector.state.groups.values() if group.offsets_partition == due.offsets_partition
    ]:
        _expire_group_offsets(collector, group)
    collector.state.timers.arm(due.timer, collector.now_ms + collector.state.config.offsets_retention_check_interval_ms)


def _expire_group_offsets(collector: EffectCollector, group: ClassicGroup) -> None:
    retention_start = _retention_start(group)
    unsettled_partitions = group.unsettled_partitions()
    expired: list[TopicPartition] = []
    if retention_start is not None:
        expired = [
            topic_partition
            for topic_partition in group.offsets
            if topic_partition not in unsettled_partitions
            and _is_expired(collector, group, topic_partition, retention_start)
        ]
    has_no_offsets = len(expired) == len(group.offsets) and not unsettled_partitions
    if has_no_offsets and TRANSITIONS[GroupInput.EXPIRATION][group.state].action is GroupAction.DELETE_GROUP:  # EX-07
        delete_group(collector, group, lambda collector, error: _emit_expired(collector, group, len(expired), error))
    elif expired:
        records: list[CoordinatorRecord] = [
            CommittedOffset(group.group_id, *topic_partition, None) for topic_partition in expired
        ]
        collector.append(
            group.offsets_partition,
            records,
            lambda collector, error: _emit_expired(collector, group, len(expired), error),
        )


def _emit_expired(collector: EffectCollector, group: ClassicGroup, count: int, error: Error) -> None:
    if count and error is Error.NONE:
        collector.emit(group, EventKind.OFFSETS_EXPIRED, OffsetsRemoved(count))


def _retention_start(group: ClassicGroup) -> Callable[[StoredOffset], int] | None:
    """Return a function from an offset to the start of its retention; None when no offset expires (EX-01 … EX-04)."""
    if group.protocol_type is None:
        return lambda offset: offset.commit_timestamp_ms
    if group.state is EMPTY:
        if group.state_since_ms == NO_TIMESTAMP:
            return lambda offset: offset.commit_timestamp_ms
        return lambda _offset: group.state_since_ms
    if group.state is STABLE and group.is_consumer and group.subscribed_topics is not None:
        return lambda offset: offset.commit_timestamp_ms
    return None


def _is_expired(
    collector: EffectCollector,
    group: ClassicGroup,
    topic_partition: TopicPartition,
    retention_start: Callable[[StoredOffset], int],
) -> bool:
    if group.is_subscribed(topic_partition.topic):
        return False
    offset = group.offsets[topic_partition]
    if offset.expire_timestamp_ms is not None:
        return collector.wall_ms >= offset.expire_timestamp_ms  # EX-05
    return collector.wall_ms - retention_start(offset) >= collector.state.config.offsets_retention_ms


def delete_group(
    collector: EffectCollector, group: ClassicGroup, callback: Callable[[EffectCollector, Error], None]
) -> None:
    """Delete a group and its offsets; the group is Dead while the tombstones are being written."""
    before = group.transition_to(DEAD, collector.wall_ms)
    for pending in group.pending_members.values():
        pending.expiry.cancel()

    def written(collector: EffectCollector, error: Error) -> None:
        if collector.state.groups.get(group.group_id) is not group:
            return callback(collector, error)  # the partition was unloaded since
        if error is Error.NONE:
            del collector.state.groups[group.group_id]
            collector.emit(group, EventKind.GROUP_DELETED, GroupLifecycle(), before=before)
        else:
            collector.state.groups[group.group_id] = group.copy_as_empty(collector.wall_ms)
        callback(collector, error)

    collector.append(group.offsets_partition, group_tombstones(group), written)


def delete_topic_offsets(collector: EffectCollector, topics: Collection[str]) -> None:
    """Delete the offsets of deleted topics in every group (EX-10)."""
    for group in list(collector.state.groups.values()):
        partitions = sorted(
            topic_partition
            for topic_partition in {*group.offsets, *group.unsettled_partitions()}
            if topic_partition.topic in topics
        )
        if partitions:
            records: list[CoordinatorRecord] = [
                CommittedOffset(group.group_id, *topic_partition, None) for topic_partition in partitions
            ]
            collector.append(group.offsets_partition, records, _emit_deleted(group, len(partitions)))


def _emit_deleted(group: ClassicGroup, count: int) -> Callable[[EffectCollector, Error], None]:
    def written(collector: EffectCollector, error: Error) -> None:
        if error is Error.NONE:
            collector.emit(group, EventKind.OFFSETS_DELETED, OffsetsRemoved(count))

    return written
