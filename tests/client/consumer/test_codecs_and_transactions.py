"""Compressed batches, empty values and transactional records."""

import confluent_kafka
import pytest

from slackwater import Consumer, Producer
from tests.client.clusters import Side
from tests.client.helpers import PATIENCE_S, consumer, fill, numbers, poll_until, read

pytestmark = pytest.mark.old_kafka
COUNT = 200


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_written_and_read(side: Side, codec: str) -> None:
    topic = side.topic()
    values = [b"%d" % number * 100 for number in range(COUNT)]
    settings = {"bootstrap.servers": side.bootstrap_servers, "compression.type": codec, "linger.ms": 50}
    with Producer(settings) as producer:
        for value in values:
            producer.send(topic, value, b"k", headers=[("codec", codec.encode())])
    with consumer(side) as client:
        client.assign(side.parts(topic, 0))
        results = read(client, COUNT)
    assert [record.value for record in results] == values
    assert {record.headers for record in results} == {(("codec", codec.encode()),)}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_of_librdkafka_are_read(side: Side, codec: str) -> None:
    topic = side.topic()
    other = confluent_kafka.Producer(
        {"bootstrap.servers": side.bootstrap_servers, "compression.type": codec, "linger.ms": 50}
    )
    for number in range(COUNT):
        other.produce(topic, b"%d" % number * 100, headers=[("n", b"%d" % number)] if number % 2 else None)
    assert other.flush(PATIENCE_S) == 0
    with consumer(side) as client:
        client.assign(side.parts(topic, 0))
        results = read(client, COUNT)
    assert [record.value for record in results] == [b"%d" % number * 100 for number in range(COUNT)]
    assert results[1].headers == (("n", b"1"),)


def test_tombstones_differ_from_empty_values(side: Side) -> None:
    topic = side.topic()
    with Producer({"bootstrap.servers": side.bootstrap_servers}) as producer:
        producer.send(topic, None, b"k")
        producer.send(topic, b"", b"")
    with consumer(side) as client:
        client.assign(side.parts(topic, 0))
        assert [(record.key, record.value) for record in read(client, 2)] == [(b"k", None), (b"", b"")]


def transactions(side: Side, topic: str) -> confluent_kafka.Producer:
    """Three records of a transaction that was given up, two of one that was kept, and one of one that is open."""
    producer = confluent_kafka.Producer({"bootstrap.servers": side.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(PATIENCE_S)
    for values, end in (
        (numbers(3), producer.abort_transaction),
        (numbers(2, 10), producer.commit_transaction),
        (numbers(1, 20), None),
    ):
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=0)
        assert producer.flush(PATIENCE_S) == 0
        if end is not None:
            end(PATIENCE_S)
    return producer


@pytest.mark.apache  # the embedded broker has no transactions
@pytest.mark.parametrize("arrow", [False, True])
def test_read_committed_skips_aborted_and_open(side: Side, arrow: bool) -> None:
    topic = side.topic()
    (where,) = side.parts(topic, 0)
    fill(side, topic, [b"before"])
    producer = transactions(side, topic)
    with consumer(side, isolation_level="read_committed") as client, consumer(side) as all_of_them:
        client.assign([where])
        all_of_them.assign([where])
        assert [record.value for record in read(all_of_them, 7)] == [
            b"before", *numbers(3), *numbers(2, 10), *numbers(1, 20),
        ]  # fmt: skip
        assert all_of_them.end_offsets([where])[where] > client.end_offsets([where])[where]
        assert values_of(client, 3, arrow) == [b"before", *numbers(2, 10)]
        assert client.poll(0.1) == []
        producer.commit_transaction(PATIENCE_S)
        assert values_of(client, 1, arrow) == numbers(1, 20)
        poll_until(client, lambda: client.position(where) == 10)  # seven records, and the ends of three transactions


def values_of(client: Consumer, count: int, arrow: bool) -> list[bytes | None]:
    """What comes next, in either form."""
    if not arrow:
        return [record.value for record in read(client, count)]
    results: list[bytes | None] = []
    while len(results) < count:
        table = client.poll_arrow(PATIENCE_S)
        assert table is not None, results
        results += table.column("value").to_pylist()
    return results
