"""What an administrator asks a group's coordinator.

Rules kept here
- The coordinator is looked for, and looked for again when it has moved, until the time is over.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from slackwater.client.errors import ClientTimeoutError, NetworkError
from slackwater.client.network.cluster import Cluster
from slackwater.client.network.connection import BrokerConnection
from slackwater.client.network.group_apis import from_wire, to_wire
from slackwater.group.errors import BrokerError, Error
from slackwater.group.messages import FindCoordinator, FindCoordinatorResponse
from slackwater.wire.apis import FIND_COORDINATOR
from slackwater.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

T = TypeVar("T")
ADMIN: str = "admin"


async def coordinator_of(cluster: Cluster, group_id: str) -> FindCoordinatorResponse:
    """Who coordinates a group."""
    connection = await cluster.any_connection()
    request = FindCoordinator(group_id)
    version = connection.version_of(FIND_COORDINATOR)
    response = await connection.send(
        to_wire(request, version), timeout_s=cluster.config.request_timeout_ms / 1000, version=version
    )
    answer = from_wire(response, request, version)
    assert isinstance(answer, FindCoordinatorResponse)
    if answer.error is not Error.NONE:
        raise BrokerError(answer.error, f"The coordinator of group {group_id} could not be found: {answer.error.name}.")
    return answer


async def with_coordinator(
    cluster: Cluster, group_id: str, ask: Callable[[BrokerConnection], Awaitable[T]], *, timeout_s: float | None = None
) -> T:
    """Ask a group's coordinator; errors that pass are tried again until the time is over."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + (cluster.config.default_api_timeout_ms / 1000 if timeout_s is None else timeout_s)
    pause_s = cluster.config.retry_backoff_ms / 1000
    while True:
        try:
            found = await coordinator_of(cluster, group_id)
            return await ask(await cluster.connection_at(found.host, found.port, ADMIN))
        except (BrokerError, NetworkError) as error:
            if isinstance(error, BrokerError) and not error.retriable:
                raise
            if loop.time() + pause_s > deadline:
                raise ClientTimeoutError(
                    f"The coordinator of group {group_id} did not answer in time: {error}"
                ) from error
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 2, cluster.config.retry_backoff_max_ms / 1000)


async def remove_members(
    cluster: Cluster, group_id: str, *, members: Iterable[str] = (), instances: Iterable[str] = (), reason: str = ""
) -> LeaveGroupResponse:
    """Remove members by their ids, static ones by their instance ids."""
    leavers = [MemberIdentity(member_id=member_id, reason=reason or None) for member_id in members]
    leavers += [
        MemberIdentity(member_id="", group_instance_id=instance, reason=reason or None) for instance in instances
    ]

    async def ask(connection: BrokerConnection) -> LeaveGroupResponse:
        answer = await connection.request(
            LeaveGroupRequest(group_id=group_id, members=leavers),
            LeaveGroupResponse,
            timeout_s=cluster.config.request_timeout_ms / 1000,
        )
        if answer.error_code:
            raise BrokerError(Error(answer.error_code))
        return answer

    return await with_coordinator(cluster, group_id, ask)
