"""Consumers of other libraries with isolation.level=read_committed, while a transaction is open and after its end."""

import asyncio
import warnings
from collections.abc import Callable

import aiokafka
import confluent_kafka
import pytest

from slackwater import Admin, Producer

Name = Callable[[str], str]
Reader = Callable[[str, str, int], tuple[list[bytes], int]]
TIMEOUT_S = 30.0


def with_confluent(bootstrap: str, topic: str, count: int) -> tuple[list[bytes], int]:
    client = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "readers", "isolation.level": "read_committed"}
    )
    try:
        client.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        values: list[bytes] = []
        while len(values) < count:
            record = client.poll(TIMEOUT_S)
            assert record is not None, values
            assert record.error() is None
            values.append(record.value() or b"")
        _, end = client.get_watermark_offsets(confluent_kafka.TopicPartition(topic, 0), timeout=TIMEOUT_S)
        return values, end
    finally:
        client.close()


def with_kafka_python(bootstrap: str, topic: str, count: int) -> tuple[list[bytes], int]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of its import
        import kafka
    client = kafka.KafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed")
    try:
        partition = kafka.TopicPartition(topic, 0)
        client.assign([partition])
        client.seek(partition, 0)
        values: list[bytes] = []
        while len(values) < count:
            found = client.poll(TIMEOUT_S * 1000)
            assert found, values
            values += [record.value for record in found[partition]]
        return values, client.end_offsets([partition])[partition]
    finally:
        client.close()


def with_aiokafka(bootstrap: str, topic: str, count: int) -> tuple[list[bytes], int]:
    async def read() -> tuple[list[bytes], int]:
        client = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed")
        await client.start()
        try:
            partition = aiokafka.TopicPartition(topic, 0)
            client.assign([partition])
            client.seek(partition, 0)
            values: list[bytes] = []
            async with asyncio.timeout(TIMEOUT_S):
                while len(values) < count:
                    values.append((await client.getone()).value)
            return values, (await client.end_offsets([partition]))[partition]
        finally:
            await client.stop()

    return asyncio.run(read())


@pytest.mark.parametrize("read", [with_confluent, with_kafka_python, with_aiokafka])
def test_reader_sees_committed_records(bootstrap: str, name: Name, read: Reader) -> None:
    topic = name("committed")
    with Admin({"bootstrap.servers": bootstrap}) as admin:
        admin.create_topic(topic, 1)
    with Producer({"bootstrap.servers": bootstrap, "transactional.id": name("writer")}) as producer:
        producer.init_transactions()
        for values, end in (("ab", producer.commit_transaction), ("cd", producer.abort_transaction), ("ef", None)):
            producer.begin_transaction()
            for value in values:
                producer.send(topic, value=value.encode(), partition=0)
            producer.flush()
            if end is not None:
                end()
        assert read(bootstrap, topic, 2) == ([b"a", b"b"], 6)
        producer.commit_transaction()
        assert read(bootstrap, topic, 4)[0] == [b"a", b"b", b"e", b"f"]
