"""Compaction and flushes with a full disk, and of topics that are deleted in the meantime."""

import asyncio
import errno
import fcntl
import logging
import os
from pathlib import Path

import pytest

from slackwater.broker.maintenance import Maintenance
from slackwater.broker.server import Server
from slackwater.broker.storage.directory import CLEAN_SHUTDOWN, LOCK
from slackwater.group.errors import Error
from slackwater.wire.records.record import Record, encode_batch

from .raw_client import RawClient, closing
from .server_client import DEADLINE_S, with_server

COMPACTED = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0", "segment_bytes": "1000"}


async def _fill(client: RawClient, topic: str, batches: int = 40) -> None:
    """Write the same two keys many times, into many segments."""
    for number in range(batches):
        records = [Record(key, b"%d" % number * 50, timestamp=1) for key in (b"a", b"b")]
        client.send_batch(topic, 0, encode_batch(records))
        assert (await client.next_produce_response()).error_code == 0


async def _last_values(client: RawClient, topic: str) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in await client.records(topic, 0)}


async def _until_cleaned(
    server: Server, maintenance: Maintenance, client: RawClient, topic: str, max_records: int
) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while len(await client.records(topic, 0)) > max_records:
            maintenance.compact()
            await _wait_for_thread(server)


async def _wait_for_thread(server: Server) -> None:
    """Wait until the thread has done all its work and the results are processed."""
    done = asyncio.Event()
    server.broker.in_thread(lambda: None, done.set)
    await done.wait()


def test_compaction_is_retried_after_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail_write(fd: int, buffers: list[bytes], position: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    @closing
    async def scenario(server: Server) -> None:
        maintenance = Maintenance(server.broker, set())
        maintenance.start()
        client = await RawClient.connect(server)
        for topic in ("one", "two"):
            assert await client.create_topic(topic, 1, **COMPACTED) is Error.NONE
            await _fill(client, topic)
        with monkeypatch.context() as broken:
            broken.setattr(os, "pwritev", fail_write)
            maintenance.compact()
            for _ in range(3):
                await _wait_for_thread(server)
            assert len(await client.records("one", 0)) == 80
            messages = [record.getMessage() for record in caplog.records]
            for topic in ("one", "two"):
                assert f"{topic}-0 was not compacted: No space left on device." in messages
        for topic in ("one", "two"):
            await _until_cleaned(server, maintenance, client, topic, 30)
            assert await _last_values(client, topic) == {b"a": b"39" * 50, b"b": b"39" * 50}
        maintenance.stop()

    with_server(tmp_path, scenario, log_cleaner_backoff_ms="1000000")
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_topic_recreated_during_compaction_is_unaffected(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    @closing
    async def scenario(server: Server) -> None:
        maintenance = Maintenance(server.broker, set())
        maintenance.start()
        client = await RawClient.connect(server)
        for _ in range(10):
            assert await client.create_topic("t", 1, **COMPACTED) is Error.NONE
            await _fill(client, "t")
            maintenance.compact()  # starts in the thread
            assert await client.delete_topic("t") is Error.NONE
            assert await client.create_topic("t") is Error.NONE
            assert await client.produce("t", 0, b"new") == (Error.NONE, 0)
            await _wait_for_thread(server)
            assert [record.value for record in await client.records("t", 0)] == [b"new"]
            assert not list((tmp_path / "t-0").glob("*.cleaned"))
            assert await client.delete_topic("t") is Error.NONE
        maintenance.stop()

    with_server(tmp_path, scenario, log_cleaner_backoff_ms="1000000")
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("flush", ["os", "always"])
def test_topic_is_deleted_while_its_flush_is_pending(
    tmp_path: Path, flush: str, caplog: pytest.LogCaptureFixture
) -> None:
    @closing
    async def scenario(server: Server) -> None:
        writer, admin, other = [await RawClient.connect(server) for _ in range(3)]
        assert await admin.create_topic("other") is Error.NONE
        for number in range(10):
            assert await admin.create_topic("t", segment_bytes="1000") is Error.NONE
            await _fill(writer, "t", 5)
            for _ in range(20):
                writer.send_batch("t", 0, encode_batch([Record(None, b"x" * 100, timestamp=1)]))
            (deleted, (error, offset)) = await asyncio.gather(
                admin.delete_topic("t"), other.produce("other", 0, b"%d" % number)
            )
            assert (deleted, error, offset) == (Error.NONE, Error.NONE, number)
            responses = {Error((await writer.next_produce_response()).error_code) for _ in range(20)}
            assert responses <= {Error.NONE, Error.UNKNOWN_TOPIC_OR_PARTITION, Error.KAFKA_STORAGE_ERROR}
            server.broker.durability.flush_rolled()
            await _wait_for_thread(server)

    with_server(tmp_path, scenario, flush=flush)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_removed_lock_file_is_restored_and_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("slackwater.broker.maintenance.LOCK_CHECK_S", 0.001)

    @closing
    async def scenario(server: Server) -> None:
        (tmp_path / LOCK).unlink()
        async with asyncio.timeout(DEADLINE_S):
            while not (tmp_path / LOCK).exists():
                await asyncio.sleep(0.001)

    with_server(tmp_path, scenario)
    assert caplog.text.count(f"{tmp_path / LOCK} was removed while the broker was running") == 1


def test_lock_of_another_broker_rejects_appends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    @closing
    async def scenario(server: Server) -> None:
        client = await RawClient.connect(server)
        assert await client.create_topic("t") is Error.NONE
        assert await client.produce("t", 0, b"1") == (Error.NONE, 0)
        maintenance = Maintenance(server.broker, set())
        (tmp_path / LOCK).unlink()
        with (tmp_path / LOCK).open("w") as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            maintenance.check_lock()
            maintenance.check_lock()
            assert (await client.produce("t", 0, b"2"))[0] is Error.KAFKA_STORAGE_ERROR
            assert len(await client.records("t", 0)) == 1

    with_server(tmp_path, scenario)
    assert caplog.text.count("is in use by another broker") == 1
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()
