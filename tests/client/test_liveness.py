"""KIP-62: heartbeats in the background, joins in the poll, and the poll interval kept by the member itself."""

import time
from collections.abc import Callable

import pytest

from slackwater import Broker, Consumer
from slackwater.client.consumer import RebalanceListener
from slackwater.group.events import GroupEvent, Kind, Left
from slackwater.group.topic_partition import TopicPartition
from slackwater.testing.kafka import Kafka
from tests.client.room import consumer, fill, numbers, poll_until, read, wait_for

pytestmark = pytest.mark.kafka(settings={"group.min.session.timeout.ms": 100})


def kinds(broker: Broker, group: str) -> list[Kind]:
    return [event.kind for event in broker.events(group)]


def events_of(one: Consumer) -> list[GroupEvent]:
    events: list[GroupEvent] = []
    one.on_event(events.append)
    return events


def idle(until: Callable[[], object]) -> None:
    """Do not poll until something has happened."""
    wait_for(until)


def test_an_overrun_leaves_the_group_at_once_and_the_next_poll_recovers(kafka: Kafka) -> None:
    kafka.create_topic("t", 1)
    lost: list[object] = []

    class Listener(RebalanceListener):
        def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
            lost.append(partitions)

    with consumer(kafka, "g", max_poll_interval_ms=150, session_timeout_ms=10_000) as one:
        events = events_of(one)
        one.subscribe(["t"], listener=Listener())
        poll_until(one, lambda: one.assignment)
        idle(lambda: kafka.describe_group("g").state == "Empty")
        (left,) = [event for event in kafka.events("g") if event.kind is Kind.MEMBER_LEFT]
        assert isinstance(left.detail, Left)
        assert left.detail.reason == "consumer poll timeout has expired."
        poll_until(one, lambda: lost and one.assignment)
        kafka.wait_for_group("g", members=1)
        assert Kind.POLL_OVERRUN in [event.kind for event in events]


def test_a_poll_longer_than_max_poll_interval_is_polling_all_along(kafka: Kafka) -> None:
    kafka.create_topic("t", 1)
    with consumer(kafka, "g", max_poll_interval_ms=500) as one:
        events = events_of(one)
        one.subscribe(["t"])
        poll_until(one, lambda: one.assignment)
        assert one.poll(1.2) == []
        assert Kind.POLL_OVERRUN not in [event.kind for event in events]


def test_pausing_everything_and_polling_keeps_the_membership(kafka: Kafka) -> None:
    kafka.create_topic("t", 1)
    fill(kafka, "t", numbers(2))
    with consumer(kafka, "g", max_poll_interval_ms=500, max_poll_records=1) as one:
        events = events_of(one)
        one.subscribe(["t"])
        read(one, 1)
        one.pause(one.assignment)
        until = time.monotonic() + 1.2
        assert not poll_until(one, lambda: time.monotonic() > until)
        one.resume(one.assignment)
        assert [record.value for record in read(one, 1)] == [b"1"]
        assert Kind.POLL_OVERRUN not in [event.kind for event in events]


def test_heartbeats_keep_a_member_that_works_longer_than_its_session(kafka: Kafka) -> None:
    kafka.create_topic("t", 1)
    with consumer(kafka, "g", session_timeout_ms=1_000, heartbeat_interval_ms=50) as one:
        one.subscribe(["t"])
        poll_until(one, lambda: one.assignment)
        before = one.metrics()
        until = time.monotonic() + 1.5
        idle(lambda: time.monotonic() > until)
        assert Kind.MEMBER_EXPIRED not in kinds(kafka, "g")
        name = next(name for name in before if name.name == "heartbeat-total")
        assert one.metrics()[name] > before[name]


def test_heartbeats_go_on_through_a_rebalance_until_the_poll_rejoins(kafka: Kafka) -> None:
    kafka.create_topic("t", 2)
    options = {"session_timeout_ms": 1_000, "heartbeat_interval_ms": 50}
    with consumer(kafka, "g", **options) as one, consumer(kafka, "g", **options) as other:
        one.subscribe(["t"])
        poll_until(one, lambda: one.assignment)
        other.subscribe(["t"])
        poll_until(other, lambda: kafka.describe_group("g").state == "PreparingRebalance")
        until = time.monotonic() + 1.5  # more than its session
        poll_until(other, lambda: time.monotonic() > until)
        assert Kind.MEMBER_EXPIRED not in kinds(kafka, "g")

        def shared() -> bool:
            other.poll(0)
            return len(one.assignment) == len(other.assignment) == 1

        poll_until(one, shared)


def test_assign_sends_neither_a_heartbeat_nor_a_join(kafka: Kafka) -> None:
    kafka.create_topic("t", 1)
    fill(kafka, "t", numbers(1))
    with consumer(kafka, "g", heartbeat_interval_ms=20) as one:
        one.assign([TopicPartition("t", 0)])
        read(one, 1)
        one.commit()
        until = time.monotonic() + 0.15
        idle(lambda: time.monotonic() > until)
        totals = {name.name: value for name, value in one.metrics().items()}
        assert totals["heartbeat-total"] == totals["join-total"] == 0
    assert Kind.MEMBER_JOINED not in kinds(kafka, "g")


def test_a_static_member_leaves_without_a_word_and_comes_back_without_a_rebalance(kafka: Kafka) -> None:
    kafka.create_topic("t", 1)
    for _ in range(2):
        with consumer(kafka, "g", group_instance_id="one") as one:
            one.subscribe(["t"])
            poll_until(one, lambda: one.assignment)
    found = kinds(kafka, "g")
    assert Kind.MEMBER_LEFT not in found
    assert found.count(Kind.REBALANCE_COMPLETED) == 1
    assert Kind.MEMBER_REPLACED in found


def test_a_static_member_that_will_not_be_back_says_so(kafka: Kafka) -> None:
    kafka.create_topic("t", 1)
    one = consumer(kafka, "g", group_instance_id="one")
    one.subscribe(["t"])
    poll_until(one, lambda: one.assignment)
    one.close(leave_group=True)
    wait_for(lambda: kafka.describe_group("g").state == "Empty")
    assert Kind.MEMBER_LEFT in kinds(kafka, "g")


def test_a_dynamic_member_leaves_when_it_closes(kafka: Kafka) -> None:
    kafka.create_topic("t", 1)
    with consumer(kafka, "g") as one:
        one.subscribe(["t"])
        poll_until(one, lambda: one.assignment)
    (left,) = [event for event in kafka.events("g") if event.kind is Kind.MEMBER_LEFT]
    assert isinstance(left.detail, Left)
    assert left.detail.reason == "the consumer is being closed"


def test_callbacks_of_asynchronous_commits_run_in_order_on_the_polling_thread(kafka: Kafka) -> None:
    import threading

    kafka.create_topic("t", 1)
    fill(kafka, "t", numbers(3))
    told: list[tuple[int, int]] = []
    where = TopicPartition("t", 0)
    with consumer(kafka, "g", enable_auto_commit=False) as one:
        one.subscribe(["t"])
        read(one, 3)
        for offset in (1, 2, 3):
            one.commit_async(
                {where: offset},
                lambda offsets, error: told.append((offsets[where].offset, threading.get_ident())),
            )
        one.commit({where: 3})  # CL-38: the earlier ones are told first
        assert told == [(offset, threading.get_ident()) for offset in (1, 2, 3)]
