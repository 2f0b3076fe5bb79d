"""A whole broker without sockets, in virtual time: frames in, frames out, and nothing happens unless a test lets it.

Rules kept here
- Everything between the bytes of a request and the bytes of its answer is the broker's own: connections, envelope,
  handlers, coordinator, logs on disk. Only the transport under a connection is this file's.
- Group timers fire when `pass_ms` says so.
"""

import asyncio
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from scripts import kafka_wire

from slackwater.broker.broker import Broker
from slackwater.broker.config import Settings
from slackwater.broker.connection import Connection
from slackwater.broker.server import Server
from slackwater.clock import ManualClock
from slackwater.wire.envelope import decode_response, encode_request
from slackwater.wire.frames import FrameReader
from slackwater.wire.schema import Request, Response

LISTENER = ("127.0.0.1", 9092)
PEER = ("127.0.0.1", 50_000)
TURNS = 4  # what one request leads to takes this many turns of the loop at most
R = TypeVar("R", bound=Response)
Fields = dict[str, Any]


class Wire(asyncio.Transport):
    """The socket's place: keeps what is written."""

    def __init__(self) -> None:
        super().__init__({"peername": PEER, "sockname": LISTENER})
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class QuietClient:
    """One connection to a quiet broker."""

    def __init__(self, broker: "QuietBroker", client_id: str) -> None:
        self._broker = broker
        self._client_id = client_id
        self._frames = FrameReader()
        self._ids = itertools.count(1)
        self._wire = Wire()
        self._connection = Connection(broker.server)
        self._connection.connection_made(self._wire)

    @property
    def is_closed(self) -> bool:
        """Whether the broker has closed the connection."""
        return self._wire.closed

    def send_bytes(self, data: bytes) -> None:
        """Send whole frames, or parts of them, and let the broker do what it can do at once."""
        self._connection.data_received(data)
        self._broker.turn()

    def frames(self) -> list[bytes]:
        """The answers that came since the last call, without their sizes."""
        data, self._wire.written = b"".join(self._wire.written), []
        return self._frames.feed(data) if data else []

    def send_fields(self, api: str, version: int, **fields: Any) -> Callable[[], Fields | None]:
        """Ask in the words of `scripts/kafka_wire.py`, an independent codec; an answer has its version's fields."""
        number = next(self._ids)
        self.send_bytes(kafka_wire.encode_request(api, version, number, self._client_id, fields))

        def answer() -> Fields | None:
            for frame in self.frames():
                found, read = kafka_wire.decode_answer(api, version, frame)
                assert found == number
                return read
            return None

        return answer

    def ask_fields(self, api: str, version: int, **fields: Any) -> Fields:
        """Ask in those words and be answered."""
        answer = self.send_fields(api, version, **fields)()
        assert answer is not None
        return answer

    def send(self, request: Request, kind: type[R], version: int | None = None) -> Callable[[], R | None]:
        """Ask, in the newest version unless told otherwise; what is given back gives the answer when it is there."""
        asked = request.API.latest_stable if version is None else version
        number = next(self._ids)
        self.send_bytes(encode_request(request, asked, number, self._client_id))

        def answer() -> R | None:
            for frame in self.frames():
                found, response = decode_response(kind, asked, frame)
                assert found == number
                return response
            return None

        return answer

    def ask(self, request: Request, kind: type[R], version: int | None = None) -> R:
        """Ask and be answered."""
        response = self.send(request, kind, version)()
        assert response is not None
        return response


class HeldFlushes:
    """Work for the disk that waits until it is released."""

    def __init__(self, broker: "QuietBroker") -> None:
        self._broker = broker
        self._work: list[tuple[Callable[[], None], Callable[[], object]]] = []

    def __call__(self, work: Callable[[], None], done: Callable[[], object]) -> None:
        self._work.append((work, done))

    def release(self) -> None:
        """Do it all, and what comes of it."""
        while self._work:
            work, done = self._work.pop(0)
            work()
            done()
            self._broker.turn()


class QuietBroker:
    """A broker that nobody can connect to but through `connect`."""

    def __init__(self, directory: Path, settings: Mapping[str, object] | None = None, **topics: int) -> None:
        given: dict[str, object] = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 1}
        given |= settings or {}
        self.clock = ManualClock()
        self._runner = asyncio.Runner()
        self.server = self._runner.run(self._start(directory, {name: str(value) for name, value in given.items()}))
        for name, partitions in topics.items():
            self.broker.topics.create(name, partitions)

    async def _start(self, directory: Path, given: dict[str, str]) -> Server:
        return Server(directory, Settings(given), clock=self.clock, group_clock=self.clock)

    @property
    def broker(self) -> Broker:
        """The broker's parts."""
        return self.server.broker

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.run(self.server.stop())
        self._runner.close()

    def connect(self, client_id: str = "client") -> QuietClient:
        """Another connection."""
        return QuietClient(self, client_id)

    def hold_flushes(self) -> HeldFlushes:
        """With `flush=always`: let no write come to the disk until it is released."""
        held = HeldFlushes(self)
        self.broker.durability._in_thread = held
        return held

    def turn(self) -> None:
        """Let the loop go round, without time passing; a timer of no length fires."""
        self._runner.run(self._turn(0))

    def pass_ms(self, ms: int) -> None:
        """Let time pass, every timer firing at its own."""
        self._runner.run(self._turn(ms))

    async def _turn(self, ms: int) -> None:
        await self._settle()
        self.server.pass_group_time(ms)
        await self._settle()

    async def _settle(self) -> None:
        for _ in range(TURNS):
            await asyncio.sleep(0)
