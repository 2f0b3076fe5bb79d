"""Rebalance listeners: when they are called, and what they may do."""

from collections.abc import Callable

import pytest

from slackwater import Consumer
from slackwater.client.consumer.consumer import RebalanceListener
from slackwater.group.errors import SlackwaterError, UsageError
from slackwater.group.member import ListenerFailed, Wakeup
from slackwater.group.topic_partition import TopicPartition
from tests.client.clusters import Side
from tests.client.helpers import consumer, fill, numbers, poll_until, read

EAGER, COOPERATIVE = "range", "cooperative-sticky"
Partitions = list[TopicPartition]


class Listener:
    """Records its calls and runs an action for each."""

    def __init__(self, **actions: Callable[[Partitions], object]) -> None:
        self.calls: list[tuple[str, Partitions]] = []
        self._actions = actions

    def _record(self, what: str, partitions: Partitions) -> None:
        self.calls.append((what, partitions))
        if what in self._actions:
            self._actions[what](partitions)

    def on_partitions_assigned(self, partitions: Partitions) -> None:
        self._record("assigned", partitions)

    def on_partitions_revoked(self, partitions: Partitions) -> None:
        self._record("revoked", partitions)

    def on_partitions_lost(self, partitions: Partitions) -> None:
        self._record("lost", partitions)

    def received(self, what: str) -> list[Partitions]:
        return [partitions for kind, partitions in self.calls if kind == what and partitions]


def offsets(client: Consumer, partitions: Partitions) -> set[int | None]:
    return {at.offset if at is not None else None for at in client.committed(partitions).values()}


@pytest.mark.old_kafka
@pytest.mark.parametrize("strategy", [EAGER, COOPERATIVE])
def test_commit_in_on_partitions_revoked_succeeds(side: Side, strategy: str) -> None:
    topic, group = side.topic(2), side.name("g")
    for number in range(2):
        fill(side, topic, numbers(3), partition=number)
    options = {"enable_auto_commit": False, "partition_assignment_strategy": strategy}
    with consumer(side, group, **options) as client, consumer(side, group, **options) as other:
        landed: list[set[int | None]] = []

        def revoked(partitions: Partitions) -> None:
            client.commit()
            landed.append(offsets(client, partitions))

        listener = Listener(revoked=revoked)
        client.subscribe([topic], listener=listener)
        read(client, 6)
        other.subscribe([topic])

        def shared() -> bool:
            other.poll(0)
            return len(client.assignment) == len(other.assignment) == 1

        poll_until(client, shared)
        assert landed[0] == {3}
        assert len(listener.received("revoked")[0]) == (2 if strategy == EAGER else 1)


@pytest.mark.old_kafka
def test_commit_in_on_partitions_lost_fails(side: Side) -> None:
    topic, group = side.topic(), side.name("g")
    fill(side, topic, numbers(3))
    refused: list[SlackwaterError] = []
    with consumer(side, group, enable_auto_commit=False) as client:

        def lost(partitions: Partitions) -> None:
            with pytest.raises(SlackwaterError) as caught:
                client.commit(timeout=5.0)
            refused.append(caught.value)

        listener = Listener(lost=lost)
        client.subscribe([topic], listener=listener)
        read(client, 3)
        side.evict(group, client)
        poll_until(client, lambda: refused)
        poll_until(client, lambda: len(listener.received("assigned")) == 2)
        assert "not committed" in str(refused[0])
        assert offsets(client, [TopicPartition(topic, 0)]) == {None}


def test_lost_calls_revoked_without_lost_method(side: Side) -> None:
    topic, group = side.topic(), side.name("g")
    calls: list[Partitions] = []

    class OnlyRevoked:
        def on_partitions_revoked(self, partitions: Partitions) -> None:
            calls.append(partitions)

    with consumer(side, group) as client:
        client.subscribe([topic], listener=OnlyRevoked())  # type: ignore[arg-type]
        poll_until(client, lambda: client.assignment)
        side.evict(group, client)
        poll_until(client, lambda: calls)
    assert calls[0] == [TopicPartition(topic, 0)]


