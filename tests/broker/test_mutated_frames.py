"""A hundred thousand damaged requests: the broker keeps running, memory is bounded, other clients are not affected."""

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
# The request of a connection is waiting if this many other connections ended without progress on this one.
WAITING_AFTER: Final = 2 * CONNECTIONS
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


class MutantConnection:
    """One connection and the mutants that are sent on it."""

    def __init__(self, port: int, frames: list[bytes]) -> None:
        self.frames = frames
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setblocking(False)
        self._received = b""
        self.responses = 0
        self.since = 0  # number of ended connections at the last progress
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

    def receive(self) -> bool:
        """Read responses; False if the broker has closed the connection."""
        try:
            received = self.socket.recv(1 << 18)
        except BlockingIOError:
            return True
        except ConnectionError:
            return False
        self._received += received
        position = 0
        while len(self._received) - position >= 4:
            (size,) = struct.unpack_from(">i", self._received, position)
            if len(self._received) - position < 4 + size:
                break
            position += 4 + size
            self.responses += 1
        self._received = self._received[position:]
        self.send()
        return bool(received)


class MutantSender:
    """Sends mutants until each one has a response, closes its connection, or waits."""

    def __init__(self, port: int, frames: Iterator[tuple[bytes, bool]]) -> None:
        self._port = port
        self._frames = frames
        self._retries: deque[tuple[bytes, bool]] = deque()
        self._selector = selectors.DefaultSelector()
        self._connections: dict[MutantConnection, list[tuple[bytes, bool]]] = {}
        self._ended = 0
        self.outcomes: Counter[str] = Counter()

    def run(self) -> None:
        try:
            while True:
                while len(self._connections) < CONNECTIONS and (batch := self._batch()):
                    self._open(batch)
                if not self._connections:
                    return
                self._step()
        finally:
            for connection in list(self._connections):
                self._close(connection)
            self._selector.close()

    def _batch(self) -> list[tuple[bytes, bool]]:
        """Return the next mutants for one connection; a frame with a wrong size is the last."""
        batch: list[tuple[bytes, bool]] = []
        while len(batch) < PER_CONNECTION:
            mutant = self._retries.popleft() if self._retries else next(self._frames, None)
            if mutant is None:
                break
            batch.append(mutant)
            if mutant[1]:
                break
        return batch

    def _open(self, batch: list[tuple[bytes, bool]]) -> None:
        connection = MutantConnection(self._port, [frame for frame, _ in batch])
        connection.since = self._ended
        self._connections[connection] = batch
        self._selector.register(connection.socket, selectors.EVENT_READ, connection)

    def _step(self) -> None:
        events = self._selector.select(0.2)
        for key, _ in events:
            connection: MutantConnection = key.data
            connection.since = self._ended
            if not connection.receive():
                self._end(connection, "closed")
            elif connection.responses >= len(connection.frames):
                self._end(connection, "response")
        for connection in [
            connection
            for connection in self._connections
            if not events or self._ended - connection.since > WAITING_AFTER
        ]:
            self._end(connection, "waiting")

    def _end(self, connection: MutantConnection, outcome: str) -> None:
        batch = self._connections[connection]
        self._close(connection)
        self._ended += 1
        responses = min(connection.responses, len(batch))
        self.outcomes["response"] += responses
        if responses < len(batch):
            self.outcomes[outcome] += 1
            self._retries.extend(batch[responses + 1 :])  # the frames after it were not read

    def _close(self, connection: MutantConnection) -> None:
        del self._connections[connection]
        self._selector.unregister(connection.socket)
        connection.socket.close()


async def _create_targets(port: int) -> tuple[bytes, ...]:
    """Create the topics that the mutants use; return their ids."""
    client = await RawClient.at(port)
    for name in TOPICS[:2]:
        assert await client.create_topic(name, 2) is Error.NONE
    request = MetadataRequest([MetadataRequestTopic(name=name) for name in TOPICS[:2]])
    response = await client.request(request, MetadataResponse)
    client.close()
    return tuple(topic.topic_id for topic in response.topics)


def test_mutated_frames_do_not_affect_other_clients(tmp_path: Path) -> None:
    rng = random.Random(seed := 20_26)
    print(f"seed {seed}")
    with BrokerProcess(tmp_path, SETTINGS) as broker:
        samples = Samples(rng, asyncio.run(_create_targets(broker.port)))
        with UnaffectedClient(broker.port) as other_client:
            sender = MutantSender(broker.port, mutants(rng, samples.frames, COUNT))
            sender.run()
        assert broker.is_running
        assert other_client.failure is None, f"{other_client.failure!r}\n{broker.log[-4000:]}"
        assert other_client.rounds > 100
        assert sum(sender.outcomes.values()) == COUNT
        assert min(sender.outcomes["response"], sender.outcomes["closed"]) > COUNT // 10, sender.outcomes
        assert broker.peak_resident_bytes() < 400 * MB
        broker.stop()
    tracebacks = broker.log.count("Traceback")
    assert not tracebacks, f"{tracebacks}; the first:\n{broker.log[broker.log.index('Traceback') - 300 :][:4000]}"
