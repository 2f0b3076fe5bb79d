"""Follows the records that a cluster writes about its groups.

Two topics hold them: `__group_events`, where a Slackwater broker records every decision, and `__consumer_offsets`,
where every broker records a generation when its assignment is complete, and the epochs of KIP-848 groups.

Invariants:
- The first read goes back to a time, limited to `MAX_RECORDS`, and reports how far it got. Later reads return only new
  records.
- Only the partitions of `__consumer_offsets` that hold the requested groups are read.
- A topic whose reading is denied is reported and not read again. Records of other formats are ignored, because any
  client may write to a topic.
"""

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from slackwater.client.admin.generations import MAX_RECORDS, decode_event
from slackwater.client.admin.newest_records import read_newest_first, read_range
from slackwater.client.admin.retries import ensure_connected
from slackwater.client.network.cluster import Cluster
from slackwater.client.network.offsets import EARLIEST, LATEST, list_offsets
from slackwater.group.errors import BrokerError, Error
from slackwater.group.events import GroupEvent
from slackwater.group.internal_topics import EVENTS_TOPIC, OFFSETS_TOPIC, offsets_partition
from slackwater.group.offset_range import OffsetRange
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.errors import WireError
from slackwater.wire.internal_topics.consumer_groups import GROUP_EPOCH_KEY, decode_consumer_group_key, decode_epoch
from slackwater.wire.internal_topics.consumer_offsets import GroupKey, UnknownKey, decode_group_value, decode_key
from slackwater.wire.records.record import Record

_DENIED: Final = frozenset({Error.TOPIC_AUTHORIZATION_FAILED, Error.CLUSTER_AUTHORIZATION_FAILED})


class RecordedGeneration(NamedTuple):
    """A generation recorded in `__consumer_offsets`; a KIP-848 group's epoch is recorded without its members."""

    group: str
    time_ms: int
    generation: int
    members: frozenset[str] | None
    assignor: str | None


class GroupRecords(NamedTuple):
    """The entries since the previous read, in the order of each partition."""

    generations: list[RecordedGeneration]
    events: list[GroupEvent]
    topics: frozenset[str]
    """The topics that were read."""
    denied: frozenset[str]
    """The topics whose reading was denied."""


class GroupRecordsFollower:
    """The read positions of one follower."""

    def __init__(self, since_ms: int) -> None:
        self.known_since_ms = since_ms
        """Every entry from this time on has been read, except entries removed by compaction."""
        self._since_ms = since_ms
        self._positions: dict[TopicPartition, int] = {}
        self._denied: set[str] = set()

    async def read(self, cluster: Cluster, groups: Collection[str]) -> GroupRecords:
        """Return the new entries of these groups; entries of other groups may be included."""
        await ensure_connected(cluster)
        topics = await cluster.refresh([EVENTS_TOPIC, OFFSETS_TOPIC])
        self._denied |= {name for name, topic in topics.items() if topic.error in _DENIED}
        counts = {name: len(topic.partitions) for name, topic in topics.items() if topic.partitions}
        events = await self._read_all(cluster, self._readable(EVENTS_TOPIC, {0} if EVENTS_TOPIC in counts else ()))
        numbers: Iterable[int] = ()
        if OFFSETS_TOPIC in counts:
            numbers = {offsets_partition(group, counts[OFFSETS_TOPIC]) for group in groups}
        offsets = await self._read_all(cluster, self._readable(OFFSETS_TOPIC, numbers))
        return GroupRecords(
            [generation for generation in map(_decode_generation, offsets) if generation is not None],
            [
                event
                for record in events
                if record.value is not None and (event := decode_event(record.value)) is not None
            ],
            frozenset(counts) - self._denied,
            frozenset(self._denied),
        )

    def _readable(self, topic: str, numbers: Iterable[int]) -> list[TopicPartition]:
        return [] if topic in self._denied else [TopicPartition(topic, number) for number in sorted(numbers)]

    async def _read_all(self, cluster: Cluster, partitions: list[TopicPartition]) -> list[Record]:
        records: list[Record] = []
        try:
            ends = await list_offsets(cluster, dict.fromkeys(partitions, LATEST)) if partitions else {}
            for partition, end in ends.items():
                if end is not None:
                    records += await self._read_new(cluster, partition, end.offset)
        except BrokerError as error:
            if error.error not in _DENIED:
                raise
            self._denied |= {partition.topic for partition in partitions}
        return records

    async def _read_new(self, cluster: Cluster, partition: TopicPartition, end: int) -> list[Record]:
        position = self._positions.get(partition)
        if position == end:
            return []
        starts = await list_offsets(cluster, {partition: EARLIEST})
        start = starts[partition]
        first = start.offset if start is not None else 0
        if position is None:
            records = await self._read_back(cluster, partition, max(first, end - MAX_RECORDS))
        else:
            records = await read_range(cluster, OffsetRange(*partition, max(position, first), end))
        # The end of a recreated topic is below the old position: continue from the new end.
        self._positions[partition] = max(end, records[-1].offset + 1) if records else end
        return records

    async def _read_back(self, cluster: Cluster, partition: TopicPartition, first: int) -> list[Record]:
        records: list[Record] = []
        async for record in read_newest_first(cluster, partition, MAX_RECORDS):
            if 0 <= record.timestamp < self._since_ms:
                return records[::-1]
            records.append(record)
        if first > 0 and records:  # older records are deleted, or beyond MAX_RECORDS
            self.known_since_ms = max(self.known_since_ms, records[-1].timestamp)
        return records[::-1]


def _decode_generation(record: Record) -> RecordedGeneration | None:
    if record.key is None or record.value is None:
        return None
    try:
        key = decode_key(record.key)
        if isinstance(key, GroupKey):
            value = decode_group_value(record.value)
            members = frozenset(member.member_id for member in value.members)
            return RecordedGeneration(key.group, record.timestamp, value.generation, members, value.protocol)
        if isinstance(key, UnknownKey) and key.version == GROUP_EPOCH_KEY:
            epoch = decode_consumer_group_key(record.key)
            if epoch is not None:
                return RecordedGeneration(epoch.group, record.timestamp, decode_epoch(record.value), None, None)
    except WireError:
        pass
    return None
