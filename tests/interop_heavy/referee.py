"""The second opinion: what librdkafka sees on the broker, whatever the guest under test says.

Rules kept here
- Topics are made before use, with the partitions a test wants.
- Reading is without a group, from the beginning until each partition's end was seen.
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


class Seen(NamedTuple):
    """One record."""

    partition: int
    offset: int
    key: str
    value: str
    header: str


class Referee:
    """Asks the broker with librdkafka."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def create(self, topic: str, partitions: int, config: Mapping[str, str] | None = None) -> str:
        """Make a topic; its name."""
        new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        self._admin.create_topics([new])[topic].result(SECONDS)
        return topic

    def topics(self) -> dict[str, int]:
        """Every topic with its number of partitions."""
        found = self._admin.list_topics(timeout=SECONDS).topics
        return {name: len(topic.partitions) for name, topic in found.items()}

    def config(self, topic: str) -> dict[str, str]:
        """A topic's settings."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        entries = self._admin.describe_configs([resource])[resource].result(SECONDS)
        return {name: str(entry.value) for name, entry in entries.items()}

    def produce(self, topic: str, values: Iterable[str], partitions: int, codec: str = "none") -> None:
        """Send values round the partitions, with keys and a header, and wait for all."""
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
        assert producer.flush(SECONDS) == 0, "not everything was acknowledged"
        assert not failed, failed

    def records(self, topic: str) -> list[Seen]:
        """Everything in a topic, partition by partition."""
        consumer = self._consumer()
        try:
            left = set(range(self.topics()[topic]))
            consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in left])
            found: list[Seen] = []
            while left:
                message = consumer.poll(SECONDS)
                assert message is not None, f"nothing came from {topic} within {SECONDS:g} s"
                error = message.error()
                if error is None:
                    found.append(_seen(message))
                    continue
                assert error.code() == KafkaError._PARTITION_EOF, error
                left.discard(message.partition() or 0)
            return sorted(found)
        finally:
            consumer.close()

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """A group's offsets for a topic, where it has any."""
        answer = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        stored = answer[group].result(SECONDS).topic_partitions or []
        return {one.partition: one.offset for one in stored if one.topic == topic and one.offset >= 0}

    def ends(self, topic: str) -> dict[int, int]:
        """The end offset of each partition."""
        return {partition: high for partition, (_, high) in self.bounds(topic).items()}

    def bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        """The first and the end offset of each partition."""
        consumer = self._consumer()
        try:
            found = {
                partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=SECONDS)
                for partition in range(self.topics()[topic])
            }
            return {partition: bounds for partition, bounds in found.items() if bounds is not None}
        finally:
            consumer.close()

    def group(self, group: str) -> tuple[ConsumerGroupState, int]:
        """A group's state, and how many members it has."""
        described = self._admin.describe_consumer_groups([group])[group].result(SECONDS)
        return described.state, len(described.members)

    def _consumer(self) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "referee",  # librdkafka wants a name; no group is joined, nothing is committed
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
            }
        )


def _seen(message: Message) -> Seen:
    headers = message.headers()
    header = headers[0][1] if isinstance(headers, list) and headers else b""
    return Seen(
        message.partition() or 0,
        message.offset() or 0,
        _text(message.key()),
        _text(message.value()),
        _text(header if isinstance(header, bytes) else None),
    )


def _text(data: bytes | None) -> str:
    return (data or b"").decode("latin-1")  # a character for each byte: some values are numbers


def by_partition(records: Iterable[Seen]) -> dict[int, list[str]]:
    """Values in order, by partition."""
    found: dict[int, list[str]] = {}
    for seen in records:
        found.setdefault(seen.partition, []).append(seen.value)
    return found


def round_the_partitions(values: Sequence[str], partitions: int) -> dict[int, list[str]]:
    """How values come to lie that were sent one partition after another."""
    return {partition: list(values[partition::partitions]) for partition in range(partitions)}
