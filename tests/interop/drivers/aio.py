"""aiokafka, controlled by lines: `python -m tests.interop.drivers.aio HOST:PORT`.

All clients share one event loop in its own thread. Every command runs as a coroutine there, and a task polls each
member.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from aiokafka import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    ConsumerRebalanceListener,
    TopicPartition,
)
from aiokafka.admin import (
    AIOKafkaAdminClient,
    NewPartitions,
    NewTopic,
    RecordsToDelete,
)
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import (
    StickyPartitionAssignor,
)
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from aiokafka.errors import for_code

from tests.interop.drivers.line import (
    AUTO_COMMIT_MS,
    COMMAND_S,
    HEARTBEAT_MS,
    HOLD_S,
    LAST_RECORD,
    METADATA_MS,
    POLL_S,
    Failed,
    MemberHistory,
    Record,
    data,
    record,
    serve,
    split,
)

T = TypeVar("T")
ASSIGNORS: Final = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
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


def raise_for_code(code: int) -> None:
    """Raise the exception of an error code."""
    if code:
        raise for_code(code)()


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Writes callbacks into the history."""

    def __init__(self, history: MemberHistory) -> None:
        self._history = history

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._history.event("assigned", map(name, assigned))

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self._history.event("revoked", map(name, revoked))


async def _batches(consumer: Any) -> AsyncIterator[Any]:
    while True:
        for records in (await consumer.getmany(timeout_ms=1000)).values():
            for message in records:
                yield message


class AioMember:
    """An AIOKafkaConsumer in a group, and the task that polls it."""

    def __init__(self, consumer: Any, group: str) -> None:
        self.consumer, self.group = consumer, group
        self.history = MemberHistory()
        self.task: asyncio.Task[None] | None = None

    async def run(self, topics: Sequence[str] | None, pattern: str | None) -> None:
        """Subscribe and poll until cancelled."""
        try:
            await self._poll(topics, pattern)
        except Exception as error:
            self.history.failure = error

    async def _poll(self, topics: Sequence[str] | None, pattern: str | None) -> None:
        self.consumer.subscribe(topics=topics or (), pattern=pattern, listener=Listener(self.history))
        await self.consumer.start()
        while True:
            received = await self.consumer.getmany(timeout_ms=int(POLL_S * 1000))
            self.history.records(to_record(message) for records in received.values() for message in records)
            # aiokafka has no public interface for the generation.
            self.history.update(map(name, self.consumer.assignment()), self.consumer._coordinator.generation)

    async def stop(self) -> None:
        """Stop polling and close the consumer."""
        assert self.task is not None
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.consumer.stop()


