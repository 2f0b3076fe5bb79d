"""The work of one task without Spark: one range, from the broker's bytes to Arrow."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from slackwater import Admin, Producer
from slackwater.client.errors import ClientTimeoutError
from slackwater.client.network import fetch, range_reader
from slackwater.client.network.fetch import FetchedData
from slackwater.group.batches.config import DataLossError
from slackwater.group.errors import BrokerError, Error, PeerError, UsageError
from slackwater.group.offset_range import OffsetRange
from slackwater.group.topic_partition import TopicPartition
from slackwater.spark.clients import connections
from slackwater.spark.clients.connections import close_connections, get_connection
from slackwater.spark.source.batch_reader import BatchReader, plan_ranges
from slackwater.spark.source.columns import arrow_schema, ddl
from slackwater.spark.source.fetching import FetchSettings, RangeFetcher
from slackwater.spark.source.input_partitions import RangeInputPartition
from slackwater.spark.source.offset_reader import OffsetReader
from slackwater.spark.source.options import SourceOptions
from slackwater.spark.source.partition_reader import ReadSettings, read_range
from slackwater.testing.kafka import Kafka
from slackwater.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from slackwater.wire.messages.fetch import FetchResponse, PartitionData
from tests.client.helpers import fill, numbers

QUICK = {"kafka.retry.backoff.ms": "10", "kafka.reconnect.backoff.ms": "10", "kafka.fetch.max.wait.ms": "20"}


@pytest.fixture(autouse=True)
def closed_connections() -> Iterator[None]:
    """Close the connections after each test."""
    yield
    close_connections()


def options(kafka: Kafka, **settings: str) -> SourceOptions:
    """Options of a batch; an underscore in a name stands for a dot."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return SourceOptions.parse({"kafka.bootstrap.servers": kafka.bootstrap_servers} | QUICK | named, streaming=False)


def plan(kafka: Kafka, **settings: str) -> list[OffsetRange]:
    """The ranges of a batch."""
    parsed = options(kafka, **settings)
    connection = get_connection(parsed.kafka)
    return plan_ranges(OffsetReader(connection.network, connection.cluster, parsed), parsed)


def rows(kafka: Kafka, offset_range: OffsetRange, **more: str) -> list[dict[str, Any]]:
    """The records of a range."""
    settings = ReadSettings.of(options(kafka, subscribe="t", **more))
    return [row for batch in read_range(offset_range, settings) for row in batch.to_pylist()]


def values(kafka: Kafka, offset_range: OffsetRange, **more: str) -> list[bytes]:
    """The values of a range."""
    return [row["value"] for row in rows(kafka, offset_range, **more)]


def delete_before(kafka: Kafka, topic: str, before: int) -> None:
    """Delete the records of partition 0 before this offset, as retention does."""
    connection = get_connection({"bootstrap.servers": kafka.bootstrap_servers})
    deletion = DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(0, before)])
    request = DeleteRecordsRequest(topics=[deletion], timeout_ms=30_000)
    connection.network.run(connection.cluster.request_any(request, DeleteRecordsResponse))


@pytest.mark.parametrize("headers", [False, True])
def test_schema_matches_spark(headers: bool) -> None:
    schema = _parse_schema(ddl(headers=headers))
    assert to_arrow_schema(schema, timezone="UTC").equals(arrow_schema(headers=headers))


def _parse_schema(text: str) -> StructType:
    from pyspark.sql.types import (
        ArrayType,
        BinaryType,
        DataType,
        IntegerType,
        LongType,
        StringType,
        StructField,
        TimestampType,
    )

    header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    kinds: dict[str, DataType] = {
        "binary": BinaryType(),
        "string": StringType(),
        "int": IntegerType(),
        "bigint": LongType(),
        "timestamp": TimestampType(),
        "array<struct<key:string,value:binary>>": ArrayType(header),
    }
    pairs = (column.split(" ", 1) for column in text.split(", "))
    return StructType([StructField(name, kinds[kind]) for name, kind in pairs])


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_all_columns_with_every_codec(kafka: Kafka, codec: str) -> None:
    with Producer({"bootstrap.servers": kafka.bootstrap_servers, "compression.type": codec}) as producer:
        for number in range(50):
            key = b"k%d" % number if number % 2 else None
            value = b"v%d" % number if number % 5 else None
            headers = [("n", b"%d" % number), ("none", None)] if number % 3 else []
            producer.send("t", value, key, headers=headers, timestamp_ms=1_700_000_000_000 + number, partition=0)
    records = rows(kafka, OffsetRange("t", 0, 0, 50), includeHeaders="true")
    assert [row["offset"] for row in records] == list(range(50))
    assert [row["value"] for row in records] == [b"v%d" % n if n % 5 else None for n in range(50)]
    assert [row["key"] for row in records] == [b"k%d" % n if n % 2 else None for n in range(50)]
    assert {(row["topic"], row["partition"], row["timestampType"]) for row in records} == {("t", 0, 0)}
    assert [round(row["timestamp"].timestamp() * 1000) - 1_700_000_000_000 for row in records] == list(range(50))
    assert records[0]["headers"] is None
    assert records[1]["headers"] == [{"key": "n", "value": b"1"}, {"key": "none", "value": None}]


