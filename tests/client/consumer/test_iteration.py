"""Which records count as processed: in an iteration, after a poll, and when the consumer is closed."""

import contextlib
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import islice

import pytest

from slackwater import Consumer
from slackwater.client.consumer.records import ConsumerRecord
from slackwater.group.member import Wakeup
from slackwater.group.topic_partition import TopicPartition
from tests.client.clusters import ClusterUnderTest
from tests.client.helpers import TIMEOUT_S, consumer, fill, numbers, poll_until, read, wait_for

COUNT = 10


class Stopped(Exception):
    """The processing of a record failed."""


def stopped() -> AbstractContextManager[object, bool]:
    """The body has to fail."""
    return pytest.raises(Stopped)


@pytest.fixture
def topic(cluster: ClusterUnderTest) -> str:
    """A topic with ten records in one partition; its name is also the name of the group."""
    name = cluster.topic()
    fill(cluster, name, numbers(COUNT))
    return name


def committed(cluster: ClusterUnderTest, topic: str, partition: int = 0) -> int | None:
    commit = cluster.admin.committed(topic).get(TopicPartition(topic, partition))
    return commit.offset if commit is not None else None


def subscribed(cluster: ClusterUnderTest, topic: str, **settings: object) -> Consumer:
    client = consumer(cluster, topic, **settings)
    client.subscribe([topic])
    return client


def take(client: Consumer, count: int) -> ConsumerRecord:
    """Leave the loop in the body of its `count`-th record."""
    for number, record in enumerate(client, 1):
        if number == count:
            return record
    raise AssertionError


# --- leaving a loop ---------------------------------------------------------------------------------------------------


@pytest.mark.old_kafka
def test_break_after_four_records_commits_four(cluster: ClusterUnderTest, topic: str) -> None:
    with subscribed(cluster, topic) as client:
        for number, _record in enumerate(client, 1):
            if number == 4:
                break
    assert committed(cluster, topic) == 4


@pytest.mark.old_kafka
def test_exception_in_fourth_record_commits_three(cluster: ClusterUnderTest, topic: str) -> None:
    with stopped(), subscribed(cluster, topic) as client:
        take(client, 4)
        raise Stopped
    assert committed(cluster, topic) == 3


def test_exception_in_first_record_commits_nothing(cluster: ClusterUnderTest, topic: str) -> None:
    with stopped(), subscribed(cluster, topic) as client:
        for _record in client:
            raise Stopped
    assert committed(cluster, topic) is None


def test_close_after_break_commits_four(cluster: ClusterUnderTest, topic: str) -> None:
    client = subscribed(cluster, topic)
    take(client, 4)
    client.close()
    assert committed(cluster, topic) == 4


def test_close_in_finally_of_an_exception_commits_three(cluster: ClusterUnderTest, topic: str) -> None:
    client = subscribed(cluster, topic)

    def process() -> None:
        try:
            take(client, 4)
            raise Stopped
        finally:
            client.close()

    with pytest.raises(Stopped):
        process()
    assert committed(cluster, topic) == 3


def test_normal_with_block_inside_an_except_block_commits_four(cluster: ClusterUnderTest, topic: str) -> None:
    try:
        raise Stopped
    except Stopped:
        with subscribed(cluster, topic) as client:
            take(client, 4)
    assert committed(cluster, topic) == 4


def test_islice_commits_what_it_returned(cluster: ClusterUnderTest, topic: str) -> None:
    with subscribed(cluster, topic) as client:
        assert len(list(islice(client, 4))) == 4
    assert committed(cluster, topic) == 4


def test_second_loop_continues_after_the_first(cluster: ClusterUnderTest, topic: str) -> None:
    with subscribed(cluster, topic) as client:
        assert take(client, 4).offset == 3
        assert take(client, 1).offset == 4
        assert client.position(TopicPartition(topic, 0)) == 5
    assert committed(cluster, topic) == 5


# --- poll -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("poll", [lambda client: read(client, COUNT), lambda client: client.poll_arrow(TIMEOUT_S)])
def test_exception_after_poll_does_not_commit_its_records(
    cluster: ClusterUnderTest, topic: str, poll: Callable[[Consumer], object]
) -> None:
    with stopped(), subscribed(cluster, topic) as client:
        poll(client)
        raise Stopped
    assert committed(cluster, topic) is None