class Aio:
    """The commands, implemented with aiokafka."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.members: dict[str, AioMember] = {}
        self.left_open: list[object] = []  # consumers of `loop`
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self.admin = self._do(self._start_admin())

    async def _start_admin(self) -> Any:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await admin.start()
        return admin

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(COMMAND_S)

    def code(self, error: Exception) -> int:
        errno = getattr(error, "errno", None)
        return -1 if errno is None else int(errno)

    # --- members ------------------------------------------------------------------------------------------------------

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
        async def start() -> AioMember:
            consumer = AIOKafkaConsumer(
                bootstrap_servers=self.bootstrap,
                client_id=member,
                group_id=group,
                group_instance_id=instance,
                partition_assignment_strategy=(ASSIGNORS[assignor],),
                session_timeout_ms=session_ms,
                heartbeat_interval_ms=HEARTBEAT_MS,
                metadata_max_age_ms=METADATA_MS,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
            )
            aio_member = AioMember(consumer, group)
            aio_member.task = asyncio.create_task(aio_member.run(topics, pattern))
            return aio_member

        self.members[member] = self._do(start())

    def loop(self, topic: str, group: str, style: str, end: str) -> None:
        self._do(self._loop_to(topic, group, style, end))

    async def _loop_to(self, topic: str, group: str, style: str, end: str) -> None:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=self.bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=end != "commit",
            auto_commit_interval_ms=AUTO_COMMIT_MS,
        )
        await consumer.start()
        try:
            number = 0
            async for _ in consumer if style == "single" else _batches(consumer):
                number += 1
                if number == LAST_RECORD:
                    if end == "raise":
                        raise Failed
                    await (consumer.commit() if end == "commit" else asyncio.sleep(HOLD_S if end == "hold" else 0))
                    break
        except Failed:
            await consumer.stop()
        if end == "break":
            await consumer.stop()
        self.left_open.append(consumer)

    def snapshot(self, member: str) -> dict[str, Any]:
        return self.members[member].history.snapshot()

    def commit(self, member: str, offsets: Mapping[str, tuple[int, str]] | None) -> None:
        chosen = offsets and {
            TopicPartition(*split(partition)): (offset, metadata) for partition, (offset, metadata) in offsets.items()
        }
        self._do(self.members[member].consumer.commit(chosen))

    def committed(self, member: str, partition: str) -> tuple[int, str] | None:
        """Use the admin client, because the consumer does not return the metadata."""
        topic_partition = TopicPartition(*split(partition))
        group = self.members[member].group
        offsets = self._do(self.admin.list_consumer_group_offsets(group, partitions=[topic_partition]))
        committed = offsets[topic_partition]
        return None if committed.offset < 0 else (committed.offset, committed.metadata)

    def seek(self, member: str, partition: str, offset: int) -> None:
        async def seek() -> None:
            self.members[member].consumer.seek(TopicPartition(*split(partition)), offset)

        self._do(seek())

    def close(self, member: str) -> dict[str, Any]:
        closed = self.members.pop(member)
        self._do(closed.stop())
        return closed.history.snapshot()

    # --- records ------------------------------------------------------------------------------------------------------

    def transact(self, transactional_id: str, topic: str, transactions: Sequence[dict[str, Any]]) -> None:
        async def run() -> None:
            producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap, transactional_id=transactional_id)
            self.left_open.append(producer)
            await producer.start()
            for transaction in transactions:
                await producer.begin_transaction()
                for value in transaction["values"]:
                    await producer.send(topic, value.encode(), partition=0)
                if transaction["group"] is not None:
                    offsets = {TopicPartition(topic, 0): transaction["offset"]}
                    await producer.send_offsets_to_transaction(offsets, transaction["group"])
                if transaction["end"] == "commit":
                    await producer.commit_transaction()
                else:
                    await producer.flush()
                    if transaction["end"] == "abort":
                        await producer.abort_transaction()

        self._do(run())

    def produce(self, topic: str, records: Sequence[Record], codec: str) -> list[tuple[int, int]]:
        async def produce() -> list[tuple[int, int]]:
            producer = AIOKafkaProducer(
                bootstrap_servers=self.bootstrap,
                compression_type=None if codec == "none" else codec,
                enable_idempotence=True,
                linger_ms=5,
            )
            await producer.start()
            try:
                sent = [
                    await producer.send(
                        topic,
                        value=data(record["value"]),
                        key=data(record["key"]),
                        headers=[(key, data(value)) for key, value in record["headers"]],
                        partition=record["partition"],
                        timestamp_ms=record["timestamp"],
                    )
                    for record in records
                ]
                return [(metadata.partition, metadata.offset) for metadata in await asyncio.gather(*sent)]
            finally:
                await producer.stop()

        return self._do(produce())

    @asynccontextmanager
    async def _consumer(self) -> AsyncIterator[Any]:
        consumer = AIOKafkaConsumer(bootstrap_servers=self.bootstrap, auto_offset_reset="none")
        await consumer.start()
        try:
            yield consumer
        finally:
            await consumer.stop()

    def read(self, topic: str, start: Mapping[str, int], count: int) -> list[Record]:
        async def read() -> list[Record]:
            received: list[Record] = []
            async with self._consumer() as consumer:
                consumer.assign([TopicPartition(topic, int(number)) for number in start])
                for number, offset in start.items():
                    consumer.seek(TopicPartition(topic, int(number)), offset)
                while len(received) < count:
                    for records in (await consumer.getmany(timeout_ms=500)).values():
                        received.extend(map(to_record, records))
            return received

        return self._do(asyncio.wait_for(read(), COMMAND_S))

    def offsets(self, topic: str, partitions: Sequence[int]) -> dict[int, tuple[int, int]]:
        async def offsets() -> dict[int, tuple[int, int]]:
            requested = [TopicPartition(topic, number) for number in partitions]
            async with self._consumer() as consumer:
                first, end = await consumer.beginning_offsets(requested), await consumer.end_offsets(requested)
            return {partition.partition: (first[partition], end[partition]) for partition in requested}

        return self._do(offsets())

    def offset_at(self, topic: str, partition: int, timestamp: int) -> int | None:
        async def offset_at() -> int | None:
            topic_partition = TopicPartition(topic, partition)
            async with self._consumer() as consumer:
                offset = (await consumer.offsets_for_times({topic_partition: timestamp}))[topic_partition]
            return offset and int(offset.offset)

        return self._do(offset_at())

    # --- admin --------------------------------------------------------------------------------------------------------

    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        new = NewTopic(topic, num_partitions=partitions, replication_factor=1, topic_configs=dict(configs))
        for _, code, *_ in self._do(self.admin.create_topics([new])).topic_errors:
            raise_for_code(code)

    def delete_topic(self, topic: str) -> None:
        for _, code in self._do(self.admin.delete_topics([topic])).topic_error_codes:
            raise_for_code(code)

    def topics(self) -> list[str]:
        return list(self._do(self.admin.list_topics()))

    def partitions(self, topic: str) -> int:
        (description,) = self._do(self.admin.describe_topics([topic]))
        raise_for_code(description["error_code"])
        return len(description["partitions"])

    def add_partitions(self, topic: str, total: int) -> None:
        self._do(self.admin.create_partitions({topic: NewPartitions(total)}))

    def config(self, topic: str, name: str) -> str:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        (response,) = self._do(self.admin.describe_configs([resource]))
        ((code, _, _, _, entries),) = response.resources
        raise_for_code(code)
        return str({entry[0]: entry[1] for entry in entries}[name])

    def set_config(self, topic: str, name: str, value: str) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})
        (response,) = self._do(self.admin.alter_configs([resource]))
        for code, *_ in response.resources:
            raise_for_code(code)

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        topic_partition = TopicPartition(topic, partition)
        return int(self._do(self.admin.delete_records({topic_partition: RecordsToDelete(before)}))[topic_partition])

    def groups(self) -> list[str]:
        return [group for group, _ in self._do(self.admin.list_consumer_groups())]

    def group(self, group: str) -> dict[str, Any]:
        (response,) = self._do(self.admin.describe_consumer_groups([group]))
        (description,) = response.to_object()["groups"]
        raise_for_code(description["error_code"])
        return {
            "state": description["state"],
            "protocol": description["protocol"],
            "members": {
                member["client_id"]: _assigned(member["member_assignment"]) for member in description["members"]
            },
        }

    def group_offsets(self, group: str) -> dict[str, int]:
        offsets = self._do(self.admin.list_consumer_group_offsets(group))
        return {name(partition): committed.offset for partition, committed in offsets.items()}

    def cluster(self) -> dict[str, Any]:
        description = self._do(self.admin.describe_cluster())
        return {
            "id": description["cluster_id"],
            "controller": description["controller_id"],
            "nodes": [f"{broker['host']}:{broker['port']}" for broker in description["brokers"]],
        }


def _assigned(assignment: bytes) -> list[str]:
    topics = ConsumerProtocolMemberAssignment.decode(assignment).assignment if assignment else ()
    return sorted(f"{topic}-{partition}" for topic, partitions in topics for partition in partitions)


if __name__ == "__main__":
    serve(Aio)
