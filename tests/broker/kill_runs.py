"""Runs a broker under load, kills it at random moments, and checks the acknowledged data."""

import asyncio
import random
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path

from slackwater.group.errors import Error

from .broker_process import BrokerProcess, kill_while_starting
from .kill_load import (
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


async def create_topics(client: RawClient) -> None:
    """Create the topics of the load."""
    assert await client.create_topic("sequenced", 3) is Error.NONE
    assert await client.create_topic("plain", 2) is Error.NONE
    assert await client.create_topic("compacted", 1, **COMPACTED) is Error.NONE


async def load_until(broker: BrokerProcess, workers: Sequence[Worker], moment: Awaitable[None]) -> None:
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


async def check(broker: BrokerProcess, workers: Sequence[Worker]) -> None:
    """Check the data of all workers."""
    client = await broker.connect()
    for worker in workers:
        await worker.check(client)
    client.abort()


def kill_repeatedly(tmp_path: Path, seed: int, kills: int, settings: Mapping[str, str]) -> None:
    """Kill a broker under load several times, and check all acknowledged data after every start."""
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
                    await create_topics(await broker.connect())
                await check(broker, workers)

                async def moment() -> None:
                    await ack_counter.wait_for(rng.choice((1, 10, 100, 1000, 2000)) + rng.randrange(50))
                    await asyncio.sleep(rng.choice((0, 0.001, 0.01)) * rng.random())

                await load_until(broker, workers, moment())
                assert "Traceback" not in broker.log, broker.log[-4000:]
        with BrokerProcess(tmp_path, settings) as broker:
            await check(broker, workers)
            broker.stop()
        with BrokerProcess(tmp_path, settings) as broker:
            await check(broker, workers)

    print(f"seed {seed}")
    asyncio.run(scenario())
