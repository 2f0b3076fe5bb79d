"""Load for a broker that is killed: every client records the acknowledgements and checks the data after a restart.

Invariants:
- A client works until its connection breaks, and continues with the next broker.
- `check` runs after every restart. Acknowledged data is there, unacknowledged data may be there, and nothing else has
  changed.
"""

import asyncio
import random
import time
from abc import ABC, abstractmethod
from collections import deque

from slackwater.group.errors import Error
from slackwater.wire.records.batch import NO_PRODUCER_ID
from slackwater.wire.records.record import Record, encode_batch

from .raw_client import Membership, RawClient

BROKEN = (ConnectionError, asyncio.IncompleteReadError)
IN_FLIGHT = 5
NOW_MS = int(time.time() * 1000)  # as in Kafka, the state of an old producer would expire


class AckCounter:
    """Counts acknowledgements and waits for a number of them."""

    def __init__(self) -> None:
        self.count = 0
        self._target = 0
        self._reached = asyncio.Event()

    def increment(self) -> None:
        self.count += 1
        if self.count >= self._target:
            self._reached.set()

    async def wait_for(self, count: int) -> None:
        """Wait for this many more acknowledgements."""
        self._target = self.count + count
        self._reached.clear()
        await self._reached.wait()


class Worker(ABC):
    """One client."""

    def __init__(self, rng: random.Random, ack_counter: AckCounter) -> None:
        self.rng = rng
        self.ack_counter = ack_counter

    async def run(self, client: RawClient) -> None:
        """Work until the connection breaks."""
        try:
            await self.begin(client)
            in_flight = 0
            while True:
                while in_flight < IN_FLIGHT:
                    self.send(client)
                    in_flight += 1
                await self.receive(client)
                in_flight -= 1
                self.ack_counter.increment()
        except BROKEN:
            pass

    @abstractmethod
    async def begin(self, client: RawClient) -> None:
        """Prepare work on a new connection."""

    @abstractmethod
    def send(self, client: RawClient) -> None:
        """Send one request."""

    @abstractmethod
    async def receive(self, client: RawClient) -> None:
        """Receive the next response."""

    @abstractmethod
    async def check(self, client: RawClient) -> None:
        """Check the data of the broker."""


class Producer(Worker):
    """Writes numbers to its own partition, a few in each batch; `next` is the next number."""

    def __init__(self, rng: random.Random, ack_counter: AckCounter, topic: str, partition: int, *, acks: int) -> None:
        super().__init__(rng, ack_counter)
        self.topic, self.partition, self.acks = topic, partition, acks
        self.next = 0
        self.unacknowledged: deque[tuple[int, bytearray]] = deque()  # first number, batch
        self.checked: list[Record] = []

    def batch(self, producer_id: int = NO_PRODUCER_ID) -> bytearray:
        count = self.rng.randint(1, 20)
        padding = b"." * self.rng.randint(0, 200)
        records = [Record(None, b"%d%s" % (self.next + at, padding), timestamp=NOW_MS) for at in range(count)]
        sequenced = producer_id != NO_PRODUCER_ID
        encoded = encode_batch(
            records,
            producer_id=producer_id,
            producer_epoch=0 if sequenced else -1,
            base_sequence=self.next if sequenced else -1,
        )
        self.unacknowledged.append((self.next, encoded))
        self.next += count
        return encoded

    def send(self, client: RawClient) -> None:
        client.send_batch(self.topic, self.partition, self.batch(), self.acks)

    async def receive(self, client: RawClient) -> None:
        response = await client.next_produce_response()
        assert response.error_code == 0, response
        self.on_acknowledged(response.base_offset, self.unacknowledged.popleft()[0])

    @abstractmethod
    def on_acknowledged(self, base_offset: int, first: int) -> None:
        """Record the acknowledgement of a batch."""

    async def read(self, client: RawClient) -> None:
        """Read all records; those of the last check are unchanged."""
        records = await client.records(self.topic, self.partition)
        assert [record.offset for record in records] == list(range(len(records)))
        assert records[: len(self.checked)] == self.checked, f"{self.topic}-{self.partition} has changed"
        assert await client.end_offset(self.topic, self.partition) == len(records)
        self.checked = records


def number(record: Record) -> int:
    assert record.value is not None
    return int(record.value.rstrip(b"."))


class IdempotentProducer(Producer):
    """Retries unacknowledged batches: every number is stored once, in order."""

    def __init__(self, rng: random.Random, ack_counter: AckCounter, topic: str, partition: int) -> None:
        super().__init__(rng, ack_counter, topic, partition, acks=-1)
        self.producer_id = NO_PRODUCER_ID
        self.acknowledged_up_to = 0

    async def begin(self, client: RawClient) -> None:
        if self.producer_id == NO_PRODUCER_ID:
            self.producer_id = await client.producer_id()
        for _, batch in self.unacknowledged:
            client.send_batch(self.topic, self.partition, batch)
        for _ in list(self.unacknowledged):
            await self.receive(client)

    def send(self, client: RawClient) -> None:
        client.send_batch(self.topic, self.partition, self.batch(self.producer_id))

    def on_acknowledged(self, base_offset: int, first: int) -> None:
        assert base_offset == first, "no other producer writes to this partition"
        self.acknowledged_up_to = self.unacknowledged[0][0] if self.unacknowledged else self.next

    async def check(self, client: RawClient) -> None:
        await self.read(client)
        assert [number(record) for record in self.checked] == list(range(len(self.checked)))
        assert self.acknowledged_up_to <= len(self.checked) <= self.next