def test_records_of_earlier_polls_are_committed_on_exception(cluster: ClusterUnderTest, topic: str) -> None:
    with stopped(), subscribed(cluster, topic, max_poll_records=4) as client:
        read(client, 8)
        raise Stopped
    assert committed(cluster, topic) == 4


def test_normal_close_commits_polled_records(cluster: ClusterUnderTest, topic: str) -> None:
    with subscribed(cluster, topic) as client:
        read(client, COUNT)
    assert committed(cluster, topic) == COUNT


# --- commits inside the loop ------------------------------------------------------------------------------------------


@pytest.mark.old_kafka
def test_commit_in_loop_commits_up_to_the_current_record(cluster: ClusterUnderTest, topic: str) -> None:
    with stopped(), subscribed(cluster, topic, enable_auto_commit=False) as client:
        for record in client:
            client.commit()
            assert committed(cluster, topic) == record.offset + 1
            if record.offset == 3:
                raise Stopped
    assert committed(cluster, topic) == 4


@pytest.mark.old_kafka
def test_auto_commit_leaves_out_the_current_record(cluster: ClusterUnderTest, topic: str) -> None:
    client = subscribed(cluster, topic, auto_commit_interval_ms=1)
    for record in client:
        until = time.monotonic() + 0.2  # the next request for a record polls, and auto-commits
        wait_for(lambda until=until: time.monotonic() > until)  # type: ignore[misc]
        assert (committed(cluster, topic) or 0) <= record.offset
        if record.offset == 3:
            break
    wait_for(lambda: committed(cluster, topic) == 3)
    client.abort()
    assert committed(cluster, topic) == 3


# --- changes inside the loop ------------------------------------------------------------------------------------------


def test_seek_in_loop_takes_effect_at_the_next_record(cluster: ClusterUnderTest, topic: str) -> None:
    offsets: list[int] = []
    targets = {3: 0, 1: 8}
    with subscribed(cluster, topic) as client:
        for record in client:
            offsets.append(record.offset)
            if record.offset == 9:
                break
            if record.offset in targets and offsets.count(record.offset) == 1 + (record.offset == 1):
                client.seek(record.topic_partition, targets[record.offset])
    assert offsets == [0, 1, 2, 3, 0, 1, 8, 9]
    assert committed(cluster, topic) == 10


def test_paused_partition_returns_no_more_records(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic(2)
    for partition in range(2):
        fill(cluster, topic, numbers(COUNT), partition=partition)
    partitions = cluster.partitions(topic, 0, 1)
    with subscribed(cluster, topic) as client:
        paused = take(client, 2).topic_partition
        client.pause([paused])
        (other,) = {*partitions} - {paused}
        assert {record.topic_partition for record in islice(client, COUNT - 2)} == {other}


def test_revocation_in_loop_loses_and_repeats_nothing(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic(2)
    for partition in range(2):
        fill(cluster, topic, numbers(COUNT), partition=partition)
    processed: list[tuple[int, int]] = []
    half_done, has_joined = threading.Event(), threading.Event()

    def process() -> None:
        with contextlib.suppress(Wakeup):
            for record in first:
                processed.append((record.partition, record.offset))
                if len(processed) == 7:
                    half_done.set()
                    has_joined.wait(TIMEOUT_S)

    with subscribed(cluster, topic) as first, consumer(cluster, topic) as second:
        thread = threading.Thread(target=process, daemon=True)
        thread.start()
        assert half_done.wait(TIMEOUT_S)
        second.subscribe([topic])
        poll_until(second, lambda: cluster.group_state(topic) == "PreparingRebalance")
        has_joined.set()
        records: list[ConsumerRecord] = []

        def has_all() -> bool:
            records.extend(second.poll(0.05))
            return len(processed) + len(records) >= 2 * COUNT

        wait_for(has_all)
        first.wakeup()
        thread.join(TIMEOUT_S)
    processed += [(record.partition, record.offset) for record in records]
    assert sorted(processed) == [(partition, offset) for partition in range(2) for offset in range(COUNT)]
