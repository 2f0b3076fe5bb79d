"""Our consumer, controlled by lines like the stock clients: `python -m tests.interop.drivers.ours HOST:PORT`.

It hosts members of groups and runs loops; the other client creates topics and records.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isnan

from slackwater import Consumer
from slackwater.client.consumer.consumer import ConsumerRecord, OffsetAndMetadata, RebalanceListener
from slackwater.group.errors import BrokerError
from slackwater.group.member.metrics import COORDINATOR_GROUP
from slackwater.group.topic_partition import TopicPartition
from tests.interop.drivers.line import (
    AUTO_COMMIT_MS,
    HEARTBEAT_MS,
    METADATA_MS,
    POLL_S,
    Driver,
    Failed,
    Member,
    Record,
    process,
    record,
    serve,
    split,
)


class Listener(RebalanceListener):
    """Writes callbacks into the history."""

    def __init__(self, member: Member) -> None:
        self._history = member.history

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self._history.event("assigned", map(str, partitions))

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self._history.event("revoked", map(str, partitions))

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self._history.event("lost", map(str, partitions))


class OurMember(Member):
    """A Consumer in a group."""

    def __init__(self, topics: Sequence[str] | None, pattern: str | None, settings: Mapping[str, object]) -> None:
        self._topics, self._pattern, self._settings = topics, pattern, settings
        super().__init__()

    def open(self) -> None:
        self._consumer = Consumer(self._settings)
        self._consumer.subscribe(self._topics, pattern=self._pattern, listener=Listener(self))

    def poll(self) -> list[Record]:
        return [
            record(
                message.topic,
                message.partition,
                message.offset,
                message.key,
                message.value,
                message.headers,
                message.timestamp,
            )
            for message in self._consumer.poll(POLL_S)
        ]

    def assignment(self) -> Iterable[str]:
        return map(str, self._consumer.assignment)

    def generation(self) -> int:
        return self._consumer.group_metadata().generation_id

    def close_consumer(self) -> None:
        self._consumer.close()

    def commit(self, offsets: Mapping[str, tuple[int, str]] | None) -> None:
        chosen = {
            TopicPartition(*split(partition)): OffsetAndMetadata(offset, metadata=metadata)
            for partition, (offset, metadata) in (offsets or {}).items()
        }
        self._consumer.commit(chosen if offsets is not None else None)

    def committed(self, partition: str) -> tuple[int, str] | None:
        topic_partition = TopicPartition(*split(partition))
        committed = self._consumer.committed([topic_partition])[topic_partition]
        return committed and (committed.offset, committed.metadata)

    def seek(self, partition: str, offset: int) -> None:
        self._consumer.seek(TopicPartition(*split(partition)), offset)

    def metrics(self) -> dict[str, float]:
        return {
            name.name: value
            for name, value in self._consumer.metrics().items()
            if name.group == COORDINATOR_GROUP and not isnan(value)
        }


class Ours(Driver):
    """The commands, implemented with our consumer."""

    def code(self, error: Exception) -> int:
        return int(error.error) if isinstance(error, BrokerError) else -1

    def join(
        self,
        member: str,
        group: str,
        topics: Sequence[str] | None,
        pattern: str | None,
        assignor: str,
        instance: str | None,
        session_ms: int,
    ) -> None:
        settings: dict[str, object] = {
            "bootstrap.servers": self.bootstrap,
            "client.id": member,
            "group.id": group,
            "partition.assignment.strategy": assignor,
            "session.timeout.ms": session_ms,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "metadata.max.age.ms": METADATA_MS,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        if instance is not None:
            settings["group.instance.id"] = instance
        self.members[member] = OurMember(topics, pattern, settings)

    def metrics(self, member: str) -> dict[str, float]:
        consumer = self.members[member]
        assert isinstance(consumer, OurMember)
        return dict(consumer.call(consumer.metrics))

    def loop(self, topic: str, group: str, style: str, end: str) -> None:
        settings: dict[str, object] = {
            "bootstrap.servers": self.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": end != "commit",
            "auto.commit.interval.ms": AUTO_COMMIT_MS,
        }
        consumer = Consumer(settings)
        consumer.subscribe([topic])
        try:
            for number, _ in enumerate(consumer if style == "single" else _batches(consumer), 1):
                if process(number, end, consumer.commit):
                    break
        except Failed:
            consumer.close()
        if end == "break":
            consumer.close()
        self.left_open.append(consumer)


def _batches(consumer: Consumer) -> Iterator[ConsumerRecord]:
    while True:
        yield from consumer.poll(1.0)


if __name__ == "__main__":
    serve(Ours)
