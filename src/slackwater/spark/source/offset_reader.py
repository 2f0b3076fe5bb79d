"""Reads partitions and their offsets from the cluster, for planning in the driver.

Invariants:
- Every call makes requests and returns the current state, within `default.api.timeout.ms`.
- A topic in `subscribe` or `assign` that does not exist is an error with its name. A pattern may match nothing.
- Offsets in the options must cover all partitions that are read, as in Spark's Kafka source.
- With `read_committed`, the end of a partition is its last stable offset.
"""

import re
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, Final, TypeVar

from slackwater.client.admin.retries import ensure_connected
from slackwater.client.admin.topics import describe_topics, list_topics
from slackwater.client.network.cluster import Cluster, TopicMetadata
from slackwater.client.network.offsets import EARLIEST, LATEST, OffsetAndTimestamp, list_offsets
from slackwater.client.network.thread import NetworkThread
from slackwater.group.errors import UsageError
from slackwater.group.topic_partition import TopicPartition
from slackwater.spark.source.options import PositionKind, PositionSpec, SourceOptions

T = TypeVar("T")
# A request fails with a reason at `default.api.timeout.ms`; this much later the wait ends without one.
_GRACE_S: Final = 10.0
_MAX_NAMES: Final = 5


class OffsetReader:
    """Reads the partitions and offsets of one query."""

    def __init__(self, network: NetworkThread, cluster: Cluster, options: SourceOptions) -> None:
        self._network = network
        self._cluster = cluster
        self._options = options

    def partitions(self) -> list[TopicPartition]:
        """Return all partitions that the query reads, sorted."""
        options = self._options
        if options.assign is not None:
            return self._assigned(options.assign)
        if options.subscribe_pattern is not None:
            matches = re.compile(options.subscribe_pattern).fullmatch
            topics = [topic for topic in self._run(list_topics(self._cluster)) if matches(topic.name)]
        else:
            topics = self._run(describe_topics(self._cluster, options.subscribe or ()))
        return sorted(partition for topic in topics for partition in _partitions(topic))

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset of each partition."""
        return self._ends(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the end offset of each partition."""
        return self._ends(dict.fromkeys(partitions, LATEST))

    def for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the first offset at or after each timestamp; None if there is none."""
        return {partition: None if entry is None else entry.offset for partition, entry in self._offsets(times).items()}

    def resolve(self, positions: PositionSpec, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Resolve the user's positions to offsets."""
        sorted_partitions = sorted(partitions)
        match positions.kind:
            case PositionKind.EARLIEST:
                return self.earliest(sorted_partitions)
            case PositionKind.LATEST:
                return self.latest(sorted_partitions)
            case PositionKind.OFFSETS:
                _check_complete(positions, sorted_partitions)
                offsets = {partition: positions.by_partition[partition] for partition in sorted_partitions}
                special = {partition: offset for partition, offset in offsets.items() if offset < 0}
                return offsets | self._ends(special)
            case PositionKind.TIMESTAMP:
                return self._by_time(positions, dict.fromkeys(sorted_partitions, positions.timestamp))
            case PositionKind.TIMESTAMPS:
                _check_complete(positions, sorted_partitions)
                return self._by_time(
                    positions, {partition: positions.by_partition[partition] for partition in sorted_partitions}
                )

    def _assigned(self, assign: Mapping[str, list[int]]) -> list[TopicPartition]:
        counts = {topic.name: len(topic.partitions) for topic in self._run(describe_topics(self._cluster, assign))}
        partitions = [TopicPartition(topic, number) for topic, numbers in assign.items() for number in numbers]
        for topic, number in partitions:
            if number >= counts[topic]:
                raise UsageError(
                    f"assign contains partition {number} of {topic}, but its partitions are 0 to {counts[topic] - 1}."
                )
        return sorted(partitions)

    def _by_time(self, positions: PositionSpec, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        offsets = self.for_times(times)
        late = [partition for partition, offset in offsets.items() if offset is None]
        if late and not positions.latest_if_no_match:
            raise UsageError(
                f"{positions.option}: {_names(late)} has no record at or after {times[late[0]]}; use an earlier "
                "timestamp, or set startingOffsetsByTimestampStrategy to latest."
            )
        return {partition: offset for partition, offset in offsets.items() if offset is not None} | self.latest(late)

    def _ends(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {partition: entry.offset for partition, entry in self._offsets(timestamps).items() if entry is not None}

    def _offsets(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        if not timestamps:
            return {}
        return self._run(self._list_offsets(timestamps))

    async def _list_offsets(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        await ensure_connected(self._cluster)
        return await list_offsets(self._cluster, timestamps, read_committed=self._options.read_committed)

    def _run(self, request: Coroutine[Any, Any, T]) -> T:
        timeout_s = self._cluster.config.default_api_timeout_ms / 1000 + _GRACE_S
        return self._network.run(request, timeout_s)


def _partitions(topic: TopicMetadata) -> list[TopicPartition]:
    return [TopicPartition(topic.name, partition.index) for partition in topic.partitions]


def _check_complete(positions: PositionSpec, partitions: list[TopicPartition]) -> None:
    missing = [partition for partition in partitions if partition not in positions.by_partition]
    unknown = sorted(set(positions.by_partition) - set(partitions))
    if missing:
        raise UsageError(f"{positions.option} must contain all partitions that are read; {_names(missing)} is missing.")
    if unknown:
        raise UsageError(f"{positions.option} contains {_names(unknown)}, which is not read or does not exist.")


def _names(partitions: list[TopicPartition]) -> str:
    more = len(partitions) - _MAX_NAMES
    return ", ".join(map(str, partitions[:_MAX_NAMES])) + (f" (and {more} more)" if more > 0 else "")
