"""kill -9 of a broker under load: acknowledged data survives, and no offset goes back.

`make interop` kills more often.
"""

import asyncio
import random
from pathlib import Path

from slackwater.group.errors import Error
from slackwater.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)

from .broker_process import BrokerProcess
from .kill_load import BROKEN, AckCounter, KeyedProducer, Worker
from .kill_runs import SETTINGS, check, create_topics, kill_repeatedly, load_until
from .raw_client import RawClient, closing


def test_acknowledged_data_survives_kills(tmp_path: Path) -> None:
    kill_repeatedly(tmp_path, 1, 5, SETTINGS)


def test_acknowledged_data_survives_kills_with_flush_always(tmp_path: Path) -> None:
    kill_repeatedly(tmp_path, 3, 4, SETTINGS | {"flush": "always"})


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
                    await create_topics(await broker.connect())
                await check(broker, workers)

                async def moment() -> None:
                    await ack_counter.wait_for(200)
                    while not any(path.suffix in (".cleaned", ".swap") for path in directory.iterdir()):
                        await asyncio.sleep(0)

                await load_until(broker, workers, moment())
        with BrokerProcess(tmp_path, SETTINGS | {"log.cleaner.enable": "false"}) as broker:
            await check(broker, workers)
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
