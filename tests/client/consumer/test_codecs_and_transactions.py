"""Compressed batches, empty values and transactional records."""

import confluent_kafka
import pytest

from slackwater import Consumer, Producer
from tests.client.clusters import ClusterUnderTest
from tests.client.helpers import TIMEOUT_S, consumer, fill, numbers, poll_until, read

pytestmark = pytest.mark.old_kafka
COUNT = 200


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_written_and_read(cluster: ClusterUnderTest, codec: str) -> None:
    topic = cluster.topic()
    values = [b"%d" % number * 100 for number in range(COUNT)]
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "compression.type": codec, "linger.ms": 50}
    with Producer(settings) as producer:
        for value in values:
            producer.send(topic, value, b"k", headers=[("codec", codec.encode())])
    with consumer(cluster) as client:
        client.assign(cluster.partitions(topic, 0))
        records = read(client, COUNT)
    assert [record.value for record in records] == values
    assert {record.headers for record in records} == {(("codec", codec.encode()),)}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_of_librdkafka_are_read(cluster: ClusterUnderTest, codec: str) -> None:
    topic = cluster.topic()
    other = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "compression.type": codec, "linger.ms": 50}
    )
    for number in range(COUNT):
        other.produce(topic, b"%d" % number * 100, headers=[("n", b"%d" % number)] if number % 2 else None)
    assert other.flush(TIMEOUT_S) == 0
    with consumer(cluster) as client:
        client.assign(cluster.partitions(topic, 0))
        records = read(client, COUNT)
    assert [record.value for record in records] == [b"%d" % number * 100 for number in range(COUNT)]
    assert records[1].headers == (("n", b"1"),)


def test_tombstones_differ_from_empty_values(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic()
    with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
        producer.send(topic, None, b"k")
        producer.send(topic, b"", b"")
    with consumer(cluster) as client:
        client.assign(cluster.partitions(topic, 0))
        assert [(record.key, record.value) for record in read(client, 2)] == [(b"k", None), (b"", b"")]


def transactions(cluster: ClusterUnderTest, topic: str) -> confluent_kafka.Producer:
    """Write three records of an aborted transaction, two of a committed one, and one of an open one."""
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(TIMEOUT_S)
    for values, end in (
        (numbers(3), producer.abort_transaction),
        (numbers(2, 10), producer.commit_transaction),
        (numbers(1, 20), None),
    ):
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=0)
        assert producer.flush(TIMEOUT_S) == 0
        if end is not None:
            end(TIMEOUT_S)
    return producer


@pytest.mark.parametrize("arrow", [False, True])
def test_read_committed_skips_aborted_and_open(cluster: ClusterUnderTest, arrow: bool) -> None:
    topic = cluster.topic()
    (partition,) = cluster.partitions(topic, 0)
    fill(cluster, topic, [b"before"])
    producer = transactions(cluster, topic)
    with consumer(cluster, isolation_level="read_committed") as client, consumer(cluster) as uncommitted_reader:
        client.assign([partition])
        uncommitted_reader.assign([partition])
        assert [record.value for record in read(uncommitted_reader, 7)] == [
            b"before", *numbers(3), *numbers(2, 10), *numbers(1, 20),
        ]  # fmt: skip
        assert uncommitted_reader.end_offsets([partition])[partition] > client.end_offsets([partition])[partition]
        assert values_of(client, 3, arrow) == [b"before", *numbers(2, 10)]
        assert client.poll(0.1) == []
        producer.commit_transaction(TIMEOUT_S)
        assert values_of(client, 1, arrow) == numbers(1, 20)
        # Seven records, and the markers of three transactions.
        poll_until(client, lambda: client.position(partition) == 10)


def values_of(client: Consumer, count: int, arrow: bool) -> list[bytes | None]:
    """The values of the next records, through poll() or poll_arrow()."""
    if not arrow:
        return [record.value for record in read(client, count)]
    values: list[bytes | None] = []
    while len(values) < count:
        table = client.poll_arrow(TIMEOUT_S)
        assert table is not None, values
        values += table.column("value").to_pylist()
    return values
