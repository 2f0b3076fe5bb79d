"""Asking until there is an answer.

Rules kept here
- A cluster that was never reached is not waited for: its address may be wrong, and whoever wrote it wants to know now.
- Errors that pass are tried again with a growing pause, until the time is over.
"""

import asyncio
from collections.abc import Awaitable, Callable, Container
from typing import Final, TypeVar

from slackwater.client.errors import NetworkError
from slackwater.client.network.cluster import Cluster
from slackwater.group.errors import BrokerError, Error

T = TypeVar("T")
PASSING: Final = frozenset(
    {
        Error.COORDINATOR_LOAD_IN_PROGRESS,
        Error.COORDINATOR_NOT_AVAILABLE,
        Error.NOT_COORDINATOR,
        Error.NOT_CONTROLLER,
        Error.LEADER_NOT_AVAILABLE,
        Error.REQUEST_TIMED_OUT,
    }
)


async def ensure_connected(cluster: Cluster) -> None:
    """Know the cluster's brokers."""
    if not cluster.brokers:
        await cluster.refresh()


async def retry_read(cluster: Cluster, ask: Callable[[], Awaitable[T]]) -> T:
    """Ask for something that changes nothing, as often as it takes."""
    return await _again(cluster, ask, PASSING, connections=True)


async def retry_write(cluster: Cluster, ask: Callable[[], Awaitable[T]]) -> T:
    """Ask for a change; again only if it was not begun, because nobody knows what became of a lost request."""
    return await _again(cluster, ask, frozenset({Error.NOT_CONTROLLER}), connections=False)


async def _again(
    cluster: Cluster, ask: Callable[[], Awaitable[T]], passing: Container[Error], *, connections: bool
) -> T:
    await ensure_connected(cluster)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + cluster.config.default_api_timeout_ms / 1000
    pause_s = cluster.config.retry_backoff_ms / 1000
    while True:
        try:
            return await ask()
        except BrokerError as error:
            if error.error not in passing or loop.time() + pause_s > deadline:
                raise
            cluster.controller_id = -1  # it may have moved
        except NetworkError:
            if not connections or loop.time() + pause_s > deadline:
                raise
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 2, cluster.config.retry_backoff_max_ms / 1000)
