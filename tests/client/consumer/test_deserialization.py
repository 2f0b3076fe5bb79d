"""key.deserializer and value.deserializer, and the serializers of the producer."""

import asyncio
import json
from typing import Any

import pytest

from slackwater import Consumer, Producer
from slackwater.client.consumer.deserialization import DeserializationError
from slackwater.client.consumer.records import ConsumerRecord
from slackwater.client.producer import SerializationError
from slackwater.group.errors import UsageError
from slackwater.group.topic_partition import TopicPartition
from tests.client.clusters import ClusterUnderTest
from tests.client.consumer.test_runner import ThreadedRun, committed
from tests.client.helpers import consumer, fill, poll_until, read, wait_for

JSON: dict[str, Any] = {"key_deserializer": bytes.decode, "value_deserializer": json.loads}
SERVERS = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.fixture
def broken(cluster: ClusterUnderTest) -> TopicPartition:
    """A partition whose third of five values is not JSON; the last value is None."""
    topic = cluster.topic()
    fill(cluster, topic, [b"0", b"[1]", b"{", b"3"], key=b"k")
    with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
        producer.send(topic, None)
    return TopicPartition(topic, 0)


def to_json(value: object) -> str:
    return json.dumps(value)


def test_records_are_written_and_read_as_objects(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic()
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "value.serializer": to_json, "key.serializer": str}
    with Producer(settings) as producer:
        producer.send(topic, {"total": 12}, key=7)
        producer.send(topic, None, key=None)
    with consumer(cluster, key_deserializer=int, value_deserializer=json.loads) as client:
        client.assign([TopicPartition(topic, 0)])
        assert [(record.key, record.value) for record in read(client, 2)] == [(7, {"total": 12}), (None, None)]


def test_failed_serializer_names_the_topic(cluster: ClusterUnderTest) -> None:
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "value.serializer": to_json}
    with (
        Producer(settings) as producer,
        pytest.raises(SerializationError, match=r"The value of a record for t cannot be serialized: TypeError"),
    ):
        producer.send("t", {1, 2})


def test_failed_deserializer_names_the_record_until_seek(cluster: ClusterUnderTest, broken: TopicPartition) -> None:
    message = rf"^The value of {broken}, offset 2, cannot be deserialized: JSONDecodeError.* seek to offset 3"
    with consumer(cluster, broken.topic, **JSON) as client:
        client.subscribe([broken.topic])
        assert [record.value for record in read(client, 2)] == [0, [1]]
        for _ in range(2):
            with pytest.raises(DeserializationError, match=message) as caught:
                poll_until(client, lambda: False)
            assert (caught.value.record.key, caught.value.record.value) == (b"k", b"{")
            assert client.position(broken) == 2
        assert isinstance(caught.value.__cause__, ValueError)
        client.seek(broken, 3)
        assert [record.value for record in read(client, 2)] == [3, None]
    assert committed(cluster, broken.topic, broken.topic) == [5]


def test_failed_deserializer_does_not_commit_its_record(cluster: ClusterUnderTest, broken: TopicPartition) -> None:
    with consumer(cluster, broken.topic, **JSON) as client:
        client.subscribe([broken.topic])
        with pytest.raises(DeserializationError):
            poll_until(client, lambda: False)
    assert committed(cluster, broken.topic, broken.topic) == [2]


def test_iteration_deserializes_record_by_record(cluster: ClusterUnderTest, broken: TopicPartition) -> None:
    values: list[object] = []

    def iterate(client: Consumer) -> None:
        for record in client:
            values.append(record.value)
            if record.value is None:
                return

    with consumer(cluster, broken.topic, **JSON) as client:
        client.subscribe([broken.topic])
        with pytest.raises(DeserializationError, match="offset 2, cannot be deserialized"):
            iterate(client)
        client.seek(broken, 3)
        iterate(client)
    assert values == [0, [1], 3, None]


def test_healthy_partitions_are_read_despite_the_error(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic(2)
    fill(cluster, topic, [b"{"], partition=0)
    fill(cluster, topic, [b"1", b"2"], partition=1)
    values: list[object] = []
    errors: list[DeserializationError] = []
    with consumer(cluster, **JSON) as client:
        client.assign(cluster.partitions(topic, 0, 1))

        def poll() -> bool:
            try:
                values.extend(record.value for record in client.poll(0.1))
            except DeserializationError as error:
                errors.append(error)
            return values == [1, 2] and len(errors) > 1

        wait_for(poll)
    assert {error.record.offset for error in errors} == {0}


@pytest.mark.parametrize("kind", ["function", "coroutine function"])
def test_undeserializable_record_becomes_a_dead_letter(
    cluster: ClusterUnderTest, broken: TopicPartition, kind: str
) -> None:
    values: list[object] = []

    def handle(record: ConsumerRecord) -> None:
        values.append(record.value)

    async def handle_async(record: ConsumerRecord) -> None:
        await asyncio.sleep(0)
        handle(record)

    dead = f"{broken.topic}-dead"
    with consumer(cluster, broken.topic, auto_commit_interval_ms=20, value_serializer=to_json, **JSON) as client:
        client.subscribe([broken.topic])
        running = ThreadedRun(client, handle if kind == "function" else handle_async, dead_letter_topic=dead)
        wait_for(lambda: committed(cluster, broken.topic, broken.topic) == [5])
        running.stop()
    assert values == [0, [1], 3, None]
    with consumer(cluster) as reader:
        reader.assign([TopicPartition(dead, 0)])
        (letter,) = read(reader, 1)
    headers = dict(letter.headers)
    assert (letter.key, letter.value) == (b"k", b"{")
    assert (headers["dead-letter.offset"], headers["dead-letter.attempts"]) == (b"2", b"1")
    assert b"cannot be deserialized" in (headers["dead-letter.error"] or b"")


def test_undeserializable_record_ends_run_without_dead_letters(
    cluster: ClusterUnderTest, broken: TopicPartition
) -> None:
    with consumer(cluster, broken.topic, **JSON) as client:
        client.subscribe([broken.topic])
        with pytest.raises(DeserializationError, match=f"{broken}, offset 2, cannot be deserialized"):
            client.run(lambda record: None)
        assert client.position(broken) == 2
    assert committed(cluster, broken.topic, broken.topic) == [2]


@pytest.mark.parametrize(
    ("make", "name", "example"),
    [
        (Consumer, "key.deserializer", "bytes.decode"),
        (Consumer, "value.deserializer", "bytes.decode"),
        (Producer, "key.serializer", "str.encode"),
        (Producer, "value.serializer", "str.encode"),
    ],
)
def test_class_name_is_refused(make: type[Consumer | Producer], name: str, example: str) -> None:
    java = "org.apache.kafka.common.serialization.StringSerializer"
    with pytest.raises(UsageError, match=f"^{name} = {java} is a name; pass a Python function .*, such as {example}"):
        make(SERVERS | {name: java})
    with pytest.raises(UsageError, match=f"^{name} is int; pass a Python function"):
        make(SERVERS | {name: 5})


def test_poll_arrow_refuses_deserializers() -> None:
    with Consumer(SERVERS, **JSON) as client, pytest.raises(UsageError, match="keys and values as bytes"):
        client.poll_arrow()
