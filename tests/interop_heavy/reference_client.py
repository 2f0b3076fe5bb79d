"""An independent view of the broker through librdkafka.

Topics are created before use. Reading is without a group, from the beginning until the end of each partition.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.cimpl import NewTopic

SECONDS: Final = 30.0


class ReadRecord(NamedTuple):
    """One record."""

    partition: int
    offset: int
    key: str
    value: str
    header: str


class ReferenceClient:
    """Reads and writes with librdkafka."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def create(self, topic: str, partitions: int, config: Mapping[str, str] | None = None) -> str:
        """Create a topic and return its name."""
        new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        self._admin.create_topics([new])[topic].result(SECONDS)
        return topic

    def topics(self) -> dict[str, int]:
        """Every topic with its number of partitions."""
        topics = self._admin.list_topics(timeout=SECONDS).topics
        return {name: len(topic.partitions) for name, topic in topics.items()}

    def config(self, topic: str) -> dict[str, str]:
        """A topic's settings."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        entries = self._admin.describe_configs([resource])[resource].result(SECONDS)
        return {name: str(entry.value) for name, entry in entries.items()}

    def produce(self, topic: str, values: Iterable[str], partitions: int, codec: str = "none") -> None:
        """Write values to the partitions in turn, with keys and a header, and wait for all."""
        failed: list[object] = []
        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "compression.type": codec, "acks": "all", "linger.ms": 20}
        )
        for number, value in enumerate(values):
            producer.produce(
                topic,
                value=value.encode(),
                key=f"key-{number}".encode(),
                partition=number % partitions,
                headers=[("n", str(number).encode())],
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
        assert producer.flush(SECONDS) == 0, "not all records were acknowledged"
        assert not failed, failed

    def records(self, topic: str) -> list[ReadRecord]:
        """All records of a topic, by partition."""
        consumer = self._consumer()
        try:
            pending = set(range(self.topics()[topic]))
            consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in pending])
            records: list[ReadRecord] = []
            while pending:
                message = consumer.poll(SECONDS)
                assert message is not None, f"no record from {topic} within {SECONDS:g} s"
                error = message.error()
                if error is None:
                    records.append(_to_record(message))
                    continue
                assert error.code() == KafkaError._PARTITION_EOF, error
                pending.discard(message.partition() or 0)
            return sorted(records)
        finally:
            consumer.close()

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """A group's committed offsets for a topic."""
        result = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        stored = result[group].result(SECONDS).topic_partitions or []
        return {
            partition.partition: partition.offset
            for partition in stored
            if partition.topic == topic and partition.offset >= 0
        }

    def ends(self, topic: str) -> dict[int, int]:
        """The end offset of each partition."""
        return {partition: high for partition, (_, high) in self.bounds(topic).items()}

    def bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        """The first and the end offset of each partition."""
        consumer = self._consumer()
        try:
            watermarks = {
                partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=SECONDS)
                for partition in range(self.topics()[topic])
            }
            return {partition: bounds for partition, bounds in watermarks.items() if bounds is not None}
        finally:
            consumer.close()

    def group(self, group: str) -> tuple[ConsumerGroupState, int]:
        """A group's state and number of members."""
        described = self._admin.describe_consumer_groups([group])[group].result(SECONDS)
        return described.state, len(described.members)

    def _consumer(self) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "reference",  # required by librdkafka; no group is joined and nothing is committed
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
            }
        )


def _to_record(message: Message) -> ReadRecord:
    headers = message.headers()
    header = headers[0][1] if isinstance(headers, list) and headers else b""
    return ReadRecord(
        message.partition() or 0,
        message.offset() or 0,
        _text(message.key()),
        _text(message.value()),
        _text(header if isinstance(header, bytes) else None),
    )


def _text(data: bytes | None) -> str:
    return (data or b"").decode("latin-1")  # one character per byte: some values are binary


def by_partition(records: Iterable[ReadRecord]) -> dict[int, list[str]]:
    """Values in order, by partition."""
    values: dict[int, list[str]] = {}
    for record in records:
        values.setdefault(record.partition, []).append(record.value)
    return values


def spread_over_partitions(values: Sequence[str], partitions: int) -> dict[int, list[str]]:
    """The values of each partition if they were written to the partitions in turn."""
    return {partition: list(values[partition::partitions]) for partition in range(partitions)}
