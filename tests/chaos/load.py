"""Clients that write and commit while faults happen, and record every acknowledgement.

Invariants:
- Each worker has one request in flight, so its numbers ascend in its partition.
- Errors and broken connections are expected; a worker retries or continues with the next number. Only an error that no
  fault explains is a violation: a lost producer sequence, a lost membership.
- The ledgers change only while the workers run. Between `pause` and `resume` another thread may read them.
"""

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, Final

from slackwater.group.errors import Error
from slackwater.group.internal_topics import OFFSETS_TOPIC, offsets_partition
from slackwater.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from slackwater.wire.records.batch import NO_PRODUCER_ID
from slackwater.wire.records.record import Record, encode_batch
from tests.broker.raw_client import Membership, RawClient
from tests.chaos.oracles import Violation
from tests.chaos.oracles.commits import GroupLedger
from tests.chaos.oracles.records import PartitionLedger
from tests.chaos.oracles.transactions import TransactionLedger
from tests.chaos.transactions import TOPIC, TransactionalProducer
from tests.chaos.worker import PAUSE_S, Worker

SEQUENCED: Final = "protected-sequenced"
PLAIN: Final = "protected-plain"
COMPACTED: Final = "protected-compacted"
PARTITIONS: Final = {SEQUENCED: 2, PLAIN: 2, COMPACTED: 1}
OFFSETS_PARTITIONS: Final = 3
BYSTANDER_PARTITION: Final = 0
"""The partition of `__consumer_offsets` with the groups of the bystanders, which is never damaged."""
KEYS: Final = 20
SESSION_MS: Final = 25_000
PARKED_S: Final = 60.0


def group_name(prefix: str, partition: int) -> str:
    """Return a group name that is stored in this partition of `__consumer_offsets`."""
    names = (f"protected-{prefix}-{number}" for number in range(1000))
    return next(name for name in names if offsets_partition(name, OFFSETS_PARTITIONS) == partition)


class PlainProducer(Worker):
    """Sends every number once."""

    def __init__(self, load: "Load", ledger: PartitionLedger) -> None:
        super().__init__(load)
        self.ledger = ledger

    @property
    def partition_name(self) -> str:
        return self.ledger.name

    async def step(self, client: RawClient) -> None:
        first, count = self.ledger.sent, self.rng.randint(1, 20)
        self.ledger.sent += count
        client.send_batch(self.ledger.topic, self.ledger.partition, self.batch(first, count))
        await self.receive(client, first, count)

    def batch(self, first: int, count: int, producer_id: int = NO_PRODUCER_ID, sequence: int = -1) -> bytearray:
        now_ms, keys = self.load.wall_ms(), self.ledger.keys
        padding = b"." * self.rng.randint(0, 300)
        records = [
            Record(b"k%d" % (number % keys) if keys else None, b"%d%s" % (number, padding), timestamp=now_ms)
            for number in range(first, first + count)
        ]
        epoch = -1 if producer_id == NO_PRODUCER_ID else 0
        return encode_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)

    async def receive(self, client: RawClient, first: int, count: int) -> Error:
        response = await client.next_produce_response()
        error = Error(response.error_code)
        if error is Error.NONE:
            for violation in self.ledger.acknowledge(response.base_offset, range(first, first + count)):
                self.load.fail(violation)
            self.on_acknowledged()
            self.load.records += count
        else:
            await self.on_error(error)
        return error


class IdempotentProducer(PlainProducer):
    """Repeats a batch with its sequence until it is acknowledged."""

    producer_id = NO_PRODUCER_ID
    sequence = 0
    unacknowledged: tuple[int, int] | None = None  # first number, count

    async def step(self, client: RawClient) -> None:
        if self.producer_id == NO_PRODUCER_ID:
            response = await client.request(InitProducerIdRequest(None, 60_000), InitProducerIdResponse)
            if response.error_code:
                await self.on_error(Error(response.error_code))
                return
            self.producer_id, self.sequence = response.producer_id, 0
        if self.unacknowledged is None:
            self.unacknowledged = (self.ledger.sent, self.rng.randint(1, 20))
            self.ledger.sent += self.unacknowledged[1]
        first, count = self.unacknowledged
        batch = self.batch(first, count, self.producer_id, self.sequence)
        client.send_batch(self.ledger.topic, self.ledger.partition, batch)
        error = await self.receive(client, first, count)
        if error is Error.NONE:
            self.sequence, self.unacknowledged = self.sequence + count, None
        elif error in (Error.OUT_OF_ORDER_SEQUENCE_NUMBER, Error.UNKNOWN_PRODUCER_ID, Error.INVALID_PRODUCER_EPOCH):
            self.on_state_lost(f"{self.ledger.name}: {error.name} for a producer with one request in flight")
            self.producer_id, self.unacknowledged = NO_PRODUCER_ID, None


