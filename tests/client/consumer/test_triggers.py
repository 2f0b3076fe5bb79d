"""Every rebalance trigger, caused through the consumer, and its events.

The coordinator's events contain what it can see in requests; the members' events contain their own reasons.
"""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeVar

import pytest

from slackwater import Admin, Broker, Consumer
from slackwater.group.events import (
    CoordinatorChanged,
    EventKind,
    GroupEvent,
    JoinRequested,
    MemberLeft,
    RebalanceStarted,
    Trigger,
)
from slackwater.testing.kafka import Kafka
from tests.waiting import wait_until

DEADLINE_S = 60.0
GROUP = "g"
T = TypeVar("T")
SETTINGS: dict[str, object] = {
    "group.id": GROUP,
    "auto.offset.reset": "earliest",
    "heartbeat.interval.ms": 50,
    "session.timeout.ms": 200_000,
    "metadata.max.age.ms": 100,
    "allow.auto.create.topics": False,
    "retry.backoff.ms": 10,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 50,
    "fetch.max.wait.ms": 50,
}
CRASHING = """
import sys
from slackwater import Consumer
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "g", "client.id": "crashing",
                     "session.timeout.ms": 10_000, "heartbeat.interval.ms": 50})
consumer.subscribe(["t"])
while True:
    consumer.poll(0.05)
"""
virtual = pytest.mark.kafka(virtual_time=True)


