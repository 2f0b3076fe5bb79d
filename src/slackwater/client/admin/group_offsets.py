"""The offsets of a group: progress, lag, reset and deletion.

Invariants:
- The partitions of a group are those with a committed offset and those assigned to its members. The end of a partition
  is its high watermark, as in Kafka's own tool.
- A partition without a leader is shown without its ends, and is not waited for.
- Offsets are moved only while a group has no members: a member would commit its own position over them.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from slackwater.client.admin.descriptions import GroupDescription, GroupOffset, OffsetChange
from slackwater.client.admin.group_requests import with_coordinator
from slackwater.client.admin.groups import describe_groups, for_each, no_such_group
from slackwater.client.admin.reset import PartitionOffsets, ResetTarget, ResetTo, changes
from slackwater.client.admin.retries import ensure_connected
from slackwater.client.admin.topics import describe_topics
from slackwater.client.network.cluster import Cluster
from slackwater.client.network.connection import BrokerConnection
from slackwater.client.network.group_apis import api_of, from_wire, to_wire, version_of
from slackwater.client.network.offsets import EARLIEST, LATEST, OffsetAndTimestamp, list_offsets
from slackwater.group.errors import BrokerError, Error, UsageError
from slackwater.group.member import OffsetAndMetadata
from slackwater.group.messages import (
    NO_GENERATION,
    GroupToFetch,
    OffsetCommit,
    OffsetCommitResponse,
    OffsetFetch,
    OffsetFetchResponse,
    OffsetToCommit,
)
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)

NO_MEMBER: Final = ""

Committed = dict[TopicPartition, OffsetAndMetadata]
Ends = Mapping[TopicPartition, tuple[int, int]]


async def committed(cluster: Cluster, group_id: str) -> Committed:
    """Return all committed offsets of a group."""
    await ensure_connected(cluster)
    request = OffsetFetch((GroupToFetch(group_id, None),))

    async def fetch(connection: BrokerConnection) -> Committed:
        version = version_of(request, connection.version_of(api_of(request)))
        wire_response = await connection.send(
            to_wire(request, version), timeout_s=cluster.config.request_timeout_ms / 1000, version=version
        )
        response = from_wire(wire_response, request, version)
        assert isinstance(response, OffsetFetchResponse)
        (group,) = response.groups
        if group.error is Error.GROUP_ID_NOT_FOUND:
            return {}
        if group.error is not Error.NONE:
            text = f"The offsets of group {group_id} cannot be read: {group.error.name}."
            raise cluster.error(group.error, text, f"Describe on group {group_id}")
        return {
            TopicPartition(offset.topic, offset.partition): OffsetAndMetadata(
                offset.offset, offset.leader_epoch, offset.metadata or ""
            )
            for offset in group.offsets
            if offset.offset >= 0
        }

    return await with_coordinator(cluster, group_id, fetch)


async def group_offsets(cluster: Cluster, groups: Iterable[GroupDescription]) -> dict[str, list[GroupOffset]]:
    """The offsets of groups, each by partition."""
    by_id = {group.group_id: group for group in groups}
    offsets = dict(zip(by_id, await for_each(by_id, lambda group_id: committed(cluster, group_id)), strict=True))
    partitions = {partition for group_id, group in by_id.items() for partition in _partitions(group, offsets[group_id])}
    ends = await _ends(cluster, partitions)
    return {group_id: _rows(group, offsets[group_id], ends) for group_id, group in by_id.items()}


def _partitions(group: GroupDescription, offsets: Committed) -> set[TopicPartition]:
    return set(offsets).union(*(member.partitions or () for member in group.members))


def _rows(group: GroupDescription, offsets: Committed, ends: Ends) -> list[GroupOffset]:
    owners = {partition: member for member in group.members for partition in member.partitions or ()}
    rows = []
    for partition in sorted(_partitions(group, offsets)):
        offset = offsets.get(partition)
        start, end = ends.get(partition, (None, None))
        rows.append(
            GroupOffset(
                partition=partition,
                committed=offset.offset if offset is not None else None,
                metadata=offset.metadata if offset is not None else None,
                log_start=start,
                log_end=end,
                member=owners.get(partition),
            )
        )
    return rows


async def _ends(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
    """Start and end of every partition that has a leader."""
    selected = set(partitions)
    if not selected:
        return {}
    await cluster.refresh({partition.topic for partition in selected})
    there = [partition for partition in selected if cluster.leader(*partition) is not None]
    starts = await list_offsets(cluster, dict.fromkeys(there, EARLIEST))
    ends = await list_offsets(cluster, dict.fromkeys(there, LATEST))
    ends_by_partition = {}
    for partition in there:
        start, end = starts[partition], ends[partition]
        if start is not None and end is not None:
            ends_by_partition[partition] = (start.offset, end.offset)
    return ends_by_partition


# --- moving -----------------------------------------------------------------------------------------------------------


async def plan_reset(
    cluster: Cluster,
    group_id: str,
    to: ResetTo,
    topics: Iterable[str] | None,
    partitions: Iterable[TopicPartition],
) -> list[OffsetChange]:
    """Return the changes of a reset; without topics and partitions, of all committed partitions.

    A reset with an offset per partition applies to these partitions.
    """
    await ensure_connected(cluster)
    await _require_empty(cluster, group_id)
    offsets = await committed(cluster, group_id)
    selected = set(to.by_partition) or set(partitions)
    names = sorted({partition.topic for partition in selected} | set(topics or ()))
    known = {topic.name: topic for topic in await describe_topics(cluster, names)} if names else {}
    for partition in selected:
        count = len(known[partition.topic].partitions)
        if not 0 <= partition.partition < count:
            raise UsageError(f"{partition.topic} has no partition {partition.partition}; it has {count}, from 0 on.")
    for name in topics or ():
        selected |= {TopicPartition(name, partition.index) for partition in known[name].partitions}
    if topics is None and not selected:
        selected = set(offsets)
    if not selected:
        raise UsageError(f"Group {group_id} has no committed offsets; name the topics to set offsets for.")
    return changes(to, selected, await _bounds(cluster, to, selected, offsets))


async def _bounds(
    cluster: Cluster, to: ResetTo, selected: set[TopicPartition], offsets: Committed
) -> dict[TopicPartition, PartitionOffsets]:
    ends = await _ends(cluster, selected)
    missing = sorted(selected - set(ends))
    if missing:
        raise BrokerError(
            Error.LEADER_NOT_AVAILABLE, f"{missing[0]} does not exist or has no leader, so its offset cannot be moved."
        )
    times: Mapping[TopicPartition, OffsetAndTimestamp | None] = {}
    if to.target is ResetTarget.TIME:
        times = await list_offsets(cluster, dict.fromkeys(selected, to.amount))
    bounds = {}
    for partition in selected:
        offset, time = offsets.get(partition), times.get(partition)
        bounds[partition] = PartitionOffsets(
            *ends[partition],
            offset.offset if offset is not None else None,
            time.offset if time is not None else None,
        )
    return bounds


async def _require_empty(cluster: Cluster, group_id: str) -> None:
    try:
        (group,) = await describe_groups(cluster, [group_id], find_generation=False)
    except BrokerError as error:
        if error.error is Error.GROUP_ID_NOT_FOUND:
            return  # offsets may be set before the first member joins
        raise
    if group.members or group.state not in ("Empty", "Dead"):
        raise _not_empty_error(group_id, f"is {group.state} with {_count(len(group.members), 'member')}")


def _not_empty_error(group_id: str, state: str) -> BrokerError:
    return BrokerError(
        Error.NON_EMPTY_GROUP,
        f"Group {group_id} {state}, and offsets can be moved only while it has none. Stop its consumers first.",
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


async def commit(cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
    """Set offsets of a group without members; the error names the first partition that was rejected."""
    await ensure_connected(cluster)
    request = OffsetCommit(
        group_id,
        NO_MEMBER,
        None,
        NO_GENERATION,
        tuple(
            OffsetToCommit(*partition, to_commit.offset, to_commit.leader_epoch, to_commit.metadata)
            for partition, to_commit in sorted(offsets.items())
        ),
    )

    async def send_commit(connection: BrokerConnection) -> None:
        version = version_of(request, connection.version_of(api_of(request)))
        wire_response = await connection.send(
            to_wire(request, version), timeout_s=cluster.config.request_timeout_ms / 1000, version=version
        )
        response = from_wire(wire_response, request, version)
        assert isinstance(response, OffsetCommitResponse)
        for partition in response.partitions:
            if partition.error in (Error.UNKNOWN_MEMBER_ID, Error.ILLEGAL_GENERATION, Error.REBALANCE_IN_PROGRESS):
                raise _not_empty_error(group_id, "has members")
            if partition.error is Error.UNKNOWN_TOPIC_OR_PARTITION:
                raise UsageError(
                    f"There is no partition {partition.topic}-{partition.partition}; nothing was committed for it."
                )
            if partition.error is not Error.NONE:
                what = f"The offset of {partition.topic}-{partition.partition} was not set: {partition.error.name}."
                raise cluster.error(partition.error, what, f"Read on group {group_id} and topic {partition.topic}")

    await with_coordinator(cluster, group_id, send_commit)


async def delete_offsets(
    cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, Error]:
    """Delete offsets; return the error of each. Offsets of subscribed topics cannot be deleted."""
    topics: dict[str, OffsetDeleteRequestTopic] = {}
    for partition in sorted(partitions):
        topic = topics.setdefault(partition.topic, OffsetDeleteRequestTopic(name=partition.topic))
        topic.partitions.append(OffsetDeleteRequestPartition(partition_index=partition.partition))
    await ensure_connected(cluster)

    async def delete(connection: BrokerConnection) -> OffsetDeleteResponse:
        response = await connection.request(
            OffsetDeleteRequest(group_id=group_id, topics=list(topics.values())),
            OffsetDeleteResponse,
            timeout_s=cluster.config.request_timeout_ms / 1000,
        )
        if response.error_code and Error(response.error_code) is not Error.GROUP_ID_NOT_FOUND:
            error = Error(response.error_code)
            text = f"The offsets of group {group_id} were not deleted: {error.name}."
            raise cluster.error(error, text, f"Delete on group {group_id}")
        return response

    response = await with_coordinator(cluster, group_id, delete)
    if response.error_code:
        raise await no_such_group(cluster, group_id)
    return {
        TopicPartition(topic.name, partition.partition_index): Error(partition.error_code)
        for topic in response.topics
        for partition in topic.partitions
    }
