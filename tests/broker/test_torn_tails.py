"""Damaged ends of logs: what is whole before the damage is there, the broker says what it cut, and life goes on."""

import asyncio
import os
import random
from collections.abc import Callable
from pathlib import Path

from slackwater.group.errors import Error
from slackwater.wire.records.batch import HEADER_BYTES, iter_batches
from slackwater.wire.records.record import decode_records

from .broker_process import BrokerProcess
from .raw_client import RawClient, closing

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}
# The one field that neither the checksum nor the order of offsets protects, in Kafka as here: the leader epoch.
UNPROTECTED = range(12, 16)


def _batches(path: Path) -> list[tuple[int, int]]:
    """Where each batch begins and ends."""
    at, found = 0, []
    for batch in iter_batches(path.read_bytes()):
        found.append((at, at + batch.size))
        at += batch.size
    return found


def _truncated(path: Path, rng: random.Random) -> int:
    """Cut the file off within its last batches; the bytes that are whole then."""
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
    """Flip a bit of the last batch but two: what follows it is gone with it."""
    start, end = _batches(path)[-3]
    data = bytearray(path.read_bytes())
    data[rng.randrange(start + HEADER_BYTES, end)] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    return start


def _with_garbage(path: Path, rng: random.Random) -> int:
    """Append what is no batch."""
    whole = path.stat().st_size
    garbage = rng.choice((bytes(rng.randint(1, 200)), rng.randbytes(rng.randint(1, 200)), path.read_bytes()[:100]))
    with path.open("ab") as file:
        file.write(garbage)
    return whole


DAMAGES: list[Callable[[Path, random.Random], int]] = [_truncated, _flipped, _flipped_further_up, _with_garbage]


class Story:
    """One data directory that is damaged again and again; what is expected of it follows from its files."""

    def __init__(self, data: Path, rng: random.Random) -> None:
        self.data, self.rng = data, rng
        self.values: list[bytes] = []
        self.commits: list[int] = []  # the committed offset after every batch of `__consumer_offsets`

    def log(self, partition: str) -> Path:
        return sorted((self.data / partition).glob("*.log"))[-1]

    async def work(self, client: RawClient) -> None:
        """Write and commit more, and see that it counts."""
        for _ in range(8):
            value = b"%d" % len(self.values) * self.rng.randint(1, 30)
            assert await client.produce("t", 0, value) == (Error.NONE, len(self.values))
            self.values.append(value)
            offset = (self.commits[-1] if self.commits else 0) + 1
            assert await client.commit("g", {("t", 0): offset}) is Error.NONE
            self.commits.append(offset)

    async def check(self, client: RawClient) -> None:
        found = await client.records("t", 0)
        assert [record.value for record in found] == self.values
        assert [record.offset for record in found] == list(range(len(self.values)))
        assert await client.committed("g", "t", [0]) == [self.commits[-1] if self.commits else -1]

    def damage(self, damage: Callable[[Path, random.Random], int]) -> list[str]:
        """Damage both logs; what the broker must say of it."""
        said = []
        for partition, expected in (("t-0", self.values), ("__consumer_offsets-0", self.commits)):
            path = self.log(partition)
            whole = damage(path, self.rng)
            said.append(f"Truncated {path.stat().st_size - whole} bytes of {path} at byte {whole}")
            kept = list(iter_batches(path.read_bytes()[:whole]))
            assert sum(len(list(decode_records(batch))) for batch in kept) == len(kept)
            del expected[len(kept) :]
        return said


def test_what_is_whole_before_the_damage_is_there_and_the_log_says_what_was_cut(tmp_path: Path) -> None:
    story = Story(tmp_path, random.Random(seed := 11))

    @closing
    async def rounds() -> None:
        expected: list[str] = []
        for number, damage in enumerate(DAMAGES * 2):
            with BrokerProcess(tmp_path, SETTINGS) as broker:
                client = await broker.connect()
                if not number:
                    assert await client.create_topic("t") is Error.NONE
                await story.check(client)
                await story.work(client)
                # A clean stop says that the logs were closed, and the damage came later; a kill says nothing.
                broker.stop() if number % 2 else broker.kill()
            assert all(line in broker.log for line in expected), (expected, broker.log)
            expected = story.damage(damage)
        with BrokerProcess(tmp_path, SETTINGS) as broker:
            await story.check(await broker.connect())
            broker.stop()
        assert all(line in broker.log for line in expected), (expected, broker.log)
        with BrokerProcess(tmp_path, SETTINGS) as broker:
            await story.check(await broker.connect())
        assert "Cut" not in broker.log

    print(f"seed {seed}")
    asyncio.run(rounds())
