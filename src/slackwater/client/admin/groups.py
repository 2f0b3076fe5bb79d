"""Consumer groups: list, describe, delete, remove members.

Invariants:
- Every broker lists the groups that it coordinates, so all brokers are queried. Other requests go to the coordinator.
- A KIP-848 group is described by its own request; the caller need not know the type of a group.
- If the events of a group do not match its state yet, the lookup is repeated a few times.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from difflib import get_close_matches
from typing import Final, TypeVar

from slackwater.client.admin.descriptions import (
    GenerationSource,
    GroupDescription,
    GroupListing,
    MemberDescription,
    RemovedMember,
)
from slackwater.client.admin.generations import add_generations
from slackwater.client.admin.group_requests import coordinator_of, remove_members, with_coordinator
from slackwater.client.admin.retries import ensure_connected, retry_read
from slackwater.client.network.cluster import BrokerNode, Cluster
from slackwater.client.network.connection import BrokerConnection
from slackwater.group.assignors.consumer_protocol import (
    PROTOCOL_TYPE,
    MalformedMetadata,
    decode_assignment,
    decode_subscription,
)
from slackwater.group.errors import BrokerError, Error, SlackwaterError, UsageError
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.apis import CONSUMER_GROUP_DESCRIBE
from slackwater.wire.messages import consumer_group_describe as new_protocol
from slackwater.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from slackwater.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from slackwater.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

T = TypeVar("T")
MAX_PARALLEL_REQUESTS: Final = 16
MAX_LOOKUPS: Final = 4
LOOKUP_PAUSE_S: Final = 0.1
DESCRIBED_TYPES: Final = ("", "classic", "consumer")

OnFailure = Callable[[BrokerNode, SlackwaterError], None]


async def list_groups(
    cluster: Cluster, states: Iterable[str] = (), types: Iterable[str] = (), on_failure: OnFailure | None = None
) -> list[GroupListing]:
    """Return the groups of all brokers, by name."""
    wanted_states = {state.lower() for state in states}
    wanted_types = {kind.lower() for kind in types}
    await ensure_connected(cluster)
    await retry_read(cluster, lambda: cluster.refresh())
    brokers = list(cluster.brokers.values())
    responses = await asyncio.gather(*(_listed(cluster, broker) for broker in brokers), return_exceptions=True)
    listings: list[GroupListing] = []
    for broker, response in zip(brokers, responses, strict=True):
        if isinstance(response, list):
            listings += response
        elif isinstance(response, SlackwaterError) and on_failure is not None:
            on_failure(broker, response)
        else:
            raise response
    return sorted(
        listing
        for listing in listings
        if (not wanted_states or listing.state.lower() in wanted_states)
        and (not wanted_types or listing.type.lower() in wanted_types)
    )


async def _listed(cluster: Cluster, broker: BrokerNode) -> list[GroupListing]:
    # Filters are applied by the caller: old brokers ignore the filters of the request.
    async def send() -> list[GroupListing]:
        response = await cluster.request(broker.node_id, ListGroupsRequest(), ListGroupsResponse)
        if response.error_code:
            raise BrokerError(Error(response.error_code))
        return [
            GroupListing(group.group_id, group.protocol_type, group.group_state, group.group_type, broker)
            for group in response.groups
        ]

    return await retry_read(cluster, send)


async def describe_groups(
    cluster: Cluster, group_ids: Iterable[str], *, find_generation: bool = True
) -> list[GroupDescription]:
    """Return these groups; raise `BrokerError` if one does not exist.

    Without `find_generation` the description holds only the coordinator's response.
    """
    unique_ids = list(dict.fromkeys(group_ids))
    await ensure_connected(cluster)
    for attempt in range(MAX_LOOKUPS):
        groups = await for_each(unique_ids, lambda group_id: _described(cluster, group_id))
        if not find_generation:
            break
        lookup = await add_generations(cluster, groups)
        groups = lookup.groups
        if not lookup.behind:
            break
        if attempt < MAX_LOOKUPS - 1:
            await asyncio.sleep(LOOKUP_PAUSE_S)
    return groups


async def for_each(names: Iterable[str], call: Callable[[str], Awaitable[T]]) -> list[T]:
    """Call a coroutine function for each name, a limited number in parallel."""
    limit = asyncio.Semaphore(MAX_PARALLEL_REQUESTS)

    async def call_limited(name: str) -> T:
        async with limit:
            return await call(name)

    return list(await asyncio.gather(*(call_limited(name) for name in names)))


async def _described(cluster: Cluster, group_id: str) -> GroupDescription:
    coordinator = await _coordinator(cluster, group_id)

    async def describe(connection: BrokerConnection) -> GroupDescription | None:
        timeout_s = cluster.config.request_timeout_ms / 1000
        response = await connection.request(
            DescribeGroupsRequest(groups=[group_id]), DescribeGroupsResponse, timeout_s=timeout_s
        )
        (row,) = response.groups
        error = Error(row.error_code)
        if error is Error.NONE and row.group_state != "Dead":
            return _classic(row, coordinator)
        if error not in (Error.NONE, Error.GROUP_ID_NOT_FOUND):
            text = f"Group {group_id} cannot be described: {error.name}."
            raise cluster.error(error, text, f"Describe on group {group_id}")
        if not connection.supports(CONSUMER_GROUP_DESCRIBE):
            return None
        newer = await connection.request(
            new_protocol.ConsumerGroupDescribeRequest(group_ids=[group_id]),
            new_protocol.ConsumerGroupDescribeResponse,
            timeout_s=timeout_s,
        )
        (consumer_row,) = newer.groups
        error = Error(consumer_row.error_code)
        if error is Error.NONE:
            return _consumer_group(consumer_row, coordinator)
        # Kafka 3.9 offers the API even if the new protocol is disabled.
        if error in (Error.GROUP_ID_NOT_FOUND, Error.UNSUPPORTED_VERSION):
            return None
        text = f"Group {group_id} cannot be described: {error.name}."
        raise cluster.error(error, text, f"Describe on group {group_id}")

    group = await with_coordinator(cluster, group_id, describe)
    if group is None:
        raise await no_such_group(cluster, group_id)
    return group


async def no_such_group(cluster: Cluster, group_id: str) -> BrokerError:
    """Return the error for a missing group, with the closest existing name or the group's type."""
    known = {listing.group_id: listing for listing in await list_groups(cluster)}
    listed = known.get(group_id)
    if listed is not None and listed.type.lower() not in DESCRIBED_TYPES:
        what = f"Group {group_id} is a {listed.type.lower()} group; only consumer groups can be shown here."
        return BrokerError(Error.GROUP_ID_NOT_FOUND, what)
    near = get_close_matches(group_id, known, n=1)
    hint = f"; did you mean {near[0]}?" if near and near[0] != group_id else "."
    return BrokerError(Error.GROUP_ID_NOT_FOUND, f"There is no group {group_id}{hint}")


