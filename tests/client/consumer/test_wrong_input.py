"""Wrong input and failures: one clear error each, in bounded time."""

import logging
import re
import socket
import threading
import time

import pytest

from slackwater import Consumer, Producer
from slackwater.client.consumer.fetcher import NoOffsetForPartitionError, OffsetOutOfRangeError
from slackwater.client.consumer.rebalance_listener import RebalanceListener
from slackwater.client.errors import ClientClosedError, ClientTimeoutError
from slackwater.group.errors import BrokerError, Error, UsageError
from slackwater.group.topic_partition import TopicPartition
from tests.client.clusters import ClusterUnderTest
from tests.client.helpers import QUICK, TIMEOUT_S, consumer, fill, numbers, poll_until, read, wait_for
from tests.waiting import wait_until

P0 = TopicPartition("t", 0)  # for clients without a cluster


@pytest.fixture(scope="module")
def three_records(cluster: ClusterUnderTest) -> TopicPartition:
    """A partition with three_records records."""
    topic = cluster.topic()
    fill(cluster, topic, numbers(3))
    return TopicPartition(topic, 0)


@pytest.fixture
def nowhere() -> str:
    """Return an address without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


# --- an unreachable broker --------------------------------------------------------------------------------------------


def test_poll_retries_and_logs_unreachable_broker(nowhere: str, caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.WARNING, "slackwater.client"),
        Consumer(QUICK | {"bootstrap.servers": nowhere, "group.id": "g", "client.id": "c"}) as client,
    ):
        client.subscribe(["t"])
        wait_for(lambda: client.poll(0.05) == [] and "could not be established" in caplog.text)
        line = next(line for line in caplog.messages if "could not be established" in line)
        assert line.startswith(f"[Consumer clientId=c, groupId=g] Connection to node -1 ({nowhere}) could not be")
        client.close(timeout=0.2)


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.partitions_for("t"),
        lambda client: client.end_offsets([P0]),
        lambda client: client.position(P0),
        lambda client: client.committed([P0]),
        lambda client: client.commit({P0: 1}),
    ],
    ids=["partitions_for", "end_offsets", "position", "committed", "commit"],
)
def test_calls_time_out_and_name_the_servers(nowhere: str, call: object) -> None:
    assert callable(call)
    settings = QUICK | {"bootstrap.servers": nowhere, "group.id": "g", "default.api.timeout.ms": 200}
    client = Consumer(settings)
    try:
        client.assign([P0])
        started = time.monotonic()
        with pytest.raises(ClientTimeoutError, match=nowhere):
            call(client)
        assert time.monotonic() - started < 30
    finally:
        client.close(timeout=0.1)


def test_unreachable_server_is_named_by_producer(nowhere: str) -> None:
    producer = Producer({"bootstrap.servers": nowhere, "max.block.ms": 200, "reconnect.backoff.ms": 10})
    with pytest.raises(ClientTimeoutError, match=nowhere):
        producer.send("t", b"v")
    producer.close()


def test_non_kafka_port_fails_to_connect(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"

        def respond() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(100)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=respond)
        thread.start()
        client = Consumer(QUICK | {"bootstrap.servers": address, "default.api.timeout.ms": 300})

        def call_times_out_and_is_logged() -> bool:
            with pytest.raises(ClientTimeoutError):
                client.partitions_for("t")
            return "could not be established" in caplog.text

        wait_until(call_times_out_and_is_logged, lambda: caplog.text, TIMEOUT_S)
        client.close()
        thread.join()


# --- topics and records -----------------------------------------------------------------------------------------------


@pytest.mark.old_kafka
def test_missing_topic_warns_once_and_is_read_later(cluster: ClusterUnderTest, caplog: object) -> None:
    assert isinstance(caplog, pytest.LogCaptureFixture)
    later = cluster.name("later")
    with consumer(cluster, cluster.name("g"), allow_auto_create_topics=False, metadata_max_age_ms=50) as client:
        client.subscribe([later])
        poll_until(client, lambda: f"{later}=UNKNOWN_TOPIC_OR_PARTITION" in caplog.text)
        cluster.create_topic(later, 1)
        fill(cluster, later, numbers(1))
        read(client, 1)
        assert caplog.text.count(f"{later}=UNKNOWN_TOPIC_OR_PARTITION") == 1


def test_invalid_topic_name_is_an_error(cluster: ClusterUnderTest) -> None:
    with consumer(cluster, cluster.name("g")) as client:
        client.subscribe(["no/such name"])
        with pytest.raises(BrokerError, match="INVALID_TOPIC_EXCEPTION"):
            poll_until(client, lambda: False)
        client.unsubscribe()


def test_partitions_for_unknown_topic_is_empty(cluster: ClusterUnderTest) -> None:
    with consumer(cluster, allow_auto_create_topics=False) as client:
        assert client.partitions_for("unknown-topic") == []


def test_offsets_of_unknown_partition_time_out(cluster: ClusterUnderTest, three_records: TopicPartition) -> None:
    with (
        consumer(cluster, default_api_timeout_ms=500) as client,
        pytest.raises(ClientTimeoutError, match=r"t-\w+-99 .* no leader, or do not exist"),
    ):
        client.end_offsets([TopicPartition(three_records.topic, 99)])


def test_commit_for_unknown_topic_fails_at_once(cluster: ClusterUnderTest, three_records: TopicPartition) -> None:
    missing = TopicPartition(cluster.name("missing"), 0)
    with consumer(cluster, cluster.name("g"), allow_auto_create_topics=False) as client:
        client.subscribe([three_records.topic])
        read(client, 3)
        started = time.monotonic()
        with pytest.raises(BrokerError, match=f"offset of {missing} was not committed: it does not exist") as caught:
            client.commit({missing: 5})
        assert caught.value.error is Error.UNKNOWN_TOPIC_OR_PARTITION
        assert time.monotonic() - started < 30  # not default.api.timeout.ms


def test_record_above_max_request_size_is_rejected(cluster: ClusterUnderTest, three_records: TopicPartition) -> None:
    with (
        Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer,
        pytest.raises(UsageError, match=r"takes \d+ bytes; max.request.size is 1048576"),
    ):
        producer.send(three_records.topic, b"x" * 2_000_000)


@pytest.mark.old_kafka
def test_record_too_large_for_topic_fails(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic(1, max_message_bytes=1000)
    with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
        with pytest.raises(BrokerError) as caught:
            producer.send(topic, b"x" * 5_000).result(TIMEOUT_S)
        assert caught.value.error is Error.MESSAGE_TOO_LARGE


def test_record_above_fetch_limits_is_read(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic()
    fill(cluster, topic, [b"x" * 50_000, b"y" * 50_000])
    with consumer(cluster, fetch_max_bytes=1_000, max_partition_fetch_bytes=1_000) as client:
        client.assign([TopicPartition(topic, 0)])
        assert [len(record.value or b"") for record in read(client, 2)] == [50_000, 50_000]


# --- offsets ----------------------------------------------------------------------------------------------------------


@pytest.mark.old_kafka
def test_no_offset_and_no_reset_raises_until_seek(cluster: ClusterUnderTest, three_records: TopicPartition) -> None:
    with consumer(cluster, cluster.name("g"), auto_offset_reset="none") as client:
        client.assign([three_records])
        for _ in range(2):
            with pytest.raises(NoOffsetForPartitionError, match=r"t-\w+-0 has no committed offset"):
                poll_until(client, lambda: False)
        client.seek(three_records, 1)
        assert [record.offset for record in read(client, 2)] == [1, 2]


def test_no_group_and_no_reset_raises_at_once(cluster: ClusterUnderTest, three_records: TopicPartition) -> None:
    with consumer(cluster, auto_offset_reset="none") as client:
        client.assign([three_records])
        started = time.monotonic()
        with pytest.raises(NoOffsetForPartitionError):
            client.poll(60.0)
        assert time.monotonic() - started < 30


def test_out_of_range_without_reset_raises_once(cluster: ClusterUnderTest, three_records: TopicPartition) -> None:
    with consumer(cluster, auto_offset_reset="none") as client:
        client.assign([three_records])
        client.seek(three_records, 1_000)
        with pytest.raises(OffsetOutOfRangeError, match=r"log of t-\w+-0 does not contain the position 1000"):
            poll_until(client, lambda: False)
        wait_for(lambda: client.engine.fetcher.pending_errors)
        assert client.engine.fetcher.pending_errors == 1
        client.seek(three_records, 0)


@pytest.mark.old_kafka
def test_out_of_range_position_is_reset(cluster: ClusterUnderTest, three_records: TopicPartition) -> None:
    with consumer(cluster) as client:
        client.assign([three_records])
        client.seek(three_records, 1_000)
        assert [record.offset for record in read(client, 3)] == [0, 1, 2]


@pytest.mark.parametrize("policy", ["by_duration:PT1H", "earliest"])
def test_reset_by_duration_starts_at_that_time(
    cluster: ClusterUnderTest, three_records: TopicPartition, policy: str
) -> None:
    with consumer(cluster, auto_offset_reset=policy) as client:
        client.assign([three_records])
        assert len(read(client, 3)) == 3


# --- invalid calls ----------------------------------------------------------------------------------------------------


def test_invalid_pattern_is_rejected(cluster: ClusterUnderTest) -> None:
    with (
        consumer(cluster, cluster.name("g")) as client,
        pytest.raises(UsageError, match=r"'\(' is not a regular expression"),
    ):
        client.subscribe(pattern="(")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda client: client.subscribe(5), "The topics are 5; pass a list of topic names"),
        (lambda client: client.subscribe([5]), r"The topics are \[5\]"),
        (lambda client: client.subscribe([""]), r"The topics are \[''\]"),
        (lambda client: client.subscribe(pattern=5), "The pattern is int"),
        (lambda client: client.subscribe(re.compile(b"t")), "The pattern is of bytes"),
        (lambda client: client.subscribe(["t"], pattern="t"), "takes topics or a pattern, one of them"),
        (lambda client: client.subscribe(), "takes topics or a pattern, one of them"),
        (lambda client: client.assign(["t"]), r"The partitions are \['t'\]; pass a list like"),
        (lambda client: client.assign([("t", -1)]), "The partitions are"),
        (lambda client: client.assign(5), "The partitions are 5"),
        (lambda client: client.assign("t"), "The partitions are 't'"),
        (lambda client: client.assign([("t", True)]), "The partitions are"),
        (
            lambda client: client.subscribe(["t"], listener=print),
            "The listener is builtin_function_or_method; pass an object",
        ),
        (lambda client: client.seek("t", 0), "The partition is 't'; pass one like"),
        (lambda client: client.seek(("t", 0), "1"), "The offset is '1'; pass an int"),
        (lambda client: client.seek_to_end("t"), "The partitions are 't'"),
        (lambda client: client.seek_to_timestamp("now"), "seek: .now. is not a timestamp"),
        (lambda client: client.offsets_for_times({("t", 0): 1.5}), "1.5 is not a timestamp"),
        (lambda client: client.position("t"), "The partition is 't'"),
        (lambda client: client.pause("t"), "The partitions are 't'"),
        (lambda client: client.resume(5), "The partitions are 5"),
        (lambda client: client.committed("t"), "The partitions are 't'"),
        (lambda client: client.end_offsets("t"), "The partitions are 't'"),
        (lambda client: client.commit([("t", 0)]), "The offsets are list; pass a dict like"),
        (lambda client: client.commit({("t", 0): "x"}), "The offset is 'x'"),
        (lambda client: client.commit_async({"t": 1}), "The partition is 't'"),
        (lambda client: client.poll("1"), "The timeout is '1'; pass seconds"),
        (lambda client: client.poll(float("nan")), "The timeout is nan"),
        (lambda client: client.poll_arrow(None), "The timeout is None"),
        (lambda client: client.run(None), "The handler is NoneType"),
        (lambda client: Consumer("localhost:9092"), "The settings are str; pass a dict"),  # type: ignore[arg-type]
    ],
)
def test_wrong_argument_types_are_named(cluster: ClusterUnderTest, call: object, message: str) -> None:
    assert callable(call)
    with consumer(cluster, cluster.name("g")) as client, pytest.raises(UsageError, match=message):
        call(client)


@pytest.mark.parametrize("call", ["poll", "poll_arrow", "commit", "unsubscribe", "run"])
def test_use_after_close_is_rejected(cluster: ClusterUnderTest, call: str) -> None:
    client = consumer(cluster, cluster.name("g"))
    client.close()
    with pytest.raises(ClientClosedError, match="was closed; make a new one"):
        getattr(client, call)(*([print] if call == "run" else []))
    client.close()  # twice is fine
    client.wakeup()


def test_use_from_two_threads_is_rejected(cluster: ClusterUnderTest, three_records: TopicPartition) -> None:
    with consumer(cluster, cluster.name("g")) as client:
        called, release = threading.Event(), threading.Event()

        class WaitInPoll(RebalanceListener):
            def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
                called.set()
                release.wait(TIMEOUT_S)

        client.subscribe([three_records.topic], listener=WaitInPoll())
        polling = threading.Thread(target=lambda: poll_until(client, called.is_set))
        polling.start()
        assert called.wait(TIMEOUT_S)
        with pytest.raises(UsageError, match="in use by another thread"):
            client.poll(0)
        release.set()
        polling.join()


def test_poll_without_subscription_is_rejected(cluster: ClusterUnderTest) -> None:
    for client in (consumer(cluster), consumer(cluster, cluster.name("g"))):
        with client, pytest.raises(UsageError, match="nothing to poll"):
            client.poll(0)


@pytest.mark.parametrize("call", ["commit", "commit_async", "enforce_rebalance", "subscribe"])
def test_calls_without_group_are_rejected(cluster: ClusterUnderTest, call: str) -> None:
    with consumer(cluster) as client, pytest.raises(UsageError, match=r"needs a group: set group\.id"):
        getattr(client, call)(*([["t"]] if call == "subscribe" else []))


def test_unassigned_partition_is_named_in_error(cluster: ClusterUnderTest, three_records: TopicPartition) -> None:
    with consumer(cluster) as client:
        for call in (
            client.position,
            lambda partition: client.seek(partition, 0),
            lambda partition: client.pause([partition]),
        ):
            with pytest.raises(UsageError, match=r"t-\w+-0 is not assigned"):
                call(three_records)


def test_negative_offset_is_rejected(cluster: ClusterUnderTest, three_records: TopicPartition) -> None:
    with consumer(cluster) as client:
        client.assign([three_records])
        with pytest.raises(UsageError, match="offsets begin at 0"):
            client.seek(three_records, -1)
        with pytest.raises(UsageError, match="milliseconds since 1970"):
            client.seek_to_timestamp(-5)
