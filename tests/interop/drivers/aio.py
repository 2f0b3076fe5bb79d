"""aiokafka, driven by lines: `python -m tests.interop.drivers.aio HOST:PORT`.

The clients live on one event loop in a thread of its own, where every command runs as a coroutine; a member is polled
by a task there.
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
    COMMAND_S,
    HEARTBEAT_MS,
    METADATA_MS,
    POLL_S,
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


def shown(one: Any) -> Record:
    return record(one.topic, one.partition, one.offset, one.key, one.value, one.headers, one.timestamp)


def refuse(code: int) -> None:
    """Raise what an answer's error code stands for."""
    if code:
        raise for_code(code)()


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Writes callbacks into the history."""

    def __init__(self, history: MemberHistory) -> None:
        self._diary = history

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._diary.event("assigned", map(name, assigned))

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self._diary.event("revoked", map(name, revoked))


class AioMember:
    """An AIOKafkaConsumer in a group, and the task that polls it."""

    def __init__(self, consumer: Any, group: str) -> None:
        self.consumer, self.group = consumer, group
        self.history = MemberHistory()
        self.task: asyncio.Task[None] | None = None

    async def live(self, topics: Sequence[str] | None, pattern: str | None) -> None:
        """Subscribe, and poll until cancelled."""
        try:
            await self._poll(topics, pattern)
        except Exception as error:
            self.history.failure = error

    async def _poll(self, topics: Sequence[str] | None, pattern: str | None) -> None:
        self.consumer.subscribe(topics=topics or (), pattern=pattern, listener=Listener(self.history))
        await self.consumer.start()
        while True:
            received = await self.consumer.getmany(timeout_ms=int(POLL_S * 1000))
            self.history.records(shown(one) for records in received.values() for one in records)
            self.history.update(map(name, self.consumer.assignment()), self.consumer._coordinator.generation)

    async def stop(self) -> None:
        """Poll no more, and close."""
        assert self.task is not None
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.consumer.stop()


class Aio:
    """The commands, in aiokafka's terms."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.members: dict[str, AioMember] = {}
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
            one = AioMember(consumer, group)
            one.task = asyncio.create_task(one.live(topics, pattern))
            return one

        self.members[member] = self._do(start())

    def snapshot(self, member: str) -> dict[str, Any]:
        return self.members[member].history.snapshot()

    def commit(self, member: str, offsets: Mapping[str, tuple[int, str]] | None) -> None:
        chosen = offsets and {
            TopicPartition(*split(one)): (offset, metadata) for one, (offset, metadata) in offsets.items()
        }
        self._do(self.members[member].consumer.commit(chosen))

    def committed(self, member: str, partition: str) -> tuple[int, str] | None:
        """Through the admin client: the consumer itself does not tell the metadata."""
        asked = TopicPartition(*split(partition))
        group = self.members[member].group
        found = self._do(self.admin.list_consumer_group_offsets(group, partitions=[asked]))[asked]
        return None if found.offset < 0 else (found.offset, found.metadata)

    def seek(self, member: str, partition: str, offset: int) -> None:
        async def seek() -> None:
            self.members[member].consumer.seek(TopicPartition(*split(partition)), offset)

        self._do(seek())

    def close(self, member: str) -> dict[str, Any]:
        one = self.members.pop(member)
        self._do(one.stop())
        return one.history.snapshot()

    # --- records ------------------------------------------------------------------------------------------------------

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
                        value=data(one["value"]),
                        key=data(one["key"]),
                        headers=[(key, data(value)) for key, value in one["headers"]],
                        partition=one["partition"],
                        timestamp_ms=one["timestamp"],
                    )
                    for one in records
                ]
                return [(told.partition, told.offset) for told in await asyncio.gather(*sent)]
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
                consumer.assign([TopicPartition(topic, int(one)) for one in start])
                for one, offset in start.items():
                    consumer.seek(TopicPartition(topic, int(one)), offset)
                while len(received) < count:
                    for records in (await consumer.getmany(timeout_ms=500)).values():
                        received.extend(map(shown, records))
            return received

        return self._do(asyncio.wait_for(read(), COMMAND_S))

    def offsets(self, topic: str, partitions: Sequence[int]) -> dict[int, tuple[int, int]]:
        async def offsets() -> dict[int, tuple[int, int]]:
            asked = [TopicPartition(topic, one) for one in partitions]
            async with self._consumer() as consumer:
                first, end = await consumer.beginning_offsets(asked), await consumer.end_offsets(asked)
            return {one.partition: (first[one], end[one]) for one in asked}

        return self._do(offsets())

    def offset_at(self, topic: str, partition: int, timestamp: int) -> int | None:
        async def offset_at() -> int | None:
            asked = TopicPartition(topic, partition)
            async with self._consumer() as consumer:
                found = (await consumer.offsets_for_times({asked: timestamp}))[asked]
            return found and int(found.offset)

        return self._do(offset_at())

    # --- admin --------------------------------------------------------------------------------------------------------

    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        wanted = NewTopic(topic, num_partitions=partitions, replication_factor=1, topic_configs=dict(configs))
        for one in self._do(self.admin.create_topics([wanted])).topic_errors:
            refuse(one[1])

    def delete_topic(self, topic: str) -> None:
        for one in self._do(self.admin.delete_topics([topic])).topic_error_codes:
            refuse(one[1])

    def topics(self) -> list[str]:
        return list(self._do(self.admin.list_topics()))

    def partitions(self, topic: str) -> int:
        (one,) = self._do(self.admin.describe_topics([topic]))
        refuse(one["error_code"])
        return len(one["partitions"])

    def add_partitions(self, topic: str, total: int) -> None:
        self._do(self.admin.create_partitions({topic: NewPartitions(total)}))

    def config(self, topic: str, name: str) -> str:
        asked = ConfigResource(ConfigResourceType.TOPIC, topic)
        (answer,) = self._do(self.admin.describe_configs([asked]))
        ((code, _, _, _, entries),) = answer.resources
        refuse(code)
        return str({entry[0]: entry[1] for entry in entries}[name])

    def set_config(self, topic: str, name: str, value: str) -> None:
        asked = ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})
        (answer,) = self._do(self.admin.alter_configs([asked]))
        for one in answer.resources:
            refuse(one[0])

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        asked = TopicPartition(topic, partition)
        return int(self._do(self.admin.delete_records({asked: RecordsToDelete(before)}))[asked])

    def groups(self) -> list[str]:
        return [group for group, _ in self._do(self.admin.list_consumer_groups())]

    def group(self, group: str) -> dict[str, Any]:
        (answer,) = self._do(self.admin.describe_consumer_groups([group]))
        (found,) = answer.to_object()["groups"]
        refuse(found["error_code"])
        return {
            "state": found["state"],
            "protocol": found["protocol"],
            "members": {one["client_id"]: _assigned(one["member_assignment"]) for one in found["members"]},
        }

    def group_offsets(self, group: str) -> dict[str, int]:
        found = self._do(self.admin.list_consumer_group_offsets(group))
        return {name(partition): one.offset for partition, one in found.items()}

    def cluster(self) -> dict[str, Any]:
        found = self._do(self.admin.describe_cluster())
        return {
            "id": found["cluster_id"],
            "controller": found["controller_id"],
            "nodes": [f"{one['host']}:{one['port']}" for one in found["brokers"]],
        }


def _assigned(assignment: bytes) -> list[str]:
    topics = ConsumerProtocolMemberAssignment.decode(assignment).assignment if assignment else ()
    return sorted(f"{topic}-{partition}" for topic, partitions in topics for partition in partitions)


if __name__ == "__main__":
    serve(Aio)
