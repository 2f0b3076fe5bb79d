"""KIP-62: heartbeats in the background, joins in the poll, and the poll interval kept by the member itself."""

import threading
import time
from collections.abc import Callable

import pytest

from slackwater import Consumer
from slackwater.client.consumer.consumer import RebalanceListener
from slackwater.group.events import EventKind, GroupEvent, MemberLeft
from slackwater.group.topic_partition import TopicPartition
from slackwater.testing.kafka import Kafka
from tests.client.clusters import Side
from tests.client.helpers import consumer, fill, numbers, poll_until, read, wait_for

Membership = tuple[int, str]


def membership(one: Consumer) -> Membership:
    """The generation and the member id: whoever was expired meanwhile has others."""
    return one.group_metadata().generation_id, one.group_metadata().member_id


def events_of(one: Consumer) -> list[GroupEvent]:
    events: list[GroupEvent] = []
    one.on_event(events.append)
    return events


def reasons_for_leaving(broker: Kafka, group: str) -> set[str | None]:
    """What members that left have told the broker."""
    return {event.detail.reason for event in broker.events(group) if isinstance(event.detail, MemberLeft)}


def idle(until: Callable[[], object]) -> None:
    """Do not poll until something has happened."""
    wait_for(until)


@pytest.mark.old_kafka
def test_poll_overrun_leaves_and_next_poll_rejoins(side: Side) -> None:
    topic, group = side.topic(), side.name("g")
    lost: list[object] = []

    class Listener(RebalanceListener):
        def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
            lost.append(partitions)

    with consumer(side, group, max_poll_interval_ms=1_000, session_timeout_ms=10_000) as one:
        events = events_of(one)
        one.subscribe([topic], listener=Listener())
        poll_until(one, lambda: one.assignment)
        idle(lambda: side.group_state(group) == "Empty")
        if side.broker is not None:
            assert reasons_for_leaving(side.broker, group) == {"consumer poll timeout has expired."}
        poll_until(one, lambda: lost and one.assignment)
        wait_for(lambda: side.group_state(group) == "Stable")
        assert EventKind.POLL_OVERRUN in [event.kind for event in events]


def test_long_poll_counts_as_polling(side: Side) -> None:
    topic, group = side.topic(), side.name("g")
    with consumer(side, group, max_poll_interval_ms=1_000) as one:
        events = events_of(one)
        one.subscribe([topic])
        poll_until(one, lambda: one.assignment)
        assert one.poll(2.2) == []
        assert EventKind.POLL_OVERRUN not in [event.kind for event in events]


def test_polling_paused_partitions_keeps_membership(side: Side) -> None:
    topic, group = side.topic(), side.name("g")
    fill(side, topic, numbers(2))
    with consumer(side, group, max_poll_interval_ms=1_000, max_poll_records=1) as one:
        events = events_of(one)
        one.subscribe([topic])
        read(one, 1)
        one.pause(one.assignment)
        until = time.monotonic() + 2.2
        assert not poll_until(one, lambda: time.monotonic() > until)
        one.resume(one.assignment)
        assert [record.value for record in read(one, 1)] == [b"1"]
        assert EventKind.POLL_OVERRUN not in [event.kind for event in events]


@pytest.mark.old_kafka
def test_heartbeats_outlive_session_timeout(side: Side) -> None:
    topic, group = side.topic(), side.name("g")
    with consumer(side, group, session_timeout_ms=3_000, heartbeat_interval_ms=50) as one:
        one.subscribe([topic])
        poll_until(one, lambda: one.assignment)
        before, place = one.metrics(), membership(one)
        until = time.monotonic() + 3.5
        idle(lambda: time.monotonic() > until)
        assert side.group_state(group) == "Stable"
        one.poll(0)
        assert membership(one) == place
        name = next(name for name in before if name.name == "heartbeat-total")
        assert one.metrics()[name] > before[name]


def test_heartbeats_continue_until_poll_rejoins(side: Side) -> None:
    topic, group = side.topic(2), side.name("g")
    options = {"session_timeout_ms": 3_000, "heartbeat_interval_ms": 50}
    with consumer(side, group, **options) as one, consumer(side, group, **options) as other:
        one.subscribe([topic])
        poll_until(one, lambda: one.assignment)
        other.subscribe([topic])
        _, member_id = membership(one)
        poll_until(other, lambda: side.group_state(group) == "PreparingRebalance")
        until = time.monotonic() + 3.5  # more than its session
        poll_until(other, lambda: time.monotonic() > until)
        assert side.group_state(group) == "PreparingRebalance"

        def shared() -> bool:
            other.poll(0)
            return len(one.assignment) == len(other.assignment) == 1

        poll_until(one, shared)
        assert membership(one)[1] == member_id


def test_assign_sends_neither_a_heartbeat_nor_a_join(side: Side) -> None:
    topic, group = side.topic(), side.name("g")
    fill(side, topic, numbers(1))
    with consumer(side, group, heartbeat_interval_ms=20) as one:
        one.assign([TopicPartition(topic, 0)])
        read(one, 1)
        one.commit()
        until = time.monotonic() + 0.15
        idle(lambda: time.monotonic() > until)
        totals = {name.name: value for name, value in one.metrics().items()}
        assert totals["heartbeat-total"] == totals["join-total"] == 0
    assert side.group_state(group) == "Empty"
    (found,) = side.admin.describe_groups([group])
    assert not found.protocol_type  # it has never had a member


@pytest.mark.old_kafka
def test_static_member_returns_without_rebalance(side: Side) -> None:
    topic, group = side.topic(), side.name("g")
    places: list[Membership] = []
    for _ in range(2):
        with consumer(side, group, group_instance_id="one") as one:
            one.subscribe([topic])
            poll_until(one, lambda: one.assignment)
            places.append(membership(one))
        assert side.group_state(group) == "Stable"
    assert [generation for generation, _ in places] == [1, 1]
    assert places[0] != places[1]  # the second has taken the first one's place


def test_static_member_leaves_with_leave_group(side: Side) -> None:
    topic, group = side.topic(), side.name("g")
    one = consumer(side, group, group_instance_id="one")
    one.subscribe([topic])
    poll_until(one, lambda: one.assignment)
    one.close(leave_group=True)
    wait_for(lambda: side.group_state(group) == "Empty")


@pytest.mark.old_kafka
def test_dynamic_member_leaves_on_close(side: Side) -> None:
    topic, group = side.topic(), side.name("g")
    with consumer(side, group) as one:
        one.subscribe([topic])
        poll_until(one, lambda: one.assignment)
    assert side.group_state(group) == "Empty"
    if side.broker is not None:
        assert reasons_for_leaving(side.broker, group) == {"the consumer is being closed"}


@pytest.mark.old_kafka
def test_commit_callbacks_run_on_polling_thread(side: Side) -> None:
    topic, group = side.topic(), side.name("g")
    fill(side, topic, numbers(3))
    told: list[tuple[int, int]] = []
    where = TopicPartition(topic, 0)
    with consumer(side, group, enable_auto_commit=False) as one:
        one.subscribe([topic])
        read(one, 3)
        for offset in (1, 2, 3):
            one.commit_async(
                {where: offset},
                lambda offsets, error: told.append((offsets[where].offset, threading.get_ident())),
            )
        one.commit({where: 3})  # CL-38: the earlier ones are told first
        assert told == [(offset, threading.get_ident()) for offset in (1, 2, 3)]
