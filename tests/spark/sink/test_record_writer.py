"""The writing side of a task, without Spark: batches, partitions, codecs, errors."""

from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from slackwater.client.producer.bulk import BulkProducer
from slackwater.client.producer.partitioner import partition_for_key
from slackwater.client.producer.producer import UnknownTopicError
from slackwater.group.errors import SlackwaterError, UsageError
from slackwater.spark.sink.columns import SinkColumns
from slackwater.spark.sink.options import SinkOptions
from slackwater.spark.sink.producers import close_producers, shared_producer
from slackwater.spark.sink.record_writer import MAX_TOPICS, RecordWriter
from tests.spark.sink.schemas import schema
from tests.spark.sink.topics import Topics

COLUMNS = {"value": "value string", "key": "key binary", "topic": "topic string", "partition": "partition int"}
TYPES = {"value": pa.string(), "key": pa.binary(), "topic": pa.string(), "partition": pa.int32()}


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    close_producers()


def write(topics: Topics, rows: list[dict[str, object]], **options: str) -> None:
    """Write rows in batches of 1,000, as Spark's tasks do."""
    settings = {"kafka.bootstrap.servers": topics.servers} | {
        name.replace("_", "."): text for name, text in options.items()
    }
    parsed = SinkOptions.parse(settings)
    names = list(rows[0])
    types = schema(", ".join(COLUMNS[name] for name in names))
    columns = SinkColumns.of(types, has_topic_option=parsed.topic is not None)
    with shared_producer(parsed.kafka) as producer:
        writer = RecordWriter(producer, columns, parsed)
        for first in range(0, len(rows), 1_000):
            arrays = [pa.array([row[name] for row in rows[first : first + 1_000]], TYPES[name]) for name in names]
            writer.write(pa.RecordBatch.from_arrays(arrays, names))
        writer.write(pa.RecordBatch.from_arrays([pa.array([], TYPES[name]) for name in names], names))
        writer.finish()
    assert writer.records == len(rows)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_keys_choose_the_partition_of_kafkas_partitioner(topics: Topics, codec: str) -> None:
    topic = topics.create("keys")
    rows: list[dict[str, object]] = [{"key": b"k%d" % (n % 50), "value": f"v{n}"} for n in range(2_500)]
    write(topics, rows, topic=topic, kafka_compression_type=codec, kafka_batch_size="3000")
    written = topics.read(topic)
    expected: list[list[bytes]] = [[], [], []]
    for row in rows:
        key = row["key"]
        assert isinstance(key, bytes)
        expected[partition_for_key(key, 3)].append(str(row["value"]).encode())
    assert [[row[3] for row in written if row[1] == partition] for partition in range(3)] == expected


def test_rows_without_key_use_all_partitions(topics: Topics) -> None:
    topic = topics.create("spread")
    write(topics, [{"value": "x" * 100}] * 1_500, topic=topic)
    counts = [sum(row[1] == partition for row in topics.read(topic)) for partition in range(3)]
    assert sum(counts) == 1_500
    assert min(counts) >= 400


def test_partition_column(topics: Topics) -> None:
    topic = topics.create("chosen")
    write(topics, [{"value": str(n), "partition": None if n % 2 else 2, "key": b"k"} for n in range(20)], topic=topic)
    by_value = {int(row[3] or b""): row[1] for row in topics.read(topic)}
    assert by_value == {n: partition_for_key(b"k", 3) if n % 2 else 2 for n in range(20)}


def test_more_topics_than_buffers(topics: Topics) -> None:
    names = [topics.create(f"t{number}", 1) for number in range(MAX_TOPICS + 3)]
    write(topics, [{"topic": names[n * 7 % len(names)], "value": str(n)} for n in range(2_200)])
    for place, name in enumerate(names):
        values = [int(row[3] or b"") for row in topics.read(name)]
        assert values == [n for n in range(2_200) if n * 7 % len(names) == place]


def test_record_larger_than_a_batch(topics: Topics) -> None:
    topic = topics.create("large", 1)
    values = ["a", "b" * 700_000, "c"]
    write(topics, [{"value": value} for value in values], topic=topic, kafka_compression_type="zstd")
    assert [row[3] for row in topics.read(topic)] == [value.encode() for value in values]


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_batch_that_the_topic_does_not_accept_is_split(topics: Topics, codec: str) -> None:
    topic = topics.create("small", 1, max_message_bytes="4000")
    values = [f"{n:04}" + "".join(chr(33 + (n * k * k) % 90) for k in range(150)) for n in range(300)]
    write(topics, [{"value": value} for value in values], topic=topic, kafka_compression_type=codec)
    assert [row[3] for row in topics.read(topic)] == [value.encode() for value in values]


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"value": "v", "partition": 9}, "The partition column has 9, but wrong"),
        ({"value": "x" * 2_000_000}, "kafka.max.request.size is 1048576. Raise it"),
        ({"value": "x" * 9_000}, "is larger than the topic accepts (max.message.bytes)"),
    ],
    ids=["partition", "too large for the producer", "too large for the topic"],
)
def test_wrong_input_is_one_sentence(topics: Topics, row: dict[str, object], sentence: str) -> None:
    topic = topics.create("wrong", 1, max_message_bytes="8000")
    with pytest.raises(UsageError) as raised:
        write(topics, [row], topic=topic)
    assert sentence in str(raised.value)
    assert not topics.read(topic)
    write(topics, [{"value": "v"}], topic=topic)  # the next task has a new producer
    assert len(topics.read(topic)) == 1


def test_missing_topic_is_one_sentence(topics: Topics) -> None:
    with pytest.raises(SlackwaterError, match="The topic not a topic cannot be written to: INVALID_TOPIC_EXCEPTION"):
        write(topics, [{"value": "v"}], topic="not a topic")


def test_producer_is_shared_until_it_fails(topics: Topics) -> None:
    kafka = {"bootstrap.servers": topics.servers}
    with shared_producer(kafka) as first:
        pass
    assert fail(kafka) is first
    with shared_producer(kafka) as third:
        assert third is not first


def fail(kafka: dict[str, str]) -> BulkProducer:
    """Use the producer in a task that fails."""
    used = []
    with suppress(UnknownTopicError), shared_producer(kafka) as producer:
        used.append(producer)
        raise UnknownTopicError("no topic")
    return used[0]