class ConsumerGroup:
    """Consumers of one group, polled in turn by one thread, and their events."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.member_events: list[GroupEvent] = []
        self.members: list[Consumer] = []

    def join(self, topics: list[str] | None = None, *, pattern: str | None = None, **settings: object) -> Consumer:
        """Add a member."""
        named = {name.replace("_", "."): value for name, value in settings.items()}
        client = Consumer(SETTINGS | {"bootstrap.servers": self.broker.bootstrap_servers} | named)
        self.members.append(client)
        client.on_event(self.member_events.append)
        client.subscribe(topics, pattern=pattern)
        return client

    def leave(self, client: Consumer) -> None:
        """Close a member."""
        self.members.remove(client)
        client.close()

    def poll_until(self, condition: Callable[[], T], *, idle: Consumer | None = None) -> T:
        """Poll all consumers except `idle` until a condition holds."""

        def poll_all() -> T:
            for client in self.members:
                if client is not idle:
                    client.poll(0)
            return condition()

        return wait_until(poll_all, lambda: (self.members, self.member_events[-20:]), DEADLINE_S)

    def settle(self, **counts: int) -> None:
        """Poll until this many partitions of each topic are assigned and the group is stable."""
        expected = sorted((topic, number) for topic, count in counts.items() for number in range(count))

        def settled() -> bool:
            owned = sorted(tuple(partition) for client in self.members for partition in client.assignment)
            return owned == expected and stable(self.broker, len(self.members))

        self.poll_until(settled)

    def rebalances(self) -> list[GroupEvent]:
        """The rebalances that the coordinator has started."""
        return [event for event in self.broker.events(GROUP) if event.kind is EventKind.REBALANCE_STARTED]

    def events_of_kind(self, kind: EventKind) -> list[GroupEvent]:
        """Return the events of this kind, from the broker and the members."""
        return [event for event in (*self.broker.events(GROUP), *self.member_events) if event.kind is kind]


@pytest.fixture
def group(kafka: Kafka) -> Iterator[ConsumerGroup]:
    kafka.create_topic("t", 2)
    group = ConsumerGroup(kafka)
    yield group
    with ExitStack() as stack:
        for client in group.members:
            stack.callback(client.close)


def id_of(client: Consumer) -> str:
    return client.group_metadata().member_id


def stable(broker: Broker, members: int) -> bool:
    description = broker.describe_group(GROUP)
    return description.state == "Stable" and len(description.members) == members


def culprit(event: GroupEvent) -> str | None:
    assert isinstance(event.detail, RebalanceStarted)
    return event.detail.culprit


@contextmanager
def admin(broker: Broker) -> Iterator[Admin]:
    with Admin({"bootstrap.servers": broker.bootstrap_servers}) as client:
        yield client


# --- members join and leave -------------------------------------------------------------------------------------------


def test_join_triggers_rebalance(group: ConsumerGroup) -> None:
    group.join(["t"])
    group.settle(t=2)
    second = group.join(["t"])
    group.settle(t=2)
    *_, last = group.rebalances()
    assert (last.trigger, culprit(last)) == (Trigger.MEMBER_JOIN, id_of(second))


def test_leave_triggers_rebalance(group: ConsumerGroup) -> None:
    group.join(["t"])
    second = group.join(["t"])
    group.settle(t=2)
    member_id = id_of(second)
    group.leave(second)
    group.settle(t=2)
    *_, last = group.rebalances()
    assert (last.trigger, culprit(last)) == (Trigger.MEMBER_LEAVE, member_id)
    (left,) = group.events_of_kind(EventKind.MEMBER_LEFT)
    assert isinstance(left.detail, MemberLeft)
    assert (left.member, left.detail.by, left.detail.reason) == (member_id, "itself", "the consumer is being closed")


@virtual
def test_crash_triggers_rebalance(group: ConsumerGroup, kafka: Kafka) -> None:
    """kill -9: no LeaveGroup, the session expires."""
    group.join(["t"])
    group.settle(t=2)
    command = [sys.executable, "-c", CRASHING, kafka.bootstrap_servers]
    with subprocess.Popen(command) as process:
        try:
            group.poll_until(lambda: stable(kafka, 2))
            crashed = next(member for member in kafka.describe_group(GROUP).members if member.client_id == "crashing")
        finally:
            process.send_signal(signal.SIGKILL)
    kafka.advance(11)
    group.settle(t=2)
    (expired,) = group.events_of_kind(EventKind.MEMBER_EXPIRED)
    assert (expired.member, expired.client, expired.trigger) == (
        crashed.member_id,
        "crashing",
        Trigger.SESSION_TIMEOUT,
    )
    *_, last = group.rebalances()
    assert (last.trigger, culprit(last)) == (Trigger.SESSION_TIMEOUT, crashed.member_id)


@virtual
def test_session_timeout_triggers_rebalance(group: ConsumerGroup, kafka: Kafka) -> None:
    """The member polls, but its heartbeats are lost."""
    group.join(["t"])
    silent = group.join(["t"], session_timeout_ms=10_000)
    group.settle(t=2)
    member_id = id_of(silent)
    lost = kafka.drop("Heartbeat", times=None, processed=False)
    group.poll_until(lambda: lost.count > 2)
    kafka.advance(11)
    kafka.clear_faults()
    group.settle(t=2)
    (expired,) = group.events_of_kind(EventKind.MEMBER_EXPIRED)
    assert (expired.member, expired.trigger) == (member_id, Trigger.SESSION_TIMEOUT)
    started = next(event for event in group.rebalances() if event.trigger is Trigger.SESSION_TIMEOUT)
    assert culprit(started) == member_id
    assert [event.member for event in group.events_of_kind(EventKind.PARTITIONS_LOST)] == [None], (
        "the member had no id any more"
    )


def test_poll_overrun_triggers_rebalance(group: ConsumerGroup) -> None:
    group.join(["t"])
    slow = group.join(["t"], max_poll_interval_ms=1_000)
    group.settle(t=2)
    member_id = id_of(slow)
    group.poll_until(lambda: group.events_of_kind(EventKind.MEMBER_LEFT), idle=slow)
    (left,) = group.events_of_kind(EventKind.MEMBER_LEFT)
    assert isinstance(left.detail, MemberLeft)
    assert (left.member, left.trigger) == (member_id, Trigger.POLL_TIMEOUT)
    assert left.detail.reason == "consumer poll timeout has expired."
    *_, last = group.rebalances()
    assert (last.trigger, culprit(last)) == (Trigger.POLL_TIMEOUT, member_id)
    (overrun,) = group.events_of_kind(EventKind.POLL_OVERRUN)
    assert overrun.member == member_id
    group.settle(t=2)  # its next poll rejoins


# --- subscriptions and topics change ----------------------------------------------------------------------------------


def requested(group: ConsumerGroup, trigger: Trigger) -> GroupEvent:
    """Return the single join request of a member with this trigger."""
    (request,) = [event for event in group.events_of_kind(EventKind.JOIN_REQUESTED) if event.trigger is trigger]
    return request


def changed_topics(event: GroupEvent) -> tuple[str, ...]:
    """Return the topics that the coordinator names as the reason of a rebalance."""
    assert isinstance(event.detail, RebalanceStarted)
    return event.detail.topics


def reason(event: GroupEvent) -> str:
    assert isinstance(event.detail, JoinRequested)
    return event.detail.reason


@pytest.mark.parametrize("leads", [True, False])
def test_changed_subscription_triggers_rebalance(group: ConsumerGroup, kafka: Kafka, leads: bool) -> None:
    kafka.create_topic("u", 1)
    first = group.join(["t"])
    group.settle(t=2)
    second = group.join(["t"])
    group.settle(t=2)
    client = first if leads else second
    client.subscribe(["t", "u"])
    group.settle(t=2, u=1)
    event = requested(group, Trigger.SUBSCRIPTION_CHANGE)
    assert event.member == id_of(client)
    started = next(event for event in group.rebalances() if event.trigger is Trigger.SUBSCRIPTION_CHANGE)
    assert culprit(started) == id_of(client)


def test_new_topic_for_pattern_triggers_rebalance(group: ConsumerGroup, kafka: Kafka) -> None:
    group.join(pattern="t.*")
    group.settle(t=2)
    follower = group.join(pattern="t.*")
    group.settle(t=2)
    before = len(group.rebalances())
    kafka.create_topic("t2", 2)
    group.settle(t=2, t2=2)
    requests = [
        event for event in group.events_of_kind(EventKind.JOIN_REQUESTED) if event.trigger is Trigger.PATTERN_MATCHED
    ]
    assert requests, "the member that finds the topic first requests a join"
    assert "t2" in reason(requests[0])
    started = group.rebalances()[before:]
    assert culprit(started[0]) in {event.member for event in requests}
    assert (started[0].trigger, changed_topics(started[0])) == (Trigger.PATTERN_MATCHED, ("t2",))
    assert follower.subscription == {"t", "t2"}


def test_added_partitions_trigger_rebalance(group: ConsumerGroup, kafka: Kafka) -> None:
    leader = group.join(["t"])
    group.settle(t=2)
    group.join(["t"])
    group.settle(t=2)
    before = len(group.rebalances())
    with admin(kafka) as client:
        client.add_partitions("t", 4)
    group.settle(t=4)
    event = requested(group, Trigger.PARTITIONS_ADDED)
    assert event.member == id_of(leader), "only the leader watches all topics"
    assert "from {t=2} at the beginning of the rebalance to {t=4}" in reason(event)
    (started,) = group.rebalances()[before:]
    assert culprit(started) == id_of(leader)
    assert (started.trigger, changed_topics(started)) == (Trigger.PARTITIONS_ADDED, ("t",))


@pytest.mark.parametrize("pattern", [None, "[tu]"], ids=["by name", "by pattern"])
def test_topic_deletion_triggers_rebalance(group: ConsumerGroup, kafka: Kafka, pattern: str | None) -> None:
    kafka.create_topic("u", 1)
    topics = ["t", "u"] if pattern is None else None
    leader = group.join(topics, pattern=pattern)
    group.settle(t=2, u=1)
    before = len(group.rebalances())
    with admin(kafka) as client:
        client.delete_topic("u")
    group.settle(t=2)
    event = requested(group, Trigger.TOPIC_DELETED)
    assert event.member == id_of(leader)
    assert "u=1" in reason(event)
    started = group.rebalances()[before]
    assert culprit(started) == id_of(leader)
    assert (started.trigger, changed_topics(started)) == (Trigger.TOPIC_DELETED, ("u",))


@pytest.mark.parametrize("user_reason", ["", "requested by the operator"])
def test_enforce_rebalance_triggers_rebalance(group: ConsumerGroup, user_reason: str) -> None:
    client = group.join(["t"])
    group.settle(t=2)
    before = len(group.rebalances())
    client.enforce_rebalance(user_reason)
    group.poll_until(lambda: len(group.rebalances()) > before)
    group.settle(t=2)
    assert reason(requested(group, Trigger.USER_ENFORCED)) == (user_reason or "rebalance enforced by user")
    (started,) = group.rebalances()[before:]
    assert culprit(started) == id_of(client)
    if not user_reason:  # the coordinator does not interpret an application's own reason
        assert started.trigger is Trigger.USER_ENFORCED


# --- the coordinator ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_coordinator_restart_keeps_group(group: ConsumerGroup, kafka: Kafka, clean: bool) -> None:
    for _ in range(2):
        group.join(["t"])
    group.settle(t=2)
    before = group.rebalances()
    generation = kafka.describe_group(GROUP)
    group.member_events.clear()
    if clean:
        kafka.stop(keep_data=True)
    else:
        kafka.kill()
    lost = group.poll_until(lambda: events_of_all_members(group, EventKind.COORDINATOR_LOST))
    assert all(isinstance(event.detail, CoordinatorChanged) and event.detail.node for event in lost)
    kafka.start()
    group.poll_until(lambda: events_of_all_members(group, EventKind.COORDINATOR_FOUND))
    group.settle(t=2)
    loaded = [event for event in kafka.events(GROUP) if event.kind is EventKind.GROUP_LOADED]
    assert [event.members for event in loaded] == [2]
    assert group.rebalances() == before, "the log contains the members, so a restart causes no rebalance"
    assert kafka.describe_group(GROUP).members == generation.members


def events_of_all_members(group: ConsumerGroup, kind: EventKind) -> list[GroupEvent]:
    """Return the members' events of this kind, once all members have one."""
    events = [event for event in group.member_events if event.kind is kind]
    return events if {event.client for event in events} == {client.client_id for client in group.members} else []


