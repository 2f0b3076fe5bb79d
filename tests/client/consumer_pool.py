"""Consumers of one group, polled in turn by one thread."""

import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from slackwater import Consumer
from slackwater.group.topic_partition import TopicPartition
from tests import waiting

DEADLINE_S = 30.0


def wait_until(condition: Callable[[], bool], about: Callable[[], object]) -> None:
    """Wait until a condition holds."""
    waiting.wait_until(condition, about, DEADLINE_S)


class ConsumerPool:
    """Consumers of one group."""

    def __init__(self, bootstrap: str, group: str, topics: list[str]) -> None:
        self._config: dict[str, object] = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 300,
        }
        self._topics = topics
        self.consumers: list[Consumer] = []
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._stalled = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()
        for consumer in self.consumers:
            consumer.close()

    def join(self, count: int = 1, settings: Mapping[str, object] | None = None) -> Consumer:
        """Add consumers; return the last one."""
        for _ in range(count):
            consumer = Consumer(self._config | dict(settings or {}))
            consumer.subscribe(self._topics)
            with self._lock:
                self.consumers.append(consumer)
        return consumer

    def leave(self) -> None:
        """Close the last consumer."""
        with self._lock:
            consumer = self.consumers.pop()
        consumer.close()

    def settle(self, partitions: int) -> None:
        """Wait until every partition has one owner, and all consumers are in one generation."""

        def settled() -> bool:
            with self._lock:
                owned = [partition for consumer in self.consumers for partition in consumer.assignment]
                generations = {self.generation(consumer) for consumer in self.consumers}
            return len(owned) == len(set(owned)) == partitions and len(generations) == 1

        wait_until(settled, lambda: [consumer.assignment for consumer in self.consumers])

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets, each partition by its owner."""
        with self._lock:
            for consumer in self.consumers:
                own = {partition: offset for partition, offset in offsets.items() if partition in consumer.assignment}
                if own:
                    consumer.commit(own)

    def stall(self) -> None:
        """Stop polling; heartbeats continue."""
        with self._lock:
            self._stalled = True

    @staticmethod
    def generation(consumer: Consumer) -> int:
        """Return the generation of a consumer."""
        return consumer.group_metadata().generation_id

    def _run(self) -> None:
        while not self._done.wait(0.005):
            with self._lock:
                if not self._stalled:
                    for consumer in self.consumers:
                        consumer.poll(0)
