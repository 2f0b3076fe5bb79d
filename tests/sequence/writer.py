"""The producer of a sequence: numbered records and their delivery results."""

import threading
from collections import defaultdict
from typing import Final

from slackwater import Producer
from slackwater.client.producer import RecordMetadata
from slackwater.group.errors import SlackwaterError
from slackwater.group.topic_partition import TopicPartition

PAUSE_S: Final = 0.01
DELIVERY_S: Final = 90.0


class Writer:
    """A thread that writes one record to each partition in turn."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "linger.ms": 2,
                "retry.backoff.ms": 20,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "delivery.timeout.ms": int(DELIVERY_S * 1000),
                "request.timeout.ms": 2_000,
            }
        )
        self._topic, self._partitions = topic, partitions
        self._lock = threading.Lock()
        self._ends: defaultdict[TopicPartition, int] = defaultdict(int)
        self._failure: BaseException | None = None
        self._stop = threading.Event()
        self.written: defaultdict[TopicPartition, set[int]] = defaultdict(set)  # the numbers that were acknowledged
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        try:
            while not self._stop.wait(PAUSE_S):
                self._send(number)
                number += 1
        except BaseException as error:
            self._failure = error

    def _send(self, number: int) -> None:
        partition = TopicPartition(self._topic, number % self._partitions)

        def on_delivered(metadata: RecordMetadata | None, error: SlackwaterError | None) -> None:
            if metadata is None:
                self._failure = self._failure or AssertionError(f"record {number} was not written: {error}")
                return
            with self._lock:
                self.written[partition].add(number)
                self._ends[partition] = max(self._ends[partition], metadata.offset + 1)

        self._producer.send(self._topic, b"%d" % number, partition=partition.partition, on_delivery=on_delivered)

    def ends(self) -> dict[TopicPartition, int]:
        """Everything before these offsets was acknowledged."""
        with self._lock:
            return dict(self._ends)

    def finish(self) -> None:
        """Stop, and wait until all records are acknowledged."""
        self._stop.set()
        self._thread.join(DELIVERY_S)
        self._producer.flush(DELIVERY_S)
        self.check()

    def check(self) -> None:
        """Raise the first failure."""
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Stop the thread and close the producer."""
        self._stop.set()
        self._thread.join(DELIVERY_S)
        self._producer.close(1.0)
