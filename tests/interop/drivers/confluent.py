"""confluent-kafka (librdkafka), controlled by lines: `python -m tests.interop.drivers.confluent HOST:PORT`."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.interop.drivers.line import (
    AUTO_COMMIT_MS,
    COMMAND_S,
    HEARTBEAT_MS,
    METADATA_MS,
    POLL_S,
    Driver,
    Failed,
    Member,
    Record,
    data,
    process,
    record,
    serve,
    split,
)

_MAGIC: Final = b"CGMDv2:"  # the start of librdkafka's serialised group metadata; the generation follows


def name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def to_record(message: Message) -> Record:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    headers: Any = message.headers()
    key: Any = message.key()
    value: Any = message.value()
    return record(topic, partition, offset, key, value, headers, message.timestamp()[1])


def to_records(messages: Iterable[Message]) -> list[Record]:
    """The records; raises the error of a message that has one."""
    records = []
    for message in messages:
        error = message.error()
        if error is not None:
            raise KafkaException(error)
        records.append(to_record(message))
    return records


def _messages(consumer: Consumer, count: int) -> Iterator[Message]:
    while True:
        if count == 1:
            message = consumer.poll(1.0)
            yield from [message] if message is not None else []
        else:
            yield from consumer.consume(count, 1.0)


class ConfluentMember(Member):
    """A Consumer in a group."""

    def __init__(self, topics: Sequence[str], settings: Mapping[str, Any]) -> None:
        self._topics, self._settings = topics, settings
        super().__init__()

    def open(self) -> None:
        self._consumer = Consumer(dict(self._settings))
        self._consumer.subscribe(
            list(self._topics),
            on_assign=lambda _, partitions: self.history.event("assigned", map(name, partitions)),
            on_revoke=lambda _, partitions: self.history.event("revoked", map(name, partitions)),
            on_lost=lambda _, partitions: self.history.event("lost", map(name, partitions)),
        )

    def poll(self) -> list[Record]:
        return to_records(self._consumer.consume(500, POLL_S))

    def assignment(self) -> Iterable[str]:
        return map(name, self._consumer.assignment())

    def generation(self) -> int:
        serialised: Any = self._consumer.consumer_group_metadata()
        assert serialised.startswith(_MAGIC), serialised
        return int.from_bytes(serialised[len(_MAGIC) : len(_MAGIC) + 4], "little", signed=True)

    def close_consumer(self) -> None:
        self._consumer.close()

    def commit(self, offsets: Mapping[str, tuple[int, str]] | None) -> None:
        if offsets is None:
            committed = self._consumer.commit(asynchronous=False)
        else:
            requested = [
                TopicPartition(*split(partition), offset, metadata) for partition, (offset, metadata) in offsets.items()
            ]
            committed = self._consumer.commit(offsets=requested, asynchronous=False)
        for partition in committed or ():
            if partition.error is not None:
                raise KafkaException(partition.error)

    def committed(self, partition: str) -> tuple[int, str] | None:
        (committed,) = self._consumer.committed([TopicPartition(*split(partition))], timeout=COMMAND_S)
        return None if committed.offset == OFFSET_INVALID else (committed.offset, committed.metadata or "")

    def seek(self, partition: str, offset: int) -> None:
        self._consumer.seek(TopicPartition(*split(partition), offset))


class Confluent(Driver):
    """The commands, implemented with confluent-kafka."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self.admin = AdminClient({"bootstrap.servers": bootstrap})

    def code(self, error: Exception) -> int:
        return int(error.args[0].code()) if isinstance(error, KafkaException) else -1

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
        settings = {
            "bootstrap.servers": self.bootstrap,
            "client.id": member,
            "group.id": group,
            "partition.assignment.strategy": assignor,
            "session.timeout.ms": session_ms,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "topic.metadata.refresh.interval.ms": METADATA_MS,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        if instance is not None:
            settings["group.instance.id"] = instance
        self.members[member] = ConfluentMember(topics or [pattern or ""], settings)

    def loop(self, topic: str, group: str, style: str, end: str) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": end != "commit",
            "auto.commit.interval.ms": AUTO_COMMIT_MS,
        }
        consumer = Consumer(settings)
        consumer.subscribe([topic])
        try:
            for number, _ in enumerate(_messages(consumer, 1 if style == "single" else 500), 1):
                if process(number, end, lambda: consumer.commit(asynchronous=False)):
                    break
        except Failed:
            consumer.close()
        if end == "break":
            consumer.close()
        self.left_open.append(consumer)

    def transact(self, transactional_id: str, topic: str, transactions: Sequence[dict[str, Any]]) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": transactional_id})
        self.left_open.append(producer)
        producer.init_transactions(COMMAND_S)
        for transaction in transactions:
            producer.begin_transaction()
            for value in transaction["values"]:
                producer.produce(topic, value.encode(), partition=0)
            if (group := transaction["group"]) is not None:
                reader = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group})
                offsets = [TopicPartition(topic, 0, transaction["offset"])]
                producer.send_offsets_to_transaction(offsets, reader.consumer_group_metadata(), COMMAND_S)
                reader.close()
            if transaction["end"] == "commit":
                producer.commit_transaction(COMMAND_S)
            else:
                producer.flush(COMMAND_S)
                if transaction["end"] == "abort":
                    producer.abort_transaction(COMMAND_S)

    def produce(self, topic: str, records: Sequence[Record], codec: str) -> list[tuple[int, int]]:
        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "compression.type": codec, "enable.idempotence": True, "linger.ms": 5}
        )
        positions: dict[int, tuple[int, int]] = {}

        def on_delivery_of(number: int) -> Callable[[Any, Message], None]:
            def on_delivery(error: Any, message: Message) -> None:
                if error is not None:
                    raise KafkaException(error)
                delivered = to_record(message)
                positions[number] = (delivered["partition"], delivered["offset"])

            return on_delivery

        for number, requested in enumerate(records):
            producer.produce(
                topic,
                value=data(requested["value"]),
                key=data(requested["key"]),
                headers=[(key, data(value)) for key, value in requested["headers"]],
                partition=-1 if requested["partition"] is None else requested["partition"],
                timestamp=requested["timestamp"] or 0,
                on_delivery=on_delivery_of(number),
            )
        producer.flush(COMMAND_S)
        return [positions[number] for number in range(len(records))]

    def _consumer(self) -> Consumer:
        settings = {"bootstrap.servers": self.bootstrap, "group.id": "reader", "enable.auto.commit": False}
        return Consumer({**settings, "auto.offset.reset": "error"})

    def read(self, topic: str, start: Mapping[str, int], count: int) -> list[Record]:
        consumer = self._consumer()
        try:
            consumer.assign([TopicPartition(topic, int(partition), offset) for partition, offset in start.items()])
            received: list[Record] = []
            deadline = time.monotonic() + COMMAND_S
            while len(received) < count and time.monotonic() < deadline:
                received.extend(to_records(consumer.consume(500, 0.1)))
            return received
        finally:
            consumer.close()

    def offsets(self, topic: str, partitions: Sequence[int]) -> dict[int, Any]:
        consumer = self._consumer()
        try:
            return {
                number: consumer.get_watermark_offsets(TopicPartition(topic, number), COMMAND_S)
                for number in partitions
            }
        finally:
            consumer.close()

    def offset_at(self, topic: str, partition: int, timestamp: int) -> int | None:
        consumer = self._consumer()
        try:
            (offset,) = consumer.offsets_for_times([TopicPartition(topic, partition, timestamp)], timeout=COMMAND_S)
            return None if offset.offset < 0 else offset.offset
        finally:
            consumer.close()

    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=dict(configs))
        self.admin.create_topics([new])[topic].result(COMMAND_S)

    def delete_topic(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(COMMAND_S)

    def topics(self) -> list[str]:
        return list(self.admin.list_topics(timeout=COMMAND_S).topics)

    def partitions(self, topic: str) -> int:
        description = self.admin.describe_topics(TopicCollection([topic]))[topic].result(COMMAND_S)
        return len(description.partitions)

    def add_partitions(self, topic: str, total: int) -> None:
        self.admin.create_partitions([NewPartitions(topic, total)])[topic].result(COMMAND_S)

    def config(self, topic: str, name: str) -> str:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        return str(self.admin.describe_configs([resource])[resource].result(COMMAND_S)[name].value)

    def set_config(self, topic: str, name: str, value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        self.admin.incremental_alter_configs([resource])[resource].result(COMMAND_S)

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        request = TopicPartition(topic, partition, before)
        return int(self.admin.delete_records([request])[request].result(COMMAND_S).low_watermark)

    def groups(self) -> list[str]:
        return [group.group_id for group in self.admin.list_consumer_groups().result(COMMAND_S).valid]

    def group(self, group: str) -> dict[str, Any]:
        description = self.admin.describe_consumer_groups([group])[group].result(COMMAND_S)
        return {
            "state": description.state.name.title(),
            "protocol": description.partition_assignor,
            "members": {
                member.client_id: sorted(map(name, member.assignment.topic_partitions))
                for member in description.members
            },
        }

    def group_offsets(self, group: str) -> dict[str, int]:
        request = ConsumerGroupTopicPartitions(group)
        result = self.admin.list_consumer_group_offsets([request])[group].result(COMMAND_S)
        return {name(partition): partition.offset for partition in result.topic_partitions}

    def set_group_offsets(self, group: str, offsets: Mapping[str, int]) -> None:
        partitions = [TopicPartition(*split(partition), offset) for partition, offset in offsets.items()]
        request = ConsumerGroupTopicPartitions(group, partitions)
        self.admin.alter_consumer_group_offsets([request])[group].result(COMMAND_S)

    def delete_group(self, group: str) -> None:
        self.admin.delete_consumer_groups([group])[group].result(COMMAND_S)

    def cluster(self) -> dict[str, Any]:
        description = self.admin.describe_cluster().result(COMMAND_S)
        return {
            "id": description.cluster_id,
            "controller": description.controller.id,
            "nodes": [f"{node.host}:{node.port}" for node in description.nodes],
        }


if __name__ == "__main__":
    serve(Confluent)