def test_range_over_many_fetches_is_exact(kafka: Kafka) -> None:
    with Producer({"bootstrap.servers": kafka.bootstrap_servers, "batch.size": 400}) as producer:
        for value in numbers(3_000):
            producer.send("t", value)
    connection = get_connection({"bootstrap.servers": kafka.bootstrap_servers})
    offset_range = OffsetRange("t", 0, 7, 2_901)
    pieces = list(RangeFetcher(connection.network, connection.cluster, offset_range, FetchSettings(fetch_bytes=2_000)))
    assert len(pieces) > 5
    assert [piece.start_offset for piece in pieces[1:]] == [piece.next_offset for piece in pieces[:-1]]
    assert values(kafka, offset_range) == numbers(2_894, 7)


def test_large_batches_share_constant_columns(kafka: Kafka) -> None:
    fill(kafka, "t", numbers(40_000))
    settings = ReadSettings.of(options(kafka, subscribe="t"))
    batches = list(read_range(OffsetRange("t", 0, 0, 40_000), settings))
    assert min(batch.num_rows for batch in batches[:-1] or batches) >= 10_000
    assert pa.Table.from_batches(batches).column("topic").unique().to_pylist() == ["t"]
    assert sum(batch.num_rows for batch in batches) == 40_000


@pytest.mark.parametrize("error", ["NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION", "KAFKA_STORAGE_ERROR"])
def test_new_leader_is_followed(kafka: Kafka, error: str) -> None:
    fill(kafka, "t", numbers(10))
    kafka.fail("Fetch", error, times=3)
    assert values(kafka, OffsetRange("t", 0, 0, 10)) == numbers(10)


@pytest.mark.parametrize("processed", [False, True])
def test_reconnects_after_lost_connection(kafka: Kafka, processed: bool) -> None:
    fill(kafka, "t", numbers(10))
    kafka.drop("Fetch", times=2, processed=processed)
    assert values(kafka, OffsetRange("t", 0, 0, 10)) == numbers(10)


def test_timeout_error_contains_the_cause(kafka: Kafka) -> None:
    fill(kafka, "t", numbers(10))
    kafka.fail("Fetch", "NOT_LEADER_OR_FOLLOWER", times=None)
    with pytest.raises(ClientTimeoutError, match=r"No records of t-0 from offset 0 arrived .* NOT_LEADER_OR_FOLLOWER"):
        values(kafka, OffsetRange("t", 0, 0, 10), kafkaConsumer_pollTimeoutMs="200")


def test_fatal_error_is_raised_at_once(kafka: Kafka) -> None:
    fill(kafka, "t", numbers(10))
    kafka.fail("Fetch", "TOPIC_AUTHORIZATION_FAILED", times=None)
    with pytest.raises(BrokerError, match="t-0 cannot be read at offset 0: TOPIC_AUTHORIZATION_FAILED"):
        values(kafka, OffsetRange("t", 0, 0, 10))


def test_lost_records_fail_the_task(kafka: Kafka) -> None:
    fill(kafka, "t", numbers(20))
    delete_before(kafka, "t", 12)
    with pytest.raises(DataLossError, match="t-0 from 3 until 12 is gone: the log contains the offsets from 12"):
        values(kafka, OffsetRange("t", 0, 3, 20))


