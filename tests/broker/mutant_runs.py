"""Sends damaged requests to a broker while another client uses it, and checks that only their senders are affected."""

import asyncio
import random
import threading
from pathlib import Path
from typing import Final

from slackwater.group.errors import Error
from slackwater.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

from .broker_process import BrokerProcess
from .mutant_sender import MutantSender
from .mutants import PROTECTED, TOPICS, Samples, mutants
from .raw_client import RawClient, closing

SETTINGS: Final = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "0",
    "offsets.topic.num.partitions": "3",
}
MB: Final = 1024 * 1024


class UnaffectedClient:
    """A client that heartbeats, produces and commits during the test; `rounds` counts how often."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._stop = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(closing(self._run)()))
        self.failure: BaseException | None = None
        self.rounds = 0

    def __enter__(self) -> "UnaffectedClient":
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    async def _run(self) -> None:
        try:
            name = PROTECTED.decode()
            client = await RawClient.at(self._port, name)
            assert await client.create_topic(name, 1) is Error.NONE
            member = await client.join_alone(name, session_timeout_ms=60_000)
            self._ready.set()
            while not self._stop.is_set():
                assert await member.heartbeat() is Error.NONE
                assert await client.produce(name, 0, b"%d" % self.rounds) == (Error.NONE, self.rounds)
                committed = await client.commit(name, {(name, 0): self.rounds}, member.member_id, member.generation)
                assert committed is Error.NONE
                self.rounds += 1
                await asyncio.sleep(0.005)
            records = await client.records(name, 0)
            assert [record.value for record in records] == [b"%d" % number for number in range(self.rounds)]
            assert await client.committed(name, name, [0]) == [self.rounds - 1]
        except BaseException as failure:
            self.failure = failure
            self._ready.set()


async def _create_targets(port: int) -> tuple[bytes, ...]:
    """Create the topics that the mutants use; return their ids."""
    client = await RawClient.at(port)
    for name in TOPICS[:2]:
        assert await client.create_topic(name, 2) is Error.NONE
    request = MetadataRequest([MetadataRequestTopic(name=name) for name in TOPICS[:2]])
    response = await client.request(request, MetadataResponse)
    client.close()
    return tuple(topic.topic_id for topic in response.topics)


def send_mutated_frames(tmp_path: Path, count: int) -> None:
    """Send damaged requests. The broker keeps running, memory is bounded, other clients are not affected."""
    rng = random.Random(seed := 20_26)
    print(f"seed {seed}")
    with BrokerProcess(tmp_path, SETTINGS) as broker:
        samples = Samples(rng, asyncio.run(_create_targets(broker.port)))
        with UnaffectedClient(broker.port) as other_client:
            sender = MutantSender(broker.port, mutants(rng, samples.frames, count))
            sender.run()
        assert broker.is_running
        assert other_client.failure is None, f"{other_client.failure!r}\n{broker.log[-4000:]}"
        assert other_client.rounds > 100
        assert sum(sender.outcomes.values()) == count
        assert min(sender.outcomes["response"], sender.outcomes["closed"]) > count // 10, sender.outcomes
        assert broker.peak_resident_bytes() < 400 * MB
        broker.stop()
    tracebacks = broker.log.count("Traceback")
    assert not tracebacks, f"{tracebacks}; the first:\n{broker.log[broker.log.index('Traceback') - 300 :][:4000]}"
