"""A hundred thousand damaged requests: the broker stays up, memory is bounded, another client notices nothing."""

import asyncio
import errno
import random
import selectors
import socket
import struct
import threading
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from slackwater.group.errors import Error
from slackwater.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

from .broker_process import BrokerProcess
from .mutants import PROTECTED, TOPICS, Samples, mutants
from .raw_client import RawClient, closing

COUNT: Final = 100_000
CONNECTIONS: Final = 40
PER_CONNECTION: Final = 30
# A connection that has not moved while others came to their end so often is one that waits: its request is parked.
PARKED_AFTER: Final = 2 * CONNECTIONS
SETTINGS: Final = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "0",
    "offsets.topic.num.partitions": "3",
}
MB: Final = 1024 * 1024


class Bystander:
    """A client on one connection that heartbeats, produces and commits all the while; `turns` counts how often."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._stop = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(closing(self._live)()))
        self.failure: BaseException | None = None
        self.turns = 0

    def __enter__(self) -> "Bystander":
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    async def _live(self) -> None:
        try:
            name = PROTECTED.decode()
            client = await RawClient.at(self._port, name)
            assert await client.create_topic(name, 1) is Error.NONE
            member = await client.join_alone(name, session_timeout_ms=60_000)
            self._ready.set()
            while not self._stop.is_set():
                assert await member.heartbeat() is Error.NONE
                assert await client.produce(name, 0, b"%d" % self.turns) == (Error.NONE, self.turns)
                committed = await client.commit(name, {(name, 0): self.turns}, member.member_id, member.generation)
                assert committed is Error.NONE
                self.turns += 1
                await asyncio.sleep(0.005)
            records = await client.records(name, 0)
            assert [record.value for record in records] == [b"%d" % turn for turn in range(self.turns)]
            assert await client.committed(name, name, [0]) == [self.turns - 1]
        except BaseException as failure:
            self.failure = failure
            self._ready.set()


class Lane:
    """One connection and the mutants that were sent over it."""

    def __init__(self, port: int, frames: list[bytes]) -> None:
        self.frames = frames
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setblocking(False)
        self._received = b""
        self.answers = 0
        self.since = 0  # how many lanes had ended when it last moved
        self._unsent = b"".join(frames)
        self.send()

    def send(self) -> None:
        try:
            while self._unsent:
                self._unsent = self._unsent[self.socket.send(self._unsent) :]
        except BlockingIOError:
            pass
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.ECONNRESET):
                raise
            self._unsent = b""

    def hear(self) -> bool:
        """Take what has come; False if the broker has closed."""
        try:
            came = self.socket.recv(1 << 18)
        except BlockingIOError:
            return True
        except ConnectionError:
            return False
        self._received += came
        at = 0
        while len(self._received) - at >= 4:
            (size,) = struct.unpack_from(">i", self._received, at)
            if len(self._received) - at < 4 + size:
                break
            at += 4 + size
            self.answers += 1
        self._received = self._received[at:]
        self.send()
        return bool(came)


class Storm:
    """Sends every mutant until the broker has taken it: answered it, closed the connection over it, or parked it."""

    def __init__(self, port: int, frames: Iterator[tuple[bytes, bool]]) -> None:
        self._port = port
        self._frames = frames
        self._again: deque[tuple[bytes, bool]] = deque()
        self._selector = selectors.DefaultSelector()
        self._lanes: dict[Lane, list[tuple[bytes, bool]]] = {}
        self._ended = 0
        self.outcomes: Counter[str] = Counter()

    def run(self) -> None:
        try:
            while True:
                while len(self._lanes) < CONNECTIONS and (batch := self._batch()):
                    self._open(batch)
                if not self._lanes:
                    return
                self._step()
        finally:
            for lane in list(self._lanes):
                self._close(lane)
            self._selector.close()

    def _batch(self) -> list[tuple[bytes, bool]]:
        """The next mutants for one connection; one with a wrong size is the last."""
        batch: list[tuple[bytes, bool]] = []
        while len(batch) < PER_CONNECTION:
            one = self._again.popleft() if self._again else next(self._frames, None)
            if one is None:
                break
            batch.append(one)
            if one[1]:
                break
        return batch

    def _open(self, batch: list[tuple[bytes, bool]]) -> None:
        lane = Lane(self._port, [frame for frame, _ in batch])
        lane.since = self._ended
        self._lanes[lane] = batch
        self._selector.register(lane.socket, selectors.EVENT_READ, lane)

    def _step(self) -> None:
        events = self._selector.select(0.2)
        for key, _ in events:
            lane: Lane = key.data
            lane.since = self._ended
            if not lane.hear():
                self._end(lane, "closed")
            elif lane.answers >= len(lane.frames):
                self._end(lane, "answered")
        for lane in [one for one in self._lanes if not events or self._ended - one.since > PARKED_AFTER]:
            self._end(lane, "parked")

    def _end(self, lane: Lane, how: str) -> None:
        batch = self._lanes[lane]
        self._close(lane)
        self._ended += 1
        answers = min(lane.answers, len(batch))
        self.outcomes["answered"] += answers
        if answers < len(batch):
            self.outcomes[how] += 1
            self._again.extend(batch[answers + 1 :])  # those behind it were not read

    def _close(self, lane: Lane) -> None:
        del self._lanes[lane]
        self._selector.unregister(lane.socket)
        lane.socket.close()


async def _targets(port: int) -> tuple[bytes, ...]:
    """Make what the mutants aim at; the ids of the topics."""
    client = await RawClient.at(port)
    for name in TOPICS[:2]:
        assert await client.create_topic(name, 2) is Error.NONE
    asked = MetadataRequest([MetadataRequestTopic(name=name) for name in TOPICS[:2]])
    answer = await client.ask(asked, MetadataResponse)
    client.close()
    return tuple(topic.topic_id for topic in answer.topics)


def test_mutated_frames_do_not_affect_other_clients(tmp_path: Path) -> None:
    rng = random.Random(seed := 20_26)
    print(f"seed {seed}")
    with BrokerProcess(tmp_path, SETTINGS) as broker:
        samples = Samples(rng, asyncio.run(_targets(broker.port)))
        with Bystander(broker.port) as bystander:
            storm = Storm(broker.port, mutants(rng, samples.frames, COUNT))
            storm.run()
        assert broker.is_running
        assert bystander.failure is None, f"{bystander.failure!r}\n{broker.log[-4000:]}"
        assert bystander.turns > 100
        assert sum(storm.outcomes.values()) == COUNT
        assert min(storm.outcomes["answered"], storm.outcomes["closed"]) > COUNT // 10, storm.outcomes
        assert broker.most_resident_bytes() < 400 * MB
        broker.stop()
    tracebacks = broker.log.count("Traceback")
    assert not tracebacks, f"{tracebacks}; the first:\n{broker.log[broker.log.index('Traceback') - 300 :][:4000]}"
