"""What the coordinator forgets by itself: offsets nobody came back for, and groups with nothing left (EX-01 … EX-10).

Rules kept here
- Stamps in records are wall time, and so is `now_ms` here: the shell's clock is anchored to wall time when it starts
  and runs on monotonically, so that a wall clock that jumps expires nobody.
"""

from collections.abc import Callable, Collection

from slackwater.group.coordinator.effect_collector import EffectCollector, group_tombstones
from slackwater.group.coordinator.group import NO_TIMESTAMP, ClassicGroup, OffsetsSweep
from slackwater.group.coordinator.records import CommittedOffset, CoordinatorRecord, StoredOffset
from slackwater.group.coordinator.states import DEAD, EMPTY, STABLE, TRANSITIONS, GroupAction, GroupInput
from slackwater.group.errors import Error
from slackwater.group.events import EventKind, GroupLifecycle, OffsetsRemoved
from slackwater.group.topic_partition import TopicPartition


def sweep(turn: EffectCollector, due: OffsetsSweep) -> None:
    """Forget what is due in one shard, and come again."""
    for group in [group for group in turn.desk.groups.values() if group.shard == due.shard]:
        _sweep_group(turn, group)
    turn.desk.timers.arm(due.timer, turn.now_ms + turn.desk.config.offsets_retention_check_interval_ms)


def _sweep_group(turn: EffectCollector, group: ClassicGroup) -> None:
    base = _counts_from(group)
    unwritten = group.unwritten()
    expired: list[TopicPartition] = []
    if base is not None:
        expired = [at for at in group.offsets if at not in unwritten and _is_expired(turn, group, at, base)]
    nothing_left = len(expired) == len(group.offsets) and not unwritten
    if nothing_left and TRANSITIONS[GroupInput.SWEEP][group.state].act is GroupAction.DISSOLVE:  # EX-07
        dissolve(turn, group, lambda later, error: _told(later, group, len(expired), error))
    elif expired:
        records: list[CoordinatorRecord] = [CommittedOffset(group.group_id, *at, None) for at in expired]
        turn.append(group.shard, records, lambda later, error: _told(later, group, len(expired), error))


def _told(turn: EffectCollector, group: ClassicGroup, count: int, error: Error) -> None:
    if count and error is Error.NONE:
        turn.tell(group, EventKind.OFFSETS_EXPIRED, OffsetsRemoved(count))


def _counts_from(group: ClassicGroup) -> Callable[[StoredOffset], int] | None:
    """From when the retention of an offset counts in this group; None when nothing expires (EX-01 … EX-04)."""
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
    turn: EffectCollector, group: ClassicGroup, at: TopicPartition, base: Callable[[StoredOffset], int]
) -> bool:
    if group.is_subscribed(at.topic):
        return False
    offset = group.offsets[at]
    if offset.expire_timestamp_ms is not None:
        return turn.now_ms >= offset.expire_timestamp_ms  # EX-05
    return turn.now_ms - base(offset) >= turn.desk.config.offsets_retention_ms


def dissolve(turn: EffectCollector, group: ClassicGroup, then: Callable[[EffectCollector, Error], None]) -> None:
    """Forget a group with everything it has; while the tombstones are being written it is Dead to everybody."""
    before = group.move(DEAD, turn.now_ms)
    pending = list(group.pending.values())
    for one in pending:
        one.expiry.cancel()

    def written(later: EffectCollector, error: Error) -> None:
        if later.desk.groups.get(group.group_id) is not group:
            return then(later, error)  # the shard was unloaded meanwhile
        if error is Error.NONE:
            del later.desk.groups[group.group_id]
            later.tell(group, EventKind.GROUP_DELETED, GroupLifecycle(), before=before)
        else:
            later.desk.groups[group.group_id] = _revive(group, later.now_ms)
        then(later, error)

    turn.append(group.shard, group_tombstones(group), written)


def _revive(dead: ClassicGroup, now_ms: int) -> ClassicGroup:
    """Nothing was forgotten: the group is empty again, as it was before; nothing else moves out of Dead (ST-01).

    It is not rebuilt from its records: the one that says it is empty may not have been written either.
    """
    group = ClassicGroup(dead.group_id, dead.shard, now_ms)
    group.generation_id = dead.generation_id
    group.protocol_type = dead.protocol_type
    group.subscribed_topics = dead.subscribed_topics
    group.stored, group.offsets, group.writing = dead.stored, dead.offsets, dead.writing
    return group


def topics_deleted(turn: EffectCollector, topics: Collection[str]) -> None:
    """The offsets of deleted topics go with them, in every group (EX-10)."""
    for group in list(turn.desk.groups.values()):
        doomed = sorted(at for at in {*group.offsets, *group.unwritten()} if at.topic in topics)
        if doomed:
            records: list[CoordinatorRecord] = [CommittedOffset(group.group_id, *at, None) for at in doomed]
            turn.append(group.shard, records, _deleted(group, len(doomed)))


def _deleted(group: ClassicGroup, count: int) -> Callable[[EffectCollector, Error], None]:
    def written(turn: EffectCollector, error: Error) -> None:
        if error is Error.NONE:
            turn.tell(group, EventKind.OFFSETS_DELETED, OffsetsRemoved(count))

    return written