async def _coordinator(cluster: Cluster, group_id: str) -> BrokerNode:
    node = await retry_read(cluster, lambda: coordinator_of(cluster, group_id))
    return cluster.brokers.get(node.node_id, node)


def _classic(row: DescribedGroup, coordinator: BrokerNode) -> GroupDescription:
    is_consumer = row.protocol_type in ("", PROTOCOL_TYPE)
    return GroupDescription(
        group_id=row.group_id,
        state=row.group_state,
        type="classic",
        protocol_type=row.protocol_type,
        assignor=row.protocol_data if is_consumer else "",
        coordinator=coordinator,
        members=tuple(
            sorted((_member(member, is_consumer) for member in row.members), key=lambda member: member.member_id)
        ),
    )


def _member(row: DescribedGroupMember, is_consumer: bool) -> MemberDescription:
    partitions: tuple[TopicPartition, ...] | None = None
    topics: tuple[str, ...] | None = None
    if is_consumer:
        try:
            partitions = tuple(sorted(decode_assignment(row.member_assignment).partitions))
            if row.member_metadata:
                topics = tuple(sorted(decode_subscription(row.member_metadata).topics))
        except MalformedMetadata:
            pass  # a client with its own format
    return MemberDescription(row.member_id, row.group_instance_id, row.client_id, row.client_host, partitions, topics)


def _consumer_group(row: new_protocol.DescribedGroup, coordinator: BrokerNode) -> GroupDescription:
    members = tuple(
        MemberDescription(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            tuple(
                sorted(
                    TopicPartition(topic.topic_name, partition)
                    for topic in member.assignment.topic_partitions
                    for partition in topic.partitions
                )
            ),
            tuple(sorted(member.subscribed_topic_names)),
        )
        for member in sorted(row.members, key=lambda member: member.member_id)
    )
    return GroupDescription(
        group_id=row.group_id,
        state=row.group_state,
        type="consumer",
        protocol_type=PROTOCOL_TYPE,
        assignor=row.assignor_name,
        coordinator=coordinator,
        members=members,
        generation=row.group_epoch,
        generation_source=GenerationSource.GROUP_EPOCH,
    )


async def delete_group(cluster: Cluster, group_id: str) -> None:
    """Delete an empty group and its offsets."""
    await ensure_connected(cluster)

    async def delete(connection: BrokerConnection) -> Error:
        response = await connection.request(
            DeleteGroupsRequest(groups_names=[group_id]),
            DeleteGroupsResponse,
            timeout_s=cluster.config.request_timeout_ms / 1000,
        )
        error = Error(response.results[0].error_code)
        if error.retriable:
            raise BrokerError(error)
        return error

    error = await with_coordinator(cluster, group_id, delete)
    if error is Error.GROUP_ID_NOT_FOUND:
        raise await no_such_group(cluster, group_id)
    if error is Error.NON_EMPTY_GROUP:
        raise BrokerError(
            error, f"Group {group_id} has members, and only an empty group can be deleted. Stop its consumers first."
        )
    if error is not Error.NONE:
        text = f"Group {group_id} was not deleted: {error.name}."
        raise cluster.error(error, text, f"Delete on group {group_id}")


async def remove(
    cluster: Cluster, group_id: str, members: Iterable[str], instances: Iterable[str], all_members: bool, reason: str
) -> list[RemovedMember]:
    """Remove members; return the outcome of each."""
    member_ids, instance_ids = list(members), list(instances)
    if all_members == bool(member_ids or instance_ids):
        raise UsageError("Name the members to remove: member ids, instance ids, or all members.")
    await ensure_connected(cluster)
    if all_members:
        (group,) = await describe_groups(cluster, [group_id], find_generation=False)
        member_ids = [member.member_id for member in group.members if not member.is_static]
        instance_ids = [member.group_instance_id for member in group.members if member.group_instance_id is not None]
        if not group.members:
            return []
    response = await remove_members(cluster, group_id, members=member_ids, instances=instance_ids, reason=reason)
    return [
        RemovedMember(member.member_id, member.group_instance_id, Error(member.error_code))
        for member in response.members
    ]
