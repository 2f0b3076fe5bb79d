"""A complete broker without sockets, in virtual time.

Everything between the bytes of a request and the bytes of its response is production code: connections, headers,
handlers, coordinator, logs on disk. Only the transport is a fake. Group timers fire in `pass_ms`.
"""

import asyncio
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from scripts import kafka_wire

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.config import Settings
from slackwater.broker.connection import ANONYMOUS, Connection
from slackwater.broker.server import Server
from slackwater.clock import ManualClock
from slackwater.wire.frames import FrameReader
from slackwater.wire.request_response import decode_response, encode_request
from slackwater.wire.schema import Request, Response

LISTENER = ("127.0.0.1", 9092)
PEER = ("127.0.0.1", 50_000)
ITERATIONS = 4  # of the loop, at most, until a request is processed
R = TypeVar("R", bound=Response)
Fields = dict[str, Any]


class FakeTransport(asyncio.Transport):
    """Stores the bytes that the broker writes. `on_close` is called when the broker closes the connection."""

    def __init__(self, on_close: Callable[[], object] = lambda: None) -> None:
        super().__init__({"peername": PEER, "sockname": LISTENER})
        self._on_close = on_close
        self.written: list[bytes] = []
        self.closed = False
        self.is_reading_enabled = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._on_close()

    def abort(self) -> None:
        self.close()

    def pause_reading(self) -> None:
        self.is_reading_enabled = False

    def resume_reading(self) -> None:
        self.is_reading_enabled = True


class QuietClient:
    """One connection to a quiet broker."""

    def __init__(self, broker: "QuietBroker", client_id: str, principal: str) -> None:
        self._broker = broker
        self._client_id = client_id
        self._frames = FrameReader()
        self._ids = itertools.count(1)
        self._connection = Connection(broker.server, principal=principal)
        self._transport = FakeTransport(lambda: broker.call_soon(self._connection.connection_lost, None))
        self._connection.connection_made(self._transport)

    @property
    def is_closed(self) -> bool:
        """Whether the broker has closed the connection."""
        return self._transport.closed

    @property
    def is_read(self) -> bool:
        """Whether the broker reads from the connection."""
        return self._transport.is_reading_enabled

    @property
    def pending_requests(self) -> int:
        """The number of requests without a sent response."""
        return self._connection.pending_requests

    def send_bytes(self, data: bytes) -> None:
        """Send bytes and let the broker process them."""
        self._connection.data_received(data)
        self._broker.run_pending()

    def close(self) -> None:
        """Close the connection from the client's side."""
        self._transport.closed = True
        self._connection.connection_lost(None)

    def frames(self) -> list[bytes]:
        """The responses since the last call, without their sizes."""
        data, self._transport.written = b"".join(self._transport.written), []
        return self._frames.feed(data) if data else []

    def send_fields(self, api: str, version: int, **fields: Any) -> Callable[[], Fields | None]:
        """Send a request encoded by `scripts/kafka_wire.py`, an independent codec."""
        number = next(self._ids)
        self.send_bytes(kafka_wire.encode_request(api, version, number, self._client_id, fields))

        def response() -> Fields | None:
            for frame in self.frames():
                correlation_id, fields_read = kafka_wire.decode_response(api, version, frame)
                assert correlation_id == number
                return fields_read
            return None

        return response

    def request_fields(self, api: str, version: int, **fields: Any) -> Fields:
        """Send a request encoded by `scripts/kafka_wire.py` and return its response."""
        response = self.send_fields(api, version, **fields)()
        assert response is not None
        return response

    def send(self, request: Request, kind: type[R], version: int | None = None) -> Callable[[], R | None]:
        """Send a request, by default in the latest version; the returned function returns the response or None."""
        sent_version = request.API.latest_stable if version is None else version
        number = next(self._ids)
        self.send_bytes(encode_request(request, sent_version, number, self._client_id))

        def response() -> R | None:
            for frame in self.frames():
                correlation_id, decoded = decode_response(kind, sent_version, frame)
                assert correlation_id == number
                return decoded
            return None

        return response

    def request(self, request: Request, kind: type[R], version: int | None = None) -> R:
        """Send a request and return its response."""
        response = self.send(request, kind, version)()
        assert response is not None
        return response


class HeldFlushes:
    """Blocking work that waits until it is released."""

    def __init__(self, broker: "QuietBroker") -> None:
        self._broker = broker
        self._work: list[tuple[Callable[[], None], Callable[[], object]]] = []

    def __call__(self, work: Callable[[], None], done: Callable[[], object]) -> None:
        self._work.append((work, done))

    def release(self) -> None:
        """Do the work and process its results."""
        while self._work:
            work, done = self._work.pop(0)
            work()
            done()
            self._broker.run_pending()


class QuietBroker:
    """A broker without a listening socket; tests use `connect`."""

    def __init__(self, directory: Path, settings: Mapping[str, object] | None = None, **topics: int) -> None:
        values: dict[str, object] = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 1}
        values |= settings or {}
        self.clock = ManualClock()
        self._runner = asyncio.Runner()
        self.server = self._runner.run(self._start(directory, {name: str(value) for name, value in values.items()}))
        for name, partitions in topics.items():
            self.broker.topics.create(name, partitions)

    async def _start(self, directory: Path, values: dict[str, str]) -> Server:
        return Server(directory, Settings(values), clock=self.clock, group_clock=self.clock)

    @property
    def broker(self) -> BrokerState:
        """The broker's parts."""
        return self.server.broker

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.run(self.server.stop())
        self._runner.close()

    def kill(self) -> None:
        """Leave the state that a killed process leaves."""
        self._runner.run(self.server.stop(clean=False))

    def connect(self, client_id: str = "client", principal: str = ANONYMOUS) -> QuietClient:
        """Open another connection, authenticated as this principal."""
        return QuietClient(self, client_id, principal)

    def hold_flushes(self) -> HeldFlushes:
        """Hold back every fsync (`flush=always`) until it is released."""
        held = HeldFlushes(self)
        self.broker.durability.run_in_thread = held
        return held

    def call_soon(self, callback: Callable[..., object], *arguments: object) -> None:
        """Call a function in the next iteration of the loop."""
        self._runner.get_loop().call_soon(callback, *arguments)

    def run_pending(self) -> None:
        """Run the loop without advancing the clock; timers that are due fire."""
        self._runner.run(self._advance(0))

    def pass_ms(self, ms: int) -> None:
        """Advance the clock; every timer fires at its own time."""
        self._runner.run(self._advance(ms))

    async def _advance(self, ms: int) -> None:
        await self._settle()
        self.server.advance_group_clock(ms)
        await self._settle()

    async def _settle(self) -> None:
        for _ in range(ITERATIONS):
            await asyncio.sleep(0)
