"""Consumer.run with coroutine functions: the same order, limits and commits as with functions in threads."""

import asyncio
import functools
import threading
from collections import defaultdict

import pytest

from slackwater.client.consumer.records import ConsumerRecord
from slackwater.client.consumer.runner import HandlerFailedError
from slackwater.group.errors import UsageError
from slackwater.group.topic_partition import TopicPartition
from tests.client.clusters import ClusterUnderTest
from tests.client.consumer.test_runner import ThreadedRun, committed
from tests.client.helpers import TIMEOUT_S, consumer, fill, numbers, poll_until, read, wait_for


class Gate:
    """An event that coroutines of another thread's loop wait for."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._is_open = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def wait(self) -> None:
        self._loop = asyncio.get_running_loop()
        if not self._is_open:
            await self._event.wait()

    def open(self) -> None:
        self._is_open = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._event.set)


class AsyncObject:
    """An object whose call is a coroutine function."""

    def __init__(self, values: list[bytes]) -> None:
        self._values = values

    async def __call__(self, record: ConsumerRecord) -> None:
        await asyncio.sleep(0)
        self._values.append(record.value)


async def append(values: list[bytes], record: ConsumerRecord) -> None:
    await asyncio.sleep(0)
    values.append(record.value)


@pytest.mark.old_kafka
@pytest.mark.parametrize("order", ["partition", "key", "none"])
def test_coroutines_handle_every_record_once(cluster: ClusterUnderTest, order: str) -> None:
    topic = cluster.topic(3)
    fill(cluster, topic, numbers(200))
    values: list[bytes] = []
    with consumer(cluster, topic) as client:
        client.subscribe([topic])
        running = ThreadedRun(client, functools.partial(append, values), workers=4, order=order)
        wait_for(lambda: len(values) == 200)
        running.stop()
    assert sorted(values) == sorted(numbers(200))
    assert sum(offset or 0 for offset in committed(cluster, topic, topic, 3)) == 200


def test_object_with_asynchronous_call_is_awaited(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic()
    fill(cluster, topic, numbers(10))
    values: list[bytes] = []
    with consumer(cluster, topic) as client:
        client.subscribe([topic])
        running = ThreadedRun(client, AsyncObject(values))
        wait_for(lambda: values == numbers(10))
        running.stop()
    assert committed(cluster, topic, topic) == [10]


@pytest.mark.parametrize("workers", [1, 5])
def test_workers_limit_the_running_coroutines(cluster: ClusterUnderTest, workers: int) -> None:
    topic = cluster.topic()
    fill(cluster, topic, numbers(50))
    running_now = 0
    counts: list[int] = []

    async def handle(record: ConsumerRecord) -> None:
        nonlocal running_now
        running_now += 1
        counts.append(running_now)
        for _ in range(10):
            await asyncio.sleep(0)
        running_now -= 1

    with consumer(cluster, topic) as client:
        client.subscribe([topic])
        running = ThreadedRun(client, handle, workers=workers, order="none")
        wait_for(lambda: len(counts) == 50)
        running.stop()
    assert max(counts) == workers


def test_key_order_holds_while_coroutines_overtake(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic()
    for key in (b"slow", b"quick"):
        fill(cluster, topic, numbers(20), key=key)
    by_key: dict[bytes, list[bytes]] = defaultdict(list)
    gate = Gate()

    async def handle(record: ConsumerRecord) -> None:
        if record.key == b"slow" and record.value == b"0":
            await gate.wait()
        by_key[record.key].append(record.value)

    with consumer(cluster, topic, auto_commit_interval_ms=20) as client:
        client.subscribe([topic])
        running = ThreadedRun(client, handle, workers=4, order="key")
        wait_for(lambda: len(by_key[b"quick"]) == 20)
        assert not by_key[b"slow"]
        assert committed(cluster, topic, topic) == [None]
        gate.open()
        wait_for(lambda: committed(cluster, topic, topic) == [40])
        running.stop()
    assert by_key[b"slow"] == numbers(20)


def test_waiting_coroutines_pause_the_partition(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic()
    fill(cluster, topic, numbers(100))
    gate, values = Gate(), []

    async def handle(record: ConsumerRecord) -> None:
        await gate.wait()
        values.append(record.value)

    with consumer(cluster, topic, max_poll_records=5) as client:
        client.subscribe([topic])
        running = ThreadedRun(client, handle, high_water_records=10, low_water_records=5)
        wait_for(lambda: client.paused)
        gate.open()
        wait_for(lambda: values == numbers(100))
        running.stop()


def test_failed_coroutine_is_retried_then_dead_lettered(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic()
    fill(cluster, topic, numbers(3))
    tries: dict[bytes, int] = defaultdict(int)

    async def handle(record: ConsumerRecord) -> None:
        tries[record.value] += 1
        await asyncio.sleep(0)
        if record.value == b"1":
            raise ValueError("not this record")

    with consumer(cluster, topic, auto_commit_interval_ms=20) as client:
        client.subscribe([topic])
        running = ThreadedRun(client, handle, max_attempts=3, retry_backoff_ms=1, dead_letter_topic=f"{topic}-dead")
        wait_for(lambda: committed(cluster, topic, topic) == [3])
        running.stop()
    assert tries == {b"0": 1, b"1": 3, b"2": 1}
    with consumer(cluster) as reader:
        reader.assign([TopicPartition(f"{topic}-dead", 0)])
        assert [letter.value for letter in read(reader, 1)] == [b"1"]


def test_last_failure_of_a_coroutine_ends_run(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic()
    fill(cluster, topic, numbers(3))

    async def handle(record: ConsumerRecord) -> None:
        if record.value == b"1":
            raise ValueError("no")

    with consumer(cluster, topic) as client:
        client.subscribe([topic])
        with pytest.raises(HandlerFailedError, match=r"2 times at t-\w+-0, offset 1: ValueError\('no'\)"):
            client.run(handle, max_attempts=2, retry_backoff_ms=1)
        assert client.position(TopicPartition(topic, 0)) == 1
    assert committed(cluster, topic, topic) == [1]


@pytest.mark.old_kafka
def test_coroutines_finish_before_revocation(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic(2)
    for partition in range(2):
        fill(cluster, topic, numbers(1), partition=partition)
    busy, gate = threading.Semaphore(0), Gate()
    handled: list[tuple[int, int]] = []

    async def handle(record: ConsumerRecord) -> None:
        busy.release()
        await gate.wait()
        handled.append((record.partition, record.offset))

    with consumer(cluster, topic) as client, consumer(cluster, topic) as other:
        client.subscribe([topic])
        running = ThreadedRun(client, handle, workers=2)
        assert busy.acquire(timeout=TIMEOUT_S)
        assert busy.acquire(timeout=TIMEOUT_S)
        other.subscribe([topic])
        poll_until(other, lambda: cluster.group_state(topic) == "PreparingRebalance")
        gate.open()
        received = poll_until(other, lambda: len(other.assignment) == 1)
        received += other.poll(0.2)
        assert not received
        running.stop()
    assert sorted(handled) == [(0, 0), (1, 0)]


def test_stop_cancels_coroutines_at_its_timeout(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic()
    fill(cluster, topic, numbers(1))
    started, ends = threading.Event(), []

    async def handle(record: ConsumerRecord) -> None:
        started.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    with consumer(cluster, topic) as client:
        client.subscribe([topic])
        running = ThreadedRun(client, handle, stop_timeout_s=0.1)
        assert started.wait(TIMEOUT_S)
        running.stop()
        assert ends == ["cancelled"]
        assert not [thread for thread in threading.enumerate() if "-worker-" in thread.name]
    assert committed(cluster, topic, topic) == [None]


def test_revocation_cancels_coroutines_at_its_timeout(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic(2)
    for partition in range(2):
        fill(cluster, topic, numbers(1), partition=partition)
    busy, cancelled = threading.Semaphore(0), threading.Event()

    async def handle(record: ConsumerRecord) -> None:
        busy.release()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    with consumer(cluster, topic) as client, consumer(cluster, topic) as other:
        client.subscribe([topic])
        running = ThreadedRun(client, handle, workers=2, drain_timeout_s=0.1, stop_timeout_s=0.1)
        assert busy.acquire(timeout=TIMEOUT_S)
        assert busy.acquire(timeout=TIMEOUT_S)
        other.subscribe([topic])
        assert len(read(other, 1)) == 1
        assert cancelled.wait(TIMEOUT_S)
        running.stop()


def test_function_that_returns_a_coroutine_ends_run(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic()
    fill(cluster, topic, numbers(10))
    with consumer(cluster, topic) as client:
        client.subscribe([topic])
        with pytest.raises(UsageError, match="The handler returned a coroutine, which nothing awaits"):
            client.run(lambda record: append([], record), max_attempts=1, dead_letter_topic=f"{topic}-dead")
    assert committed(cluster, topic, topic) == [None]


def test_asynchronous_generator_is_rejected(cluster: ClusterUnderTest) -> None:
    async def handle(record: ConsumerRecord) -> object:
        yield record

    with consumer(cluster, cluster.name("g")) as client:
        client.subscribe(["t"])
        with pytest.raises(UsageError, match="The handler is an asynchronous generator"):
            client.run(handle)
        client.unsubscribe()