def test_coordinator_killed_during_rebalance(group: ConsumerGroup, kafka: Kafka) -> None:
    late = group.join(["t"])
    group.settle(t=2)
    group.join(["t"])
    group.poll_until(lambda: kafka.describe_group(GROUP).state == "PreparingRebalance", idle=late)
    group.member_events.clear()
    kafka.restart(clean=False)
    group.settle(t=2)
    assert EventKind.COORDINATOR_LOST in {event.kind for event in group.member_events}
    assert EventKind.GROUP_LOADED in {event.kind for event in kafka.events(GROUP)}
    rejoins = [
        event
        for event in group.events_of_kind(EventKind.JOIN_REQUESTED)
        if event.trigger is Trigger.COORDINATOR_FAILOVER
    ]
    assert rejoins, "a member that was joining reports why it joins again"
    assert reason(rejoins[0]).startswith("rebalance failed due to")


def test_member_events_join_broker_events(group: ConsumerGroup, kafka: Kafka) -> None:
    client = group.join(["t"], group_events_publish=True)
    group.settle(t=2)
    with admin(kafka) as operator:
        operator.add_partitions("t", 3)
    group.settle(t=3)

    def published() -> list[GroupEvent]:
        return [
            event
            for event in kafka.events(GROUP)
            if event.kind is EventKind.JOIN_REQUESTED and event.trigger is Trigger.PARTITIONS_ADDED
        ]

    group.poll_until(published)
    assert [event.member for event in published()] == [id_of(client)]