def test_lost_calls_inherited_on_partitions_revoked(side: Side) -> None:
    topic, group = side.topic(), side.name("g")
    calls: list[Partitions] = []

    class Inheriting(RebalanceListener):
        def on_partitions_revoked(self, partitions: Partitions) -> None:
            calls.append(partitions)

    with consumer(side, group) as client:
        client.subscribe([topic], listener=Inheriting())
        poll_until(client, lambda: client.assignment)
        side.evict(group, client)
        poll_until(client, lambda: calls)
    assert calls[0] == [TopicPartition(topic, 0)]


@pytest.mark.old_kafka
def test_seek_in_on_partitions_assigned_takes_effect(side: Side) -> None:
    topic = side.topic()
    fill(side, topic, numbers(10))
    with consumer(side, side.name("g")) as client:

        def assigned(partitions: Partitions) -> None:
            for each in partitions:
                client.seek(each, 7)

        client.subscribe([topic], listener=Listener(assigned=assigned))
        assert [record.offset for record in read(client, 3)] == [7, 8, 9]


def test_pause_in_on_partitions_assigned_takes_effect(side: Side) -> None:
    topic = side.topic()
    fill(side, topic, numbers(1))
    with consumer(side, side.name("g")) as client:
        client.subscribe([topic], listener=Listener(assigned=client.pause))
        poll_until(client, lambda: client.assignment)
        assert not client.poll(0.1)
        client.resume(client.assignment)
        assert len(read(client, 1)) == 1


def test_listener_error_is_raised_by_poll(side: Side) -> None:
    topic = side.topic()
    failures = [ValueError("not now")]

    def assigned(_partitions: Partitions) -> None:
        if failures:
            raise failures.pop()

    with consumer(side, side.name("g")) as client:
        client.subscribe([topic], listener=Listener(assigned=assigned))
        with pytest.raises(ListenerFailed, match="not now"):
            poll_until(client, lambda: False)
        poll_until(client, lambda: client.assignment)


def test_ctrl_c_in_listener_calls_it_again(side: Side) -> None:
    topic = side.topic()
    interrupts: list[BaseException] = [KeyboardInterrupt()]

    def assigned(_partitions: Partitions) -> None:
        if interrupts:
            raise interrupts.pop()

    listener = Listener(assigned=assigned)
    with consumer(side, side.name("g")) as client:
        client.subscribe([topic], listener=listener)
        with pytest.raises(KeyboardInterrupt):
            poll_until(client, lambda: False)
        poll_until(client, lambda: len([what for what, _ in listener.calls if what == "assigned"]) == 2)


def test_wakeup_in_listener_commit_ends_poll(side: Side) -> None:
    topic = side.topic()
    fill(side, topic, numbers(1))
    wakes = [1]
    with consumer(side, side.name("g")) as client:

        def assigned(partitions: Partitions) -> None:
            if wakes:
                wakes.pop()
                client.wakeup()
                client.commit(dict.fromkeys(partitions, 0))

        client.subscribe([topic], listener=Listener(assigned=assigned))
        with pytest.raises(Wakeup):
            poll_until(client, lambda: False)
        assert len(read(client, 1)) == 1


@pytest.mark.parametrize("call", ["poll", "close"])
def test_poll_and_close_in_listener_are_rejected(side: Side, call: str) -> None:
    topic = side.topic()
    with consumer(side, side.name("g")) as client:
        client.subscribe([topic], listener=Listener(assigned=lambda _partitions: getattr(client, call)()))
        with pytest.raises(UsageError, match=rf"{call}\(\) cannot be called inside a rebalance listener"):
            poll_until(client, lambda: False)
        client.engine.listener = None
