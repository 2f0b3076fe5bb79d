"""Consumer.run: every record is handled, nothing is committed too early, slow handlers keep the membership."""

import os
import signal
import threading
import time
from collections import Counter, defaultdict

import pytest

from slackwater import Consumer
from slackwater.client.consumer.records import ConsumerRecord
from slackwater.client.consumer.runner import DeadLetterError, HandlerFailedError
from slackwater.group.errors import BrokerError, Error, UsageError
from slackwater.group.topic_partition import TopicPartition
from slackwater.testing.kafka import Kafka
from tests.client.clusters import ClusterUnderTest
from tests.client.helpers import TIMEOUT_S, consumer, fill, numbers, poll_until, read, wait_for


class ThreadedRun:
    """A consumer that runs a handler in its own thread."""

    def __init__(self, client: Consumer, handler: object, **options: object) -> None:
        self.error: BaseException | None = None
        self.consumer = client
        self._thread = threading.Thread(target=self._run, args=(handler, options), daemon=True)
        self._thread.start()

    def _run(self, handler: object, options: dict[str, object]) -> None:
        try:
            self.consumer.run(handler, **options)  # type: ignore[arg-type]
        except BaseException as error:
            self.error = error

    def stop(self) -> None:
        self.consumer.stop()
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()


def committed(cluster: ClusterUnderTest, group: str, topic: str, partitions: int = 1) -> list[int | None]:
    with consumer(cluster, group) as client:
        offsets = client.committed([TopicPartition(topic, number) for number in range(partitions)])
        return [commit.offset if commit is not None else None for commit in offsets.values()]


@pytest.mark.old_kafka
@pytest.mark.parametrize("order", ["partition", "key", "none"])
def test_every_record_is_handled_once_and_committed(cluster: ClusterUnderTest, order: str) -> None:
    topic = cluster.topic(3)
    fill(cluster, topic, numbers(200))
    calls: Counter[bytes | None] = Counter()
    with consumer(cluster, topic) as client:
        client.subscribe([topic])

        def handle(record: ConsumerRecord) -> None:
            calls[record.value] += 1

        running = ThreadedRun(client, handle, workers=4, order=order)
        wait_for(lambda: len(calls) == 200)
        running.stop()
    assert set(calls.values()) == {1}
    assert sum(offset or 0 for offset in committed(cluster, topic, topic, 3)) == 200


