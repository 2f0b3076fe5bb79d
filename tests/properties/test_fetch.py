"""A consumer with a fetch session reads every record once and in order, however producing and fetching interleave."""

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
    """Append a batch of so many records."""

    partition: int
    records: int
    size: int


@dataclass(frozen=True)
class Fetch:
    """Ask for so much; if there is nothing, wait until somebody appends."""

    consumer: int
    max_bytes: int
    min_bytes: int


@dataclass(frozen=True)
class LoseAnswer:
    """Ask, and lose the answer together with the connection."""

    consumer: int


@dataclass(frozen=True)
class Pause:
    """Leave a partition out until it is asked for again."""

    consumer: int
    partition: int


@dataclass(frozen=True)
class Resume:
    """Read all partitions again."""

    consumer: int


consumers = st.integers(0, 1)
partitions = st.integers(0, PARTITIONS - 1)
produces = st.builds(Produce, partitions, st.integers(1, 4), st.sampled_from([1, 60, 400]))
fetches = st.builds(Fetch, consumers, st.sampled_from([1, 150, 400, 10_000]), st.sampled_from([1, 1, 200]))
disturbances = st.one_of(
    st.builds(LoseAnswer, consumers), st.builds(Pause, consumers, partitions), st.builds(Resume, consumers)
)
steps = st.lists(st.one_of(produces, produces, fetches, fetches, disturbances), min_size=10, max_size=50)


@dataclass
class Consumer:
    """What a client knows: where it is, what it has told its session, and whether it waits for an answer."""

    server: Server
    topic: Topic
    client: Client
    positions: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(PARTITIONS), 0))
    paused: set[int] = field(default_factory=set)
    told: dict[int, int] = field(default_factory=dict)
    session: tuple[int, int] = (0, 0)
    pending: asyncio.Task[int] | None = None
    read: list[list[bytes | None]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])

    def ask(self, max_bytes: int, min_bytes: int, max_wait_ms: int) -> None:
        wanted = {index: at for index, at in self.positions.items() if index not in self.paused}
        changed = [(self.topic, index, at) for index, at in wanted.items() if self.told.get(index) != at]
        forgotten = [(self.topic, index) for index in self.told.keys() - wanted.keys()]
        self.told = wanted
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
        self.pending = asyncio.create_task(self.hear())

    @property
    def waits(self) -> bool:
        return self.pending is not None and not self.pending.done()

    async def hear(self) -> int:
        """Take the answer; how many records there were."""
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
                if record.offset >= self.positions[row.partition_index]:  # a batch may begin before it
                    assert record.offset == self.positions[row.partition_index]
                    self.read[row.partition_index].append(record.value)
                    self.positions[row.partition_index] += 1
                    count += 1
        return count

    def restart(self) -> None:
        self.session, self.told = (0, 0), {}

    async def lose_answer(self) -> None:
        """The answer never comes: begin anew over another connection, as clients do."""
        if self.pending is not None:
            self.pending.cancel()
            await asyncio.wait([self.pending])
            self.pending = None
        self.client.close()
        self.client = await Client.connect(self.server)
        self.restart()


async def drain(consumer: Consumer, max_bytes: int) -> None:
    """Read to the end; every answer has something until all is read, whoever fills it."""
    consumer.paused.clear()
    while True:
        consumer.ask(max_bytes, 1, 0)
        assert consumer.pending is not None
        if not await consumer.pending:
            return


async def act(everybody: list[Consumer], step: Fetch | LoseAnswer | Pause | Resume) -> None:
    consumer = everybody[step.consumer]
    if consumer.waits:
        return
    if consumer.pending is not None and consumer.pending.done():
        await consumer.pending
    match step:
        case Fetch(_, max_bytes, min_bytes):
            consumer.ask(max_bytes, min_bytes, LONG_MS)
        case LoseAnswer():
            consumer.ask(10_000, 1, 0)
            await consumer.lose_answer()
        case Pause(_, partition):
            consumer.paused.add(partition)
        case Resume():
            consumer.paused.clear()


@settings(max_examples=60, deadline=None)
@given(steps, st.sampled_from([1, 300, 10_000]))
def test_every_record_is_read_once_and_in_order(
    story_steps: list[Produce | Fetch | LoseAnswer | Pause | Resume], drain_bytes: int
) -> None:
    async def story(server: Server) -> None:
        topic = server.broker.topics.create("t", PARTITIONS, {"segment.bytes": "8000"})
        producer = await Client.connect(server)
        everybody = [Consumer(server, topic, await Client.connect(server)) for _ in range(2)]
        sent: list[list[bytes | None]] = [[] for _ in range(PARTITIONS)]

        async def produce(step: Produce) -> None:
            first = len(sent[step.partition])
            values = [b"%d " % number * step.size for number in range(first, first + step.records)]
            assert await send(producer, "t", step.partition, *values) == first
            sent[step.partition].extend(values)

        for step in story_steps:
            if isinstance(step, Produce):
                await produce(step)
            else:
                await act(everybody, step)
        for consumer in everybody:
            if consumer.waits:
                await consumer.lose_answer()
            elif consumer.pending is not None:
                await consumer.pending
            await drain(consumer, drain_bytes)
            assert consumer.read == sent

    with tempfile.TemporaryDirectory() as directory:
        with_server(Path(directory), story)
