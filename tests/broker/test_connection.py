"""A connection: order, limits, and what it does with garbage."""

import asyncio
import contextlib
import struct
from collections.abc import Awaitable, Callable, Sequence

import pytest

from slackwater.broker.connection import Connection, RequestContext
from slackwater.broker.fetching.idle_sockets import IdleSockets
from slackwater.broker.handlers import Handler
from slackwater.broker.repeats import Repeats, Run
from slackwater.wire.envelope import RequestHeader, decode_response, encode_request
from slackwater.wire.errors import WireError
from slackwater.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from slackwater.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from slackwater.wire.schema import Request

DEADLINE_S = 10.0


class FakeDesk:
    """Keeps calls until the test answers them."""

    def __init__(self, max_waiting: int = 100, *, full: bool = False) -> None:
        self.max_request_bytes = 1_000
        self.max_waiting = max_waiting
        self.full = full
        self.handlers: dict[int, Handler] = {}
        self.idle_sockets: IdleSockets | None = None
        self.calls: list[tuple[RequestContext, Request]] = []
        self.errors: list[WireError] = []
        self.gone = 0
        self.sent = 0
        self.changed = asyncio.Event()

    def opened(self, connection: Connection) -> bool:
        return not self.full

    def closed(self, connection: Connection) -> None:
        self.gone += 1
        self.changed.set()

    def handle(self, context: RequestContext, request: Request) -> None:
        self.calls.append((context, request))
        self.changed.set()

    def repeats(self, header: RequestHeader, request: Request, frame: bytes) -> None:
        return None

    def handle_repeats(self, connection: Connection, repeats: Repeats, data: bytes) -> int:
        raise AssertionError("Nothing is remembered here.")

    def flush_later(self, connection: Connection) -> None:
        asyncio.get_running_loop().call_soon(connection.flush)

    def answered(self, calls: Sequence[RequestContext | Run]) -> None:
        self.sent += len(calls)

    def malformed(self, connection: Connection, error: WireError) -> None:
        self.errors.append(error)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


def _request(correlation_id: int) -> bytes:
    return encode_request(HeartbeatRequest(group_id="g", member_id="m"), 4, correlation_id, "c")


async def _answer(reader: asyncio.StreamReader) -> int:
    async with asyncio.timeout(DEADLINE_S):
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        correlation_id, _ = decode_response(HeartbeatResponse, 4, await reader.readexactly(size))
    return correlation_id


def _with_server(
    desk_settings: dict[str, object],
    story: Callable[[FakeDesk, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> None:
    async def run() -> None:
        desk = FakeDesk(**desk_settings)  # type: ignore[arg-type]
        server = await asyncio.get_running_loop().create_server(lambda: Connection(desk), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        try:
            await story(desk, reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
            await desk.until(lambda: desk.gone == 1)
            server.close()
            await server.wait_closed()

    asyncio.run(run())


def test_answers_leave_in_the_order_of_the_requests_whatever_order_they_are_made_in() -> None:
    async def story(desk: FakeDesk, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_request(1) + _request(2) + _request(3))
        await desk.until(lambda: len(desk.calls) == 3)
        for context, _ in reversed(desk.calls):
            context.respond(HeartbeatResponse())
        assert [await _answer(reader) for _ in range(3)] == [1, 2, 3]

    _with_server({}, story)


def test_a_frame_may_come_byte_by_byte() -> None:
    async def story(desk: FakeDesk, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for byte in _request(9):
            writer.write(bytes([byte]))
            await writer.drain()
        await desk.until(lambda: len(desk.calls) == 1)
        desk.calls[0][0].respond(HeartbeatResponse())
        assert await _answer(reader) == 9

    _with_server({}, story)


def test_a_request_that_wants_no_answer_does_not_hold_up_the_next() -> None:
    async def story(desk: FakeDesk, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_request(1) + _request(2))
        await desk.until(lambda: len(desk.calls) == 2)
        desk.calls[0][0].skip_response()
        desk.calls[1][0].respond(HeartbeatResponse())
        assert await _answer(reader) == 2

    _with_server({}, story)


@pytest.mark.parametrize(
    "garbage",
    [struct.pack(">i", 10**9), struct.pack(">i", -1), struct.pack(">i", 0), struct.pack(">ihhih", 10, 999, 0, 1, -1)],
)
def test_garbage_ends_the_connection_after_the_answers_that_are_owed(garbage: bytes) -> None:
    async def story(desk: FakeDesk, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_request(1))
        await desk.until(lambda: len(desk.calls) == 1)
        desk.calls[0][0].respond(HeartbeatResponse())
        writer.write(garbage)
        assert await _answer(reader) == 1
        async with asyncio.timeout(DEADLINE_S):
            assert await reader.read() == b""
        await desk.until(lambda: desk.gone == 1)
        assert len(desk.errors) == 1
        desk.calls[0][0].respond(HeartbeatResponse())  # too late, and nobody minds

    _with_server({}, story)


def test_a_client_with_too_many_requests_under_way_is_not_read_until_some_are_answered() -> None:
    async def story(desk: FakeDesk, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_request(0) + _request(1))
        await desk.until(lambda: len(desk.calls) == 2)
        writer.write(_request(2))
        await writer.drain()
        desk.calls[0][0].respond(HeartbeatResponse())
        assert await _answer(reader) == 0
        await desk.until(lambda: len(desk.calls) == 3)
        assert desk.calls[0][0].connection.waiting == 2
        for context, _ in desk.calls[1:]:  # a connection that is not read does not see that its client has gone
            context.respond(HeartbeatResponse())

    _with_server({"max_waiting": 2}, story)


def test_a_client_that_is_turned_away_sees_a_closed_connection() -> None:
    async def story(desk: FakeDesk, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(DEADLINE_S):
            with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
        await desk.until(lambda: desk.gone == 1)

    _with_server({"full": True}, story)


def _list_groups(correlation_id: int) -> bytes:
    return encode_request(ListGroupsRequest(), 4, correlation_id, "c")


def test_a_request_begins_when_the_one_before_it_has_its_answer() -> None:
    async def story(desk: FakeDesk, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_list_groups(1) + _list_groups(2) + _request(3) + _request(4))
        await desk.until(lambda: len(desk.calls) == 1)
        desk.calls[0][0].respond(ListGroupsResponse())
        await desk.until(lambda: len(desk.calls) == 2)
        desk.calls[1][0].respond(ListGroupsResponse())
        await desk.until(lambda: len(desk.calls) == 4)  # heartbeats may run beside each other
        desk.calls[3][0].respond(HeartbeatResponse())
        desk.calls[2][0].respond(HeartbeatResponse())
        async with asyncio.timeout(DEADLINE_S):
            for _ in range(2):
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                await reader.readexactly(size)
        assert [await _answer(reader) for _ in range(2)] == [3, 4]
        assert desk.sent == 4

    _with_server({}, story)


def test_garbage_behind_a_request_that_waits_is_met_when_its_turn_comes() -> None:
    async def story(desk: FakeDesk, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_list_groups(1) + _request(2) + struct.pack(">i", -5))
        await desk.until(lambda: len(desk.calls) == 1)
        assert not desk.errors
        desk.calls[0][0].respond(ListGroupsResponse())
        await desk.until(lambda: len(desk.errors) == 1)
        async with asyncio.timeout(DEADLINE_S):
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            await reader.readexactly(size)

    _with_server({}, story)
