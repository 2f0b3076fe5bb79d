"""Requests of the admin client to a group's coordinator, which is looked up again when it has moved."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from slackwater.client.errors import ClientTimeoutError, NetworkError
from slackwater.client.network.backoff import RetryBackoff
from slackwater.client.network.cluster import ADMIN, BrokerNode, Cluster
from slackwater.client.network.connection import BrokerConnection
from slackwater.client.network.coordinators import CoordinatorType, find_coordinator
from slackwater.group.errors import AuthorizationError, BrokerError, Error
from slackwater.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

T = TypeVar("T")


async def coordinator_of(cluster: Cluster, group_id: str) -> BrokerNode:
    """Return the coordinator of a group."""
    try:
        return await find_coordinator(cluster, CoordinatorType.GROUP, group_id)
    except AuthorizationError as error:
        raise cluster.error(error.error, str(error), f"Describe on group {group_id}") from None


async def with_coordinator(
    cluster: Cluster, group_id: str, call: Callable[[BrokerConnection], Awaitable[T]], *, timeout_s: float | None = None
) -> T:
    """Call `call` with a connection to the coordinator; retry retriable errors until the timeout."""
    config = cluster.config
    backoff = RetryBackoff(config, config.default_api_timeout_ms / 1000 if timeout_s is None else timeout_s)
    while True:
        try:
            coordinator = await coordinator_of(cluster, group_id)
            return await call(await cluster.connection_at(coordinator.host, coordinator.port, ADMIN))
        except (BrokerError, NetworkError) as error:
            if isinstance(error, BrokerError) and not error.retriable:
                raise
            if backoff.is_exhausted:
                raise ClientTimeoutError(
                    f"The coordinator of group {group_id} did not respond in time: {error}"
                ) from error
        await backoff.wait()


async def remove_members(
    cluster: Cluster, group_id: str, *, members: Iterable[str] = (), instances: Iterable[str] = (), reason: str = ""
) -> LeaveGroupResponse:
    """Remove members by member id, or by instance id."""
    leavers = [MemberIdentity(member_id=member_id, reason=reason or None) for member_id in members]
    leavers += [
        MemberIdentity(member_id="", group_instance_id=instance, reason=reason or None) for instance in instances
    ]

    async def leave(connection: BrokerConnection) -> LeaveGroupResponse:
        response = await connection.request(
            LeaveGroupRequest(group_id=group_id, members=leavers),
            LeaveGroupResponse,
            timeout_s=cluster.config.request_timeout_ms / 1000,
        )
        if response.error_code:
            error = Error(response.error_code)
            raise cluster.error(error, error.name, f"Read on group {group_id}")
        return response

    return await with_coordinator(cluster, group_id, leave)
