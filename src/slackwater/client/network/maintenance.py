"""Periodic work of a client: metadata refresh and idle connections.

Invariants:
- Metadata older than `metadata.max.age.ms` is requested again.
- Missing metadata is requested at once: one request at a time, with a backoff after each.
- Connections without requests are closed after `connections.max.idle.ms`.
- Errors are logged and do not end the maintenance.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from slackwater.client.network.cluster import Cluster
from slackwater.client.network.thread import NetworkThread
from slackwater.escaping import get_logger
from slackwater.group.errors import SlackwaterError

log = get_logger("slackwater.client.network.maintenance")
IDLE_CHECK_S: Final = 10.0


async def run_maintenance(cluster: Cluster, refresh: Callable[[], Awaitable[object]]) -> None:
    """Run until cancelled; `refresh` requests the metadata of the client's topics."""
    loop = asyncio.get_running_loop()
    config = cluster.config
    max_age_s = max(config.metadata_max_age_ms / 1000, 0.001)
    idle_s = config.connections_max_idle_ms / 2000 if config.connections_max_idle_ms > 0 else IDLE_CHECK_S
    refresh_at = loop.time() + max_age_s
    while True:
        await asyncio.sleep(max(min(refresh_at - loop.time(), idle_s, IDLE_CHECK_S), 0.001))
        cluster.close_idle()
        if loop.time() < refresh_at:
            continue
        try:
            await refresh()
        except SlackwaterError as error:
            log.debug("A metadata request failed: %s", error)
            refresh_at = loop.time() + min(max_age_s, config.retry_backoff_max_ms / 1000)
        else:
            refresh_at = loop.time() + max_age_s


class MetadataRefresher:
    """Requests the metadata of topics whose leader is unknown or has moved. Runs on the loop of the network thread."""

    def __init__(
        self,
        cluster: Cluster,
        network: NetworkThread,
        refresh: Callable[[set[str]], Awaitable[object]],
        on_done: Callable[[], None],
    ) -> None:
        """`on_done` is called after the backoff, whether the request succeeded or not."""
        self._cluster = cluster
        self._network = network
        self._refresh = refresh
        self._on_done = on_done
        self._is_refreshing = False

    def __call__(self, topics: set[str]) -> None:
        """Request the metadata of these topics, unless a request is in flight."""
        if topics and not self._is_refreshing:
            self._is_refreshing = True
            self._network.create_task(self._run(topics))

    async def _run(self, topics: set[str]) -> None:
        try:
            await self._refresh(topics)
        except SlackwaterError as error:
            log.debug("A metadata request failed: %s", error)
        finally:
            self._is_refreshing = False
            self._network.loop.call_later(self._cluster.config.retry_backoff_ms / 1000, self._on_done)
