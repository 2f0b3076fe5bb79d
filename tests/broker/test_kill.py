"""kill -9 of a broker under load: acknowledged data survives, and no offset goes back."""

import asyncio
import random
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path

import pytest

from slackwater.group.errors import Error
from slackwater.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)

from .broker_process import BrokerProcess, kill_while_starting
from .kill_load import (
    BROKEN,
    AckCounter,
    Committer,
    IdempotentProducer,
    KeyedProducer,
    MemberCommitter,
    PlainProducer,
    Worker,
)
from .raw_client import RawClient, closing
from .server_client import DEADLINE_S

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.segment.bytes": "100000",
    "log.segment.bytes": "200000",
    "log.cleaner.backoff.ms": "0",
}
COMPACTED = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01", "segment_bytes": "20000"}


def _workers(rng: random.Random, ack_counter: AckCounter) -> list[Worker]:
    return [
        *(IdempotentProducer(rng, ack_counter, "sequenced", partition) for partition in range(3)),
        PlainProducer(rng, ack_counter, "plain", 0, acks=1),
        PlainProducer(rng, ack_counter, "plain", 1, acks=-1),
        KeyedProducer(rng, ack_counter, "compacted"),
        Committer(rng, ack_counter, "sequenced", "lone"),
        Committer(rng, ack_counter, "sequenced", "other"),
        MemberCommitter(rng, ack_counter, "sequenced", "joined"),
    ]


async def _create_topics(client: RawClient) -> None:
    assert await client.create_topic("sequenced", 3) is Error.NONE
    assert await client.create_topic("plain", 2) is Error.NONE
    assert await client.create_topic("compacted", 1, **COMPACTED) is Error.NONE


async def _load_until(broker: BrokerProcess, workers: Sequence[Worker], moment: Awaitable[None]) -> None:
    """Run the workers, kill the broker when `moment` returns, and wait until all connections are closed."""
    tasks = [asyncio.create_task(worker.run(await broker.connect(type(worker).__name__))) for worker in workers]
    waiting = asyncio.ensure_future(moment)
    await asyncio.wait([waiting, *tasks], timeout=DEADLINE_S, return_when=asyncio.FIRST_COMPLETED)
    is_reached = waiting.done()
    waiting.cancel()
    broker.kill()
    async with asyncio.timeout(DEADLINE_S):
        await asyncio.gather(*tasks)
    assert is_reached, f"the load stopped before the kill\n{broker.log[-4000:]}"


async def _check(broker: BrokerProcess, workers: Sequence[Worker]) -> None:
    client = await broker.connect()
    for worker in workers:
        await worker.check(client)
    client.abort()


def _kill_repeatedly(tmp_path: Path, seed: int, kills: int, settings: Mapping[str, str]) -> None:
    rng = random.Random(seed)

    @closing
    async def scenario() -> None:
        ack_counter = AckCounter()
        workers = _workers(rng, ack_counter)
        for round_ in range(kills):
            if rng.random() < 0.2:
                kill_while_starting(tmp_path, settings, rng.uniform(0.1, 1.0))
            with BrokerProcess(tmp_path, settings) as broker:
                if round_ == 0:
                    await _create_topics(await broker.connect())
                await _check(broker, workers)

                async def moment() -> None:
                    await ack_counter.wait_for(rng.choice((1, 10, 100, 1000, 2000)) + rng.randrange(50))
                    await asyncio.sleep(rng.choice((0, 0.001, 0.01)) * rng.random())

                await _load_until(broker, workers, moment())
                assert "Traceback" not in broker.log, broker.log[-4000:]
        with BrokerProcess(tmp_path, settings) as broker:
            await _check(broker, workers)
            broker.stop()
        with BrokerProcess(tmp_path, settings) as broker:
            await _check(broker, workers)

    print(f"seed {seed}")
    asyncio.run(scenario())


@pytest.mark.parametrize("seed", [1, 2])
def test_acknowledged_data_survives_kills(tmp_path: Path, seed: int) -> None:
    _kill_repeatedly(tmp_path, seed, 10, SETTINGS)


def test_acknowledged_data_survives_kills_with_flush_always(tmp_path: Path) -> None:
    _kill_repeatedly(tmp_path, 3, 4, SETTINGS | {"flush": "always"})