class PlainProducer(Producer):
    """Never retries: acknowledged records are stored, others may be, and all are in order."""

    def __init__(self, rng: random.Random, ack_counter: AckCounter, topic: str, partition: int, *, acks: int) -> None:
        super().__init__(rng, ack_counter, topic, partition, acks=acks)
        self.offsets: dict[int, int] = {}  # number → offset of acknowledged batches

    async def begin(self, client: RawClient) -> None:
        self.unacknowledged.clear()

    def on_acknowledged(self, base_offset: int, first: int) -> None:
        self.offsets[first] = base_offset

    async def check(self, client: RawClient) -> None:
        await self.read(client)
        numbers = [number(record) for record in self.checked]
        assert numbers == sorted(set(numbers))
        assert all(offset < len(numbers) for offset in self.offsets.values()), "an acknowledged record is missing"
        assert all(numbers[offset] == first for first, offset in self.offsets.items())


class Committer(Worker):
    """Commits increasing offsets for a group: the last acknowledged offset or a later one is stored."""

    PARTITIONS = range(3)

    def __init__(self, rng: random.Random, ack_counter: AckCounter, topic: str, group: str) -> None:
        super().__init__(rng, ack_counter)
        self.topic, self.group = topic, group
        self.next = 0
        self.unacknowledged: deque[int] = deque()
        self.acknowledged = -1

    async def begin(self, client: RawClient) -> None:
        self.unacknowledged.clear()

    def send(self, client: RawClient) -> None:
        client.send_commit(
            self.group, dict.fromkeys([(self.topic, partition) for partition in self.PARTITIONS], self.next)
        )
        self.unacknowledged.append(self.next)
        self.next += 1

    async def receive(self, client: RawClient) -> None:
        assert await client.next_commit_errors() == {Error.NONE}
        self.acknowledged = self.unacknowledged.popleft()

    async def check(self, client: RawClient) -> None:
        offsets = set(await client.committed(self.group, self.topic, self.PARTITIONS))
        assert len(offsets) == 1, f"a commit is stored only in part: {offsets}"
        assert self.acknowledged <= offsets.pop() < max(self.next, 1)


class MemberCommitter(Committer):
    """Commits as a member of the group, which it joins once, before the first kill."""

    member: Membership | None = None

    async def begin(self, client: RawClient) -> None:
        await super().begin(client)
        if self.member is None:
            self.member = await client.join_alone(self.group, session_timeout_ms=60_000)

    def send(self, client: RawClient) -> None:
        assert self.member is not None
        offsets = dict.fromkeys([(self.topic, partition) for partition in self.PARTITIONS], self.next)
        client.send_commit(self.group, offsets, self.member.member_id, self.member.generation)
        self.unacknowledged.append(self.next)
        self.next += 1

    async def check(self, client: RawClient) -> None:
        await super().check(client)
        if self.member is not None:
            self.member.client = client
            assert await self.member.heartbeat() is Error.NONE


class KeyedProducer(Worker):
    """Writes increasing numbers to a few keys of a compacted topic: the last acknowledged value of a key is stored."""

    def __init__(
        self, rng: random.Random, ack_counter: AckCounter, topic: str, *, keys: int = 20, value_bytes: int = 100
    ) -> None:
        super().__init__(rng, ack_counter)
        self.topic, self.keys, self.value_bytes = topic, keys, value_bytes
        self.next = 0
        self.unacknowledged: deque[list[tuple[bytes, int]]] = deque()
        self.last: dict[bytes, int] = {}  # last acknowledged values
        self.end_offset = 0

    async def begin(self, client: RawClient) -> None:
        self.unacknowledged.clear()

    def send(self, client: RawClient) -> None:
        count = self.rng.randint(1, 20)
        pairs = [(b"k%d" % self.rng.randrange(self.keys), self.next + at) for at in range(count)]
        self.next += count
        padding = b"." * self.value_bytes
        records = [Record(key, b"%d%s" % (value, padding), timestamp=NOW_MS) for key, value in pairs]
        client.send_batch(self.topic, 0, encode_batch(records))
        self.unacknowledged.append(pairs)

    async def receive(self, client: RawClient) -> None:
        response = await client.next_produce_response()
        assert response.error_code == 0, response
        pairs = self.unacknowledged.popleft()
        self.last.update(pairs)
        self.end_offset = response.base_offset + len(pairs)

    async def check(self, client: RawClient) -> None:
        records = await client.records(self.topic, 0)
        offsets, numbers = [record.offset for record in records], [number(record) for record in records]
        assert offsets == sorted(set(offsets))
        assert numbers == sorted(set(numbers))
        end_offset = await client.end_offset(self.topic, 0)
        assert end_offset >= self.end_offset
        self.end_offset = end_offset
        newest = {record.key: number(record) for record in records}
        for key, value in self.last.items():
            assert newest[key] >= value, f"the last value of {key!r} is missing"
            self.last[key] = newest[key]
