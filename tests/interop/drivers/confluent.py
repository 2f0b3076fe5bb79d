"""confluent-kafka (librdkafka), driven by lines: `python -m tests.interop.drivers.confluent HOST:PORT`."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
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
    COMMAND_S,
    HEARTBEAT_MS,
    METADATA_MS,
    POLL_S,
    Driver,
    Member,
    Record,
    data,
    record,
    serve,
    split,
)

_MAGIC: Final = b"CGMDv2:"  # how librdkafka opens its serialised group metadata; the generation follows


def name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def shown(one: Message) -> Record:
    topic, partition, offset = one.topic(), one.partition(), one.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    headers: Any = one.headers()
    key: Any = one.key()
    value: Any = one.value()
    return record(topic, partition, offset, key, value, headers, one.timestamp()[1])


def taken(messages: Iterable[Message]) -> list[Record]:
    """The records; anything else that received is an error."""
    records = []
    for one in messages:
        error = one.error()
        if error is not None:
            raise KafkaException(error)
        records.append(shown(one))
    return records


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
        return taken(self._consumer.consume(500, POLL_S))

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
            told = self._consumer.commit(asynchronous=False)
        else:
            wanted = [TopicPartition(*split(one), offset, metadata) for one, (offset, metadata) in offsets.items()]
            told = self._consumer.commit(offsets=wanted, asynchronous=False)
        for one in told or ():
            if one.error is not None:
                raise KafkaException(one.error)

    def committed(self, partition: str) -> tuple[int, str] | None:
        (found,) = self._consumer.committed([TopicPartition(*split(partition))], timeout=COMMAND_S)
        return None if found.offset == OFFSET_INVALID else (found.offset, found.metadata or "")

    def seek(self, partition: str, offset: int) -> None:
        self._consumer.seek(TopicPartition(*split(partition), offset))


class Confluent(Driver):
    """The commands, in confluent-kafka's terms."""

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

    def produce(self, topic: str, records: Sequence[Record], codec: str) -> list[tuple[int, int]]:
        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "compression.type": codec, "enable.idempotence": True, "linger.ms": 5}
        )
        told: dict[int, tuple[int, int]] = {}

        def noting(number: int) -> Callable[[Any, Message], None]:
            def note(error: Any, message: Message) -> None:
                if error is not None:
                    raise KafkaException(error)
                one = shown(message)
                told[number] = (one["partition"], one["offset"])

            return note

        for number, one in enumerate(records):
            producer.produce(
                topic,
                value=data(one["value"]),
                key=data(one["key"]),
                headers=[(key, data(value)) for key, value in one["headers"]],
                partition=-1 if one["partition"] is None else one["partition"],
                timestamp=one["timestamp"] or 0,
                on_delivery=noting(number),
            )
        producer.flush(COMMAND_S)
        return [told[number] for number in range(len(records))]

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
                received.extend(taken(consumer.consume(500, 0.1)))
            return received
        finally:
            consumer.close()

    def offsets(self, topic: str, partitions: Sequence[int]) -> dict[int, Any]:
        consumer = self._consumer()
        try:
            return {one: consumer.get_watermark_offsets(TopicPartition(topic, one), COMMAND_S) for one in partitions}
        finally:
            consumer.close()

    def offset_at(self, topic: str, partition: int, timestamp: int) -> int | None:
        consumer = self._consumer()
        try:
            (found,) = consumer.offsets_for_times([TopicPartition(topic, partition, timestamp)], timeout=COMMAND_S)
            return None if found.offset < 0 else found.offset
        finally:
            consumer.close()

    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        wanted = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=dict(configs))
        self.admin.create_topics([wanted])[topic].result(COMMAND_S)

    def delete_topic(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(COMMAND_S)

    def topics(self) -> list[str]:
        return list(self.admin.list_topics(timeout=COMMAND_S).topics)

    def partitions(self, topic: str) -> int:
        found = self.admin.describe_topics(TopicCollection([topic]))[topic].result(COMMAND_S)
        return len(found.partitions)

    def add_partitions(self, topic: str, total: int) -> None:
        self.admin.create_partitions([NewPartitions(topic, total)])[topic].result(COMMAND_S)

    def config(self, topic: str, name: str) -> str:
        asked = ConfigResource(ResourceType.TOPIC, topic)
        return str(self.admin.describe_configs([asked])[asked].result(COMMAND_S)[name].value)

    def set_config(self, topic: str, name: str, value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        asked = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        self.admin.incremental_alter_configs([asked])[asked].result(COMMAND_S)

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        asked = TopicPartition(topic, partition, before)
        return int(self.admin.delete_records([asked])[asked].result(COMMAND_S).low_watermark)

    def groups(self) -> list[str]:
        return [one.group_id for one in self.admin.list_consumer_groups().result(COMMAND_S).valid]

    def group(self, group: str) -> dict[str, Any]:
        found = self.admin.describe_consumer_groups([group])[group].result(COMMAND_S)
        return {
            "state": found.state.name.title(),
            "protocol": found.partition_assignor,
            "members": {one.client_id: sorted(map(name, one.assignment.topic_partitions)) for one in found.members},
        }

    def group_offsets(self, group: str) -> dict[str, int]:
        asked = ConsumerGroupTopicPartitions(group)
        found = self.admin.list_consumer_group_offsets([asked])[group].result(COMMAND_S)
        return {name(one): one.offset for one in found.topic_partitions}

    def set_group_offsets(self, group: str, offsets: Mapping[str, int]) -> None:
        wanted = [TopicPartition(*split(one), offset) for one, offset in offsets.items()]
        asked = ConsumerGroupTopicPartitions(group, wanted)
        self.admin.alter_consumer_group_offsets([asked])[group].result(COMMAND_S)

    def delete_group(self, group: str) -> None:
        self.admin.delete_consumer_groups([group])[group].result(COMMAND_S)

    def cluster(self) -> dict[str, Any]:
        found = self.admin.describe_cluster().result(COMMAND_S)
        return {
            "id": found.cluster_id,
            "controller": found.controller.id,
            "nodes": [f"{one.host}:{one.port}" for one in found.nodes],
        }


if __name__ == "__main__":
    serve(Confluent)