def test_kill_during_compaction_loses_no_key(tmp_path: Path) -> None:
    """The broker is killed while the files of an unfinished compaction exist."""
    rng = random.Random(seed := 4)
    directory = tmp_path / "compacted-0"

    @closing
    async def scenario() -> None:
        ack_counter = AckCounter()
        workers: list[Worker] = [KeyedProducer(rng, ack_counter, "compacted", keys=300, value_bytes=500)]
        for round_ in range(5):
            with BrokerProcess(tmp_path, SETTINGS) as broker:
                if round_ == 0:
                    await _create_topics(await broker.connect())
                await _check(broker, workers)

                async def moment() -> None:
                    await ack_counter.wait_for(200)
                    while not any(path.suffix in (".cleaned", ".swap") for path in directory.iterdir()):
                        await asyncio.sleep(0)

                await _load_until(broker, workers, moment())
        with BrokerProcess(tmp_path, SETTINGS | {"log.cleaner.enable": "false"}) as broker:
            await _check(broker, workers)
            assert not [path for path in directory.iterdir() if path.suffix in (".cleaned", ".swap")]

    print(f"seed {seed}")
    asyncio.run(scenario())


class TopicWorker:
    """Creates, grows and deletes topics, and checks them after a restart.

    `_unsure` is the change without a response: the topic and its partitions, 0 for a deletion.
    """

    def __init__(self, rng: random.Random, ack_counter: AckCounter) -> None:
        self._rng = rng
        self._ack_counter = ack_counter
        self._count = 0
        self.topics: dict[str, int] = {}
        self._unsure: tuple[str, int] | None = None

    async def run(self, client: RawClient) -> None:
        try:
            while True:
                await self._step(client)
                self._ack_counter.increment()
        except BROKEN:
            pass

    async def _step(self, client: RawClient) -> None:
        names = sorted(self.topics)
        choice = self._rng.random()
        if len(names) < 3 or choice < 0.4:
            self._count += 1
            name, partitions = f"topic-{self._count}", self._rng.randint(1, 4)
            self._unsure = (name, partitions)
            error = await client.create_topic(name, partitions)
        elif choice < 0.8:
            name, partitions = self._rng.choice(names), 0
            self._unsure = (name, partitions)
            error = await client.delete_topic(name)
        else:
            name = self._rng.choice(names)
            partitions = self.topics[name] + self._rng.randint(1, 3)
            self._unsure = (name, partitions)
            request = CreatePartitionsRequest([CreatePartitionsTopic(name, partitions, None)], 10_000)
            error = Error((await client.request(request, CreatePartitionsResponse)).results[0].error_code)
        assert error is Error.NONE
        self._unsure = None
        self._apply(name, partitions)

    def _apply(self, name: str, partitions: int) -> None:
        if partitions:
            self.topics[name] = partitions
        else:
            self.topics.pop(name, None)

    async def check(self, client: RawClient, data: Path) -> None:
        topics = {name: count for name, count in (await client.topics()).items() if not name.startswith("__")}
        if self._unsure is not None and topics != self.topics:
            self._apply(*self._unsure)
        self._unsure = None
        assert topics == self.topics
        directories = {f"{name}-{index}" for name, partitions in topics.items() for index in range(partitions)}
        assert {path.name for path in data.iterdir() if path.is_dir()} == directories
        for name, partitions in topics.items():
            assert (await client.produce(name, partitions - 1, b"x"))[0] is Error.NONE


def test_topics_are_created_completely_or_not_at_all(tmp_path: Path) -> None:
    rng = random.Random(seed := 5)

    @closing
    async def scenario() -> None:
        ack_counter = AckCounter()
        worker = TopicWorker(rng, ack_counter)
        for _ in range(6):
            with BrokerProcess(tmp_path) as broker:
                client = await broker.connect()
                await worker.check(client, tmp_path)
                task = asyncio.create_task(worker.run(client))
                await ack_counter.wait_for(rng.randint(1, 60))
                await asyncio.sleep(rng.random() * 0.01)
                broker.kill()
                await task
        with BrokerProcess(tmp_path) as broker:
            await worker.check(await broker.connect(), tmp_path)

    print(f"seed {seed}")
    asyncio.run(scenario())
