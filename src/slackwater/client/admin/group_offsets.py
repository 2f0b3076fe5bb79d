"""A group's offsets: how far it has come, how far behind it is, and moving or deleting them.

Rules kept here
- A group's partitions are those that it has committed offsets for and those that its members have. The end of a
  partition is its high watermark, as in Kafka's own tool.
- A partition that is gone, or has no leader, is shown without its ends. Nobody waits for it.
- Offsets are moved while a group has no members: a member would go on from where it is, and commit over it.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from slackwater.client.admin.descriptions import GroupDescription, GroupOffset, OffsetChange
from slackwater.client.admin.group_requests import with_coordinator
from slackwater.client.admin.groups import describe_groups, each, no_such_group
from slackwater.client.admin.reset import Bounds, ResetTo, Where, changes
from slackwater.client.admin.retries import ensure_connected
from slackwater.client.admin.topics import describe_topics
from slackwater.client.network.cluster import Cluster
from slackwater.client.network.connection import BrokerConnection
from slackwater.client.network.group_apis import api_of, from_wire, to_wire, version_of
from slackwater.client.network.offsets import EARLIEST, LATEST, OffsetAndTimestamp, list_offsets
from slackwater.group.errors import BrokerError, Error, UsageError
from slackwater.group.member import OffsetAndMetadata
from slackwater.group.messages import (
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

NO_GENERATION: Final = -1
NO_MEMBER: Final = ""

Committed = dict[TopicPartition, OffsetAndMetadata]
Ends = Mapping[TopicPartition, tuple[int, int]]


async def committed(cluster: Cluster, group_id: str) -> Committed:
    """All offsets that a group has committed."""
    await ensure_connected(cluster)
    request = OffsetFetch((GroupToFetch(group_id, None),))

    async def ask(connection: BrokerConnection) -> Committed:
        version = version_of(request, connection.version_of(api_of(request)))
        response = await connection.send(
            to_wire(request, version), timeout_s=cluster.config.request_timeout_ms / 1000, version=version
        )
        answer = from_wire(response, request, version)
        assert isinstance(answer, OffsetFetchResponse)
        (group,) = answer.groups
        if group.error is Error.GROUP_ID_NOT_FOUND:
            return {}
        if group.error is not Error.NONE:
            raise BrokerError(group.error, f"The offsets of group {group_id} cannot be had: {group.error.name}.")
        return {
            TopicPartition(one.topic, one.partition): OffsetAndMetadata(
                one.offset, one.leader_epoch, one.metadata or ""
            )
            for one in group.offsets
            if one.offset >= 0
        }

    return await with_coordinator(cluster, group_id, ask)


async def group_offsets(cluster: Cluster, groups: Iterable[GroupDescription]) -> dict[str, list[GroupOffset]]:
    """The offsets of groups, each by partition."""
    by_id = {group.group_id: group for group in groups}
    found = dict(zip(by_id, await each(by_id, lambda one: committed(cluster, one)), strict=True))
    partitions = {one for group_id, group in by_id.items() for one in _partitions(group, found[group_id])}
    ends = await _ends(cluster, partitions)
    return {group_id: _rows(group, found[group_id], ends) for group_id, group in by_id.items()}


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
    wanted = set(partitions)
    if not wanted:
        return {}
    await cluster.refresh({partition.topic for partition in wanted})
    there = [partition for partition in wanted if cluster.leader(*partition) is not None]
    starts = await list_offsets(cluster, dict.fromkeys(there, EARLIEST))
    ends = await list_offsets(cluster, dict.fromkeys(there, LATEST))
    found = {}
    for partition in there:
        start, end = starts[partition], ends[partition]
        if start is not None and end is not None:
            found[partition] = (start.offset, end.offset)
    return found


# --- moving -----------------------------------------------------------------------------------------------------------


async def plan_reset(
    cluster: Cluster,
    group_id: str,
    to: ResetTo,
    topics: Iterable[str] | None,
    partitions: Iterable[TopicPartition],
) -> list[OffsetChange]:
    """What a reset would do, for these topics and partitions; None and none mean all that the group has committed."""
    await ensure_connected(cluster)
    await _needs_empty(cluster, group_id)
    offsets = await committed(cluster, group_id)
    wanted = set(partitions)
    names = sorted({partition.topic for partition in wanted} | set(topics or ()))
    known = {topic.name: topic for topic in await describe_topics(cluster, names)} if names else {}
    for partition in wanted:
        count = len(known[partition.topic].partitions)
        if not 0 <= partition.partition < count:
            raise UsageError(f"{partition.topic} has no partition {partition.partition}; it has {count}, from 0 on.")
    for name in topics or ():
        wanted |= {TopicPartition(name, one.index) for one in known[name].partitions}
    if topics is None and not wanted:
        wanted = set(offsets)
    if not wanted:
        raise UsageError(f"Group {group_id} has committed nothing; say which topics to set offsets for.")
    return changes(to, wanted, await _bounds(cluster, to, wanted, offsets))


async def _bounds(
    cluster: Cluster, to: ResetTo, wanted: set[TopicPartition], offsets: Committed
) -> dict[TopicPartition, Bounds]:
    ends = await _ends(cluster, wanted)
    missing = sorted(wanted - set(ends))
    if missing:
        raise BrokerError(
            Error.LEADER_NOT_AVAILABLE, f"{missing[0]} does not exist or has no leader, so its offset cannot be moved."
        )
    times: Mapping[TopicPartition, OffsetAndTimestamp | None] = {}
    if to.where is Where.TIME:
        times = await list_offsets(cluster, dict.fromkeys(wanted, to.amount))
    found = {}
    for partition in wanted:
        offset, time = offsets.get(partition), times.get(partition)
        found[partition] = Bounds(
            *ends[partition],
            offset.offset if offset is not None else None,
            time.offset if time is not None else None,
        )
    return found


async def _needs_empty(cluster: Cluster, group_id: str) -> None:
    try:
        (group,) = await describe_groups(cluster, [group_id], find_generation=False)
    except BrokerError as error:
        if error.error is Error.GROUP_ID_NOT_FOUND:
            return  # a group may get its first offsets before its first member
        raise
    if group.members or group.state not in ("Empty", "Dead"):
        raise _not_empty(group_id, f"is {group.state} with {_count(len(group.members), 'member')}")


def _not_empty(group_id: str, seen: str) -> BrokerError:
    return BrokerError(
        Error.NON_EMPTY_GROUP,
        f"Group {group_id} {seen}, and offsets can be moved only while it has none. Stop its consumers first.",
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


async def commit(cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
    """Set offsets of a group without members; all of them, or an error that names the first that was refused."""
    await ensure_connected(cluster)
    request = OffsetCommit(
        group_id,
        NO_MEMBER,
        None,
        NO_GENERATION,
        tuple(
            OffsetToCommit(*partition, at.offset, at.leader_epoch, at.metadata)
            for partition, at in sorted(offsets.items())
        ),
    )

    async def ask(connection: BrokerConnection) -> None:
        version = version_of(request, connection.version_of(api_of(request)))
        response = await connection.send(
            to_wire(request, version), timeout_s=cluster.config.request_timeout_ms / 1000, version=version
        )
        answer = from_wire(response, request, version)
        assert isinstance(answer, OffsetCommitResponse)
        for one in answer.partitions:
            if one.error in (Error.UNKNOWN_MEMBER_ID, Error.ILLEGAL_GENERATION, Error.REBALANCE_IN_PROGRESS):
                raise _not_empty(group_id, "has members")
            if one.error is Error.UNKNOWN_TOPIC_OR_PARTITION:
                raise UsageError(f"There is no partition {one.topic}-{one.partition}; nothing was committed for it.")
            if one.error is not Error.NONE:
                what = f"The offset of {one.topic}-{one.partition} was not set: {one.error.name}."
                raise BrokerError(one.error, what)

    await with_coordinator(cluster, group_id, ask)


async def delete_offsets(
    cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, Error]:
    """Forget offsets; what came of each. Those of topics that a member reads cannot be forgotten."""
    wanted: dict[str, OffsetDeleteRequestTopic] = {}
    for partition in sorted(partitions):
        topic = wanted.setdefault(partition.topic, OffsetDeleteRequestTopic(name=partition.topic))
        topic.partitions.append(OffsetDeleteRequestPartition(partition_index=partition.partition))
    await ensure_connected(cluster)

    async def ask(connection: BrokerConnection) -> OffsetDeleteResponse:
        answer = await connection.request(
            OffsetDeleteRequest(group_id=group_id, topics=list(wanted.values())),
            OffsetDeleteResponse,
            timeout_s=cluster.config.request_timeout_ms / 1000,
        )
        if answer.error_code and Error(answer.error_code) is not Error.GROUP_ID_NOT_FOUND:
            error = Error(answer.error_code)
            raise BrokerError(error, f"The offsets of group {group_id} were not deleted: {error.name}.")
        return answer

    answer = await with_coordinator(cluster, group_id, ask)
    if answer.error_code:
        raise await no_such_group(cluster, group_id)
    return {
        TopicPartition(topic.name, one.partition_index): Error(one.error_code)
        for topic in answer.topics
        for one in topic.partitions
    }
