"""Tests of damaged log tails: complete batches survive, and the broker logs what it truncated."""

import asyncio
import os
import random
from collections.abc import Callable
from pathlib import Path

from slackwater.group.errors import Error
from slackwater.wire.records.batch import HEADER_BYTES, iter_batches
from slackwater.wire.records.record import decode_records

from ..broker_process import BrokerProcess
from ..raw_client import RawClient, closing

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}
# The leader epoch is the only field that neither the checksum nor the offset order protects, as in Kafka.
UNPROTECTED = range(12, 16)


def _batches(path: Path) -> list[tuple[int, int]]:
    """Return start and end of each batch."""
    at, batches = 0, []
    for batch in iter_batches(path.read_bytes()):
        batches.append((at, at + batch.size))
        at += batch.size
    return batches


def _truncated(path: Path, rng: random.Random) -> int:
    """Truncate the file within its last batches; returns the size of the complete batches."""
    ends = [end for _, end in _batches(path)]
    size = rng.randrange(ends[-4] + 1, ends[-1])
    os.truncate(path, size)
    return max(end for end in ends if end <= size)


def _flipped(path: Path, rng: random.Random) -> int:
    """Flip a bit of the last batch."""
    start, end = _batches(path)[-1]
    at = start + rng.choice([at for at in range(end - start) if at not in UNPROTECTED])
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    return start


def _flipped_further_up(path: Path, rng: random.Random) -> int:
    """Flip a bit of the third batch from the end, which invalidates all later ones."""
    start, end = _batches(path)[-3]
    data = bytearray(path.read_bytes())
    data[rng.randrange(start + HEADER_BYTES, end)] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    return start


def _with_garbage(path: Path, rng: random.Random) -> int:
    """Append bytes that are not a batch."""
    size = path.stat().st_size
    garbage = rng.choice((bytes(rng.randint(1, 200)), rng.randbytes(rng.randint(1, 200)), path.read_bytes()[:100]))
    with path.open("ab") as file:
        file.write(garbage)
    return size


DAMAGES: list[Callable[[Path, random.Random], int]] = [_truncated, _flipped, _flipped_further_up, _with_garbage]


class DamagedDirectory:
    """A data directory that is damaged repeatedly; the expected content follows from its files."""

    def __init__(self, data: Path, rng: random.Random) -> None:
        self.data, self.rng = data, rng
        self.values: list[bytes] = []
        self.commits: list[int] = []  # the committed offset after every batch of `__consumer_offsets`

    def log(self, partition: str) -> Path:
        return sorted((self.data / partition).glob("*.log"))[-1]

    async def work(self, client: RawClient) -> None:
        """Produce and commit more."""
        for _ in range(8):
            value = b"%d" % len(self.values) * self.rng.randint(1, 30)
            assert await client.produce("t", 0, value) == (Error.NONE, len(self.values))
            self.values.append(value)
            offset = (self.commits[-1] if self.commits else 0) + 1
            assert await client.commit("g", {("t", 0): offset}) is Error.NONE
            self.commits.append(offset)

    async def check(self, client: RawClient) -> None:
        records = await client.records("t", 0)
        assert [record.value for record in records] == self.values
        assert [record.offset for record in records] == list(range(len(self.values)))
        assert await client.committed("g", "t", [0]) == [self.commits[-1] if self.commits else -1]

    def damage(self, damage: Callable[[Path, random.Random], int]) -> list[str]:
        """Damage both logs, and return the log lines that the broker must write."""
        lines = []
        for partition, expected in (("t-0", self.values), ("__consumer_offsets-0", self.commits)):
            path = self.log(partition)
            complete_bytes = damage(path, self.rng)
            lines.append(f"Truncated {path.stat().st_size - complete_bytes} bytes of {path} at byte {complete_bytes}")
            complete = list(iter_batches(path.read_bytes()[:complete_bytes]))
            assert sum(len(list(decode_records(batch))) for batch in complete) == len(complete)
            del expected[len(complete) :]
        return lines


def test_complete_batches_survive_damaged_tail(tmp_path: Path) -> None:
    directory = DamagedDirectory(tmp_path, random.Random(seed := 11))

    @closing
    async def rounds() -> None:
        expected: list[str] = []
        for number, damage in enumerate(DAMAGES * 2):
            with BrokerProcess(tmp_path, SETTINGS) as broker:
                client = await broker.connect()
                if not number:
                    assert await client.create_topic("t") is Error.NONE
                await directory.check(client)
                await directory.work(client)
                # After a clean stop the damage comes later; after a kill it may be older.
                broker.stop() if number % 2 else broker.kill()
            assert all(line in broker.log for line in expected), (expected, broker.log)
            expected = directory.damage(damage)
        with BrokerProcess(tmp_path, SETTINGS) as broker:
            await directory.check(await broker.connect())
            broker.stop()
        assert all(line in broker.log for line in expected), (expected, broker.log)
        with BrokerProcess(tmp_path, SETTINGS) as broker:
            await directory.check(await broker.connect())
        assert "Truncated" not in broker.log

    print(f"seed {seed}")
    asyncio.run(rounds())
