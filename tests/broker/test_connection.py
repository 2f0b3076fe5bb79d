"""A connection: order of responses, limits, malformed frames."""

import asyncio
import contextlib
import struct
from collections.abc import Awaitable, Callable, Sequence

import pytest

from slackwater.broker.connection import Connection
from slackwater.broker.request_context import RequestContext
from slackwater.broker.request_memory import RequestMemory
from slackwater.wire.errors import WireError
from slackwater.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from slackwater.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from slackwater.wire.request_response import decode_response, encode_request
from slackwater.wire.schema import Request

DEADLINE_S = 60.0


class FakeHandler:
    """Stores requests until the test sends their responses."""

    def __init__(self, max_queued_requests: int = 100, *, is_full: bool = False) -> None:
        self.max_request_bytes = 1_000
        self.max_queued_requests = max_queued_requests
        self.request_memory = RequestMemory(asyncio.get_running_loop(), -1)
        self.is_full = is_full
        self.requests: list[RequestContext] = []
        self.errors: list[WireError] = []
        self.closed = 0
        self.sent = 0
        self.changed = asyncio.Event()

    def connection_opened(self, connection: Connection) -> bool:
        return not self.is_full

    def connection_closed(self, connection: Connection) -> None:
        self.closed += 1
        self.changed.set()

    def handle(self, context: RequestContext, request: Request) -> None:
        self.requests.append(context)
        self.changed.set()

    def handle_large(self, context: RequestContext, request: Request, size: int) -> bool:
        self.handle(context, request)
        return False

    def send_later(self, connection: Connection) -> None:
        asyncio.get_running_loop().call_soon(connection.send_responses)

    def responses_sent(self, requests: Sequence[RequestContext]) -> None:
        self.sent += len(requests)

    def session_expired(self, connection: Connection) -> None:
        raise AssertionError(connection)

    def malformed_frame(self, connection: Connection, error: WireError) -> None:
        self.errors.append(error)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


def _request(correlation_id: int) -> bytes:
    return encode_request(HeartbeatRequest(group_id="g", member_id="m"), 4, correlation_id, "c")


async def _response(reader: asyncio.StreamReader) -> int:
    async with asyncio.timeout(DEADLINE_S):
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        correlation_id, _ = decode_response(HeartbeatResponse, 4, await reader.readexactly(size))
    return correlation_id


def _with_server(
    settings: dict[str, object],
    scenario: Callable[[FakeHandler, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> None:
    async def run() -> None:
        handler = FakeHandler(**settings)  # type: ignore[arg-type]
        server = await asyncio.get_running_loop().create_server(lambda: Connection(handler), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        try:
            await scenario(handler, reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
            await handler.until(lambda: handler.closed == 1)
            server.close()
            await server.wait_closed()

    asyncio.run(run())


def test_responses_leave_in_the_order_of_the_requests() -> None:
    async def scenario(handler: FakeHandler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_request(1) + _request(2) + _request(3))
        await handler.until(lambda: len(handler.requests) == 3)
        for context in reversed(handler.requests):
            context.respond(HeartbeatResponse())
        assert [await _response(reader) for _ in range(3)] == [1, 2, 3]

    _with_server({}, scenario)


def test_frame_arrives_byte_by_byte() -> None:
    async def scenario(handler: FakeHandler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for byte in _request(9):
            writer.write(bytes([byte]))
            await writer.drain()
        await handler.until(lambda: len(handler.requests) == 1)
        handler.requests[0].respond(HeartbeatResponse())
        assert await _response(reader) == 9

    _with_server({}, scenario)


def test_request_without_response_does_not_block_the_next() -> None:
    async def scenario(handler: FakeHandler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_request(1) + _request(2))
        await handler.until(lambda: len(handler.requests) == 2)
        handler.requests[0].skip_response()
        handler.requests[1].respond(HeartbeatResponse())
        assert await _response(reader) == 2

    _with_server({}, scenario)


@pytest.mark.parametrize(
    "malformed",
    [struct.pack(">i", 10**9), struct.pack(">i", -1), struct.pack(">i", 0), struct.pack(">ihhih", 10, 999, 0, 1, -1)],
)
def test_malformed_frame_closes_after_pending_responses(malformed: bytes) -> None:
    async def scenario(handler: FakeHandler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_request(1))
        await handler.until(lambda: len(handler.requests) == 1)
        handler.requests[0].respond(HeartbeatResponse())
        writer.write(malformed)
        assert await _response(reader) == 1
        async with asyncio.timeout(DEADLINE_S):
            assert await reader.read() == b""
        await handler.until(lambda: handler.closed == 1)
        assert len(handler.errors) == 1
        handler.requests[0].respond(HeartbeatResponse())  # ignored: the connection is closed

    _with_server({}, scenario)


def test_reading_pauses_while_too_many_requests_wait() -> None:
    async def scenario(handler: FakeHandler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_request(0) + _request(1))
        await handler.until(lambda: len(handler.requests) == 2)
        writer.write(_request(2))
        await writer.drain()
        handler.requests[0].respond(HeartbeatResponse())
        assert await _response(reader) == 0
        await handler.until(lambda: len(handler.requests) == 3)
        assert handler.requests[0].connection.pending_requests == 2
        for context in handler.requests[1:]:  # while reading is paused, the connection does not notice the disconnect
            context.respond(HeartbeatResponse())

    _with_server({"max_queued_requests": 2}, scenario)


def test_rejected_client_sees_a_closed_connection() -> None:
    async def scenario(handler: FakeHandler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(DEADLINE_S):
            with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
        await handler.until(lambda: handler.closed == 1)

    _with_server({"is_full": True}, scenario)


def _list_groups(correlation_id: int) -> bytes:
    return encode_request(ListGroupsRequest(), 4, correlation_id, "c")


def test_request_starts_after_the_response_before_it() -> None:
    async def scenario(handler: FakeHandler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_list_groups(1) + _list_groups(2) + _request(3) + _request(4))
        await handler.until(lambda: len(handler.requests) == 1)
        handler.requests[0].respond(ListGroupsResponse())
        await handler.until(lambda: len(handler.requests) == 2)
        handler.requests[1].respond(ListGroupsResponse())
        await handler.until(lambda: len(handler.requests) == 4)  # heartbeats are pipelined
        handler.requests[3].respond(HeartbeatResponse())
        handler.requests[2].respond(HeartbeatResponse())
        async with asyncio.timeout(DEADLINE_S):
            for _ in range(2):
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                await reader.readexactly(size)
        assert [await _response(reader) for _ in range(2)] == [3, 4]
        assert handler.sent == 4

    _with_server({}, scenario)


def test_malformed_frame_behind_a_waiting_request() -> None:
    async def scenario(handler: FakeHandler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_list_groups(1) + _request(2) + struct.pack(">i", -5))
        await handler.until(lambda: len(handler.requests) == 1)
        assert not handler.errors
        handler.requests[0].respond(ListGroupsResponse())
        await handler.until(lambda: len(handler.errors) == 1)
        async with asyncio.timeout(DEADLINE_S):
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            await reader.readexactly(size)

    _with_server({}, scenario)


def test_request_names_host_principal_and_listener() -> None:
    async def scenario(handler: FakeHandler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_request(1))
        await handler.until(lambda: len(handler.requests) == 1)
        (context,) = handler.requests
        assert (context.host, context.principal, context.listener_name) == (
            "/127.0.0.1",
            "User:ANONYMOUS",
            "PLAINTEXT",
        )

    _with_server({}, scenario)