class Committer(Worker):
    """Commits ascending offsets without being a member."""

    def __init__(self, load: "Load", ledger: GroupLedger) -> None:
        super().__init__(load)
        self.ledger = ledger
        self.member: Membership | None = None

    @property
    def partition_name(self) -> str:
        return f"{OFFSETS_TOPIC}-{self.ledger.offsets_partition}"

    async def step(self, client: RawClient) -> None:
        number = self.ledger.sent
        self.ledger.sent += 1
        member_id, generation = (self.member.member_id, self.member.generation) if self.member else ("", -1)
        offsets = {(SEQUENCED, partition): number for partition in range(PARTITIONS[SEQUENCED])}
        error = await client.commit(self.ledger.group, offsets, member_id, generation)
        if error is Error.NONE:
            self.ledger.acknowledged = number
            self.on_acknowledged()
            self.load.commits += 1
        elif error in (Error.UNKNOWN_MEMBER_ID, Error.ILLEGAL_GENERATION, Error.GROUP_ID_NOT_FOUND):
            self.on_state_lost(f"group {self.ledger.group}: {error.name} for its only member")
            self.member = None
        else:
            await self.on_error(error)


class MemberCommitter(Committer):
    """Commits as the only member of its group; it keeps its member id until the broker does not know it."""

    joining: Membership | None = None

    async def step(self, client: RawClient) -> None:
        if self.member is None:
            self.joining = self.joining or Membership(client, self.ledger.group, SESSION_MS)
            self.joining.client = client
            error = await self.joining.try_rejoin()
            if error is not Error.NONE:
                if error is Error.UNKNOWN_MEMBER_ID:
                    self.joining = None
                await self.on_error(error)
                return
            self.member, self.joining = self.joining, None
        await super().step(client)


class Load:
    """The workers, in a thread with an event loop."""

    def __init__(self, port: int, rng: random.Random, wall_ms: Callable[[], int]) -> None:
        self.port, self.rng, self.wall_ms = port, rng, wall_ms
        self.is_paused = self.is_closed = False
        self.records = self.commits = self.transactions = 0
        self.errors: Counter[str] = Counter()
        self._violations: list[str] = []
        self.partitions = [
            PartitionLedger(topic, partition, keys=KEYS if topic == COMPACTED else 0)
            for topic, count in PARTITIONS.items()
            for partition in range(count)
        ]
        self.groups = [
            GroupLedger(group_name(prefix, partition), partition)
            for prefix in ("committer", "member")
            for partition in range(OFFSETS_PARTITIONS)
        ]
        self.transaction_ledger = TransactionLedger(TOPIC)
        self.transaction_group = group_name("transactional", BYSTANDER_PARTITION)
        self._workers: list[Worker] = [
            TransactionalProducer(self, self.transaction_ledger, self.transaction_group),
            *(
                (IdempotentProducer if ledger.topic == SEQUENCED else PlainProducer)(self, ledger)
                for ledger in self.partitions
            ),
            *((MemberCommitter if "member" in ledger.group else Committer)(self, ledger) for ledger in self.groups),
        ]
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.run(self._run_workers())

    async def _run_workers(self) -> None:
        await asyncio.gather(*(self._guarded(worker.run()) for worker in self._workers))

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:
            self.fail(f"a client of the load ended: {error!r}")

    def fail(self, violation: str) -> None:
        """Record a violation; `take_violations` returns it."""
        self._violations.append(violation)

    def take_violations(self) -> list[str]:
        """Return the violations since the last call."""
        violations, self._violations = self._violations, []
        return violations

    def pause(self) -> None:
        """Wait until no request is in flight."""
        self.is_paused = True
        self._wait_for(lambda worker: worker.is_parked, "got no response and no end of its connection")

    def resume(self) -> None:
        """Continue after `pause`."""
        self.is_paused = False
        for worker in self._workers:
            worker.is_parked = False

    def wait_for_progress(self, seconds: float) -> None:
        """Wait until every worker has one more acknowledgement."""
        before = {worker: worker.acknowledged for worker in self._workers}
        self._wait_for(lambda worker: worker.acknowledged > before[worker], "got no acknowledgement", seconds)

    def _wait_for(self, condition: Callable[[Worker], bool], failure: str, seconds: float = PARKED_S) -> None:
        done = threading.Event()
        waited_s = 0.0
        while waiting := [worker for worker in self._workers if not condition(worker)]:
            if self._violations:
                raise Violation("; ".join(self.take_violations()))
            if waited_s > seconds:
                names = ", ".join(sorted({type(worker).__name__ for worker in waiting}))
                errors = dict(self.errors.most_common(5))
                raise Violation(
                    f"{len(waiting)} workers ({names}) {failure} within {seconds:g} s; errors so far: {errors}"
                )
            done.wait(PAUSE_S)
            waited_s += PAUSE_S

    def allow_lost_state(self, partition_name: str) -> None:
        """Let producers or members start again without a violation, after damage to the log with their state."""
        for worker in self._workers:
            worker.may_lose_state |= worker.partition_name == partition_name

    def close(self) -> None:
        """End the thread."""
        self.is_closed = True
        self._thread.join(PARKED_S)
