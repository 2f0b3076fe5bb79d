"""poll() and poll_arrow() return the same records and move the same positions."""

from dataclasses import replace
from typing import NamedTuple

import pytest

from slackwater import Producer
from slackwater.client.consumer.records import ConsumerRecord
from slackwater.group.errors import PeerError, UsageError
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.records.batch import TimestampType
from tests.client.clusters import ClusterUnderTest
from tests.client.helpers import TIMEOUT_S, consumer, fill, numbers, poll_until, read, wait_for

pytestmark = pytest.mark.old_kafka


class Filled(NamedTuple):
    """A topic of two partitions with 150 records each."""

    topic: str
    p0: TopicPartition
    p1: TopicPartition


@pytest.fixture(scope="module")
def filled(cluster: ClusterUnderTest) -> Filled:
    topic = cluster.topic(2)
    with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
        for number in range(300):
            headers = [("h", b"%d" % number), ("none", None)] if number % 3 == 0 else []
            key = b"k%d" % number if number % 2 else None
            producer.send(
                topic, b"v%d" % number, key, partition=number % 2, headers=headers, timestamp_ms=1_000 + number
            )
    return Filled(topic, *cluster.partitions(topic, 0, 1))


def as_rows(records: list[ConsumerRecord]) -> list[tuple[object, ...]]:
    return sorted(
        (
            record.topic,
            record.partition,
            record.offset,
            record.timestamp,
            int(record.timestamp_type),
            record.key,
            record.value,
            record.headers,
        )
        for record in records
    )


def test_table_equals_records(cluster: ClusterUnderTest, filled: Filled) -> None:
    with consumer(cluster) as client, consumer(cluster) as other:
        client.assign([filled.p0, filled.p1])
        other.assign([filled.p0, filled.p1])
        records = read(client, 300)
        rows: list[tuple[object, ...]] = []
        while len(rows) < 300:
            table = other.poll_arrow(TIMEOUT_S, headers=True)
            assert table is not None
            assert table.column_names == [
                "topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers",
            ]  # fmt: skip
            for row in table.to_pylist():
                row["timestamp"] = round(row["timestamp"].timestamp() * 1000)
                row["headers"] = tuple((header["key"], header["value"]) for header in row["headers"])
                rows.append(tuple(row.values()))
        assert sorted(rows, key=lambda row: row[1:3]) == as_rows(records)


def test_headers_column_is_optional(cluster: ClusterUnderTest, filled: Filled) -> None:
    with consumer(cluster) as client:
        client.assign([filled.p0])
        table = client.poll_arrow(TIMEOUT_S)
        assert table is not None
        assert "headers" not in table.column_names


def test_empty_poll_arrow_returns_none(cluster: ClusterUnderTest, filled: Filled) -> None:
    with consumer(cluster, auto_offset_reset="latest") as client:
        client.assign([filled.p0])
        assert client.position(filled.p0) == 150
        assert client.poll_arrow(0.05) is None
        assert client.poll(0.05) == []


def test_max_records_limits_table_and_position(cluster: ClusterUnderTest, filled: Filled) -> None:
    with consumer(cluster) as client:
        client.assign([filled.p0])
        table = client.poll_arrow(TIMEOUT_S, max_records=7)
        assert table is not None
        assert len(table) == 7
        assert client.position(filled.p0) == 7
        with pytest.raises(UsageError, match="max_records = 0"):
            client.poll_arrow(0, max_records=0)


def test_poll_and_poll_arrow_can_be_mixed(cluster: ClusterUnderTest, filled: Filled) -> None:
    with consumer(cluster, max_poll_records=11) as client:
        client.assign([filled.p0])
        offsets: list[int] = []
        turn = 0
        while len(offsets) < 150:
            turn += 1
            before = len(offsets)
            if turn % 2:
                offsets += [record.offset for record in client.poll(TIMEOUT_S)]
            elif (table := client.poll_arrow(TIMEOUT_S, max_records=13, headers=turn % 4 == 0)) is not None:
                offsets += table.column("offset").to_pylist()
            assert len(offsets) > before
        assert offsets == list(range(150))


def test_paused_partition_returns_no_records(cluster: ClusterUnderTest, filled: Filled) -> None:
    with consumer(cluster) as client:
        client.assign([filled.p0, filled.p1])
        client.pause([filled.p0])
        first = client.poll(TIMEOUT_S)
        rest = client.poll_arrow(0.2)
        assert {record.partition for record in first} == {1}
        assert rest is None or set(rest.column("partition").to_pylist()) == {1}
        client.resume([filled.p0])
        assert {record.partition for record in read(client, 150)} >= {0}


def test_max_poll_records_limits_poll(cluster: ClusterUnderTest, filled: Filled) -> None:
    with consumer(cluster, max_poll_records=10) as client:
        client.assign([filled.p0, filled.p1])
        records = client.poll(TIMEOUT_S)
        assert 0 < len(records) <= 10


def test_log_append_time_has_its_type(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic(1, message_timestamp_type="LogAppendTime")
    fill(cluster, topic, [b"v"])
    with consumer(cluster) as client:
        client.assign(cluster.partitions(topic, 0))
        (record,) = read(client, 1)
        assert record.timestamp_type is TimestampType.LOG_APPEND_TIME


def test_poll_arrow_counts_as_consumed_for_auto_commit(cluster: ClusterUnderTest, filled: Filled) -> None:
    group = cluster.name("arrows")
    with consumer(cluster, group) as client:
        client.subscribe([filled.topic])
        count = 0
        while count < 300:
            table = client.poll_arrow(TIMEOUT_S)
            assert table is not None
            count += len(table)
    with consumer(cluster, group) as reader:
        committed = reader.committed([filled.p0, filled.p1])
        assert {commit.offset for commit in committed.values() if commit is not None} == {150}


def test_corrupt_batch_fails_each_poll_until_seek(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic(1, "damaged")
    fill(cluster, topic, numbers(3))
    with consumer(cluster) as client:
        (partition,) = cluster.partitions(topic, 0)
        client.assign([partition])
        state = client.engine.positions.require(partition)
        poll_until(client, lambda: True)
        client.seek(partition, 0)

        def fetched() -> bool:
            with client.engine.lock:
                client.engine.fetcher.schedule()
                return bool(state.fetched)

        for _ in range(2):
            wait_for(fetched)
            with client.engine.lock:
                data = bytearray(state.fetched[0].data)
                data[70] ^= 0xFF
                state.fetched[0] = replace(state.fetched[0], data=bytes(data))
            with pytest.raises(PeerError, match=r"damaged-\w+-0 from offset 0 .* seek past"):
                client.poll(TIMEOUT_S)
            assert client.position(partition) == 0
        client.seek(partition, 1)
        assert [record.offset for record in read(client, 2)] == [1, 2]
