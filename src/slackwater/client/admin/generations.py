"""Finds what DescribeGroups does not return: a group's generation, its leader, and the members a rebalance waits for.

Invariants:
- A Slackwater broker writes every decision to `__group_events` shortly after it was made. The last events of a group
  are exact if they match the described state. The members a rebalance waits for are recorded after one second.
- Every broker writes a generation to `__consumer_offsets` when its assignment is complete. That is the generation of a
  stable group; for a rebalancing group it is the previous generation.
- Both topics are read backwards, up to `MAX_RECORDS` and `MAX_SECONDS`. A topic that cannot be read is skipped: what
  is not found stays unknown.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from slackwater.client.admin.descriptions import GenerationSource, GroupDescription
from slackwater.client.admin.newest_records import read_newest_first
from slackwater.client.network.cluster import Cluster
from slackwater.group.errors import SlackwaterError
from slackwater.group.events import EventKind, EventSource, GroupEvent, RebalanceWaiting
from slackwater.group.internal_topics import EVENTS_TOPIC, OFFSETS_TOPIC, offsets_partition
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.errors import WireError
from slackwater.wire.internal_topics.consumer_offsets import GroupKey, GroupValue, decode_group_value, decode_key

MAX_RECORDS: Final = 50_000
MAX_SECONDS: Final = 5.0
# Older `rebalance_waiting` events are obsolete after one of these.
_ENDS_WAITING: Final = frozenset(
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
class _LatestEvents:
    """The generation, state and waiting members of one group, collected from its events, newest first."""

    generation: int | None = None
    state: str | None = None
    waiting: RebalanceWaiting | None = None
    is_complete: bool = False

    def add(self, event: GroupEvent) -> None:
        if self.generation is None:
            self.generation = event.generation
        if self.state is None and event.state_after is not None:
            self.state = event.state_after.wire_name
        if event.kind is EventKind.REBALANCE_WAITING and isinstance(event.detail, RebalanceWaiting):
            self.waiting, self.is_complete = event.detail, True
        elif event.kind in _ENDS_WAITING:
            self.is_complete = True


class GenerationLookup(NamedTuple):
    """The completed descriptions; `behind` is True if the events of a group do not match its state yet."""

    groups: list[GroupDescription]
    behind: bool


async def add_generations(cluster: Cluster, groups: list[GroupDescription]) -> GenerationLookup:
    """Complete these descriptions from the internal topics."""
    group_ids = {group.group_id for group in groups if group.generation is None}
    if not group_ids:
        return GenerationLookup(groups, behind=False)
    topics = await _partition_counts(cluster)
    events = await _read_events(cluster, group_ids) if EVENTS_TOPIC in topics else {}
    generations = await _read_generations(cluster, group_ids, topics[OFFSETS_TOPIC]) if OFFSETS_TOPIC in topics else {}
    completed, behind = [], False
    for group in groups:
        latest, recorded = events.get(group.group_id), generations.get(group.group_id)
        if latest is not None and _matches(latest, group, recorded):
            completed.append(_from_events(group, latest, recorded))
        else:
            behind = behind or latest is not None
            completed.append(_from_generation(group, recorded))
    return GenerationLookup(completed, behind)


def _matches(latest: _LatestEvents, group: GroupDescription, recorded: GroupValue | None) -> bool:
    if latest.generation is None or latest.state != group.state:
        return False
    return recorded is None or recorded.generation <= latest.generation


def _from_events(group: GroupDescription, latest: _LatestEvents, recorded: GroupValue | None) -> GroupDescription:
    waiting = latest.waiting if group.is_rebalancing else None
    return replace(
        group,
        generation=latest.generation,
        generation_source=GenerationSource.GROUP_EVENTS,
        leader=recorded.leader if recorded is not None and recorded.generation == latest.generation else None,
        waiting_for=waiting.waiting_for if waiting is not None else None,
        waiting_until_ms=waiting.until_ms if waiting is not None else None,
        waiting_exact=waiting is not None,
    )


def _from_generation(group: GroupDescription, recorded: GroupValue | None) -> GroupDescription:
    if recorded is not None:
        group = replace(
            group,
            generation=recorded.generation,
            generation_source=GenerationSource.OFFSETS_TOPIC,
            leader=recorded.leader,
        )
    return replace(group, waiting_for=_possibly_awaited(group, recorded))


def _possibly_awaited(group: GroupDescription, recorded: GroupValue | None) -> tuple[str, ...] | None:
    """Return the members a rebalance may be waiting for.

    In PreparingRebalance, members that were not in the last generation have just joined. Members of the last
    generation may have rejoined or not; DescribeGroups does not show the difference. In CompletingRebalance the group
    waits for the leader, which does not change while it is a member.
    """
    listed = {member.member_id for member in group.members}
    if group.state == "CompletingRebalance":
        return (recorded.leader,) if recorded is not None and recorded.leader in listed else None
    if group.state != "PreparingRebalance":
        return None
    if recorded is not None and recorded.generation > 0:
        previous = {member.member_id for member in recorded.members}
    else:
        previous = {member.member_id for member in group.members if member.partitions}
    return tuple(member.member_id for member in group.members if member.member_id in previous) or None


async def _partition_counts(cluster: Cluster) -> dict[str, int]:
    """Return the number of partitions of each topic that exists."""
    try:
        topics = await cluster.refresh([EVENTS_TOPIC, OFFSETS_TOPIC])
    except SlackwaterError:
        return {}
    return {name: len(topic.partitions) for name, topic in topics.items() if topic.partitions}


async def _read_events(cluster: Cluster, group_ids: Collection[str]) -> dict[str, _LatestEvents]:
    events: dict[str, _LatestEvents] = {}
    keys = {group_id.encode(): group_id for group_id in group_ids}
    missing = set(group_ids)
    try:
        async with asyncio.timeout(MAX_SECONDS):
            async for record in read_newest_first(cluster, TopicPartition(EVENTS_TOPIC, 0), MAX_RECORDS):
                group_id = keys.get(record.key or b"")
                if group_id is None or group_id not in missing or record.value is None:
                    continue
                event = decode_event(record.value)
                if event is None or event.source is not EventSource.COORDINATOR:
                    continue
                latest = events.setdefault(group_id, _LatestEvents())
                latest.add(event)
                if latest.is_complete and latest.generation is not None:
                    missing.discard(group_id)
                    if not missing:
                        break
    except (SlackwaterError, WireError, TimeoutError):
        pass  # what was read so far is valid
    return {group_id: latest for group_id, latest in events.items() if latest.generation is not None}


def decode_event(line: bytes) -> GroupEvent | None:
    """Decode a record of the events topic; None if it is not an event."""
    try:
        return GroupEvent.from_json(line.decode())
    except (ValueError, KeyError, TypeError):
        return None  # any client may write to the topic


async def _read_generations(cluster: Cluster, group_ids: Collection[str], partitions: int) -> dict[str, GroupValue]:
    by_partition: dict[int, set[str]] = {}
    for group_id in group_ids:
        by_partition.setdefault(offsets_partition(group_id, partitions), set()).add(group_id)
    generations: dict[str, GroupValue] = {}
    try:
        async with asyncio.timeout(MAX_SECONDS):
            await asyncio.gather(
                *(_read_partition(cluster, number, missing, generations) for number, missing in by_partition.items())
            )
    except (SlackwaterError, WireError, TimeoutError):
        pass
    return generations


async def _read_partition(cluster: Cluster, number: int, missing: set[str], generations: dict[str, GroupValue]) -> None:
    async for record in read_newest_first(cluster, TopicPartition(OFFSETS_TOPIC, number), MAX_RECORDS):
        if record.key is None:
            continue
        key = decode_key(record.key)
        if isinstance(key, GroupKey) and key.group in missing:
            missing.discard(key.group)
            if record.value is not None:
                generations[key.group] = decode_group_value(record.value)
            if not missing:
                return
