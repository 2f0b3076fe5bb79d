"""kafka-python, controlled by lines: `python -m tests.interop.drivers.kafka_python HOST:PORT`."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from kafka import (
    ConsumerRebalanceListener,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    TopicPartition,
    errors,
)
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.coordinator.assignors.cooperative_sticky import (
    CooperativeStickyAssignor,
)
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.structs import OffsetAndMetadata

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

LONG_POLL_S: Final = 1.0
ASSIGNORS: Final = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


def name(partition: Any) -> str:
    return f"{partition.topic}-{partition.partition}"


def to_record(message: Any) -> Record:
    return record(
        message.topic,
        message.partition,
        message.offset,
        message.key,
        message.value,
        message.headers,
        message.timestamp,
    )


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Writes callbacks into the history."""

    def __init__(self, member: Member) -> None:
        self._history = member.history

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._history.event("assigned", map(name, assigned))

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self._history.event("revoked", map(name, revoked))

    def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        self._history.event("lost", map(name, lost))


class KafkaPythonMember(Member):
    """A KafkaConsumer in a group."""

    def __init__(self, topics: Sequence[str] | None, pattern: str | None, settings: Mapping[str, object]) -> None:
        self._topics, self._pattern, self._settings = topics, pattern, settings
        super().__init__()

    def open(self) -> None:
        self._consumer = KafkaConsumer(**self._settings)
        self._consumer.subscribe(topics=self._topics or (), pattern=self._pattern, listener=Listener(self))

    def poll(self) -> list[Record]:
        # kafka-python 3.0.12 drops a join that it started because its topics changed if poll() ends before the join
        # does. Where topics may change, and until the first assignment, poll() therefore gets more time.
        may_join = self._pattern is not None or not self._consumer.assignment()
        received = self._consumer.poll(timeout_ms=int((LONG_POLL_S if may_join else POLL_S) * 1000))
        return [to_record(message) for messages in received.values() for message in messages]

    def assignment(self) -> Iterable[str]:
        return map(name, self._consumer.assignment())

    def generation(self) -> int:
        return int(self._consumer.group_metadata().generation_id)

    def close_consumer(self) -> None:
        self._consumer.close(autocommit=False)

    def commit(self, offsets: Mapping[str, tuple[int, str]] | None) -> None:
        chosen = offsets and {
            TopicPartition(*split(partition)): OffsetAndMetadata(offset, metadata, -1)
            for partition, (offset, metadata) in offsets.items()
        }
        self._consumer.commit(chosen)

    def committed(self, partition: str) -> tuple[int, str] | None:
        committed = self._consumer.committed(TopicPartition(*split(partition)), metadata=True)
        return committed and (committed.offset, committed.metadata)

    def seek(self, partition: str, offset: int) -> None:
        self._consumer.seek(TopicPartition(*split(partition)), offset)


