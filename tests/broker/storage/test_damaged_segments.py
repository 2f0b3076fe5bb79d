"""Damage in closed segments, which a start does not check: reads fail with Kafka's error, and nothing hangs."""

import asyncio
import os
import re
import struct
from pathlib import Path

import pytest

from slackwater.group.errors import Error
from slackwater.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from slackwater.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from slackwater.wire.records.batch import iter_batches

from ..broker_process import BrokerProcess
from ..raw_client import FETCH_V, RawClient, closing

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.segment.bytes": "1000",
    "log.segment.bytes": "1000",
    "log.cleaner.enable": "false",
}
DAMAGED_LENGTHS = [-12, 0, 1 << 30]


async def _fetch(client: RawClient, *offsets: tuple[str, int]) -> list[PartitionData]:
    """Fetch partition 0 of topics."""
    topics = [FetchTopic(name, partitions=[FetchPartition(0, fetch_offset=offset)]) for name, offset in offsets]
    response = await client.request(FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics), FetchResponse, FETCH_V)
    assert response.error_code == 0
    return [data for topic in response.responses for data in topic.partitions]


def _first_segment(directory: Path) -> tuple[Path, list[int]]:
    """Return the first segment file and the positions of its batches."""
    path = min(directory.glob("*.log"))
    positions = [batch.position for batch in iter_batches(path.read_bytes())]
    assert len(positions) >= 3
    assert len(list(directory.glob("*.log"))) >= 3
    return path, positions


def _damage(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        os.pwrite(file.fileno(), data, at)


@pytest.mark.parametrize("length", DAMAGED_LENGTHS)
def test_damaged_length_fails_only_its_reads(tmp_path: Path, length: int) -> None:
    @closing
    async def scenario() -> None:
        with BrokerProcess(tmp_path, SETTINGS) as broker:
            client = await broker.connect()
            for name in ("damaged", "other"):
                assert await client.create_topic(name) is Error.NONE
                for number in range(12):
                    assert await client.produce(name, 0, b"%d" % number + b"." * 200) == (Error.NONE, number)
            broker.stop()
        path, positions = _first_segment(tmp_path / "damaged-0")
        _damage(path, positions[1] + 8, struct.pack(">i", length))
        with BrokerProcess(tmp_path, SETTINGS) as broker:
            client = await broker.connect()
            for _ in range(3):
                damaged, other = await _fetch(client, ("damaged", 1), ("other", 1))
                # Kafka 4.3.1 answers -12 and 0 in the same way. It skips the rest of the segment after a huge length.
                assert (Error(damaged.error_code), damaged.records) == (Error.CORRUPT_MESSAGE, b"")
                assert (damaged.high_watermark, damaged.log_start_offset) == (-1, -1)
                assert (other.error_code, next(iter_batches(other.records or b"")).base_offset) == (0, 1)
            (after,) = await _fetch(client, ("damaged", len(positions)))
            assert (after.error_code, next(iter_batches(after.records or b"")).base_offset) == (0, len(positions))
            by_time = ListOffsetsTopic("damaged", [ListOffsetsPartition(0, timestamp=1)])
            await client.request(ListOffsetsRequest(-1, topics=[by_time]), ListOffsetsResponse)
            assert await client.produce("damaged", 0, b"more") == (Error.NONE, 12)
            broker.stop()
        reports = re.findall(r"ERROR Records of damaged-0 cannot be read: (.*) \(", broker.log)
        assert len(reports) == 1
        assert reports[0].startswith(f"{path} is damaged at byte {positions[1]}: ")
        assert "Traceback" not in broker.log

    asyncio.run(scenario())


@pytest.mark.parametrize("length", DAMAGED_LENGTHS)
def test_readable_part_of_offsets_topic_is_restored(tmp_path: Path, length: int) -> None:
    """Each group commits once; the damaged batch has the commit of the second group."""

    @closing
    async def scenario() -> None:
        groups = [f"group-{number}" for number in range(30)]
        with BrokerProcess(tmp_path, SETTINGS) as broker:
            client = await broker.connect()
            assert await client.create_topic("t") is Error.NONE
            for number, group in enumerate(groups):
                assert await client.commit(group, {("t", 0): number}) is Error.NONE
            broker.stop()
        path, positions = _first_segment(tmp_path / "__consumer_offsets-0")
        _damage(path, positions[1] + 8, struct.pack(">i", length))
        _damage(path, positions[3] - 5, b"\xff\xff")  # the content of the third batch
        for clean in (False, True):
            with BrokerProcess(tmp_path, SETTINGS) as broker:
                client = await broker.connect()
                committed = [(await client.committed(group, "t", [0]))[0] for group in groups]
                assert committed == [-1 if number in (1, 2) else number for number in range(30)]
                assert await client.commit("late", {("t", 0): 7}) is Error.NONE
                broker.stop() if clean else broker.kill()
            lost = f"Lost: bytes {positions[1]} to {positions[3] - 1} of {path}, offsets 1 to 2: "
            line = rf"ERROR __consumer_offsets-0 has lost records\. .* {re.escape(lost)}"
            assert re.search(line, broker.log), broker.log
            assert "Traceback" not in broker.log

    asyncio.run(scenario())
