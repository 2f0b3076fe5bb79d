"""A full disk: writes fail with Kafka's errors, nothing is lost, and writes work again when there is space.

A limit on the file size of the broker process (RLIMIT_FSIZE) simulates the full disk.
"""

import asyncio
import errno
import os
import re
from pathlib import Path

import pytest

from slackwater.broker.config import Settings
from slackwater.broker.startup import BrokerOptions, start_broker
from slackwater.broker.storage.log.files import replace_file
from slackwater.group.errors import Error, UsageError
from slackwater.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from slackwater.wire.records.record import Record, encode_batch

from .broker_process import BrokerProcess
from .raw_client import RawClient, closing

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "3"}


async def _check_data(client: RawClient, values: list[bytes], committed: int) -> None:
    assert [record.value for record in await client.records("t", 0)] == values
    assert await client.committed("g", "t", [0, 1]) == [committed, committed]


def test_full_disk_rejects_writes_and_recovers(tmp_path: Path) -> None:
    @closing
    async def scenario() -> None:
        with BrokerProcess(tmp_path, SETTINGS) as broker:
            client = await broker.connect()
            assert await client.create_topic("t", 2) is Error.NONE
            member = await (await broker.connect()).join_alone("joined")
            producer_id = await client.producer_id()
            values: list[bytes] = []
            for round_ in range(3):
                values.append(b"%d" % round_)
                assert await client.produce("t", 0, values[-1]) == (Error.NONE, len(values) - 1)
                offsets = {("t", 0): round_, ("t", 1): round_}
                assert await client.commit("g", offsets) is Error.NONE
                assert await client.commit("joined", offsets, member.member_id, member.generation) is Error.NONE

                broker.limit_files(0)
                for _ in range(2):
                    assert (await client.produce("t", 0, b"lost"))[0] is Error.KAFKA_STORAGE_ERROR
                    client.send_batch("t", 1, _sequenced(producer_id, round_))
                    assert (await client.next_produce_response()).error_code == Error.KAFKA_STORAGE_ERROR
                    # Kafka's coordinator returns this error so that the client looks for another coordinator.
                    assert await client.commit("g", {("t", 0): 99}) is Error.NOT_COORDINATOR
                    error = await client.commit("joined", {("t", 0): 99}, member.member_id, member.generation)
                    assert error is Error.NOT_COORDINATOR
                    assert await client.create_topic("too-late") is Error.KAFKA_STORAGE_ERROR
                    assert await client.delete_topic("t") is Error.KAFKA_STORAGE_ERROR
                    # Requests that do not write still work.
                    await _check_data(client, values, round_)
                    assert await member.heartbeat() is Error.NONE
                    assert await client.topics() == {"t": 2, "__consumer_offsets": 3, "__group_events": 1}
                broker.limit_files(None)

                client.send_batch("t", 1, _sequenced(producer_id, round_))
                response = await client.next_produce_response()
                assert (response.error_code, response.base_offset) == (0, round_)
                await _check_data(client, values, round_)
            assert await client.create_topic("room") is Error.NONE
            assert await client.delete_topic("room") is Error.NONE
            broker.kill()
            assert "Traceback" not in broker.log, broker.log
            for name in ("t-0", "t-1"):
                directory = tmp_path / name
                failures = (
                    f"ERROR Appends to {directory} fail with KAFKA_STORAGE_ERROR: File too large. They are accepted "
                    "again when the disk can be written. "
                )
                assert broker.log.count(failures) == len(values)
                assert broker.log.count(f"INFO Appends to {directory} succeed again. ") == len(values) - (name == "t-0")
        with BrokerProcess(tmp_path, SETTINGS) as broker:
            client = await broker.connect()
            await _check_data(client, values, 2)
            assert len(await client.records("t", 1)) == 3
            member.client = client
            assert await member.heartbeat() is Error.NONE

    asyncio.run(scenario())


def _sequenced(producer_id: int, sequence: int) -> bytearray:
    return encode_batch([Record(None, b"s")], producer_id=producer_id, producer_epoch=0, base_sequence=sequence)


