"""A broker on the event loop of the test, and a client that sends raw requests."""

import asyncio
import contextlib
import itertools
import ssl
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import ClassVar, Self, TypeVar

from slackwater.broker.config import Settings
from slackwater.broker.server import Server
from slackwater.clock import Clock
from slackwater.wire.codec import response_type
from slackwater.wire.request_response import decode_response, encode_request
from slackwater.wire.schema import Request, Response

DEADLINE_S = 60.0
R = TypeVar("R", bound=Response)


class Client:
    """One connection: `request` waits for the response, `send` does not. `with_server` closes it."""

    _opened: ClassVar[list["Client"]] = []

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client_id: str) -> None:
        self._reader = reader
        self._writer = writer
        self._client_id = client_id
        self._ids = itertools.count(1)
        self._sent: list[tuple[int, type[Response], int]] = []

    @classmethod
    async def connect(cls, server: Server, client_id: str = "client") -> Self:
        client = cls(*await asyncio.open_connection("127.0.0.1", server.port), client_id)
        cls._opened.append(client)
        return client

    @classmethod
    async def connect_to(cls, port: int, context: ssl.SSLContext | None = None, client_id: str = "client") -> Self:
        """Connect to a port of this machine, with TLS if there is a context."""
        client = cls(*await asyncio.open_connection("127.0.0.1", port, ssl=context), client_id)
        cls._opened.append(client)
        return client

    def send_bytes(self, data: bytes) -> None:
        """Send raw bytes."""
        self._writer.write(data)

    def send(self, request: Request, version: int | None = None) -> None:
        """Send a request, by default in the latest version."""
        version = request.API.latest_stable if version is None else version
        number = next(self._ids)
        self._writer.write(encode_request(request, version, number, self._client_id))
        self._sent.append((number, response_type(request.API), version))

    def send_without_response(self, request: Request, version: int) -> None:
        """Send a request that has no response."""
        self._writer.write(encode_request(request, version, next(self._ids), self._client_id))

    async def next_response(self) -> Response:
        """Read the next response."""
        number, kind, version = self._sent.pop(0)
        correlation_id, response = decode_response(kind, version, await self.read_frame())
        assert correlation_id == number
        return response

    async def read_frame(self) -> bytes:
        """Read the next frame."""
        async with asyncio.timeout(DEADLINE_S):
            (size,) = struct.unpack(">i", await self._reader.readexactly(4))
            return await self._reader.readexactly(size)

    async def request(self, request: Request, kind: type[R], version: int | None = None) -> R:
        """Send a request and wait for its response."""
        self.send(request, version)
        response = await self.next_response()
        assert isinstance(response, kind)
        return response

    async def is_closed(self) -> bool:
        """Whether the broker closes the connection without sending anything else."""
        async with asyncio.timeout(DEADLINE_S):
            return await self._reader.read() == b""

    async def is_gone(self) -> bool:
        """Whether the broker closes the connection, after anything that it sends."""
        async with asyncio.timeout(DEADLINE_S):
            with contextlib.suppress(ConnectionError):
                await self._reader.read()
        return True

    def close(self) -> None:
        self._writer.close()

    @classmethod
    async def close_all(cls) -> None:
        """Close every connection of this test."""
        while cls._opened:
            writer = cls._opened.pop()._writer
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


def with_server(
    directory: Path,
    scenario: Callable[[Server], Awaitable[None]],
    *,
    group_clock: Clock | None = None,
    clock: Clock | None = None,
    **settings: str,
) -> None:
    """Run a scenario against a broker; in setting names, underscores stand for dots."""

    async def run() -> None:
        values = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "3"}
        values |= {name.replace("_", "."): value for name, value in settings.items()}
        server = Server(directory, Settings(values), group_clock=group_clock, clock=clock)
        await server.start("127.0.0.1", 0)
        try:
            await scenario(server)
        finally:
            await Client.close_all()
            await server.stop()

    asyncio.run(run())
