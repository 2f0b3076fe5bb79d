"""Throughput of the work scheduler on one core: records received, started, finished and committed.

Run it with `python benchmarks/work.py [records]`. No handler runs: only the scheduler is measured, with polls of 500
records over 12 partitions, 8 workers that finish in random order, and one commit per 5 s of virtual time. Times are CPU
seconds of this process.
"""

import random
import sys
import time
from typing import NamedTuple

from slackwater.group.topic_partition import TopicPartition
from slackwater.group.work.config import ProcessingOrder, WorkConfig
from slackwater.group.work.effects import StartTask, WorkEffect
from slackwater.group.work.scheduler import WorkScheduler

PARTITIONS = 12
POLL = 500
TARGET_PER_S = 200_000


class Record(NamedTuple):
    """A consumer record."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    size: int


def polls(records: int) -> list[list[Record]]:
    """Polls of `POLL` records, each from three partitions."""
    offsets = [0] * PARTITIONS
    rng = random.Random(7)
    made: list[list[Record]] = []
    for number in range(records // POLL):
        poll: list[Record] = []
        for turn in range(3):
            partition = (3 * number + turn) % PARTITIONS
            for _ in range(POLL // 3 if turn else POLL - 2 * (POLL // 3)):
                poll.append(Record("orders", partition, offsets[partition], b"k%d" % rng.randrange(200), 100))
                offsets[partition] += 1
        made.append(poll)
    return made


def run(order: ProcessingOrder, batches: list[list[Record]]) -> float:
    """Records a second through the scheduler."""
    scheduler: WorkScheduler[Record] = WorkScheduler(WorkConfig(workers=8, order=order))
    rng = random.Random(7)
    picks = [rng.random() for _ in range(1009)]
    now_ms = done = 0
    running: list[int] = []

    def carry_out(effects: list[WorkEffect[Record]]) -> None:
        for effect in effects:
            if isinstance(effect, StartTask):
                running.append(effect.task_id)

    carry_out(scheduler.on_assigned([TopicPartition("orders", number) for number in range(PARTITIONS)], now_ms))
    started = time.process_time()
    for batch in batches:
        now_ms += 2
        carry_out(scheduler.on_records(batch, now_ms))
        while scheduler.in_flight > 1_000:
            task_id = running.pop(int(picks[done % 1009] * len(running)))
            done += 1
            carry_out(scheduler.on_finished(task_id, now_ms))
    while running:
        done += 1
        carry_out(scheduler.on_finished(running.pop(), now_ms))
    elapsed_s = time.process_time() - started
    assert scheduler.in_flight == 0
    assert done == sum(map(len, batches))
    return done / elapsed_s


def main() -> None:
    """Print one line per order."""
    batches = polls(int(sys.argv[1]) if len(sys.argv) > 1 else 500_000)
    for order in ProcessingOrder:
        rate = max(run(order, batches) for _ in range(3))
        print(f"order={order:<9} {rate:>9,.0f} records/s  {rate / TARGET_PER_S:.1f} x the target of {TARGET_PER_S:,}")


if __name__ == "__main__":
    main()
