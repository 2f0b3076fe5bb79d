"""poll() and poll_arrow() return the same records and move the same positions."""

from dataclasses import replace
from typing import NamedTuple

import pytest

from slackwater import Producer
from slackwater.client.consumer.records import ConsumerRecord
from slackwater.group.errors import PeerError, UsageError
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.records.batch import TimestampType
from tests.client.clusters import Side
from tests.client.helpers import PATIENCE_S, consumer, fill, numbers, poll_until, read, wait_for

pytestmark = pytest.mark.old_kafka


class Filled(NamedTuple):
    """A topic of two partitions with 150 records each."""

    topic: str
    p0: TopicPartition
    p1: TopicPartition


@pytest.fixture(scope="module")
def filled(side: Side) -> Filled:
    topic = side.topic(2)
    with Producer({"bootstrap.servers": side.bootstrap_servers}) as producer:
        for number in range(300):
            headers = [("h", b"%d" % number), ("none", None)] if number % 3 == 0 else []
            key = b"k%d" % number if number % 2 else None
            producer.send(
                topic, b"v%d" % number, key, partition=number % 2, headers=headers, timestamp_ms=1_000 + number
            )
    return Filled(topic, *side.parts(topic, 0, 1))


def as_rows(records: list[ConsumerRecord]) -> list[tuple[object, ...]]:
    return sorted(
        (
            client.topic,
            client.partition,
            client.offset,
            client.timestamp,
            int(client.timestamp_type),
            client.key,
            client.value,
            client.headers,
        )
        for client in records
    )


def test_table_equals_records(side: Side, filled: Filled) -> None:
    with consumer(side) as client, consumer(side) as other:
        client.assign([filled.p0, filled.p1])
        other.assign([filled.p0, filled.p1])
        records = read(client, 300)
        rows: list[tuple[object, ...]] = []
        while len(rows) < 300:
            table = other.poll_arrow(PATIENCE_S, headers=True)
            assert table is not None
            assert table.column_names == [
                "topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers",
            ]  # fmt: skip
            for row in table.to_pylist():
                row["timestamp"] = round(row["timestamp"].timestamp() * 1000)
                row["headers"] = tuple((header["key"], header["value"]) for header in row["headers"])
                rows.append(tuple(row.values()))
        assert sorted(rows, key=lambda row: row[1:3]) == as_rows(records)


def test_headers_column_is_optional(side: Side, filled: Filled) -> None:
    with consumer(side) as client:
        client.assign([filled.p0])
        table = client.poll_arrow(PATIENCE_S)
        assert table is not None
        assert "headers" not in table.column_names


def test_empty_poll_arrow_returns_none(side: Side, filled: Filled) -> None:
    with consumer(side, auto_offset_reset="latest") as client:
        client.assign([filled.p0])
        assert client.position(filled.p0) == 150
        assert client.poll_arrow(0.05) is None
        assert client.poll(0.05) == []


def test_max_records_limits_table_and_position(side: Side, filled: Filled) -> None:
    with consumer(side) as client:
        client.assign([filled.p0])
        table = client.poll_arrow(PATIENCE_S, max_records=7)
        assert table is not None
        assert len(table) == 7
        assert client.position(filled.p0) == 7
        with pytest.raises(UsageError, match="max_records = 0"):
            client.poll_arrow(0, max_records=0)


def test_poll_and_poll_arrow_can_be_mixed(side: Side, filled: Filled) -> None:
    with consumer(side, max_poll_records=11) as client:
        client.assign([filled.p0])
        offsets: list[int] = []
        turn = 0
        while len(offsets) < 150:
            turn += 1
            before = len(offsets)
            if turn % 2:
                offsets += [record.offset for record in client.poll(PATIENCE_S)]
            elif (table := client.poll_arrow(PATIENCE_S, max_records=13, headers=turn % 4 == 0)) is not None:
                offsets += table.column("offset").to_pylist()
            assert len(offsets) > before
        assert offsets == list(range(150))


def test_paused_partition_returns_no_records(side: Side, filled: Filled) -> None:
    with consumer(side) as client:
        client.assign([filled.p0, filled.p1])
        client.pause([filled.p0])
        first = client.poll(PATIENCE_S)
        rest = client.poll_arrow(0.2)
        assert {record.partition for record in first} == {1}
        assert rest is None or set(rest.column("partition").to_pylist()) == {1}
        client.resume([filled.p0])
        assert {record.partition for record in read(client, 150)} >= {0}


def test_max_poll_records_limits_poll(side: Side, filled: Filled) -> None:
    with consumer(side, max_poll_records=10) as client:
        client.assign([filled.p0, filled.p1])
        records = client.poll(PATIENCE_S)
        assert 0 < len(records) <= 10


def test_log_append_time_has_its_type(side: Side) -> None:
    topic = side.topic(1, message_timestamp_type="LogAppendTime")
    fill(side, topic, [b"v"])
    with consumer(side) as client:
        client.assign(side.parts(topic, 0))
        (record,) = read(client, 1)
        assert record.timestamp_type is TimestampType.LOG_APPEND_TIME


def test_poll_arrow_counts_as_consumed_for_auto_commit(side: Side, filled: Filled) -> None:
    group = side.name("arrows")
    with consumer(side, group) as client:
        client.subscribe([filled.topic])
        seen = 0
        while seen < 300:
            table = client.poll_arrow(PATIENCE_S)
            assert table is not None
            seen += len(table)
    with consumer(side, group) as again:
        assert {at.offset for at in again.committed([filled.p0, filled.p1]).values() if at is not None} == {150}


def test_corrupt_batch_fails_each_poll_until_seek(side: Side) -> None:
    topic = side.topic(1, "damaged")
    fill(side, topic, numbers(3))
    with consumer(side) as client:
        (where,) = side.parts(topic, 0)
        client.assign([where])
        state = client.engine.positions.require(where)
        poll_until(client, lambda: True)
        client.seek(where, 0)

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
                client.poll(PATIENCE_S)
            assert client.position(where) == 0
        client.seek(where, 1)
        assert [record.offset for record in read(client, 2)] == [1, 2]
