"""A stall of the broker (a long callback, SIGSTOP, suspend) expires no session whose heartbeat has arrived."""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvloop

from slackwater.broker.config import Settings
from slackwater.broker.handlers import Handler
from slackwater.broker.server import Server
from slackwater.group.errors import Error
from slackwater.wire.apis import LIST_GROUPS
from slackwater.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

from .blocking_member import BlockingMember
from .broker_process import BrokerProcess
from .server_client import Client

SESSION_MS = 1_500  # longer than a busy machine needs for three members to join
STALL_S = 2.0
SETTINGS = {"group.min.session.timeout.ms": "1", "group.initial.rebalance.delay.ms": "0"}


def _with_uvloop(directory: Path, scenario: Callable[[Server], Awaitable[None]]) -> None:
    async def run() -> None:
        server = Server(directory, Settings(SETTINGS))
        await server.start("127.0.0.1", 0)
        try:
            await scenario(server)
        finally:
            await server.stop()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


def test_heartbeat_that_arrives_during_a_long_callback_counts(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        members = [
            await asyncio.to_thread(BlockingMember, server.port, f"g{number}", SESSION_MS) for number in range(3)
        ]

        def stall(broker: Any, context: Any, request: Any) -> None:
            for member in members:
                member.send_heartbeat()
            time.sleep(STALL_S)  # the fault
            context.respond(ListGroupsResponse())

        server.handlers[LIST_GROUPS.key] = Handler(LIST_GROUPS, stall, lambda *_: ListGroupsResponse())
        client = await Client.connect(server)
        await client.request(ListGroupsRequest(), ListGroupsResponse)
        assert [await asyncio.to_thread(member.heartbeat_error) for member in members] == [Error.NONE] * 3
        for member in members:
            member.close()
        client.close()

    _with_uvloop(tmp_path, scenario)


def test_heartbeat_on_a_new_connection_during_a_stall_counts(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        members = [
            await asyncio.to_thread(BlockingMember, server.port, f"g{number}", SESSION_MS) for number in range(3)
        ]

        def stall() -> None:
            for member in members:
                member.reconnect()
                member.send_heartbeat()
            time.sleep(STALL_S)  # the fault

        server.broker.loop.call_soon(stall)
        await asyncio.sleep(0)
        assert [await asyncio.to_thread(member.heartbeat_error) for member in members] == [Error.NONE] * 3
        for member in members:
            member.close()

    _with_uvloop(tmp_path, scenario)


def test_heartbeats_that_arrive_at_a_stopped_process_count(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, SETTINGS) as broker:
        members = [BlockingMember(broker.port, f"g{number}", 3_000) for number in range(5)]
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            for member in members:
                member.send_heartbeat()
            time.sleep(4)  # the fault: longer than the session
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        assert [member.heartbeat_error() for member in members] == [Error.NONE] * len(members)
        for member in members:
            member.close()


def test_stopped_process_expires_no_member_that_has_its_response(tmp_path: Path) -> None:
    """The member's next heartbeat is due only after the stall, so none waits in the socket."""
    with BrokerProcess(tmp_path, SETTINGS) as broker:
        member = BlockingMember(broker.port, "g", 3_000)
        member.send_heartbeat()
        assert member.heartbeat_error() is Error.NONE
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            time.sleep(4)  # the fault: longer than the session
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        for number in range(2):  # after these joins, every timer that was due has fired
            BlockingMember(broker.port, f"other-{number}", 3_000).close()
        member.send_heartbeat()
        assert member.heartbeat_error() is Error.NONE
        member.close()


def test_a_silent_member_expires_after_a_stall(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        member = await asyncio.to_thread(BlockingMember, server.port, "g", SESSION_MS)
        server.broker.loop.call_soon(time.sleep, STALL_S)  # the fault
        await asyncio.sleep(0)
        async with asyncio.timeout(60):
            while server.broker.group_coordinator.coordinator.groups["g"].members:
                await asyncio.sleep(0.01)
        member.send_heartbeat()
        assert await asyncio.to_thread(member.heartbeat_error) is Error.UNKNOWN_MEMBER_ID
        member.close()

    _with_uvloop(tmp_path, scenario)
