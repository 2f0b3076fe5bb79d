"""A broker without file descriptors: nothing fails for good, and everything works again when there are some."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

from slackwater.group.errors import Error
from slackwater.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from slackwater.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse

from .broker_process import BrokerProcess, wait_until
from .raw_client import RawClient, closing
from .server_client import DEADLINE_S

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
    "log.segment.bytes": "1000",
}


async def _wait_for_line(broker: BrokerProcess, text: str, count: int) -> None:
    """Wait until the log contains a text so many times."""
    await asyncio.to_thread(wait_until, lambda: broker.log.count(text) >= count, lambda: broker.log[-2000:])


async def _is_served(broker: BrokerProcess) -> bool:
    """Whether a new connection gets a response; without descriptors the broker closes it."""
    try:
        client = await RawClient.at(broker.port)
        await client.topics()
    except (OSError, asyncio.IncompleteReadError):
        return False
    return True


def test_flush_always_recovers_from_missing_descriptors(tmp_path: Path) -> None:
    @closing
    async def scenario() -> None:
        with BrokerProcess(tmp_path, {**SETTINGS, "flush": "always", "log.segment.bytes": "1000000"}) as broker:
            client, other = await broker.connect(), await broker.connect()
            assert await client.create_topic("t", 2) is Error.NONE
            assert await client.produce("t", 0, b"0") == (Error.NONE, 0)
            assert await client.commit("g", {("t", 0): 1}) is Error.NONE
            for round_ in range(1, 4):
                broker.limit_descriptors(broker.open_descriptors())
                pending = asyncio.create_task(client.produce("t", 0, b"%d" % round_))
                pending_commit = asyncio.create_task(other.commit("g", {("t", 0): round_}))
                await _wait_for_line(broker, "No file descriptor is left to flush", round_)
                assert not pending.done()
                broker.limit_descriptors(None)
                async with asyncio.timeout(DEADLINE_S):
                    assert await pending == (Error.NONE, round_)
                    assert await pending_commit is Error.NONE
            assert [record.value for record in await client.records("t", 0)] == [b"0", b"1", b"2", b"3"]
            broker.stop()
            assert "Traceback" not in broker.log, broker.log

    asyncio.run(scenario())


@pytest.mark.parametrize("flush", ["always", "os"])
def test_rolled_segments_need_descriptors_only_later(tmp_path: Path, flush: str) -> None:
    @closing
    async def scenario() -> None:
        with BrokerProcess(tmp_path, {**SETTINGS, "flush": flush}) as broker:
            client = await broker.connect()
            assert await client.create_topic("t") is Error.NONE
            written = 0
            while written < 3:
                assert await client.produce("t", 0, b"." * 300) == (Error.NONE, written)
                written += 1
            broker.limit_descriptors(broker.open_descriptors())
            error, _ = await client.produce("t", 0, b"." * 900)  # needs another segment
            assert error is Error.KAFKA_STORAGE_ERROR
            assert not await _is_served(broker)
            assert not await _is_served(broker)
            broker.limit_descriptors(None)
            for _ in range(20):
                assert await client.produce("t", 0, b"." * 900) == (Error.NONE, written)
                written += 1
            late = await broker.connect()
            assert len(await late.records("t", 0)) == written
            broker.stop()
            assert "Traceback" not in broker.log, broker.log
        with BrokerProcess(tmp_path, SETTINGS) as broker:
            assert len(await (await broker.connect()).records("t", 0)) == written

    asyncio.run(scenario())


def test_topic_without_descriptors_is_refused(tmp_path: Path) -> None:
    @closing
    async def scenario() -> None:
        with BrokerProcess(tmp_path, {**SETTINGS, "offsets.topic.num.partitions": "20"}) as broker:
            client = await broker.connect()
            assert await client.create_topic("t") is Error.NONE
            broker.limit_descriptors(200)
            before = broker.open_descriptors()
            for validate_only in (True, False):
                request = CreateTopicsRequest([CreatableTopic("large", 190, 1)], validate_only=validate_only)
                (result,) = (await client.request(request, CreateTopicsResponse)).topics
                assert result.error_code == Error.POLICY_VIOLATION
                assert re.fullmatch(
                    r"190 partitions need 190 file descriptors, but the broker's limit of 200 leaves 1\d\d\. "
                    r"Use fewer partitions, or raise the limit \(ulimit -n\) and restart the broker\.",
                    result.error_message or "",
                )
                growth = CreatePartitionsRequest([CreatePartitionsTopic("t", 191, None)], validate_only=validate_only)
                (grown,) = (await client.request(growth, CreatePartitionsResponse)).results
                assert grown.error_code == Error.POLICY_VIOLATION
                assert "190 partitions need 190 file descriptors" in (grown.error_message or "")
            assert await client.topics() == {"t": 1}
            assert not list(tmp_path.glob("large*"))
            assert broker.open_descriptors() == before
            broker.limit_descriptors(before)
            assert await client.create_topic("small") is Error.POLICY_VIOLATION
            # The first request of each kind imports its handler, which needs a descriptor.
            broker.limit_descriptors(before + 10)
            for _ in range(3):
                assert await client.create_topic("small", 20) is Error.POLICY_VIOLATION
                assert await client.commit("g", {("t", 0): 1}) is Error.NOT_COORDINATOR
            broker.limit_descriptors(None)
            assert await client.create_topic("small") is Error.NONE
            assert await client.commit("g", {("t", 0): 1}) is Error.NONE
            assert await client.create_topic("large", 190) is Error.NONE
            broker.stop()
            assert "Traceback" not in broker.log, broker.log

    asyncio.run(scenario())


def test_start_with_too_few_descriptors_is_one_sentence(tmp_path: Path) -> None:
    @closing
    async def scenario() -> None:
        with BrokerProcess(tmp_path, SETTINGS) as broker:
            assert await (await broker.connect()).create_topic("t", 100) is Error.NONE
            broker.stop()

    asyncio.run(scenario())
    assert _refusal(tmp_path, limit=80) == (
        f"slackwater: The logs in {tmp_path} need more file descriptors than the limit of 80 allows. "
        "Raise the limit (ulimit -n), and start the broker again.\n"
    )
    assert _refusal(tmp_path, limit=12) == (
        "slackwater: The limit of open files is 12; a broker needs at least 16, and one for every partition and "
        "connection. Raise the limit (ulimit -n).\n"
    )


def _refusal(directory: Path, *, limit: int) -> str:
    """Return the output of a start with a limit of descriptors."""
    command = [sys.executable, "-m", "slackwater", "broker", "--listen", "127.0.0.1:0", "--data", str(directory)]
    done = subprocess.run(
        ["bash", "-c", f'ulimit -n {limit} && exec "$@"', "bash", *command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    return done.stderr
