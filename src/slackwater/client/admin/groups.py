"""Groups: which there are, who is in them, and their end.

Rules kept here
- Every broker lists the groups that it coordinates, so every broker is asked. Everything else is asked of a group's own
  coordinator.
- A group of the new protocol (KIP-848) is described by its own request; whoever asks need not know which it is.
- A group whose events have not caught up with it is looked at again, a few times.
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
AT_A_TIME: Final = 16
LOOKS: Final = 4
LOOK_AGAIN_S: Final = 0.1
DESCRIBED_TYPES: Final = ("", "classic", "consumer")

OnFailure = Callable[[BrokerNode, SlackwaterError], None]


async def list_groups(
    cluster: Cluster, states: Iterable[str] = (), types: Iterable[str] = (), on_failure: OnFailure | None = None
) -> list[GroupListing]:
    """The groups of all brokers, by name."""
    wanted_states = {state.lower() for state in states}
    wanted_types = {kind.lower() for kind in types}
    await ensure_connected(cluster)
    await retry_read(cluster, lambda: cluster.refresh())
    brokers = list(cluster.brokers.values())
    answers = await asyncio.gather(*(_listed(cluster, broker) for broker in brokers), return_exceptions=True)
    found: list[GroupListing] = []
    for broker, answer in zip(brokers, answers, strict=True):
        if isinstance(answer, list):
            found += answer
        elif isinstance(answer, SlackwaterError) and on_failure is not None:
            on_failure(broker, answer)
        else:
            raise answer
    return sorted(
        one
        for one in found
        if (not wanted_states or one.state.lower() in wanted_states)
        and (not wanted_types or one.type.lower() in wanted_types)
    )


async def _listed(cluster: Cluster, broker: BrokerNode) -> list[GroupListing]:
    # The filters are ours, not the request's: a broker that is too old for them lists everything just the same.
    async def ask() -> list[GroupListing]:
        answer = await cluster.request(broker.node_id, ListGroupsRequest(), ListGroupsResponse)
        if answer.error_code:
            raise BrokerError(Error(answer.error_code))
        return [
            GroupListing(one.group_id, one.protocol_type, one.group_state, one.group_type, broker)
            for one in answer.groups
        ]

    return await retry_read(cluster, ask)


async def describe_groups(
    cluster: Cluster, group_ids: Iterable[str], *, find_generation: bool = True
) -> list[GroupDescription]:
    """These groups; one that is not there is an error. Without `find_generation`, only what the coordinator answers."""
    wanted = list(dict.fromkeys(group_ids))
    await ensure_connected(cluster)
    for look in range(LOOKS):
        groups = await each(wanted, lambda group_id: _described(cluster, group_id))
        if not find_generation:
            break
        found = await add_generations(cluster, groups)
        groups = found.groups
        if not found.behind:
            break
        if look < LOOKS - 1:
            await asyncio.sleep(LOOK_AGAIN_S)
    return groups


async def each(wanted: Iterable[str], ask: Callable[[str], Awaitable[T]]) -> list[T]:
    """Ask for several at the same time, but not for all."""
    room = asyncio.Semaphore(AT_A_TIME)

    async def one(name: str) -> T:
        async with room:
            return await ask(name)

    return list(await asyncio.gather(*(one(name) for name in wanted)))


async def _described(cluster: Cluster, group_id: str) -> GroupDescription:
    coordinator = await _coordinator(cluster, group_id)

    async def ask(connection: BrokerConnection) -> GroupDescription | None:
        timeout_s = cluster.config.request_timeout_ms / 1000
        answer = await connection.request(
            DescribeGroupsRequest(groups=[group_id]), DescribeGroupsResponse, timeout_s=timeout_s
        )
        (row,) = answer.groups
        error = Error(row.error_code)
        if error is Error.NONE and row.group_state != "Dead":
            return _classic(row, coordinator)
        if error not in (Error.NONE, Error.GROUP_ID_NOT_FOUND):
            raise BrokerError(error, f"Group {group_id} cannot be described: {error.name}.")
        if not connection.supports(CONSUMER_GROUP_DESCRIBE):
            return None
        newer = await connection.request(
            new_protocol.ConsumerGroupDescribeRequest(group_ids=[group_id]),
            new_protocol.ConsumerGroupDescribeResponse,
            timeout_s=timeout_s,
        )
        (found,) = newer.groups
        error = Error(found.error_code)
        if error is Error.NONE:
            return _of_new_protocol(found, coordinator)
        # Kafka 3.9 offers the API also where the new protocol is switched off, and then has no such groups.
        if error in (Error.GROUP_ID_NOT_FOUND, Error.UNSUPPORTED_VERSION):
            return None
        raise BrokerError(error, f"Group {group_id} cannot be described: {error.name}.")

    group = await with_coordinator(cluster, group_id, ask)
    if group is None:
        raise await no_such_group(cluster, group_id)
    return group


async def no_such_group(cluster: Cluster, group_id: str) -> BrokerError:
    """What to say of a group that is not there: perhaps another was meant, or it is of a kind of its own."""
    known = {one.group_id: one for one in await list_groups(cluster)}
    listed = known.get(group_id)
    if listed is not None and listed.type.lower() not in DESCRIBED_TYPES:
        what = f"Group {group_id} is a {listed.type.lower()} group; only consumer groups can be shown here."
        return BrokerError(Error.GROUP_ID_NOT_FOUND, what)
    near = get_close_matches(group_id, known, n=1)
    hint = f"; did you mean {near[0]}?" if near and near[0] != group_id else "."
    return BrokerError(Error.GROUP_ID_NOT_FOUND, f"There is no group {group_id}{hint}")


async def _coordinator(cluster: Cluster, group_id: str) -> BrokerNode:
    found = await retry_read(cluster, lambda: coordinator_of(cluster, group_id))
    known = cluster.brokers.get(found.node_id)
    return known if known is not None else BrokerNode(found.node_id, found.host, found.port)


def _classic(row: DescribedGroup, coordinator: BrokerNode) -> GroupDescription:
    is_consumer = row.protocol_type in ("", PROTOCOL_TYPE)
    return GroupDescription(
        group_id=row.group_id,
        state=row.group_state,
        type="classic",
        protocol_type=row.protocol_type,
        assignor=row.protocol_data if is_consumer else "",
        coordinator=coordinator,
        members=tuple(sorted((_member(one, is_consumer) for one in row.members), key=lambda one: one.member_id)),
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
            pass  # a client that writes what only its own kind can read
    return MemberDescription(row.member_id, row.group_instance_id, row.client_id, row.client_host, partitions, topics)


def _of_new_protocol(row: new_protocol.DescribedGroup, coordinator: BrokerNode) -> GroupDescription:
    members = tuple(
        MemberDescription(
            one.member_id,
            one.instance_id,
            one.client_id,
            one.client_host,
            tuple(
                sorted(
                    TopicPartition(topic.topic_name, partition)
                    for topic in one.assignment.topic_partitions
                    for partition in topic.partitions
                )
            ),
            tuple(sorted(one.subscribed_topic_names)),
        )
        for one in sorted(row.members, key=lambda one: one.member_id)
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

    async def ask(connection: BrokerConnection) -> Error:
        answer = await connection.request(
            DeleteGroupsRequest(groups_names=[group_id]),
            DeleteGroupsResponse,
            timeout_s=cluster.config.request_timeout_ms / 1000,
        )
        error = Error(answer.results[0].error_code)
        if error.retriable:
            raise BrokerError(error)
        return error

    error = await with_coordinator(cluster, group_id, ask)
    if error is Error.GROUP_ID_NOT_FOUND:
        raise await no_such_group(cluster, group_id)
    if error is Error.NON_EMPTY_GROUP:
        raise BrokerError(
            error, f"Group {group_id} has members, and only an empty group can be deleted. Stop its consumers first."
        )
    if error is not Error.NONE:
        raise BrokerError(error, f"Group {group_id} was not deleted: {error.name}.")


async def remove(
    cluster: Cluster, group_id: str, members: Iterable[str], instances: Iterable[str], everybody: bool, reason: str
) -> list[RemovedMember]:
    """Remove members; what came of each."""
    member_ids, instance_ids = list(members), list(instances)
    if everybody == bool(member_ids or instance_ids):
        raise UsageError("Say whom to remove: members by their ids, instances by theirs, or everybody.")
    await ensure_connected(cluster)
    if everybody:
        (group,) = await describe_groups(cluster, [group_id], find_generation=False)
        member_ids = [one.member_id for one in group.members if not one.is_static]
        instance_ids = [one.group_instance_id for one in group.members if one.group_instance_id is not None]
        if not group.members:
            return []
    answer = await remove_members(cluster, group_id, members=member_ids, instances=instance_ids, reason=reason)
    return [RemovedMember(one.member_id, one.group_instance_id, Error(one.error_code)) for one in answer.members]
