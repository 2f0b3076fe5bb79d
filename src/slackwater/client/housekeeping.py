"""What a client does from time to time without being asked.

Rules kept here
- Metadata older than `metadata.max.age.ms` is asked for again, so that new topics, partitions and leaders are seen.
- Connections that nobody uses are closed after `connections.max.idle.ms`.
- Nothing that goes wrong here ends it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from slackwater.client.cluster import Cluster
from slackwater.group.errors import SlackwaterError

log = logging.getLogger("slackwater.client.housekeeping")
IDLE_CHECK_S: Final = 10.0


async def keep_house(cluster: Cluster, refresh: Callable[[], Awaitable[object]]) -> None:
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
