"""Retries for the admin client.

Invariants:
- A cluster that was never reached is not retried: its address may be wrong.
- Retriable errors are retried with a growing backoff, until default.api.timeout.ms.
"""

from collections.abc import Awaitable, Callable, Container
from typing import Final, TypeVar

from slackwater.client.errors import NetworkError
from slackwater.client.network.backoff import RetryBackoff
from slackwater.client.network.cluster import Cluster
from slackwater.group.errors import BrokerError, Error

T = TypeVar("T")
RETRIABLE_READS: Final = frozenset(
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
    """Load the metadata of the cluster, once."""
    if not cluster.brokers:
        await cluster.refresh()


async def retry_read(cluster: Cluster, call: Callable[[], Awaitable[T]]) -> T:
    """Call a read operation; retry lost connections and retriable errors."""
    return await _retry(cluster, call, RETRIABLE_READS, connections=True)


async def retry_write(cluster: Cluster, call: Callable[[], Awaitable[T]]) -> T:
    """Call a write operation; retry only if it was not started. A lost request may have succeeded."""
    return await _retry(cluster, call, frozenset({Error.NOT_CONTROLLER}), connections=False)


async def _retry(
    cluster: Cluster, call: Callable[[], Awaitable[T]], retriable: Container[Error], *, connections: bool
) -> T:
    await ensure_connected(cluster)
    backoff = RetryBackoff(cluster.config, cluster.config.default_api_timeout_ms / 1000)
    while True:
        try:
            return await call()
        except BrokerError as error:
            if error.error not in retriable or backoff.is_exhausted:
                raise
            cluster.controller_id = -1  # it may have moved
        except NetworkError:
            if not connections or backoff.is_exhausted:
                raise
        await backoff.wait()
