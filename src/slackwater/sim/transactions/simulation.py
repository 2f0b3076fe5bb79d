"""One simulated run of transactional producers; it depends only on its seed and on the chosen crashes."""

from dataclasses import dataclass, field

from slackwater.sim.event_queue import EventQueue
from slackwater.sim.seeded_random import SeededRandom
from slackwater.sim.transactions.broker import CHECK_MS, SimTransactionBroker
from slackwater.sim.transactions.checkers import CHECKS
from slackwater.sim.transactions.producer import JournalEntry, Network, Outcome, SimProducer

PARTITIONS = 3
TIMEOUT_MS = 400
SETTLE_MS = 20_000


@dataclass(frozen=True)
class Plan:
    """A run: how many producers, for how long, and which faults."""

    seed: int
    producers: int = 3
    length_ms: int = 3_000
    network: Network = field(default_factory=Network)
    crash_at: frozenset[int] = frozenset()
    crashes: int = 0
    failing_writes: int = 0
    failing_markers: int = 0
    takeovers: int = 0
    kills: float = 0.0  # probability that a producer is killed at the end instead of stopped
    is_v2: bool | None = None  # None: each producer's own choice


@dataclass
class Run:
    """The result of a run without anomalies."""

    steps: int
    crashes: int
    transactions: int
    committed: int


def random_plan(seed: int) -> Plan:
    """Return the faults of a seed."""
    random = SeededRandom(f"transactions {seed}")
    return Plan(
        seed,
        producers=random.between(1, 4),
        network=Network(
            max_delay_ms=random.pick((2, 10, 60)),
            loss=random.pick((0.0, 0.02, 0.1)),
            duplicates=random.pick((0.0, 0.05)),
        ),
        crashes=random.between(0, 6),
        failing_writes=random.pick((0, 0, 5)),
        failing_markers=random.pick((0, 0, 5)),
        takeovers=random.between(0, 4),
        kills=0.5,
    )


def run(plan: Plan) -> Run:
    """Run a plan and its checks; raises `Anomaly`."""
    queue = EventQueue()
    random = SeededRandom(f"run {plan.seed}")
    broker = SimTransactionBroker(queue, random, PARTITIONS, plan.crash_at)
    journal: list[JournalEntry] = []
    producers = [
        SimProducer(
            f"p{number}",
            broker,
            queue,
            random,
            plan.network,
            journal,
            is_v2=random.chance(0.6) if plan.is_v2 is None else plan.is_v2,
            timeout_ms=TIMEOUT_MS,
        )
        for number in range(plan.producers)
    ]
    for producer in producers:
        queue.at(random.between(0, 50), producer.start)
    for _ in range(plan.takeovers):
        queue.at(random.between(100, plan.length_ms), random.pick(producers).start)
    for _ in range(plan.crashes):
        queue.at(random.between(0, plan.length_ms), broker.crash)

    def fail_writes() -> None:
        broker.failing_writes += 1

    def fail_markers() -> None:
        broker.failing_markers += 1

    for _ in range(plan.failing_writes):
        queue.at(random.between(0, plan.length_ms), fail_writes)
    for _ in range(plan.failing_markers):
        queue.at(random.between(0, plan.length_ms), fail_markers)
    queue.run_until(plan.length_ms)
    for producer in producers:
        producer.is_stopped = True
        if random.chance(plan.kills):
            producer.kill()
    queue.run_until(plan.length_ms + SETTLE_MS + CHECK_MS)
    committed = {topic_partition: partition.committed() for topic_partition, partition in broker.partitions.items()}
    for check in CHECKS:
        check(broker, journal, committed)
    done = sum(entry.outcome is Outcome.COMMITTED for entry in journal)
    return Run(broker.steps, broker.crashes, len(journal), done)
