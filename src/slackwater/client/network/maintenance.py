"""What a client does from time to time without being asked.

Rules kept here
- Metadata older than `metadata.max.age.ms` is asked for again, so that new topics, partitions and leaders are seen.
- Metadata that somebody misses is asked for at once: one request at a time, and a pause after each.
- Connections that nobody uses are closed after `connections.max.idle.ms`.
- Nothing that goes wrong here ends it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from slackwater.client.network.cluster import Cluster
from slackwater.client.network.thread import NetworkThread
from slackwater.group.errors import SlackwaterError

log = logging.getLogger("slackwater.client.network.maintenance")
IDLE_CHECK_S: Final = 10.0


async def run_maintenance(cluster: Cluster, refresh: Callable[[], Awaitable[object]]) -> None:
    """Runs on the network's loop until it is cancelled; `refresh` asks for the metadata that this client wants."""
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
            log.debug("Metadata could not be had: %s", error)
            refresh_at = loop.time() + min(max_age_s, config.retry_backoff_max_ms / 1000)
        else:
            refresh_at = loop.time() + max_age_s


class MetadataRefresher:
    """Asks for the metadata of topics whose leader is not known, or is not the one it was; on the network's loop."""

    def __init__(
        self,
        cluster: Cluster,
        network: NetworkThread,
        ask: Callable[[set[str]], Awaitable[object]],
        then: Callable[[], None],
    ) -> None:
        """`then` is called after the pause, whether or not the answer came: who still misses something asks again."""
        self._cluster = cluster
        self._network = network
        self._ask = ask
        self._then = then
        self._asking = False

    def __call__(self, topics: set[str]) -> None:
        """These are missed; while an answer is waited for, nothing more is asked."""
        if topics and not self._asking:
            self._asking = True
            self._network.create_task(self._fulfil(topics))

    async def _fulfil(self, topics: set[str]) -> None:
        try:
            await self._ask(topics)
        except SlackwaterError as error:
            log.debug("Metadata could not be had: %s", error)
        finally:
            self._asking = False
            self._network.loop.call_later(self._cluster.config.retry_backoff_ms / 1000, self._then)