def test_key_order_holds_while_keys_overtake(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic()
    for key in (b"slow", b"quick"):
        fill(cluster, topic, numbers(20), key=key)
    by_key: dict[bytes | None, list[bytes | None]] = defaultdict(list)
    gate = threading.Event()

    def handle(record: ConsumerRecord) -> None:
        if record.key == b"slow" and record.value == b"0":
            gate.wait(TIMEOUT_S)
        by_key[record.key].append(record.value)

    with consumer(cluster, topic, auto_commit_interval_ms=20) as client:
        client.subscribe([topic])
        running = ThreadedRun(client, handle, workers=4, order="key")
        wait_for(lambda: len(by_key[b"quick"]) == 20)
        assert not by_key[b"slow"]
        assert committed(cluster, topic, topic) == [None]  # the first record is not finished
        gate.set()
        wait_for(lambda: committed(cluster, topic, topic) == [40])
        running.stop()
    assert by_key[b"slow"] == numbers(20)


@pytest.mark.old_kafka
def test_slow_handler_keeps_membership(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic(2)
    fill(cluster, topic, numbers(1), partition=0)
    started, gate, done = threading.Event(), threading.Event(), threading.Event()
    lost: list[object] = []

    def handle(record: ConsumerRecord) -> None:
        started.set()
        gate.wait(TIMEOUT_S)
        done.set()

    with consumer(cluster, topic, max_poll_interval_ms=1_000, session_timeout_ms=10_000) as client:
        client.subscribe([topic])
        client.on_event(lambda event: lost.append(event.kind) if event.kind == "poll_overrun" else None)
        running = ThreadedRun(client, handle, workers=1)
        assert started.wait(TIMEOUT_S)
        before = client.group_metadata()
        until = time.monotonic() + 2.2  # more than twice max.poll.interval.ms
        wait_for(lambda: time.monotonic() > until)
        assert client.group_metadata() == before
        gate.set()
        assert done.wait(TIMEOUT_S)
        running.stop()
    assert not lost
    assert committed(cluster, topic, topic, 2)[0] == 1


def test_new_partitions_are_read_while_handler_runs(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic(2)
    fill(cluster, topic, numbers(1), partition=0)
    fill(cluster, topic, numbers(1, 100), partition=1)
    gate, values = threading.Event(), []

    def handle(record: ConsumerRecord) -> None:
        values.append(record.value)
        if record.partition == 0:
            gate.wait(TIMEOUT_S)

    options = {"partition_assignment_strategy": "cooperative-sticky"}
    with consumer(cluster, topic, **options) as other, consumer(cluster, topic, **options) as client:
        other.subscribe([topic])
        poll_until(other, lambda: len(other.assignment) == 2)
        client.subscribe([topic])
        running = ThreadedRun(client, handle, workers=2, high_water_records=2, low_water_records=1)
        poll_until(other, lambda: len(other.assignment) == 1 and len(client.assignment) == 1)
        other.seek_to_beginning()
        other.close()
        wait_for(lambda: len(client.assignment) == 2)
        fill(cluster, topic, numbers(1, 200), partition=1)
        wait_for(lambda: b"200" in values)
        gate.set()
        running.stop()


@pytest.mark.old_kafka
def test_failed_record_is_retried_then_dead_lettered(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic()
    fill(cluster, topic, numbers(5), key=b"k", headers=[("own", b"1")])
    tries: Counter[bytes | None] = Counter()

    def handle(record: ConsumerRecord) -> None:
        tries[record.value] += 1
        if record.value == b"2" or (record.value == b"3" and tries[b"3"] < 3):
            raise ValueError("not this record")

    with consumer(cluster, topic, auto_commit_interval_ms=20) as client:
        client.subscribe([topic])
        running = ThreadedRun(client, handle, max_attempts=4, retry_backoff_ms=1, dead_letter_topic=f"{topic}-dead")
        wait_for(lambda: committed(cluster, topic, topic) == [5])
        running.stop()
    assert tries == {b"0": 1, b"1": 1, b"2": 4, b"3": 3, b"4": 1}
    with consumer(cluster) as reader:
        reader.assign([TopicPartition(f"{topic}-dead", 0)])
        (letter,) = read(reader, 1)
    assert (letter.key, letter.value) == (b"k", b"2")
    assert letter.headers[0] == ("own", b"1")
    assert dict(letter.headers[1:]) == {
        "dead-letter.error": b"ValueError('not this record')",
        "dead-letter.topic": topic.encode(),
        "dead-letter.partition": b"0",
        "dead-letter.offset": b"2",
        "dead-letter.attempts": b"4",
    }


@pytest.mark.old_kafka
def test_too_large_dead_letter_ends_run_without_commit(cluster: ClusterUnderTest) -> None:
    topic, small, large = cluster.topic(), cluster.topic(max_message_bytes=1_000), cluster.topic()
    fill(cluster, topic, [b"0", b"x" * 5_000, b"2"])

    def handle(record: ConsumerRecord) -> None:
        if len(record.value or b"") > 1:
            raise ValueError("too much")

    with consumer(cluster, topic, auto_commit_interval_ms=20) as client:
        client.subscribe([topic])
        message = rf"dead letter of {topic}-0, offset 1, cannot be written to {small}: .*was not committed"
        with pytest.raises(DeadLetterError, match=message) as caught:
            client.run(handle, max_attempts=1, dead_letter_topic=small)
        assert isinstance(caught.value.__cause__, BrokerError)
        assert caught.value.__cause__.error is Error.MESSAGE_TOO_LARGE
        assert caught.value.record.offset == 1
        assert committed(cluster, topic, topic) == [1]
        running = ThreadedRun(client, handle, max_attempts=1, dead_letter_topic=large)  # accepts larger records
        wait_for(lambda: committed(cluster, topic, topic) == [3])
        running.stop()
    with consumer(cluster) as reader:
        reader.assign([TopicPartition(large, 0)])
        assert [len(record.value or b"") for record in read(reader, 1)] == [5_000]


def failing(record: ConsumerRecord) -> None:
    raise ValueError("never")


def test_missing_dead_letter_topic_ends_run() -> None:
    with Kafka(settings={"group.initial.rebalance.delay.ms": 0, "auto.create.topics.enable": False}) as kafka:
        kafka.create_topic("t", 1)
        fill(kafka, "t", numbers(1))
        with consumer(kafka, "g", max_block_ms=200) as client:
            client.subscribe(["t"])
            with pytest.raises(DeadLetterError, match=r"There is no topic nowhere, .* within 0\.2 s"):
                client.run(failing, max_attempts=1, dead_letter_topic="nowhere")
        assert not kafka.committed("g")


def test_unauthorized_dead_letter_ends_run(kafka: Kafka) -> None:
    kafka.create_topic("t", 1)
    fill(kafka, "t", numbers(1))
    kafka.fail("Produce", "TOPIC_AUTHORIZATION_FAILED", times=None)
    with consumer(kafka, "g") as client:
        client.subscribe(["t"])
        with pytest.raises(DeadLetterError, match="TOPIC_AUTHORIZATION_FAILED"):
            client.run(failing, max_attempts=1, dead_letter_topic="dead")
    assert not kafka.committed("g")


def test_failed_dead_letter_is_retried_and_logged_once(kafka: Kafka, caplog: pytest.LogCaptureFixture) -> None:
    kafka.create_topic("t", 1)
    fill(kafka, "t", numbers(2))
    kafka.fail("Produce", "NOT_ENOUGH_REPLICAS", times=4)
    without_retries = {"retries": 0, "enable_idempotence": False, "linger_ms": 0}
    with consumer(kafka, "g", auto_commit_interval_ms=20, **without_retries) as client:
        client.subscribe(["t"])
        running = ThreadedRun(client, failing, max_attempts=1, retry_backoff_ms=1, dead_letter_topic="dead")
        wait_for(lambda: kafka.committed("g") == {TopicPartition("t", 0): 2})
        running.stop()
    with consumer(kafka) as reader:
        reader.assign([TopicPartition("dead", 0)])
        assert [record.value for record in read(reader, 2)] == numbers(2)
    assert caplog.text.count("failed and is retried") == 1


def test_retry_delays_only_its_own_partition(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic(2)
    fill(cluster, topic, numbers(1), partition=0)
    fill(cluster, topic, numbers(50, 100), partition=1)
    values: list[bytes | None] = []

    def handle(record: ConsumerRecord) -> None:
        if record.partition == 0:
            raise ValueError("never")
        values.append(record.value)

    with consumer(cluster, topic) as client:
        client.subscribe([topic])
        running = ThreadedRun(
            client, handle, max_attempts=None, retry_backoff_ms=60_000, retry_backoff_max_ms=60_000, stop_timeout_s=0.1
        )
        wait_for(lambda: len(values) == 50)
        running.stop()


def test_last_failure_without_dead_letters_ends_run(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic()
    fill(cluster, topic, numbers(3))

    def handle(record: ConsumerRecord) -> None:
        if record.value == b"1":
            raise ValueError("no")

    with consumer(cluster, topic) as client:
        client.subscribe([topic])
        with pytest.raises(HandlerFailedError, match=r"2 times at t-\w+-0, offset 1: ValueError\('no'\)"):
            client.run(handle, max_attempts=2, retry_backoff_ms=1)
        # The position is the unhandled record, and only handled records are committed.
        assert client.position(TopicPartition(topic, 0)) == 1
        assert [record.value for record in read(client, 2)] == [b"1", b"2"]
        client.unsubscribe()


def test_no_retry_errors_are_not_retried(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic()
    fill(cluster, topic, numbers(1))
    tries = []

    def handle(record: ConsumerRecord) -> None:
        tries.append(record)
        raise KeyError("gone")

    with consumer(cluster, topic) as client:
        client.subscribe([topic])
        with pytest.raises(HandlerFailedError):
            client.run(handle, no_retry=(KeyError,))
    assert len(tries) == 1


@pytest.mark.old_kafka
def test_running_records_are_committed_before_revocation(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic(2)
    fill(cluster, topic, numbers(1), partition=0)
    fill(cluster, topic, numbers(1), partition=1)
    busy, gate = threading.Semaphore(0), threading.Event()
    handled: list[tuple[int, int]] = []

    def handle(record: ConsumerRecord) -> None:
        busy.release()
        gate.wait(TIMEOUT_S)
        handled.append((record.partition, record.offset))

    with consumer(cluster, topic) as client, consumer(cluster, topic) as other:
        client.subscribe([topic])
        running = ThreadedRun(client, handle, workers=2)
        assert busy.acquire(timeout=TIMEOUT_S)
        assert busy.acquire(timeout=TIMEOUT_S)
        other.subscribe([topic])
        poll_until(other, lambda: cluster.group_state(topic) == "PreparingRebalance")
        gate.set()
        received = poll_until(other, lambda: len(other.assignment) == 1)
        received += other.poll(0.2)
        assert not received  # running records were committed and are not returned again
        running.stop()
    assert sorted(handled) == [(0, 0), (1, 0)]


def test_drain_timeout_revokes_without_commit(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic(2)
    fill(cluster, topic, numbers(1), partition=0)
    fill(cluster, topic, numbers(1), partition=1)
    busy, gate = threading.Semaphore(0), threading.Event()

    def handle(record: ConsumerRecord) -> None:
        busy.release()
        gate.wait(TIMEOUT_S)

    with consumer(cluster, topic) as client, consumer(cluster, topic) as other:
        client.subscribe([topic])
        running = ThreadedRun(client, handle, workers=2, drain_timeout_s=0.1, stop_timeout_s=0.1)
        assert busy.acquire(timeout=TIMEOUT_S)
        assert busy.acquire(timeout=TIMEOUT_S)
        other.subscribe([topic])
        assert len(read(other, 1)) == 1  # the new owner reads it again
        gate.set()
        running.stop()


def test_high_water_pauses_and_resumes(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic()
    fill(cluster, topic, numbers(100))
    gate, values = threading.Event(), []

    def handle(record: ConsumerRecord) -> None:
        gate.wait(TIMEOUT_S)
        values.append(record.value)

    with consumer(cluster, topic, max_poll_records=5) as client:
        client.subscribe([topic])
        running = ThreadedRun(client, handle, high_water_records=10, low_water_records=5)
        wait_for(lambda: client.paused)
        state = client.engine.positions.require(TopicPartition(topic, 0))
        assert state.position in range(10, 20)
        gate.set()
        wait_for(lambda: values == numbers(100))
        running.stop()


def test_sigterm_ends_run_on_main_thread(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic()
    fill(cluster, topic, numbers(3))
    values = []

    def handle(record: ConsumerRecord) -> None:
        values.append(record.value)
        if len(values) == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    with consumer(cluster, topic) as client:
        client.subscribe([topic])
        client.run(handle)
    assert signal.getsignal(signal.SIGTERM) is before
    assert committed(cluster, topic, topic) == [3]


def test_listener_runs_after_drain_and_is_restored(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic()
    fill(cluster, topic, numbers(2))
    calls: list[str] = []

    class Listener:
        def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            calls.append("assigned")

        def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            calls.append("revoked")

        def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
            calls.append("lost")

    listener = Listener()
    with consumer(cluster, topic) as client:
        client.subscribe([topic], listener=listener)
        client.run(lambda record: client.stop())
        assert client.engine.listener is listener
    assert calls == ["assigned", "revoked"]


def test_workers_end_with_the_run(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic()
    fill(cluster, topic, numbers(1))
    with consumer(cluster, topic) as client:
        client.subscribe([topic])
        client.run(lambda record: client.stop(), workers=5)
        assert not [thread for thread in threading.enumerate() if "-worker-" in thread.name]


def test_invalid_run_options_are_rejected(cluster: ClusterUnderTest) -> None:
    with consumer(cluster, cluster.name("g")) as client:
        client.subscribe(["t"])
        with pytest.raises(UsageError, match="order = 'time' is unknown; use partition, key or none"):
            client.run(print, order="time")
        with pytest.raises(UsageError, match="workers = 0"):
            client.run(print, workers=0)
        with pytest.raises(UsageError, match=r"no option high_watr_records; did you mean high_water_records\?"):
            client.run(print, high_watr_records=3)
        client.unsubscribe()