class KafkaPython(Driver):
    """The commands, implemented with kafka-python."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self.admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    def code(self, error: Exception) -> int:
        errno = getattr(error, "errno", None)
        return -1 if errno is None else int(errno)

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
            "bootstrap_servers": self.bootstrap,
            "client_id": member,
            "group_id": group,
            "group_instance_id": instance,
            "partition_assignment_strategy": tuple(ASSIGNORS[strategy] for strategy in assignor.split(",")),
            "session_timeout_ms": session_ms,
            "heartbeat_interval_ms": HEARTBEAT_MS,
            "metadata_max_age_ms": METADATA_MS,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
        }
        self.members[member] = KafkaPythonMember(topics, pattern, settings)

    def loop(self, topic: str, group: str, style: str, end: str) -> None:
        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=self.bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=end != "commit",
            auto_commit_interval_ms=AUTO_COMMIT_MS,
        )
        try:
            for number, _ in enumerate(consumer if style == "single" else _batches(consumer), 1):
                if process(number, end, consumer.commit):
                    break
        except Failed:
            consumer.close()
        if end == "break":
            consumer.close()
        self.left_open.append(consumer)

    def transact(self, transactional_id: str, topic: str, transactions: Sequence[dict[str, Any]]) -> None:
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, transactional_id=transactional_id)
        self.left_open.append(producer)
        producer.init_transactions()
        for transaction in transactions:
            producer.begin_transaction()
            for value in transaction["values"]:
                producer.send(topic, value=value.encode(), partition=0)
            if transaction["group"] is not None:
                offsets = {TopicPartition(topic, 0): OffsetAndMetadata(transaction["offset"], "", -1)}
                producer.send_offsets_to_transaction(offsets, transaction["group"])
            if transaction["end"] == "commit":
                producer.commit_transaction()
            else:
                producer.flush()
                if transaction["end"] == "abort":
                    producer.abort_transaction()

    def produce(self, topic: str, records: Sequence[Record], codec: str) -> list[tuple[int, int]]:
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap, compression_type=None if codec == "none" else codec, linger_ms=5
        )
        try:
            sent = [
                producer.send(
                    topic,
                    value=data(record["value"]),
                    key=data(record["key"]),
                    headers=[(key, data(value)) for key, value in record["headers"]],
                    partition=record["partition"],
                    timestamp_ms=record["timestamp"],
                )
                for record in records
            ]
            metadata = [future.get(timeout=COMMAND_S) for future in sent]
            return [(position.partition, position.offset) for position in metadata]
        finally:
            producer.close()

    def _consumer(self) -> Any:
        return KafkaConsumer(bootstrap_servers=self.bootstrap, enable_auto_commit=False, auto_offset_reset="none")

    def read(self, topic: str, start: Mapping[str, int], count: int) -> list[Record]:
        consumer = self._consumer()
        try:
            consumer.assign([TopicPartition(topic, int(partition)) for partition in start])
            for partition, offset in start.items():
                consumer.seek(TopicPartition(topic, int(partition)), offset)
            received: list[Record] = []
            deadline = time.monotonic() + COMMAND_S
            while len(received) < count and time.monotonic() < deadline:
                for records in consumer.poll(timeout_ms=500).values():
                    received.extend(map(to_record, records))
            return received
        finally:
            consumer.close()

    def offsets(self, topic: str, partitions: Sequence[int]) -> dict[int, tuple[int, int]]:
        consumer = self._consumer()
        try:
            requested = [TopicPartition(topic, number) for number in partitions]
            first, end = consumer.beginning_offsets(requested), consumer.end_offsets(requested)
            return {partition.partition: (first[partition], end[partition]) for partition in requested}
        finally:
            consumer.close()

    def offset_at(self, topic: str, partition: int, timestamp: int) -> int | None:
        consumer = self._consumer()
        try:
            topic_partition = TopicPartition(topic, partition)
            offset = consumer.offsets_for_times({topic_partition: timestamp})[topic_partition]
            return offset and int(offset.offset)
        finally:
            consumer.close()

    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        self.admin.create_topics(
            {topic: {"num_partitions": partitions, "replication_factor": 1, "configs": dict(configs)}},
            wait_for_metadata=True,
        )

    def delete_topic(self, topic: str) -> None:
        self.admin.delete_topics([topic])

    def topics(self) -> list[str]:
        return list(self.admin.list_topics())

    def partitions(self, topic: str) -> int:
        (description,) = self.admin.describe_topics([topic])
        return len(description["partitions"])

    def add_partitions(self, topic: str, total: int) -> None:
        self.admin.create_partitions({topic: total})

    def config(self, topic: str, name: str) -> str:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        configs = self.admin.describe_configs([resource], config_filter="all")
        return str(configs["topic"][topic][name]["value"])

    def set_config(self, topic: str, name: str, value: str) -> None:
        response = self.admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})])
        result = response["topic"][topic]  # "OK", or the error as text: "[Error 40] …"
        if result != "OK":
            raise errors.for_code(int(result.partition("]")[0].removeprefix("[Error ")))(result)

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        topic_partition = TopicPartition(topic, partition)
        result = self.admin.delete_records({topic_partition: before})[topic_partition]
        return int(result["low_watermark"])

    def groups(self) -> list[str]:
        return [group["group_id"] for group in self.admin.list_groups()]

    def group(self, group: str) -> dict[str, Any]:
        description = self.admin.describe_groups([group])[group]
        return {
            "state": description["group_state"],
            "protocol": description["protocol_data"],
            "members": {
                member["client_id"]: sorted(
                    f"{topic['topic']}-{partition}"
                    for topic in member["member_assignment"]["assigned_partitions"]
                    for partition in topic["partitions"]
                )
                for member in description["members"]
            },
        }

    def group_offsets(self, group: str) -> dict[str, int]:
        offsets = self.admin.list_group_offsets({group: None})[group]
        return {name(partition): committed.offset for partition, committed in offsets.items()}

    def set_group_offsets(self, group: str, offsets: Mapping[str, int]) -> None:
        commits = {
            TopicPartition(*split(partition)): OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets.items()
        }
        _raise_first(self.admin.alter_group_offsets(group, commits).values())

    def delete_group_offsets(self, group: str, partitions: Sequence[str]) -> None:
        topic_partitions = [TopicPartition(*split(partition)) for partition in partitions]
        _raise_first(self.admin.delete_group_offsets(group, topic_partitions).values())

    def delete_group(self, group: str) -> None:
        result = self.admin.delete_groups([group])[group]  # "OK", or the name of an error
        if result != "OK":
            raise getattr(errors, result)()

    def cluster(self) -> dict[str, Any]:
        description = self.admin.describe_cluster()
        return {
            "id": description["cluster_id"],
            "controller": description["controller_id"],
            "nodes": [f"{broker['host']}:{broker['port']}" for broker in description["brokers"]],
        }


def _batches(consumer: Any) -> Iterator[Any]:
    while True:
        for records in consumer.poll(timeout_ms=1000).values():
            yield from records


def _raise_first(results: Iterable[Any]) -> None:
    """Raise the first error; the client returns error classes, and NoError for success."""
    for error in results:
        if error.errno:
            raise error


if __name__ == "__main__":
    serve(KafkaPython)
