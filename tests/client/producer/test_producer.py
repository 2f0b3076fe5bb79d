"""Producer: every record is written once and in order, and its future has the outcome."""

import threading
from collections import defaultdict
from concurrent.futures import wait

import pytest

from slackwater import Producer
from slackwater.client.consumer.records import ConsumerRecord
from slackwater.client.errors import ClientClosedError, ClientTimeoutError
from slackwater.client.producer import RecordMetadata, UnknownTopicError
from slackwater.group.errors import BrokerError, Error, SlackwaterError, UsageError
from slackwater.group.topic_partition import TopicPartition
from slackwater.testing.kafka import Kafka
from tests.client.clusters import ClusterUnderTest
from tests.client.helpers import consumer, numbers, read, wait_for

TIMEOUT_S = 60.0
QUICK: dict[str, object] = {"retry.backoff.ms": 5, "retry.backoff.max.ms": 20, "reconnect.backoff.ms": 5}


def producer(cluster: ClusterUnderTest | Kafka, **settings: object) -> Producer:
    """A producer with short timeouts; underscores in setting names stand for dots."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return Producer(QUICK | {"bootstrap.servers": cluster.bootstrap_servers} | named)


def written(cluster: ClusterUnderTest | Kafka, topic: str, count: int, partitions: int = 1) -> list[ConsumerRecord]:
    with consumer(cluster) as client:
        client.assign([TopicPartition(topic, number) for number in range(partitions)])
        return read(client, count)


# --- records ----------------------------------------------------------------------------------------------------------


@pytest.mark.old_kafka
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_are_returned_as_written(cluster: ClusterUnderTest, codec: str) -> None:
    topic = cluster.topic()
    headers = [("h", b"1"), ("h", None), ("ü", b"")]
    with producer(cluster, compression_type=codec) as client:
        first = client.send(topic, "text", "key", headers=headers, timestamp_ms=1_700_000_000_123)
        client.send(topic, None, bytearray(b"k"))
        client.send(topic, b"", b"")
        client.send(topic, b"x" * 5_000)
    assert first.result(0) == RecordMetadata(topic, 0, 0, 1_700_000_000_123)
    records = written(cluster, topic, 4)
    assert [(record.key, record.value) for record in records] == [
        (b"key", b"text"),
        (b"k", None),
        (b"", b""),
        (None, b"x" * 5_000),
    ]
    assert list(records[0].headers) == headers
    assert records[0].timestamp == 1_700_000_000_123


@pytest.mark.old_kafka
@pytest.mark.parametrize(
    "settings", [{}, {"linger.ms": 0}, {"acks": "1", "max.in.flight.requests.per.connection": 1}], ids=str
)
def test_partition_order_and_offsets_of_futures(cluster: ClusterUnderTest, settings: dict[str, object]) -> None:
    topic = cluster.topic(3)
    with producer(cluster, **settings) as client:
        futures = [client.send(topic, value, b"key %d" % (int(value) % 11)) for value in numbers(3_000)]
    metadata = [future.result(0) for future in futures]
    by_position = {(record.partition, record.offset): record.value for record in written(cluster, topic, 3_000, 3)}
    assert [by_position[position.partition, position.offset] for position in metadata] == numbers(3_000)
    offsets: dict[int, list[int]] = defaultdict(list)
    for position in metadata:
        offsets[position.partition].append(position.offset)
    assert all(sequence == list(range(len(sequence))) for sequence in offsets.values())


@pytest.mark.old_kafka
def test_acks_0_returns_no_offset(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic()
    with producer(cluster, acks="0") as client:
        assert client.send(topic, b"v").result(TIMEOUT_S).offset == -1
        client.flush()
        assert written(cluster, topic, 1)[0].value == b"v"


@pytest.mark.old_kafka
def test_log_append_time_is_returned(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic(message_timestamp_type="LogAppendTime")
    with producer(cluster) as client:
        metadata = client.send(topic, b"v", timestamp_ms=5).result(TIMEOUT_S)
    assert metadata.timestamp == written(cluster, topic, 1)[0].timestamp > 5


@pytest.mark.old_kafka
def test_too_large_batch_is_split_down_to_records(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic(max_message_bytes=2_000)
    with producer(cluster, linger_ms=1_000) as client:
        small = [client.send(topic, value, b"k" * 80) for value in numbers(60)]
        large = client.send(topic, b"x" * 3_000)
        more = [client.send(topic, value, b"k" * 80) for value in numbers(60, 60)]
        client.flush()
    assert isinstance(error := large.exception(0), BrokerError)
    assert error.error is Error.MESSAGE_TOO_LARGE
    assert [future.result(0).offset for future in (*small, *more)] == list(range(120))
    assert [record.value for record in written(cluster, topic, 120)] == numbers(120)


@pytest.mark.old_kafka
def test_any_thread_may_send(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic(2)
    with producer(cluster, linger_ms=1) as client:

        def send(name: int) -> None:
            for number in range(300):
                client.send(topic, b"%d %d" % (name, number), partition=name % 2)

        threads = [threading.Thread(target=send, args=[name]) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(TIMEOUT_S)
    by_name: dict[bytes, list[int]] = defaultdict(list)
    for record in written(cluster, topic, 1_200, 2):
        name, number = (record.value or b"").split()
        by_name[name].append(int(number))
    assert list(by_name.values()) == [list(range(300))] * 4


@pytest.mark.old_kafka
def test_callbacks_run_in_order_before_flush_returns(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic()
    calls: list[tuple[int, SlackwaterError | None]] = []

    def on_delivery(metadata: RecordMetadata | None, error: SlackwaterError | None) -> None:
        calls.append((metadata.offset if metadata is not None else -1, error))

    with producer(cluster, batch_size=500) as client:
        for value in numbers(200):
            client.send(topic, value, on_delivery=on_delivery)
        client.flush(TIMEOUT_S)
        assert calls == [(number, None) for number in range(200)]


@pytest.mark.old_kafka
def test_a_callback_may_send(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic()
    with producer(cluster) as client:
        sent: list[object] = []

        def on_delivery(metadata: RecordMetadata | None, error: SlackwaterError | None) -> None:
            sent.append(client.send(topic, b"second"))

        client.send(topic, b"first", on_delivery=on_delivery).result(TIMEOUT_S)
        assert [record.value for record in written(cluster, topic, 2)] == [b"first", b"second"]
        assert len(sent) == 1


# --- faults -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("processed", "in_flight"), [(True, 5), (True, 1), (False, 5), (False, 1)])
def test_disconnects_keep_order_without_duplicates(kafka: Kafka, processed: bool, in_flight: int) -> None:
    kafka.create_topic("t", 2)
    settings = {"batch.size": 300, "linger.ms": 0, "max.in.flight.requests.per.connection": in_flight}
    with producer(kafka, **settings) as client:
        futures = []
        for value in numbers(400):
            if int(value) % 100 == 50:
                kafka.drop("Produce", times=2, processed=processed)
            futures.append(client.send("t", value, partition=int(value) % 2))
        client.flush(TIMEOUT_S)
    assert not wait(futures, 0).not_done
    by_partition: dict[int, list[bytes | None]] = defaultdict(list)
    for record in written(kafka, "t", 400, 2):
        by_partition[record.partition].append(record.value)
    assert by_partition == {0: numbers(400)[::2], 1: numbers(400)[1::2]}


@pytest.mark.parametrize(
    "error", ["NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION", "NOT_ENOUGH_REPLICAS", "REQUEST_TIMED_OUT"]
)
def test_retriable_errors_are_retried(kafka: Kafka, error: str) -> None:
    kafka.create_topic("t", 1)
    kafka.fail("Produce", error, times=3)
    with producer(kafka, batch_size=100, linger_ms=0) as client:
        futures = [client.send("t", value) for value in numbers(50)]
        client.flush(TIMEOUT_S)
    assert [future.result(0).offset for future in futures] == list(range(50))
    assert [record.value for record in written(kafka, "t", 50)] == numbers(50)


@pytest.mark.parametrize("error", ["UNKNOWN_PRODUCER_ID", "INVALID_PRODUCER_EPOCH"])
def test_unknown_producer_id_is_renewed(kafka: Kafka, error: str) -> None:
    kafka.create_topic("t", 1)
    with producer(kafka, linger_ms=0) as client:
        client.send("t", b"0").result(TIMEOUT_S)
        kafka.fail("Produce", error)
        assert client.send("t", b"1").result(TIMEOUT_S).offset == 1


def test_permanent_error_fails_only_its_record(kafka: Kafka) -> None:
    kafka.create_topic("t", 1)
    kafka.fail("Produce", "TOPIC_AUTHORIZATION_FAILED")
    with producer(kafka, linger_ms=0) as client:
        with pytest.raises(BrokerError, match="t-0: TOPIC_AUTHORIZATION_FAILED"):
            client.send("t", b"0").result(TIMEOUT_S)
        assert client.send("t", b"1").result(TIMEOUT_S).offset == 0


def test_init_producer_id_error_is_raised(kafka: Kafka) -> None:
    kafka.create_topic("t", 1)
    kafka.fail("InitProducerId", "CLUSTER_AUTHORIZATION_FAILED", times=None)
    with producer(kafka) as client:
        with pytest.raises(BrokerError, match="InitProducerId failed: CLUSTER_AUTHORIZATION_FAILED"):
            client.send("t", b"0").result(TIMEOUT_S)
        with pytest.raises(BrokerError, match="InitProducerId failed"):
            client.send("t", b"1")


def test_delivery_timeout_fails_with_record_count(kafka: Kafka) -> None:
    kafka.create_topic("t", 1)
    with producer(kafka, delivery_timeout_ms=200, request_timeout_ms=100, linger_ms=0) as client:
        client.send("t", b"0").result(TIMEOUT_S)
        kafka.fail("Produce", "NOT_ENOUGH_REPLICAS", times=None)
        futures = [client.send("t", value) for value in numbers(3)]
        with pytest.raises(SlackwaterError, match=r"NOT_ENOUGH_REPLICAS"):
            futures[0].result(TIMEOUT_S)
        for future in futures[1:]:
            with pytest.raises(SlackwaterError, match=r"not delivered within 0\.2 s|NOT_ENOUGH_REPLICAS"):
                future.result(TIMEOUT_S)
        kafka.clear_faults()
        assert client.send("t", b"1").result(TIMEOUT_S).offset == 1


def send_forever(client: Producer) -> None:
    while True:
        client.send("t", b"x" * 200)


def test_send_times_out_when_buffer_is_full(kafka: Kafka) -> None:
    kafka.create_topic("t", 1)
    with producer(kafka, buffer_memory=2_000, batch_size=500, max_block_ms=100, linger_ms=0) as client:
        client.send("t", b"0").result(TIMEOUT_S)
        fault = kafka.delay("Produce", 120.0, times=None)
        with pytest.raises(ClientTimeoutError, match=r"buffer was full for 0\.1 s"):
            send_forever(client)
        fault.end()
        kafka.clear_faults()
        kafka.restart()
        client.flush(TIMEOUT_S)
        assert client.send("t", b"1").result(TIMEOUT_S).offset > 1


def test_added_partition_can_be_written(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic(1)
    with producer(cluster) as client:
        client.send(topic, b"0", partition=0).result(TIMEOUT_S)
        cluster.admin.add_partitions(topic, 2)
        wait_for(lambda: len(cluster.admin.describe_topics([topic])[0].partitions) == 2, "the new partition")
        assert client.send(topic, b"1", partition=1).result(TIMEOUT_S).partition == 1
        with pytest.raises(UsageError, match="has no partition 2; it has 2, from 0 on"):
            client.send(topic, b"2", partition=2)


# --- invalid calls ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((5,), {}, "The value of a record is int; pass bytes, str or None"),
        ((b"v", 1.5), {}, "The key of a record is float"),
        ((b"v",), {"partition": 9}, "has no partition 9; it has 1, from 0 on"),
        ((b"v",), {"partition": -1}, "has no partition -1"),
        ((b"v",), {"partition": "0"}, "has no partition '0'"),
        ((b"v",), {"timestamp_ms": -5}, "-5 is not a timestamp"),
        ((b"v",), {"timestamp_ms": 1.5}, "1.5 is not a timestamp"),
        ((b"v",), {"on_delivery": 5}, "on_delivery is int; pass a function"),
        ((b"v",), {"headers": ["h"]}, "Headers are pairs"),
        ((b"v",), {"headers": [(b"h", b"")]}, "Headers are pairs"),
        ((b"v",), {"headers": [("h", "text")]}, "Headers are pairs"),
        ((b"v",), {"headers": [("\ud800", b"")]}, "Headers are pairs"),
        ((b"x" * 2_000_000,), {}, "takes 2000015 bytes; max.request.size is 1048576"),
    ],
)
def test_invalid_record_is_rejected_by_send(
    cluster: ClusterUnderTest, arguments: tuple[object, ...], options: dict[str, object], message: str
) -> None:
    topic = cluster.topic()
    with producer(cluster) as client:
        with pytest.raises(UsageError, match=message):
            client.send(topic, *arguments, **options)  # type: ignore[arg-type]
        assert client.send(topic, b"v").result(TIMEOUT_S).offset == 0


@pytest.mark.parametrize("call", ["flush", "close"])
def test_blocking_call_in_callback_is_rejected(
    cluster: ClusterUnderTest, call: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = cluster.topic()
    with producer(cluster) as client:
        is_rejected = threading.Event()

        def on_delivery(metadata: RecordMetadata | None, error: SlackwaterError | None) -> None:
            with pytest.raises(UsageError, match=rf"{call}\(\) cannot be called inside a delivery callback"):
                getattr(client, call)()
            is_rejected.set()

        client.send(topic, b"v", on_delivery=on_delivery)
        assert is_rejected.wait(TIMEOUT_S)


def test_use_after_close_is_rejected(cluster: ClusterUnderTest) -> None:
    client = producer(cluster)
    client.close()
    for call in (lambda: client.send("t", b"v"), client.flush, lambda: client.partitions_for("t")):
        with pytest.raises(ClientClosedError, match="was closed; make a new one"):
            call()
    client.close()  # twice is fine


def test_partitions_for_returns_partitions(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic(3)
    with producer(cluster) as client:
        assert client.partitions_for(topic) == cluster.partitions(topic, 0, 1, 2)


@pytest.mark.parametrize("topic", [None, "", b"t", 5])
def test_topic_name_is_checked(cluster: ClusterUnderTest, topic: object) -> None:
    with producer(cluster) as client, pytest.raises(UsageError, match=r"The topic is .*; pass a topic name"):
        client.send(topic, b"v")  # type: ignore[arg-type]


@pytest.mark.kafka(settings={"auto.create.topics.enable": False})
def test_missing_topic_is_named_in_error(kafka: Kafka) -> None:
    with producer(kafka, max_block_ms=100) as client:
        with pytest.raises(
            UnknownTopicError, match=r"There is no topic nowhere, and the cluster created none within 0\.1 s"
        ):
            client.send("nowhere", b"v")
        kafka.create_topic("nowhere", 1)
        assert client.send("nowhere", b"v").result(TIMEOUT_S).offset == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("localhost:9092", "The settings are str; pass a dict"),
        ({"delivery.timeout.ms": 100}, r"delivery.timeout.ms = 100 is below linger.ms \+ request.timeout.ms, 30005"),
        ({"acks": "2"}, "acks = 2 is unknown; use one of all, -1, 0, 1"),
        ({"acks": "1", "enable.idempotence": True}, "enable.idempotence needs acks=all"),
    ],
)
def test_invalid_settings_are_rejected(settings: object, message: str) -> None:
    argument = {"bootstrap.servers": "localhost:9092"} | settings if isinstance(settings, dict) else settings
    with pytest.raises(UsageError, match=message):
        Producer(argument)  # type: ignore[arg-type]
