"""A consumer with a fetch session reads every record once and in order, for any order of produces and fetches."""

import asyncio
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.broker.server import Server
from slackwater.broker.storage.topics import Topic
from slackwater.group.errors import Error
from slackwater.wire.messages.fetch import FetchResponse
from tests.broker.handlers.data_requests import fetch_request, records_of, rows, send
from tests.broker.server_client import Client, with_server

PARTITIONS = 3
LONG_MS = 60_000


@dataclass(frozen=True)
class Produce:
    """Append a batch with this many records."""

    partition: int
    records: int
    size: int


@dataclass(frozen=True)
class Fetch:
    """Fetch; without new records, wait for an append."""

    consumer: int
    max_bytes: int
    min_bytes: int


@dataclass(frozen=True)
class LoseResponse:
    """Fetch, and close the connection before the response."""

    consumer: int


@dataclass(frozen=True)
class Pause:
    """Do not fetch a partition until `Resume`."""

    consumer: int
    partition: int


@dataclass(frozen=True)
class Resume:
    """Fetch all partitions again."""

    consumer: int


consumers = st.integers(0, 1)
partitions = st.integers(0, PARTITIONS - 1)
produces = st.builds(Produce, partitions, st.integers(1, 4), st.sampled_from([1, 60, 400]))
fetches = st.builds(Fetch, consumers, st.sampled_from([1, 150, 400, 10_000]), st.sampled_from([1, 1, 200]))
disturbances = st.one_of(
    st.builds(LoseResponse, consumers), st.builds(Pause, consumers, partitions), st.builds(Resume, consumers)
)
steps = st.lists(st.one_of(produces, produces, fetches, fetches, disturbances), min_size=10, max_size=50)


@dataclass
class Consumer:
    """The state of a client: positions, the positions in its session, and the pending response."""

    server: Server
    topic: Topic
    client: Client
    positions: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(PARTITIONS), 0))
    paused: set[int] = field(default_factory=set)
    session_positions: dict[int, int] = field(default_factory=dict)
    session: tuple[int, int] = (0, 0)
    pending: asyncio.Task[int] | None = None
    read: list[list[bytes | None]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])

    def fetch(self, max_bytes: int, min_bytes: int, max_wait_ms: int) -> None:
        requested = {index: position for index, position in self.positions.items() if index not in self.paused}
        changed = [
            (self.topic, index, position)
            for index, position in requested.items()
            if self.session_positions.get(index) != position
        ]
        forgotten = [(self.topic, index) for index in self.session_positions.keys() - requested.keys()]
        self.session_positions = requested
        self.client.send(
            fetch_request(
                *changed,
                max_bytes=max_bytes,
                min_bytes=min_bytes,
                max_wait_ms=max_wait_ms,
                session=self.session,
                forgotten=forgotten,
            )
        )
        self.pending = asyncio.create_task(self.receive())

    @property
    def is_waiting(self) -> bool:
        return self.pending is not None and not self.pending.done()

    async def receive(self) -> int:
        """Process the response; return the number of new records."""
        response = await self.client.next_response()
        assert isinstance(response, FetchResponse)
        assert response.error_code == Error.NONE
        if response.session_id:
            self.session = (response.session_id, self.session[1] + 1)
        else:
            self.restart()
        count = 0
        for row in rows(response):
            assert row.error_code == Error.NONE
            for record in records_of(row):
                if record.offset >= self.positions[row.partition_index]:  # a batch may start before the position
                    assert record.offset == self.positions[row.partition_index]
                    self.read[row.partition_index].append(record.value)
                    self.positions[row.partition_index] += 1
                    count += 1
        return count

    def restart(self) -> None:
        self.session, self.session_positions = (0, 0), {}

    async def lose_response(self) -> None:
        """Drop the response and start a new session on a new connection, as clients do."""
        if self.pending is not None:
            self.pending.cancel()
            await asyncio.wait([self.pending])
            self.pending = None
        self.client.close()
        self.client = await Client.connect(self.server)
        self.restart()


async def drain(consumer: Consumer, max_bytes: int) -> None:
    """Read to the end: every response has records until all are read."""
    consumer.paused.clear()
    while True:
        consumer.fetch(max_bytes, 1, 0)
        assert consumer.pending is not None
        if not await consumer.pending:
            return


async def act(all_consumers: list[Consumer], step: Fetch | LoseResponse | Pause | Resume) -> None:
    consumer = all_consumers[step.consumer]
    if consumer.is_waiting:
        return
    if consumer.pending is not None and consumer.pending.done():
        await consumer.pending
    match step:
        case Fetch(_, max_bytes, min_bytes):
            consumer.fetch(max_bytes, min_bytes, LONG_MS)
        case LoseResponse():
            consumer.fetch(10_000, 1, 0)
            await consumer.lose_response()
        case Pause(_, partition):
            consumer.paused.add(partition)
        case Resume():
            consumer.paused.clear()


@settings(max_examples=60, deadline=None)
@given(steps, st.sampled_from([1, 300, 10_000]))
def test_every_record_is_read_once_and_in_order(
    drawn_steps: list[Produce | Fetch | LoseResponse | Pause | Resume], drain_bytes: int
) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", PARTITIONS, {"segment.bytes": "8000"})
        producer = await Client.connect(server)
        all_consumers = [Consumer(server, topic, await Client.connect(server)) for _ in range(2)]
        sent: list[list[bytes | None]] = [[] for _ in range(PARTITIONS)]

        async def produce(step: Produce) -> None:
            first = len(sent[step.partition])
            values = [b"%d " % number * step.size for number in range(first, first + step.records)]
            assert await send(producer, "t", step.partition, *values) == first
            sent[step.partition].extend(values)

        for step in drawn_steps:
            if isinstance(step, Produce):
                await produce(step)
            else:
                await act(all_consumers, step)
        for consumer in all_consumers:
            if consumer.is_waiting:
                await consumer.lose_response()
            elif consumer.pending is not None:
                await consumer.pending
            await drain(consumer, drain_bytes)
            assert consumer.read == sent

    with tempfile.TemporaryDirectory() as directory:
        with_server(Path(directory), scenario)
