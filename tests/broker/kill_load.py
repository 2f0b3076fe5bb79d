"""Load for a broker that will be killed: each kind of client knows what it was told, and what must be there afterwards.

Rules kept here
- A client works until its connection breaks, which is how it hears of the kill, and goes on with the next broker.
- `check` is asked of the broker after every restart: what was acknowledged is there and nothing else has changed, what
  was sent and not acknowledged may be there.
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
NOW_MS = int(time.time() * 1000)  # a producer of long ago would be forgotten, as in Kafka


class Meter:
    """Counts acknowledgements, and says when there are enough."""

    def __init__(self) -> None:
        self.count = 0
        self._wanted = 0
        self._reached = asyncio.Event()

    def tick(self) -> None:
        self.count += 1
        if self.count >= self._wanted:
            self._reached.set()

    async def more(self, count: int) -> None:
        """Wait for so many more."""
        self._wanted = self.count + count
        self._reached.clear()
        await self._reached.wait()


class Worker(ABC):
    """One client."""

    def __init__(self, rng: random.Random, meter: Meter) -> None:
        self.rng = rng
        self.meter = meter

    async def run(self, client: RawClient) -> None:
        """Work until the connection breaks."""
        try:
            await self.begin(client)
            in_flight = 0
            while True:
                while in_flight < IN_FLIGHT:
                    self.send(client)
                    in_flight += 1
                await self.hear(client)
                in_flight -= 1
                self.meter.tick()
        except BROKEN:
            pass

    @abstractmethod
    async def begin(self, client: RawClient) -> None:
        """The connection is new."""

    @abstractmethod
    def send(self, client: RawClient) -> None:
        """Send one request."""

    @abstractmethod
    async def hear(self, client: RawClient) -> None:
        """Take the next answer."""

    @abstractmethod
    async def check(self, client: RawClient) -> None:
        """See whether everything is there."""


class Producer(Worker):
    """Writes numbers to its own partition, a few in each batch; `next` is the number that comes next."""

    def __init__(self, rng: random.Random, meter: Meter, topic: str, partition: int, *, acks: int) -> None:
        super().__init__(rng, meter)
        self.topic, self.partition, self.acks = topic, partition, acks
        self.next = 0
        self.unanswered: deque[tuple[int, bytearray]] = deque()  # first number, batch
        self.checked: list[Record] = []

    def batch(self, producer_id: int = NO_PRODUCER_ID) -> bytearray:
        count = self.rng.randint(1, 20)
        padding = b"." * self.rng.randint(0, 200)
        records = [Record(None, b"%d%s" % (self.next + at, padding), timestamp=NOW_MS) for at in range(count)]
        sequenced = producer_id != NO_PRODUCER_ID
        made = encode_batch(
            records,
            producer_id=producer_id,
            producer_epoch=0 if sequenced else -1,
            base_sequence=self.next if sequenced else -1,
        )
        self.unanswered.append((self.next, made))
        self.next += count
        return made

    def send(self, client: RawClient) -> None:
        client.send_batch(self.topic, self.partition, self.batch(), self.acks)

    async def hear(self, client: RawClient) -> None:
        answer = await client.produced()
        assert answer.error_code == 0, answer
        self.acknowledged(answer.base_offset, self.unanswered.popleft()[0])

    @abstractmethod
    def acknowledged(self, base_offset: int, first: int) -> None:
        """A batch was acknowledged."""

    async def read(self, client: RawClient) -> None:
        """Take what is new since the last check; what was there before is read again, and has not changed."""
        found = await client.records(self.topic, self.partition)
        assert [record.offset for record in found] == list(range(len(found)))
        assert found[: len(self.checked)] == self.checked, f"{self.topic}-{self.partition} has changed"
        assert await client.end_offset(self.topic, self.partition) == len(found)
        self.checked = found


def number(record: Record) -> int:
    assert record.value is not None
    return int(record.value.rstrip(b"."))


class IdempotentProducer(Producer):
    """Sends again what was not answered: every number is there once, in order."""

    def __init__(self, rng: random.Random, meter: Meter, topic: str, partition: int) -> None:
        super().__init__(rng, meter, topic, partition, acks=-1)
        self.producer_id = NO_PRODUCER_ID
        self.acknowledged_up_to = 0

    async def begin(self, client: RawClient) -> None:
        if self.producer_id == NO_PRODUCER_ID:
            self.producer_id = await client.producer_id()
        for _, batch in self.unanswered:
            client.send_batch(self.topic, self.partition, batch)
        for _ in list(self.unanswered):
            await self.hear(client)

    def send(self, client: RawClient) -> None:
        client.send_batch(self.topic, self.partition, self.batch(self.producer_id))

    def acknowledged(self, base_offset: int, first: int) -> None:
        assert base_offset == first, "it has the partition to itself"
        self.acknowledged_up_to = self.unanswered[0][0] if self.unanswered else self.next

    async def check(self, client: RawClient) -> None:
        await self.read(client)
        assert [number(record) for record in self.checked] == list(range(len(self.checked)))
        assert self.acknowledged_up_to <= len(self.checked) <= self.next


class PlainProducer(Producer):
    """Never sends again: what was acknowledged is there, what was not may be, and nothing is out of order."""

    def __init__(self, rng: random.Random, meter: Meter, topic: str, partition: int, *, acks: int) -> None:
        super().__init__(rng, meter, topic, partition, acks=acks)
        self.offsets: dict[int, int] = {}  # number -> offset, of what was acknowledged

    async def begin(self, client: RawClient) -> None:
        self.unanswered.clear()

    def acknowledged(self, base_offset: int, first: int) -> None:
        self.offsets[first] = base_offset

    async def check(self, client: RawClient) -> None:
        await self.read(client)
        numbers = [number(record) for record in self.checked]
        assert numbers == sorted(set(numbers))
        assert all(offset < len(numbers) for offset in self.offsets.values()), "an acknowledged record is gone"
        assert all(numbers[offset] == first for first, offset in self.offsets.items())


class Committer(Worker):
    """Commits rising offsets for a group; its last acknowledged one, or a later one, is there."""

    PARTITIONS = range(3)

    def __init__(self, rng: random.Random, meter: Meter, topic: str, group: str) -> None:
        super().__init__(rng, meter)
        self.topic, self.group = topic, group
        self.next = 0
        self.unanswered: deque[int] = deque()
        self.acknowledged = -1

    async def begin(self, client: RawClient) -> None:
        self.unanswered.clear()

    def send(self, client: RawClient) -> None:
        client.send_commit(self.group, dict.fromkeys([(self.topic, one) for one in self.PARTITIONS], self.next))
        self.unanswered.append(self.next)
        self.next += 1

    async def hear(self, client: RawClient) -> None:
        assert await client.committed_errors() == {Error.NONE}
        self.acknowledged = self.unanswered.popleft()

    async def check(self, client: RawClient) -> None:
        found = set(await client.committed(self.group, self.topic, self.PARTITIONS))
        assert len(found) == 1, f"a commit is there in part: {found}"
        assert self.acknowledged <= found.pop() < max(self.next, 1)


class MemberCommitter(Committer):
    """The same as a member of a group, which it joins once, before the first kill."""

    member: Membership | None = None

    async def begin(self, client: RawClient) -> None:
        await super().begin(client)
        if self.member is None:
            self.member = await client.join_alone(self.group, session_timeout_ms=60_000)

    def send(self, client: RawClient) -> None:
        assert self.member is not None
        offsets = dict.fromkeys([(self.topic, one) for one in self.PARTITIONS], self.next)
        client.send_commit(self.group, offsets, self.member.member_id, self.member.generation)
        self.unanswered.append(self.next)
        self.next += 1

    async def check(self, client: RawClient) -> None:
        await super().check(client)
        if self.member is not None:
            self.member.client = client
            assert await self.member.heartbeat() is Error.NONE


class KeyedProducer(Worker):
    """Writes rising numbers under a few keys of a compacted topic: of each key the last one acknowledged is there."""

    def __init__(self, rng: random.Random, meter: Meter, topic: str, *, keys: int = 20, value_bytes: int = 100) -> None:
        super().__init__(rng, meter)
        self.topic, self.keys, self.value_bytes = topic, keys, value_bytes
        self.next = 0
        self.unanswered: deque[list[tuple[bytes, int]]] = deque()
        self.last: dict[bytes, int] = {}  # of what was acknowledged
        self.end_offset = 0

    async def begin(self, client: RawClient) -> None:
        self.unanswered.clear()

    def send(self, client: RawClient) -> None:
        count = self.rng.randint(1, 20)
        pairs = [(b"k%d" % self.rng.randrange(self.keys), self.next + at) for at in range(count)]
        self.next += count
        padding = b"." * self.value_bytes
        records = [Record(key, b"%d%s" % (value, padding), timestamp=NOW_MS) for key, value in pairs]
        client.send_batch(self.topic, 0, encode_batch(records))
        self.unanswered.append(pairs)

    async def hear(self, client: RawClient) -> None:
        answer = await client.produced()
        assert answer.error_code == 0, answer
        pairs = self.unanswered.popleft()
        self.last.update(pairs)
        self.end_offset = answer.base_offset + len(pairs)

    async def check(self, client: RawClient) -> None:
        found = await client.records(self.topic, 0)
        offsets, numbers = [record.offset for record in found], [number(record) for record in found]
        assert offsets == sorted(set(offsets))
        assert numbers == sorted(set(numbers))
        end_offset = await client.end_offset(self.topic, 0)
        assert end_offset >= self.end_offset
        self.end_offset = end_offset
        newest = {record.key: number(record) for record in found}
        for key, value in self.last.items():
            assert newest[key] >= value, f"the last value of {key!r} is gone"
            self.last[key] = newest[key]
