"""What a cluster writes down about its groups, followed from look to look.

Rules kept here
- Two topics: `__group_events`, in which a Slackwater broker tells every decision, and `__consumer_offsets`, in which
  every broker writes a generation when its assignment is done, and the epochs of groups of the new protocol (KIP-848).
- The first look goes back to a time, or so many records, and says how far it came. Every other one reads only what was
  written since.
- Of `__consumer_offsets` only the partitions are read that hold groups which were asked about.
- What may not be read is said, and not tried again. What is no record of these formats is passed over: anybody may
  write to a topic.
"""

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from slackwater.client.admin.generations import EVENTS_TOPIC, MAX_RECORDS, OFFSETS_TOPIC, partition_of
from slackwater.client.admin.retries import ensure_connected
from slackwater.client.admin.tail import between, newest_first
from slackwater.client.network.cluster import Cluster
from slackwater.client.network.offsets import EARLIEST, LATEST, list_offsets
from slackwater.group.errors import BrokerError, Error
from slackwater.group.events import GroupEvent
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.errors import WireError
from slackwater.wire.internal_topics.consumer_groups import GROUP_EPOCH_KEY, decode_consumer_group_key, decode_epoch
from slackwater.wire.internal_topics.consumer_offsets import GroupKey, UnknownKey, decode_group_value, decode_key
from slackwater.wire.records.record import Record

_REFUSED: Final = frozenset({Error.TOPIC_AUTHORIZATION_FAILED, Error.CLUSTER_AUTHORIZATION_FAILED})


class LoggedGeneration(NamedTuple):
    """A generation as `__consumer_offsets` has it; the members of a KIP-848 group are not told with its epoch."""

    group: str
    time_ms: int
    generation: int
    members: frozenset[str] | None
    assignor: str | None


class GroupLogEntries(NamedTuple):
    """What was written since the last look, in the order of each partition."""

    generations: list[LoggedGeneration]
    events: list[GroupEvent]
    topics: frozenset[str]
    """The topics that could be read."""
    refused: frozenset[str]
    """The topics that may not be."""


class GroupLogFollower:
    """Where each partition was read up to; one per watch."""

    def __init__(self, since_ms: int) -> None:
        self.known_since_ms = since_ms
        """From here on all that was written is known; what was compacted since does not count."""
        self._since_ms = since_ms
        self._positions: dict[TopicPartition, int] = {}
        self._refused: set[str] = set()

    async def read(self, cluster: Cluster, groups: Collection[str]) -> GroupLogEntries:
        """What is new, about these groups and others beside them."""
        await ensure_connected(cluster)
        found = await cluster.refresh([EVENTS_TOPIC, OFFSETS_TOPIC])
        self._refused |= {name for name, topic in found.items() if topic.error in _REFUSED}
        counts = {name: len(topic.partitions) for name, topic in found.items() if topic.partitions}
        events = await self._records(cluster, self._wanted(EVENTS_TOPIC, {0} if EVENTS_TOPIC in counts else ()))
        numbers = {partition_of(group, counts[OFFSETS_TOPIC]) for group in groups} if OFFSETS_TOPIC in counts else ()
        offsets = await self._records(cluster, self._wanted(OFFSETS_TOPIC, numbers))
        return GroupLogEntries(
            [one for one in map(_generation, offsets) if one is not None],
            [one for one in map(_event, events) if one is not None],
            frozenset(counts) - self._refused,
            frozenset(self._refused),
        )

    def _wanted(self, topic: str, numbers: Iterable[int]) -> list[TopicPartition]:
        return [] if topic in self._refused else [TopicPartition(topic, number) for number in sorted(numbers)]

    async def _records(self, cluster: Cluster, partitions: list[TopicPartition]) -> list[Record]:
        found: list[Record] = []
        try:
            ends = await list_offsets(cluster, dict.fromkeys(partitions, LATEST)) if partitions else {}
            for partition, end in ends.items():
                if end is not None:
                    found += await self._since(cluster, partition, end.offset)
        except BrokerError as error:
            if error.error not in _REFUSED:
                raise
            self._refused |= {partition.topic for partition in partitions}
        return found

    async def _since(self, cluster: Cluster, partition: TopicPartition, end: int) -> list[Record]:
        position = self._positions.get(partition)
        if position == end:
            return []
        starts = await list_offsets(cluster, {partition: EARLIEST})
        start = starts[partition]
        first = start.offset if start is not None else 0
        if position is None:
            found = await self._back(cluster, partition, max(first, end - MAX_RECORDS))
        else:
            found = await between(cluster, partition, max(position, first), end)
        # A topic that was deleted and made again ends before where it was read up to, and is followed from there.
        self._positions[partition] = max(end, found[-1].offset + 1) if found else end
        return found

    async def _back(self, cluster: Cluster, partition: TopicPartition, first: int) -> list[Record]:
        found: list[Record] = []
        async for record in newest_first(cluster, partition, MAX_RECORDS):
            if 0 <= record.timestamp < self._since_ms:
                return found[::-1]
            found.append(record)
        if first > 0 and found:  # what was before is deleted, or too far back
            self.known_since_ms = max(self.known_since_ms, found[-1].timestamp)
        return found[::-1]


def _generation(record: Record) -> LoggedGeneration | None:
    if record.key is None or record.value is None:
        return None
    try:
        key = decode_key(record.key)
        if isinstance(key, GroupKey):
            value = decode_group_value(record.value)
            members = frozenset(member.member_id for member in value.members)
            return LoggedGeneration(key.group, record.timestamp, value.generation, members, value.protocol)
        if isinstance(key, UnknownKey) and key.version == GROUP_EPOCH_KEY:
            epoch = decode_consumer_group_key(record.key)
            if epoch is not None:
                return LoggedGeneration(epoch.group, record.timestamp, decode_epoch(record.value), None, None)
    except WireError:
        pass
    return None


def _event(record: Record) -> GroupEvent | None:
    try:
        return GroupEvent.from_json(record.value.decode()) if record.value is not None else None
    except (ValueError, KeyError, TypeError):
        return None