def test_lost_records_are_skipped_on_request(kafka: Kafka, caplog: pytest.LogCaptureFixture) -> None:
    fill(kafka, "t", numbers(20))
    delete_before(kafka, "t", 12)
    with caplog.at_level(logging.WARNING, logger="slackwater.spark"):
        assert values(kafka, OffsetRange("t", 0, 3, 20), failOnDataLoss="false") == numbers(8, 12)
        assert values(kafka, OffsetRange("t", 0, 3, 9), failOnDataLoss="false") == []
    assert "t-0 from 3 until 12 is gone and skipped" in caplog.text


def test_truncated_log_is_data_loss(kafka: Kafka) -> None:
    fill(kafka, "t", numbers(5))
    with pytest.raises(DataLossError, match="t-0 from 8 until 20 is gone"):
        values(kafka, OffsetRange("t", 0, 8, 20))
    assert values(kafka, OffsetRange("t", 0, 8, 20), failOnDataLoss="false") == []


def test_compacted_records_are_no_data_loss(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = get_connection({"bootstrap.servers": kafka.bootstrap_servers})
    fill(kafka, "t", numbers(4))
    offset_range = OffsetRange("t", 0, 4, 6)
    assert (
        list(
            RangeFetcher(connection.network, connection.cluster, offset_range._replace(until_offset=4), FetchSettings())
        )
        == []
    )
    # The high watermark is after the range and the response is empty: compaction has removed all records.
    fetcher = RangeFetcher(connection.network, connection.cluster, offset_range, FetchSettings(fetch_max_wait_ms=1))

    async def send_fetch(*arguments: Any) -> FetchResponse:
        response = await fetch.send_fetch(*arguments)
        partitions = response.responses[0].partitions
        partitions[0] = replace(partitions[0], high_watermark=6)
        return response

    monkeypatch.setattr(range_reader, "send_fetch", send_fetch)
    assert list(fetcher) == []


def test_corrupt_batch_names_partition(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(kafka, "t", numbers(10))

    def damage(data: PartitionData, offset: int, *, read_committed: bool) -> FetchedData | None:
        fetched = fetch.fetched_data(data, offset, read_committed=read_committed)
        if fetched is None:
            return None
        changed = bytearray(fetched.data)
        changed[-2] ^= 1  # the last byte of the last value
        return replace(fetched, data=changed)

    monkeypatch.setattr(range_reader, "fetched_data", damage)
    with pytest.raises(PeerError, match=r"Cannot read t-0 from offset 0 on: .*CRC mismatch"):
        values(kafka, OffsetRange("t", 0, 0, 10))
    assert values(kafka, OffsetRange("t", 0, 0, 10), kafka_check_crcs="false") == [*numbers(9), b"8"]


def test_damaged_log_ends_the_read_at_once(kafka: Kafka) -> None:
    fill(kafka, "t", numbers(10))
    kafka.fail("Fetch", Error.CORRUPT_MESSAGE, times=1)
    with pytest.raises(BrokerError, match="t-0 cannot be read at offset 0: CORRUPT_MESSAGE"):
        values(kafka, OffsetRange("t", 0, 0, 10))


def test_connections_are_reused(kafka: Kafka) -> None:
    fill(kafka, "t", numbers(10))
    settings = ReadSettings.of(options(kafka, subscribe="t"))
    first = get_connection(settings.kafka)
    list(read_range(OffsetRange("t", 0, 0, 10), settings))
    assert get_connection(settings.kafka) is first
    for number in range(connections.MAX_CONNECTIONS):
        get_connection({"bootstrap.servers": kafka.bootstrap_servers, "client.id": f"c{number}"})
    assert get_connection(settings.kafka) is not first


def test_fetcher_can_be_closed_early(kafka: Kafka) -> None:
    fill(kafka, "t", numbers(1_000))
    connection = get_connection({"bootstrap.servers": kafka.bootstrap_servers})
    pieces = iter(
        RangeFetcher(
            connection.network, connection.cluster, OffsetRange("t", 0, 0, 1_000), FetchSettings(fetch_bytes=500)
        )
    )
    next(pieces)
    pieces.close()  # type: ignore[attr-defined]
    assert values(kafka, OffsetRange("t", 0, 990, 1_000)) == numbers(10, 990)


# --- planning ---------------------------------------------------------------------------------------------------------


def three_topics(kafka: Kafka) -> None:
    with Admin({"bootstrap.servers": kafka.bootstrap_servers}) as admin:
        admin.create_topic("orders", 2, configs={"retention.ms": "-1"})
        admin.create_topic("orders-eu", 1, configs={"retention.ms": "-1"})
        admin.create_topic("refunds", 1)
    with Producer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
        for number in range(10):
            producer.send("orders", b"x", partition=number % 2, timestamp_ms=1_000 + number)
        producer.send("orders-eu", b"x", timestamp_ms=5_000)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"subscribe": "orders,refunds"}, [("orders", 0, 0, 5), ("orders", 1, 0, 5), ("refunds", 0, 0, 0)]),
        ({"subscribePattern": "orders.*"}, [("orders", 0, 0, 5), ("orders", 1, 0, 5), ("orders-eu", 0, 0, 1)]),
        ({"subscribePattern": "nothing.*"}, []),
        ({"assign": '{"orders":[1]}'}, [("orders", 1, 0, 5)]),
        (
            {
                "subscribe": "orders",
                "startingOffsets": '{"orders":{"0":2,"1":-2}}',
                "endingOffsets": '{"orders":{"0":-1,"1":4}}',
            },
            [("orders", 0, 2, 5), ("orders", 1, 0, 4)],
        ),
        (
            {"subscribe": "orders", "startingTimestamp": "1004", "endingTimestamp": "1007"},
            [("orders", 0, 2, 4), ("orders", 1, 2, 3)],
        ),
        (
            {
                "subscribe": "orders",
                "startingOffsetsByTimestamp": '{"orders":{"0":1008,"1":1009}}',
                "endingOffsetsByTimestamp": '{"orders":{"0":9999,"1":9999}}',
            },
            [("orders", 0, 4, 5), ("orders", 1, 4, 5)],
        ),
        (
            {"subscribe": "orders", "startingTimestamp": "9999", "startingOffsetsByTimestampStrategy": "latest"},
            [("orders", 0, 5, 5), ("orders", 1, 5, 5)],
        ),
    ],
)
def test_planned_ranges(kafka: Kafka, more: dict[str, str], expected: list[tuple[str, int, int, int]]) -> None:
    three_topics(kafka)
    assert plan(kafka, **more) == [OffsetRange(*planned) for planned in expected]


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"subscribe": "order"}, BrokerError, "There is no topic order; did you mean orders?"),
        ({"assign": '{"orders":[0,7]}'}, UsageError, "assign contains partition 7 of orders, but its partitions are 0"),
        (
            {"subscribe": "orders", "startingOffsets": '{"orders":{"0":2}}'},
            UsageError,
            "startingOffsets must contain all partitions that are read; orders-1 is missing",
        ),
        (
            {"subscribe": "refunds", "startingOffsets": '{"refunds":{"0":0,"1":0}}'},
            UsageError,
            "startingOffsets contains refunds-1, which is not read or does not exist",
        ),
        (
            {"subscribe": "orders", "startingTimestamp": "9999"},
            UsageError,
            "startingTimestamp: orders-0, orders-1 has no record at or after 9999",
        ),
    ],
)
def test_planning_error(kafka: Kafka, more: dict[str, str], error: type[Exception], message: str) -> None:
    three_topics(kafka)
    with pytest.raises(error) as raised:
        plan(kafka, **more)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_unreachable_broker(unused_port: Callable[[], int]) -> None:
    unreachable = SourceOptions.parse(
        {"kafka.bootstrap.servers": f"127.0.0.1:{unused_port()}", "subscribe": "t"}, streaming=False
    )
    with pytest.raises(Exception, match="No broker can be reached"):
        BatchReader(unreachable).partitions()


@pytest.fixture
def unused_port() -> Callable[[], int]:
    import socket

    def find() -> int:
        with socket.create_server(("127.0.0.1", 0)) as server:
            return int(server.getsockname()[1])

    return find


def test_batch_reader_reads_planned_partitions(kafka: Kafka) -> None:
    three_topics(kafka)
    reader = BatchReader(options(kafka, subscribe="orders", minPartitions="4"))
    tasks = reader.partitions()
    assert len(tasks) >= 4
    records = [
        (TopicPartition(row["topic"], row["partition"]), row["offset"])
        for task in tasks
        for batch in reader.read(task)
        for row in batch.to_pylist()
    ]
    assert sorted(records) == [(TopicPartition("orders", part), offset) for part in range(2) for offset in range(5)]
    assert all(isinstance(task, RangeInputPartition) for task in tasks)
