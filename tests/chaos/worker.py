"""One client of the load, with its own connection."""

import asyncio
import random
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from slackwater.group.errors import Error
from tests.broker.raw_client import RawClient

if TYPE_CHECKING:
    from tests.chaos.load import Load

PAUSE_S: Final = 0.02
RETRY_S: Final = 0.05
_BROKEN: Final = (OSError, EOFError, TimeoutError)


class Worker(ABC):
    """One client with one connection."""

    def __init__(self, load: "Load") -> None:
        self.load = load
        self.rng = random.Random(load.rng.random())
        self.acknowledged = 0
        self.is_parked = False
        self.may_lose_state = False

    @property
    @abstractmethod
    def partition_name(self) -> str:
        """The partition whose log has the state of this worker."""

    @property
    def may_park(self) -> bool:
        """Whether the outcome of every request is certain, or need not be."""
        return True

    async def run(self) -> None:
        """Work until the load is closed."""
        client: RawClient | None = None
        while not self.load.is_closed:
            if self.load.is_paused and self.may_park:
                self.is_parked = True
                await asyncio.sleep(PAUSE_S)
                continue
            self.is_parked = False
            try:
                if client is None:
                    client = await RawClient.at(self.load.port, type(self).__name__)
                await self.step(client)
                await asyncio.sleep(PAUSE_S)
            except _BROKEN:
                if client is not None:
                    client.abort()
                client = None
                await asyncio.sleep(RETRY_S)
        if client is not None:
            client.abort()

    @abstractmethod
    async def step(self, client: RawClient) -> None:
        """Send one request and record its response."""

    def on_state_lost(self, sentence: str) -> None:
        """Record a violation, unless a file with the state was damaged on purpose."""
        if not self.may_lose_state:
            self.load.fail(sentence)
        self.may_lose_state = False

    def on_acknowledged(self) -> None:
        """Count an acknowledgement."""
        self.acknowledged += 1
        self.may_lose_state = False

    async def on_error(self, error: Error) -> None:
        """Count an error of the broker and wait before the next attempt."""
        self.load.errors[error.name] += 1
        await asyncio.sleep(RETRY_S)
