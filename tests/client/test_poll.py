"""poll and poll_arrow: the same records, the same positions, in either form."""

from collections.abc import Iterator

import pytest

from slackwater import Broker, Producer
from slackwater.client.records import ConsumerRecord
from slackwater.group.errors import PeerError, UsageError
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.record_batch import TimestampType
from tests.client.room import consumer, fill, numbers, poll_until, read

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        broker.create_topic("t", 2)
        broker.create_topic("stamped", 1, message_timestamp_type="LogAppendTime")
        with Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
            for number in range(300):
                headers = [("h", b"%d" % number), ("none", None)] if number % 3 == 0 else []
                key = b"k%d" % number if number % 2 else None
                producer.send(
                    "t", b"v%d" % number, key, partition=number % 2, headers=headers, timestamp_ms=1_000 + number
                )
            producer.send("stamped", b"v")
        yield broker


def as_rows(records: list[ConsumerRecord]) -> list[tuple[object, ...]]:
    return sorted(
        (one.topic, one.partition, one.offset, one.timestamp, int(one.timestamp_type), one.key, one.value, one.headers)
        for one in records
    )


def test_a_table_has_what_the_records_have(broker: Broker) -> None:
    with consumer(broker) as one, consumer(broker) as other:
        one.assign([P0, P1])
        other.assign([P0, P1])
        records = read(one, 300)
        rows: list[tuple[object, ...]] = []
        while len(rows) < 300:
            table = other.poll_arrow(1.0, headers=True)
            assert table is not None
            assert table.column_names == [
                "topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers",
            ]  # fmt: skip
            for row in table.to_pylist():
                row["timestamp"] = round(row["timestamp"].timestamp() * 1000)
                row["headers"] = tuple((header["key"], header["value"]) for header in row["headers"])
                rows.append(tuple(row.values()))
        assert sorted(rows, key=lambda row: row[1:3]) == as_rows(records)


def test_headers_are_left_out_unless_asked_for(broker: Broker) -> None:
    with consumer(broker) as one:
        one.assign([P0])
        table = one.poll_arrow(5.0)
        assert table is not None
        assert "headers" not in table.column_names


def test_nothing_to_read_is_none(broker: Broker) -> None:
    with consumer(broker, auto_offset_reset="latest") as one:
        one.assign([P0])
        assert one.position(P0) == 150
        assert one.poll_arrow(0.05) is None
        assert one.poll(0.05) == []


def test_max_records_bounds_a_table_and_the_position_stands_behind_it(broker: Broker) -> None:
    with consumer(broker) as one:
        one.assign([P0])
        table = one.poll_arrow(5.0, max_records=7)
        assert table is not None
        assert len(table) == 7
        assert one.position(P0) == 7
        with pytest.raises(UsageError, match="max_records = 0"):
            one.poll_arrow(0, max_records=0)


def test_the_two_forms_can_be_mixed_without_a_gap_or_a_double(broker: Broker) -> None:
    with consumer(broker, max_poll_records=11) as one:
        one.assign([P0])
        offsets: list[int] = []
        turn = 0
        while len(offsets) < 150:
            turn += 1
            if turn % 2:
                offsets += [record.offset for record in one.poll(1.0)]
            elif (table := one.poll_arrow(1.0, max_records=13, headers=turn % 4 == 0)) is not None:
                offsets += table.column("offset").to_pylist()
        assert offsets == list(range(150))


def test_a_paused_partition_gives_out_nothing_in_either_form(broker: Broker) -> None:
    with consumer(broker) as one:
        one.assign([P0, P1])
        one.pause([P0])
        first = one.poll(5.0)
        rest = one.poll_arrow(0.2)
        assert {record.partition for record in first} == {1}
        assert rest is None or set(rest.column("partition").to_pylist()) == {1}
        one.resume([P0])
        assert {record.partition for record in read(one, 150)} >= {0}


def test_max_poll_records_bounds_a_poll(broker: Broker) -> None:
    with consumer(broker, max_poll_records=10) as one:
        one.assign([P0, P1])
        records = one.poll(5.0)
        assert 0 < len(records) <= 10


def test_the_brokers_own_time_is_told_as_such(broker: Broker) -> None:
    with consumer(broker) as one:
        one.assign([TopicPartition("stamped", 0)])
        (record,) = read(one, 1)
        assert record.timestamp_type is TimestampType.LOG_APPEND_TIME


def test_poll_arrow_counts_as_consumed_for_auto_commit(broker: Broker) -> None:
    with consumer(broker, "arrows") as one:
        one.subscribe(["t"])
        seen = 0
        while seen < 300:
            seen += len(one.poll_arrow(1.0) or ())
    with consumer(broker, "arrows") as again:
        assert {at.offset for at in again.committed([P0, P1]).values() if at is not None} == {150}


def test_a_damaged_batch_is_an_error_each_time_and_can_be_sought_past(broker: Broker) -> None:
    fill(broker, "damaged", numbers(3))
    with consumer(broker) as one:
        where = TopicPartition("damaged", 0)
        one.assign([where])
        state = one._positions.of(where)
        poll_until(one, lambda: True)
        one.seek(where, 0)
        for _ in range(2):
            while not state.chunks:
                with one._changed:
                    one._fetcher.kick()
                    one._changed.wait(1.0)
            with one._changed:
                chunk = state.chunks[0]
                data = bytearray(chunk.data)
                data[70] ^= 0xFF
                chunk.data = bytes(data)
            with pytest.raises(PeerError, match=r"damaged-0 from offset 0 .* seek past"):
                one.poll(5.0)
            assert one.position(where) == 0
        one.seek(where, 1)
        assert [record.offset for record in read(one, 2)] == [1, 2]
