"""What a query has to know of its topics: which partitions there are, and where they begin and end.

Rules kept here
- Every call is one question to the cluster as it is now, bounded by `default.api.timeout.ms`.
- A topic that was named and is not there is an error with its name. A pattern may match nothing.
- Offsets that were named must be those of all partitions that are read, as in Spark's own source.
- The end of a partition is where a reader gets to: under `read_committed` that is the last stable offset.
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
# The question itself ends at `default.api.timeout.ms` with a reason; this much later it is given up without one.
_GRACE_S: Final = 10.0
_MOST_NAMES: Final = 5


class OffsetReader:
    """Asks the cluster about the topics of one query."""

    def __init__(self, network: NetworkThread, cluster: Cluster, options: SourceOptions) -> None:
        self._network = network
        self._cluster = cluster
        self._options = options

    def partitions(self) -> list[TopicPartition]:
        """All partitions that the query reads, in order."""
        options = self._options
        if options.assign is not None:
            return self._assigned(options.assign)
        if options.subscribe_pattern is not None:
            matches = re.compile(options.subscribe_pattern).fullmatch
            found = [topic for topic in self._ask(list_topics(self._cluster)) if matches(topic.name)]
        else:
            found = self._ask(describe_topics(self._cluster, options.subscribe or ()))
        return sorted(partition for topic in found for partition in _partitions(topic))

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """PositionKind partitions begin."""
        return self._ends(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """PositionKind partitions end."""
        return self._ends(dict.fromkeys(partitions, LATEST))

    def for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset that is as new as each time; None where there is none."""
        return {one: None if at is None else at.offset for one, at in self._offsets(times).items()}

    def resolve(self, positions: PositionSpec, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets that the user's words mean now."""
        wanted = sorted(partitions)
        match positions.where:
            case PositionKind.EARLIEST:
                return self.earliest(wanted)
            case PositionKind.LATEST:
                return self.latest(wanted)
            case PositionKind.OFFSETS:
                _check_complete(positions, wanted)
                named = {one: positions.by_partition[one] for one in wanted}
                return named | self._ends({one: place for one, place in named.items() if place < 0})
            case PositionKind.TIMESTAMP:
                return self._by_time(positions, dict.fromkeys(wanted, positions.timestamp))
            case PositionKind.TIMESTAMPS:
                _check_complete(positions, wanted)
                return self._by_time(positions, {one: positions.by_partition[one] for one in wanted})

    def _assigned(self, assign: Mapping[str, list[int]]) -> list[TopicPartition]:
        there = {topic.name: len(topic.partitions) for topic in self._ask(describe_topics(self._cluster, assign))}
        wanted = [TopicPartition(topic, number) for topic, numbers in assign.items() for number in numbers]
        for topic, number in wanted:
            if number >= there[topic]:
                raise UsageError(
                    f"assign names partition {number} of {topic}, which has the partitions 0 to {there[topic] - 1}."
                )
        return sorted(wanted)

    def _by_time(self, positions: PositionSpec, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        found = self.for_times(times)
        late = [one for one, offset in found.items() if offset is None]
        if late and not positions.latest_if_no_match:
            raise UsageError(
                f"{positions.option}: {_names(late)} has no record as new as {times[late[0]]}; name an earlier time, "
                "or set startingOffsetsByTimestampStrategy to latest."
            )
        return {one: offset for one, offset in found.items() if offset is not None} | self.latest(late)

    def _ends(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {one: at.offset for one, at in self._offsets(wanted).items() if at is not None}

    def _offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        if not wanted:
            return {}
        return self._ask(self._list_offsets(wanted))

    async def _list_offsets(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        await ensure_connected(self._cluster)
        return await list_offsets(self._cluster, wanted, read_committed=self._options.read_committed)

    def _ask(self, question: Coroutine[Any, Any, T]) -> T:
        timeout_s = self._cluster.config.default_api_timeout_ms / 1000 + _GRACE_S
        return self._network.run(question, timeout_s)


def _partitions(topic: TopicMetadata) -> list[TopicPartition]:
    return [TopicPartition(topic.name, one.index) for one in topic.partitions]


def _check_complete(positions: PositionSpec, wanted: list[TopicPartition]) -> None:
    missing = [one for one in wanted if one not in positions.by_partition]
    unknown = sorted(set(positions.by_partition) - set(wanted))
    if missing:
        raise UsageError(
            f"{positions.option} must name all partitions that are read, and {_names(missing)} is missing."
        )
    if unknown:
        raise UsageError(f"{positions.option} names {_names(unknown)}, which is not read or does not exist.")


def _names(partitions: list[TopicPartition]) -> str:
    more = len(partitions) - _MOST_NAMES
    return ", ".join(map(str, partitions[:_MOST_NAMES])) + (f" (and {more} more)" if more > 0 else "")
