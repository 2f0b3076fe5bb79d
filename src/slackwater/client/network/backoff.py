"""The pauses between the attempts of an operation that is retried."""

import asyncio
import math

from slackwater.client.network.cluster import ClusterConfig


class RetryBackoff:
    """Begins with `retry.backoff.ms`; each pause is twice as long as the one before, up to `retry.backoff.max.ms`.

    Create it when the operation begins: its timeout starts then.
    """

    def __init__(self, config: ClusterConfig, timeout_s: float = math.inf, *, first_s: float | None = None) -> None:
        self._next_s = config.retry_backoff_ms / 1000 if first_s is None else first_s
        self._max_s = config.retry_backoff_max_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + timeout_s

    @property
    def is_exhausted(self) -> bool:
        """Whether the next attempt would begin after the timeout."""
        return self._loop.time() + self._next_s > self._deadline

    async def wait(self) -> None:
        """Wait before the next attempt."""
        await asyncio.sleep(self._next_s)
        self._next_s = min(self._next_s * 2, self._max_s)
