"""What DescribeGroups does not tell: a group's generation, its leader, and whom its rebalance waits for.

Rules kept here
- A Slackwater broker writes every decision to `__group_events`, a moment after it was made. What its last events say is
  exact, if they have caught up with the group; whom a round waits for is told once the round has lasted a second.
- Every broker writes a generation to `__consumer_offsets` when its assignment is done, before anybody hears of it. That
  is the generation of a stable group, and of one that rebalances the generation before.
- Both topics are read from the end, so many records back and so many seconds long, and not at all where reading is
  forbidden: what is not found is not known.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from slackwater.client.admin.descriptions import GenerationSource, GroupDescription
from slackwater.client.admin.tail import newest_first
from slackwater.client.network.cluster import Cluster
from slackwater.group.errors import SlackwaterError
from slackwater.group.events import EventKind, EventSource, GroupEvent, RebalanceWaiting
from slackwater.group.java_order import string_hash
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.errors import WireError
from slackwater.wire.internal_topics.consumer_offsets import GroupKey, GroupValue, decode_group_value, decode_key

EVENTS_TOPIC: Final = "__group_events"
OFFSETS_TOPIC: Final = "__consumer_offsets"
MAX_RECORDS: Final = 50_000
MAX_SECONDS: Final = 5.0
# After one of these, an older word of whom the round waits for is out of date.
_TURNS: Final = frozenset(
    {
        EventKind.REBALANCE_STARTED,
        EventKind.GENERATION_FORMED,
        EventKind.REBALANCE_COMPLETED,
        EventKind.REBALANCE_FAILED,
        EventKind.GROUP_EMPTIED,
        EventKind.GROUP_DELETED,
        EventKind.GROUP_LOADED,
        EventKind.GROUP_UNLOADED,
    }
)


@dataclass(slots=True)
class _Told:
    """What the events of one group say, the newest first."""

    generation: int | None = None
    state: str | None = None
    waiting: RebalanceWaiting | None = None
    done: bool = False

    def hear(self, event: GroupEvent) -> None:
        if self.generation is None:
            self.generation = event.generation
        if self.state is None and event.state_after is not None:
            self.state = event.state_after.wire_name
        if event.kind is EventKind.REBALANCE_WAITING and isinstance(event.detail, RebalanceWaiting):
            self.waiting, self.done = event.detail, True
        elif event.kind in _TURNS:
            self.done = True


class GenerationLookup(NamedTuple):
    """Groups with what could be found out about each, and whether the events of one have not caught up with it."""

    groups: list[GroupDescription]
    behind: bool


async def add_generations(cluster: Cluster, groups: list[GroupDescription]) -> GenerationLookup:
    """Find out what these descriptions do not tell."""
    wanted = {group.group_id for group in groups if group.generation is None}
    if not wanted:
        return GenerationLookup(groups, behind=False)
    topics = await _existing(cluster)
    told = await _from_events(cluster, wanted) if EVENTS_TOPIC in topics else {}
    recorded = await _from_offsets(cluster, wanted, topics[OFFSETS_TOPIC]) if OFFSETS_TOPIC in topics else {}
    found, behind = [], False
    for group in groups:
        events, record = told.get(group.group_id), recorded.get(group.group_id)
        if events is not None and _has_caught_up(events, group, record):
            found.append(_exact(group, events, record))
        else:
            behind = behind or events is not None
            found.append(_inferred(group, record))
    return GenerationLookup(found, behind)


def _has_caught_up(told: _Told, group: GroupDescription, recorded: GroupValue | None) -> bool:
    if told.generation is None or told.state != group.state:
        return False
    return recorded is None or recorded.generation <= told.generation


def _exact(group: GroupDescription, told: _Told, recorded: GroupValue | None) -> GroupDescription:
    waiting = told.waiting if group.is_rebalancing else None
    return replace(
        group,
        generation=told.generation,
        generation_source=GenerationSource.GROUP_EVENTS,
        leader=recorded.leader if recorded is not None and recorded.generation == told.generation else None,
        waiting_for=waiting.waiting_for if waiting is not None else None,
        waiting_until_ms=waiting.until_ms if waiting is not None else None,
        waiting_exact=waiting is not None,
    )


def _inferred(group: GroupDescription, recorded: GroupValue | None) -> GroupDescription:
    if recorded is not None:
        group = replace(
            group,
            generation=recorded.generation,
            generation_source=GenerationSource.OFFSETS_TOPIC,
            leader=recorded.leader,
        )
    return replace(group, waiting_for=_may_wait_for(group, recorded))


def _may_wait_for(group: GroupDescription, recorded: GroupValue | None) -> tuple[str, ...] | None:
    """Whom a rebalance may wait for.

    While members join, who was not in the last generation has just joined and is waiting itself; of the others some
    have rejoined and some have not, and both look alike. While the assignment is made, the leader is waited for: it
    stays the leader for as long as it is a member.
    """
    listed = {member.member_id for member in group.members}
    if group.state == "CompletingRebalance":
        return (recorded.leader,) if recorded is not None and recorded.leader in listed else None
    if group.state != "PreparingRebalance":
        return None
    if recorded is not None and recorded.generation > 0:
        before = {member.member_id for member in recorded.members}
    else:
        before = {member.member_id for member in group.members if member.partitions}
    return tuple(member.member_id for member in group.members if member.member_id in before) or None


async def _existing(cluster: Cluster) -> dict[str, int]:
    """The topics to read that exist, and how many partitions they have."""
    try:
        found = await cluster.refresh([EVENTS_TOPIC, OFFSETS_TOPIC])
    except SlackwaterError:
        return {}
    return {name: len(topic.partitions) for name, topic in found.items() if topic.partitions}


async def _from_events(cluster: Cluster, wanted: Collection[str]) -> dict[str, _Told]:
    told: dict[str, _Told] = {}
    keys = {group.encode(): group for group in wanted}
    left = set(wanted)
    try:
        async with asyncio.timeout(MAX_SECONDS):
            async for record in newest_first(cluster, TopicPartition(EVENTS_TOPIC, 0), MAX_RECORDS):
                group = keys.get(record.key or b"")
                if group is None or group not in left or record.value is None:
                    continue
                event = _event(record.value)
                if event is None or event.source is not EventSource.COORDINATOR:
                    continue
                one = told.setdefault(group, _Told())
                one.hear(event)
                if one.done and one.generation is not None:
                    left.discard(group)
                    if not left:
                        break
    except (SlackwaterError, WireError, TimeoutError):
        pass  # what was found until then holds
    return {group: one for group, one in told.items() if one.generation is not None}


def _event(line: bytes) -> GroupEvent | None:
    try:
        return GroupEvent.from_json(line.decode())
    except (ValueError, KeyError, TypeError):
        return None  # anybody may write to the topic


async def _from_offsets(cluster: Cluster, wanted: Collection[str], partitions: int) -> dict[str, GroupValue]:
    by_partition: dict[int, set[str]] = {}
    for group in wanted:
        by_partition.setdefault(partition_of(group, partitions), set()).add(group)
    found: dict[str, GroupValue] = {}
    try:
        async with asyncio.timeout(MAX_SECONDS):
            await asyncio.gather(*(_recorded(cluster, number, left, found) for number, left in by_partition.items()))
    except (SlackwaterError, WireError, TimeoutError):
        pass
    return found


async def _recorded(cluster: Cluster, number: int, left: set[str], found: dict[str, GroupValue]) -> None:
    async for record in newest_first(cluster, TopicPartition(OFFSETS_TOPIC, number), MAX_RECORDS):
        if record.key is None:
            continue
        key = decode_key(record.key)
        if isinstance(key, GroupKey) and key.group in left:
            left.discard(key.group)
            if record.value is not None:
                found[key.group] = decode_group_value(record.value)
            if not left:
                return


def partition_of(group_id: str, partitions: int) -> int:
    """The partition of the offsets topic that holds a group: Java's string hash, made positive (CO-01)."""
    code = string_hash(group_id)
    signed = code - (1 << 32) if code >= 1 << 31 else code
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions
