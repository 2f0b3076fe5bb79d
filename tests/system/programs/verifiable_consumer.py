"""A consumer program that prints what it does as JSON lines, in the format of Kafka's VerifiableConsumer.

    python -m tests.system.programs.ours TOPIC SETTINGS       (SETTINGS: a JSON object of consumer settings)

Invariants:
- The lines are startup_complete, partitions_assigned, partitions_revoked (also for lost partitions), records_consumed,
  offsets_committed and shutdown_complete, each with a time in milliseconds.
- The records of a poll are printed before they are committed. Without auto-commit they are committed synchronously
  after each poll; a failed commit is printed and the program continues.
- SIGTERM closes the consumer and ends the program. An error, such as a fenced instance id, does the same after it is
  printed on standard error; the exit code is then 1.
"""

import json
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

POLL_S: Final = 0.1
Partition = tuple[str, int]


class CommitFailed(Exception):
    """A commit failed for a reason that the next commit may not have."""


def print_event(name: str, **fields: object) -> None:
    """Print one line."""
    print(json.dumps({"timestamp": time.time_ns() // 1_000_000, "name": name, **fields}), flush=True)


def print_partitions(name: str, partitions: Iterable[Partition]) -> None:
    """Print a rebalance callback."""
    print_event(name, partitions=[{"topic": topic, "partition": number} for topic, number in partitions])


class VerifiableConsumer(ABC):
    """The loop of the program; a subclass per client library."""

    def __init__(self, topic: str, settings: Mapping[str, Any]) -> None:
        self.topic = topic
        self.settings = settings
        self._stopping = False

    @abstractmethod
    def subscribe(self) -> None:
        """Subscribe to the topic with callbacks that print."""

    @abstractmethod
    def poll(self) -> Sequence[tuple[Partition, int]]:
        """Partition and offset of the next records, within POLL_S."""

    @abstractmethod
    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit and wait; raises `CommitFailed`, or the error that ends the program."""

    @abstractmethod
    def close(self) -> None:
        """Close the consumer."""

    @abstractmethod
    def store(self, offsets: Mapping[Partition, int]) -> None:
        """With auto-commit: these positions may be committed from now on."""

    def run(self) -> int:
        """Consume until SIGTERM or an error; returns the exit code."""
        signal.signal(signal.SIGTERM, self._on_sigterm)
        print_event("startup_complete")
        self.subscribe()
        try:
            while not self._stopping:
                self._step()
        except Exception as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            return 1
        finally:
            self.close()
            print_event("shutdown_complete")
        return 0

    def _on_sigterm(self, _signal: int, _frame: object) -> None:
        self._stopping = True

    def _step(self) -> None:
        read: defaultdict[Partition, list[int]] = defaultdict(list)
        for partition, offset in self.poll():
            read[partition].append(offset)
        if not read:
            return
        summaries = [
            {"topic": topic, "partition": number, "count": len(seen), "minOffset": seen[0], "maxOffset": seen[-1]}
            for (topic, number), seen in read.items()
        ]
        print_event("records_consumed", count=sum(map(len, read.values())), partitions=summaries)
        offsets = {partition: seen[-1] + 1 for partition, seen in read.items()}
        if self.settings["enable.auto.commit"]:
            self.store(offsets)
        else:
            self._commit(offsets)

    def _commit(self, offsets: Mapping[Partition, int]) -> None:
        committed = [
            {"topic": topic, "partition": number, "offset": offset} for (topic, number), offset in offsets.items()
        ]
        try:
            self.commit(offsets)
        except CommitFailed as error:
            print_event("offsets_committed", offsets=committed, success=False, error=str(error))
        else:
            print_event("offsets_committed", offsets=committed, success=True)


def main(program: type[VerifiableConsumer]) -> None:
    """Run a program with the arguments of the command line."""
    topic, settings = sys.argv[1:]
    sys.exit(program(topic, json.loads(settings)).run())
