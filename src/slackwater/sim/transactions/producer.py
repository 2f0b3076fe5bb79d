"""A simulated transactional producer: it writes one record to each of some partitions, and commits or aborts.

Invariants:
- A request without a response is sent again after REQUEST_TIMEOUT_MS; both copies may arrive.
- A process that is fenced or that gives up ends; the next process with the same transactional id starts.
- The journal has for each transaction what the application knows: what was acknowledged, and what it asked for.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from slackwater.group.errors import Error
from slackwater.group.topic_partition import TopicPartition
from slackwater.group.transactions.messages import (
    AddPartitions,
    AddPartitionsResponse,
    EndTransaction,
    EndTransactionResponse,
    InitProducerId,
    InitProducerIdResponse,
    TransactionRequest,
    TransactionResponse,
)
from slackwater.sim.event_queue import EventQueue
from slackwater.sim.seeded_random import SeededRandom
from slackwater.sim.transactions.broker import SimTransactionBroker
from slackwater.sim.transactions.partition import SimRecord

REQUEST_TIMEOUT_MS = 120
RETRY_MS = 20
MAX_ATTEMPTS = 12
_RETRIABLE = frozenset(
    {
        Error.CONCURRENT_TRANSACTIONS,
        Error.COORDINATOR_NOT_AVAILABLE,
        Error.COORDINATOR_LOAD_IN_PROGRESS,
        Error.NOT_COORDINATOR,
    }
)


class Outcome(Enum):
    """What the application knows about the end of a transaction."""

    OPEN = "it was not asked to end"
    COMMITTED = "the commit was acknowledged"
    ABORTED = "the abort was acknowledged"
    COMMIT_UNKNOWN = "the commit was requested"
    ABORT_UNKNOWN = "the abort was requested"


@dataclass
class JournalEntry:
    """One transaction of the application."""

    values: dict[TopicPartition, str]
    acknowledged: set[TopicPartition] = field(default_factory=set)
    outcome: Outcome = Outcome.OPEN


@dataclass(frozen=True)
class Network:
    """Delays and losses between producers and broker."""

    max_delay_ms: int = 4
    loss: float = 0.0
    duplicates: float = 0.0


class SimProducer:
    """The processes of one transactional id, one after the other; a zombie may live on."""

    def __init__(
        self,
        name: str,
        broker: SimTransactionBroker,
        queue: EventQueue,
        random: SeededRandom,
        network: Network,
        journal: list[JournalEntry],
        *,
        is_v2: bool,
        timeout_ms: int,
    ) -> None:
        self.name = name
        self.broker = broker
        self.queue = queue
        self.random = random
        self.network = network
        self.journal = journal
        self.is_v2 = is_v2
        self.timeout_ms = timeout_ms
        self.is_stopped = False
        self._processes: list[_Process] = []

    def start(self) -> None:
        """Start a process; processes that still run become zombies."""
        process = _Process(self, len(self._processes) + 1)
        self._processes.append(process)
        process.initialize()

    def kill(self) -> None:
        """End every process in the middle of what it does; no other one starts."""
        self.is_stopped = True
        for process in self._processes:
            process.has_ended = True

    def next_process(self) -> None:
        """Start the next process a little later."""
        if not self.is_stopped:
            self.queue.after(self.random.between(1, 60), self.start)


class _Process:
    """One process: initialize, then transactions one after the other."""

    def __init__(self, owner: SimProducer, number: int) -> None:
        self._owner = owner
        self._name = f"{owner.name}.{number}"
        self._producer_id = -1
        self._epoch = -1
        self._transactions = 0
        self._entry = JournalEntry({})
        self._left: list[TopicPartition] = []
        self.has_ended = False

    # --- the network --------------------------------------------------------------------------------------------------

    def _call(self, deliver: Callable[[Callable[[object], None]], None], on_answer: Callable[[object], None]) -> None:
        """Deliver a request until it is answered; both ways take time and may fail."""
        owner, network, random = self._owner, self._owner.network, self._owner.random
        is_answered = False
        attempts = 0

        def answer(response: object) -> None:
            if random.chance(network.loss):
                return
            owner.queue.after(random.between(0, network.max_delay_ms), lambda: arrive(response))

        def arrive(response: object) -> None:
            nonlocal is_answered
            if not is_answered and not self.has_ended:
                is_answered = True
                on_answer(response)

        def send() -> None:
            nonlocal attempts
            if is_answered or self.has_ended:
                return
            attempts += 1
            if attempts > MAX_ATTEMPTS:
                self._die()
                return
            copies = 2 if random.chance(network.duplicates) else 1
            for _ in range(copies):
                if not random.chance(network.loss):
                    owner.queue.after(random.between(0, network.max_delay_ms), lambda: deliver(answer))
            owner.queue.after(REQUEST_TIMEOUT_MS, send)

        send()

    def _request(self, request: TransactionRequest, on_response: Callable[[TransactionResponse], None]) -> None:
        broker = self._owner.broker

        def on_answer(response: object) -> None:
            on_response(response)  # type: ignore[arg-type]  # the broker answers with responses

        self._call(lambda answer: broker.receive(request, answer), on_answer)

    def _later(self, work: Callable[[], None]) -> None:
        def run() -> None:
            if not self.has_ended:
                work()

        self._owner.queue.after(RETRY_MS, run)

    def _die(self) -> None:
        if not self.has_ended:
            self.has_ended = True
            self._owner.next_process()

    # --- the application ----------------------------------------------------------------------------------------------

    def initialize(self) -> None:
        """Get a producer id and epoch."""

        def on_response(response: TransactionResponse) -> None:
            assert isinstance(response, InitProducerIdResponse)
            if response.error is Error.NONE:
                self._producer_id, self._epoch = response.producer_id, response.producer_epoch
                self._begin()
            elif response.error in _RETRIABLE:
                self._later(self.initialize)
            else:
                self._die()

        self._request(InitProducerId(self._owner.name, self._owner.timeout_ms), on_response)

    def _begin(self) -> None:
        owner = self._owner
        if owner.is_stopped:
            self.has_ended = True
            return
        self._transactions += 1
        partitions = [partition for partition in owner.broker.partitions if owner.random.chance(0.6)]
        self._entry = JournalEntry(
            {partition: f"{self._name}/{self._transactions}/{partition.partition}" for partition in partitions}
        )
        owner.journal.append(self._entry)
        self._left = partitions
        if owner.is_v2 or not partitions:
            self._produce()
        else:
            self._add()

    def _add(self) -> None:
        def on_response(response: TransactionResponse) -> None:
            assert isinstance(response, AddPartitionsResponse)
            if response.error is Error.NONE:
                self._produce()
            elif response.error in _RETRIABLE:
                self._later(self._add)
            else:
                self._die()

        owner = self._owner
        self._request(
            AddPartitions(owner.name, self._producer_id, self._epoch, frozenset(self._entry.values)), on_response
        )

    def _produce(self) -> None:
        """Write the next record; sometimes the application pauses for longer than the transaction's timeout."""
        owner = self._owner
        if not self._left:
            self._end()
            return
        if owner.random.chance(0.05):
            pause_ms = owner.random.between(1, 2 * owner.timeout_ms)
            owner.queue.after(pause_ms, self._send_record)
        else:
            self._send_record()

    def _send_record(self) -> None:
        if self.has_ended:
            return
        owner, partition = self._owner, self._left[0]
        record = SimRecord(self._producer_id, self._epoch, self._entry.values[partition])

        def on_answer(error: object) -> None:
            if error is Error.NONE:
                self._entry.acknowledged.add(partition)
                self._left.pop(0)
                self._produce()
            elif error in _RETRIABLE:
                self._later(self._send_record)
            else:
                self._die()

        self._call(
            lambda answer: owner.broker.produce(owner.name, record, partition, answer, add=owner.is_v2), on_answer
        )

    def _end(self) -> None:
        owner, entry = self._owner, self._entry
        if not owner.is_v2 and not entry.values:
            self._begin()  # nothing to end
            return
        is_commit = owner.random.chance(0.75) and bool(entry.values)
        entry.outcome = Outcome.COMMIT_UNKNOWN if is_commit else Outcome.ABORT_UNKNOWN
        request = EndTransaction(owner.name, self._producer_id, self._epoch, is_commit, bumps_epoch=owner.is_v2)

        def on_response(response: TransactionResponse) -> None:
            assert isinstance(response, EndTransactionResponse)
            if response.error is Error.NONE:
                entry.outcome = Outcome.COMMITTED if is_commit else Outcome.ABORTED
                if owner.is_v2:
                    self._producer_id, self._epoch = response.producer_id, response.producer_epoch
                self._begin()
            elif response.error in _RETRIABLE:
                self._later(lambda: self._request(request, on_response))
            else:
                self._die()

        self._request(request, on_response)