def test_disk_is_full_before_the_first_write(tmp_path: Path) -> None:
    @closing
    async def scenario() -> None:
        with BrokerProcess(tmp_path, SETTINGS) as broker:
            client = await broker.connect()
            assert await client.create_topic("t", 2) is Error.NONE
            broker.limit_files(0)
            for _ in range(2):
                assert await client.commit("g", {("t", 0): 1, ("t", 1): 1}) is Error.NOT_COORDINATOR
                response = await client.request(InitProducerIdRequest(None, 60_000), InitProducerIdResponse)
                assert response.error_code == Error.COORDINATOR_NOT_AVAILABLE
                assert await client.topics() == {"t": 2}
            broker.limit_files(None)
            assert await client.commit("g", {("t", 0): 2, ("t", 1): 2}) is Error.NONE
            assert await client.producer_id() >= 0
            broker.kill()
            assert "Traceback" not in broker.log, broker.log
        with BrokerProcess(tmp_path, SETTINGS) as broker:
            await _check_data(await broker.connect(), [], 2)

    asyncio.run(scenario())


def test_partial_writes_are_not_acknowledged(tmp_path: Path) -> None:
    """The limit is reached in the middle of a batch."""

    @closing
    async def scenario() -> None:
        with BrokerProcess(tmp_path, SETTINGS) as broker:
            client = await broker.connect()
            assert await client.create_topic("t", 2) is Error.NONE
            acknowledged: list[tuple[int, bytes]] = []
            for limit in (20_011, 30_333, 44_444):
                broker.limit_files(limit)
                errors: set[Error] = set()
                number = 0
                while errors != {Error.KAFKA_STORAGE_ERROR}:
                    values = [b"%d-%d" % (limit, number + at) + b"." * (7 * at) for at in range(8)]
                    number += 8
                    for value in values:
                        client.send_batch("t", 0, encode_batch([Record(None, value, timestamp=1)]))
                    responses = [await client.next_produce_response() for _ in values]
                    errors = {Error(response.error_code) for response in responses}
                    assert errors <= {Error.NONE, Error.KAFKA_STORAGE_ERROR}
                    pairs = zip(responses, values, strict=True)
                    acknowledged += [
                        (response.base_offset, value) for response, value in pairs if not response.error_code
                    ]
            stored = [(record.offset, record.value) for record in await client.records("t", 0)]
            assert stored == acknowledged
            broker.kill()
        with BrokerProcess(tmp_path, SETTINGS) as broker:
            client = await broker.connect()
            assert [(record.offset, record.value) for record in await client.records("t", 0)] == acknowledged
        assert "Truncated" not in broker.log  # a failed write leaves no bytes in the file

    asyncio.run(scenario())


def test_stop_on_full_disk_loses_nothing(tmp_path: Path) -> None:
    @closing
    async def scenario() -> None:
        with BrokerProcess(tmp_path, SETTINGS) as broker:
            client = await broker.connect()
            assert await client.create_topic("t", 2) is Error.NONE
            values = [b"%d" % number for number in range(5)]
            for value in values:
                assert (await client.produce("t", 0, value))[0] is Error.NONE
            assert await client.commit("g", {("t", 0): 3, ("t", 1): 3}) is Error.NONE
            broker.limit_files(0)
            broker.stop()
        assert "Traceback" not in broker.log, broker.log
        assert re.search(
            r"Logs that were not closed cleanly: \d+\. The next start checks them; .* is lost\.", broker.log
        )
        with BrokerProcess(tmp_path, SETTINGS) as broker:
            await _check_data(await broker.connect(), values, 3)
            assert "the last shutdown was not clean" in broker.log

    asyncio.run(scenario())


def test_start_on_a_full_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwritev", fail)
    file = tmp_path / "topics.json"
    with pytest.raises(OSError, match="No space left") as failure:
        replace_file(file, b"[]")

    def start(*_: object, **__: object) -> None:
        raise failure.value

    monkeypatch.setattr("slackwater.broker.startup.Server", start)
    options = BrokerOptions(directory=tmp_path, settings=Settings({}), listen=("127.0.0.1", 0))
    with pytest.raises(UsageError) as refusal:
        asyncio.run(start_broker(options))
    assert str(refusal.value) == (
        f"The data directory {tmp_path} cannot be opened: No space left on device ({file}). "
        "Free some space, and start the broker again."
    )
