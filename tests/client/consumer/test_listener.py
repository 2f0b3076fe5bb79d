"""Rebalance listeners: when they are called, and what they may do."""

from collections.abc import Callable

import pytest

from slackwater import Consumer
from slackwater.client.consumer.consumer import RebalanceListener
from slackwater.group.errors import SlackwaterError, UsageError
from slackwater.group.member import ListenerFailed, Wakeup
from slackwater.group.topic_partition import TopicPartition
from tests.client.clusters import ClusterUnderTest
from tests.client.helpers import consumer, fill, numbers, poll_until, read

EAGER, COOPERATIVE = "range", "cooperative-sticky"
Partitions = list[TopicPartition]


class Listener:
    """Records its calls and runs an action for each."""

    def __init__(self, **actions: Callable[[Partitions], object]) -> None:
        self.calls: list[tuple[str, Partitions]] = []
        self._actions = actions

    def _record(self, call: str, partitions: Partitions) -> None:
        self.calls.append((call, partitions))
        if call in self._actions:
            self._actions[call](partitions)

    def on_partitions_assigned(self, partitions: Partitions) -> None:
        self._record("assigned", partitions)

    def on_partitions_revoked(self, partitions: Partitions) -> None:
        self._record("revoked", partitions)

    def on_partitions_lost(self, partitions: Partitions) -> None:
        self._record("lost", partitions)

    def received(self, call: str) -> list[Partitions]:
        return [partitions for kind, partitions in self.calls if kind == call and partitions]


def offsets(client: Consumer, partitions: Partitions) -> set[int | None]:
    return {commit.offset if commit is not None else None for commit in client.committed(partitions).values()}


@pytest.mark.old_kafka
@pytest.mark.parametrize("strategy", [EAGER, COOPERATIVE])
def test_commit_in_on_partitions_revoked_succeeds(cluster: ClusterUnderTest, strategy: str) -> None:
    topic, group = cluster.topic(2), cluster.name("g")
    for number in range(2):
        fill(cluster, topic, numbers(3), partition=number)
    options = {"enable_auto_commit": False, "partition_assignment_strategy": strategy}
    with consumer(cluster, group, **options) as client, consumer(cluster, group, **options) as other:
        committed: list[set[int | None]] = []

        def revoked(partitions: Partitions) -> None:
            client.commit()
            committed.append(offsets(client, partitions))

        listener = Listener(revoked=revoked)
        client.subscribe([topic], listener=listener)
        read(client, 6)
        other.subscribe([topic])

        def shared() -> bool:
            other.poll(0)
            return len(client.assignment) == len(other.assignment) == 1

        poll_until(client, shared)
        assert committed[0] == {3}
        assert len(listener.received("revoked")[0]) == (2 if strategy == EAGER else 1)


@pytest.mark.old_kafka
def test_commit_in_on_partitions_lost_fails(cluster: ClusterUnderTest) -> None:
    topic, group = cluster.topic(), cluster.name("g")
    fill(cluster, topic, numbers(3))
    errors: list[SlackwaterError] = []
    with consumer(cluster, group, enable_auto_commit=False) as client:

        def lost(partitions: Partitions) -> None:
            with pytest.raises(SlackwaterError) as caught:
                client.commit(timeout=5.0)
            errors.append(caught.value)

        listener = Listener(lost=lost)
        client.subscribe([topic], listener=listener)
        read(client, 3)
        cluster.evict(group, client)
        poll_until(client, lambda: errors)
        poll_until(client, lambda: len(listener.received("assigned")) == 2)
        assert "not committed" in str(errors[0])
        assert offsets(client, [TopicPartition(topic, 0)]) == {None}


def test_lost_calls_revoked_without_lost_method(cluster: ClusterUnderTest) -> None:
    topic, group = cluster.topic(), cluster.name("g")
    calls: list[Partitions] = []

    class OnlyRevoked:
        def on_partitions_revoked(self, partitions: Partitions) -> None:
            calls.append(partitions)

    with consumer(cluster, group) as client:
        client.subscribe([topic], listener=OnlyRevoked())
        poll_until(client, lambda: client.assignment)
        cluster.evict(group, client)
        poll_until(client, lambda: calls)
    assert calls[0] == [TopicPartition(topic, 0)]


def test_lost_calls_inherited_on_partitions_revoked(cluster: ClusterUnderTest) -> None:
    topic, group = cluster.topic(), cluster.name("g")
    calls: list[Partitions] = []

    class Inheriting(RebalanceListener):
        def on_partitions_revoked(self, partitions: Partitions) -> None:
            calls.append(partitions)

    with consumer(cluster, group) as client:
        client.subscribe([topic], listener=Inheriting())
        poll_until(client, lambda: client.assignment)
        cluster.evict(group, client)
        poll_until(client, lambda: calls)
    assert calls[0] == [TopicPartition(topic, 0)]


@pytest.mark.old_kafka
def test_seek_in_on_partitions_assigned_takes_effect(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic()
    fill(cluster, topic, numbers(10))
    with consumer(cluster, cluster.name("g")) as client:

        def assigned(partitions: Partitions) -> None:
            for partition in partitions:
                client.seek(partition, 7)

        client.subscribe([topic], listener=Listener(assigned=assigned))
        assert [record.offset for record in read(client, 3)] == [7, 8, 9]


def test_pause_in_on_partitions_assigned_takes_effect(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic()
    fill(cluster, topic, numbers(1))
    with consumer(cluster, cluster.name("g")) as client:
        client.subscribe([topic], listener=Listener(assigned=client.pause))
        poll_until(client, lambda: client.assignment)
        assert not client.poll(0.1)
        client.resume(client.assignment)
        assert len(read(client, 1)) == 1


def test_listener_error_is_raised_by_poll(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic()
    failures = [ValueError("not now")]

    def assigned(_partitions: Partitions) -> None:
        if failures:
            raise failures.pop()

    with consumer(cluster, cluster.name("g")) as client:
        client.subscribe([topic], listener=Listener(assigned=assigned))
        with pytest.raises(ListenerFailed, match="not now"):
            poll_until(client, lambda: False)
        poll_until(client, lambda: client.assignment)


def test_ctrl_c_in_listener_calls_it_again(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic()
    interrupts: list[BaseException] = [KeyboardInterrupt()]

    def assigned(_partitions: Partitions) -> None:
        if interrupts:
            raise interrupts.pop()

    listener = Listener(assigned=assigned)
    with consumer(cluster, cluster.name("g")) as client:
        client.subscribe([topic], listener=listener)
        with pytest.raises(KeyboardInterrupt):
            poll_until(client, lambda: False)
        poll_until(client, lambda: len([call for call, _ in listener.calls if call == "assigned"]) == 2)


def test_wakeup_in_listener_commit_ends_poll(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic()
    fill(cluster, topic, numbers(1))
    wakes = [1]
    with consumer(cluster, cluster.name("g")) as client:

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
def test_poll_and_close_in_listener_are_rejected(cluster: ClusterUnderTest, call: str) -> None:
    topic = cluster.topic()
    with consumer(cluster, cluster.name("g")) as client:
        client.subscribe([topic], listener=Listener(assigned=lambda _partitions: getattr(client, call)()))
        with pytest.raises(UsageError, match=rf"{call}\(\) cannot be called inside a rebalance listener"):
            poll_until(client, lambda: False)
        client.engine.listener = None
