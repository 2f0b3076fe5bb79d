"""Every rebalance trigger, caused through the consumer, and its events.

The coordinator tells what it knows from the requests, the member what it knows of itself; both stand in one stream.
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
one = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "g", "client.id": "crashing",
                "session.timeout.ms": 10_000, "heartbeat.interval.ms": 50})
one.subscribe(["t"])
while True:
    one.poll(0.05)
"""
virtual = pytest.mark.kafka(virtual_time=True)


class Crew:
    """Consumers of one group, polled in turn by one thread, and their events."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.told: list[GroupEvent] = []  # by the members themselves
        self.members: list[Consumer] = []

    def join(self, topics: list[str] | None = None, *, pattern: str | None = None, **settings: object) -> Consumer:
        """One more member."""
        named = {name.replace("_", "."): value for name, value in settings.items()}
        client = Consumer(SETTINGS | {"bootstrap.servers": self.broker.bootstrap_servers} | named)
        self.members.append(client)
        client.on_event(self.told.append)
        client.subscribe(topics, pattern=pattern)
        return client

    def leave(self, client: Consumer) -> None:
        """Close a member."""
        self.members.remove(client)
        client.close()

    def until(self, condition: Callable[[], T], *, idle: Consumer | None = None) -> T:
        """Poll all consumers except `idle` until a condition holds."""

        def polled() -> T:
            for client in self.members:
                if client is not idle:
                    client.poll(0)
            return condition()

        return wait_until(polled, lambda: (self.members, self.told[-20:]), DEADLINE_S)

    def settle(self, **counts: int) -> None:
        """Poll until so many partitions of each topic are shared out, and nothing is under way."""
        expected = sorted((topic, number) for topic, count in counts.items() for number in range(count))

        def settled() -> bool:
            owned = sorted(tuple(part) for client in self.members for part in client.assignment)
            return owned == expected and stable(self.broker, len(self.members))

        self.until(settled)

    def rebalances(self) -> list[GroupEvent]:
        """The rebalances that the coordinator has started."""
        return [event for event in self.broker.events(GROUP) if event.kind is EventKind.REBALANCE_STARTED]

    def of(self, kind: EventKind) -> list[GroupEvent]:
        """Return the events of this kind, from the broker and the members."""
        return [event for event in (*self.broker.events(GROUP), *self.told) if event.kind is kind]


@pytest.fixture
def crew(kafka: Kafka) -> Iterator[Crew]:
    kafka.create_topic("t", 2)
    crew = Crew(kafka)
    yield crew
    with ExitStack() as stack:
        for client in crew.members:
            stack.callback(client.close)


def id_of(client: Consumer) -> str:
    return client.group_metadata().member_id


def stable(broker: Broker, members: int) -> bool:
    seen = broker.describe_group(GROUP)
    return seen.state == "Stable" and len(seen.members) == members


def culprit(event: GroupEvent) -> str | None:
    assert isinstance(event.detail, RebalanceStarted)
    return event.detail.culprit


@contextmanager
def admin(broker: Broker) -> Iterator[Admin]:
    with Admin({"bootstrap.servers": broker.bootstrap_servers}) as client:
        yield client


# --- members come and go --------------------------------------------------------------------------------------------


def test_join_triggers_rebalance(crew: Crew) -> None:
    crew.join(["t"])
    crew.settle(t=2)
    second = crew.join(["t"])
    crew.settle(t=2)
    *_, last = crew.rebalances()
    assert (last.trigger, culprit(last)) == (Trigger.MEMBER_JOIN, id_of(second))


def test_leave_triggers_rebalance(crew: Crew) -> None:
    crew.join(["t"])
    second = crew.join(["t"])
    crew.settle(t=2)
    member_id = id_of(second)
    crew.leave(second)
    crew.settle(t=2)
    *_, last = crew.rebalances()
    assert (last.trigger, culprit(last)) == (Trigger.MEMBER_LEAVE, member_id)
    (left,) = crew.of(EventKind.MEMBER_LEFT)
    assert isinstance(left.detail, MemberLeft)
    assert (left.member, left.detail.by, left.detail.reason) == (member_id, "itself", "the consumer is being closed")


@virtual
def test_crash_triggers_rebalance(crew: Crew, kafka: Kafka) -> None:
    """kill -9: no LeaveGroup, the session expires."""
    crew.join(["t"])
    crew.settle(t=2)
    command = [sys.executable, "-c", CRASHING, kafka.bootstrap_servers]
    with subprocess.Popen(command) as process:
        try:
            crew.until(lambda: stable(kafka, 2))
            crashed = next(client for client in kafka.describe_group(GROUP).members if client.client_id == "crashing")
        finally:
            process.send_signal(signal.SIGKILL)
    kafka.advance(11)
    crew.settle(t=2)
    (expired,) = crew.of(EventKind.MEMBER_EXPIRED)
    assert (expired.member, expired.client, expired.trigger) == (
        crashed.member_id,
        "crashing",
        Trigger.SESSION_TIMEOUT,
    )
    *_, last = crew.rebalances()
    assert (last.trigger, culprit(last)) == (Trigger.SESSION_TIMEOUT, crashed.member_id)


@virtual
def test_session_timeout_triggers_rebalance(crew: Crew, kafka: Kafka) -> None:
    """It lives and polls; its heartbeats are lost on the way."""
    crew.join(["t"])
    silent = crew.join(["t"], session_timeout_ms=10_000)
    crew.settle(t=2)
    member_id = id_of(silent)
    lost = kafka.drop("Heartbeat", times=None, processed=False)
    crew.until(lambda: lost.count > 2)
    kafka.advance(11)
    kafka.heal()
    crew.settle(t=2)
    (expired,) = crew.of(EventKind.MEMBER_EXPIRED)
    assert (expired.member, expired.trigger) == (member_id, Trigger.SESSION_TIMEOUT)
    started = next(event for event in crew.rebalances() if event.trigger is Trigger.SESSION_TIMEOUT)
    assert culprit(started) == member_id
    assert [event.member for event in crew.of(EventKind.PARTITIONS_LOST)] == [None], (
        "its id was gone when it heard of it"
    )


def test_poll_overrun_triggers_rebalance(crew: Crew) -> None:
    crew.join(["t"])
    slow = crew.join(["t"], max_poll_interval_ms=1_000)
    crew.settle(t=2)
    member_id = id_of(slow)
    crew.until(lambda: crew.of(EventKind.MEMBER_LEFT), idle=slow)
    (left,) = crew.of(EventKind.MEMBER_LEFT)
    assert isinstance(left.detail, MemberLeft)
    assert (left.member, left.trigger) == (member_id, Trigger.POLL_TIMEOUT)
    assert left.detail.reason == "consumer poll timeout has expired."
    *_, last = crew.rebalances()
    assert (last.trigger, culprit(last)) == (Trigger.POLL_TIMEOUT, member_id)
    (overrun,) = crew.of(EventKind.POLL_OVERRUN)
    assert overrun.member == member_id
    crew.settle(t=2)  # its next poll brings it back


# --- what is wanted changes -----------------------------------------------------------------------------------------


def requested(crew: Crew, trigger: Trigger) -> GroupEvent:
    """Return the single join request of a member with this trigger."""
    (client,) = [event for event in crew.of(EventKind.JOIN_REQUESTED) if event.trigger is trigger]
    return client


def reason(event: GroupEvent) -> str:
    assert isinstance(event.detail, JoinRequested)
    return event.detail.reason


@pytest.mark.parametrize("leads", [True, False])
def test_changed_subscription_triggers_rebalance(crew: Crew, kafka: Kafka, leads: bool) -> None:
    kafka.create_topic("u", 1)
    first = crew.join(["t"])
    crew.settle(t=2)
    second = crew.join(["t"])
    crew.settle(t=2)
    client = first if leads else second
    client.subscribe(["t", "u"])
    crew.settle(t=2, u=1)
    event = requested(crew, Trigger.SUBSCRIPTION_CHANGE)
    assert event.member == id_of(client)
    started = next(event for event in crew.rebalances() if event.trigger is Trigger.SUBSCRIPTION_CHANGE)
    assert culprit(started) == id_of(client)


def test_new_topic_for_pattern_triggers_rebalance(crew: Crew, kafka: Kafka) -> None:
    crew.join(pattern="t.*")
    crew.settle(t=2)
    follower = crew.join(pattern="t.*")
    crew.settle(t=2)
    before = len(crew.rebalances())
    kafka.create_topic("t2", 2)
    crew.settle(t=2, t2=2)
    results = [event for event in crew.of(EventKind.JOIN_REQUESTED) if event.trigger is Trigger.PATTERN_MATCHED]
    assert results, "whoever saw the topic first says so"
    assert "t2" in reason(results[0])
    started = crew.rebalances()[before:]
    assert culprit(started[0]) in {event.member for event in results}
    assert follower.subscription == {"t", "t2"}


def test_added_partitions_trigger_rebalance(crew: Crew, kafka: Kafka) -> None:
    leader = crew.join(["t"])
    crew.settle(t=2)
    crew.join(["t"])
    crew.settle(t=2)
    before = len(crew.rebalances())
    with admin(kafka) as client:
        client.add_partitions("t", 4)
    crew.settle(t=4)
    event = requested(crew, Trigger.PARTITIONS_ADDED)
    assert event.member == id_of(leader), "the leader watches the topics of all"
    assert "from {t=2} at the beginning of the rebalance to {t=4}" in reason(event)
    (started,) = crew.rebalances()[before:]
    assert culprit(started) == id_of(leader)


@pytest.mark.parametrize("pattern", [None, "[tu]"], ids=["by name", "by pattern"])
def test_topic_deletion_triggers_rebalance(crew: Crew, kafka: Kafka, pattern: str | None) -> None:
    kafka.create_topic("u", 1)
    topics = ["t", "u"] if pattern is None else None
    leader = crew.join(topics, pattern=pattern)
    crew.settle(t=2, u=1)
    before = len(crew.rebalances())
    with admin(kafka) as client:
        client.delete_topic("u")
    crew.settle(t=2)
    event = requested(crew, Trigger.TOPIC_DELETED)
    assert event.member == id_of(leader)
    assert "u=1" in reason(event)
    assert culprit(crew.rebalances()[before]) == id_of(leader)


@pytest.mark.parametrize("words", ["", "the operator wants it"])
def test_enforce_rebalance_triggers_rebalance(crew: Crew, words: str) -> None:
    client = crew.join(["t"])
    crew.settle(t=2)
    before = len(crew.rebalances())
    client.enforce_rebalance(words)
    crew.until(lambda: len(crew.rebalances()) > before)
    crew.settle(t=2)
    assert reason(requested(crew, Trigger.USER_ENFORCED)) == (words or "rebalance enforced by user")
    (started,) = crew.rebalances()[before:]
    assert culprit(started) == id_of(client)
    if not words:  # the coordinator does not interpret an application's own reason
        assert started.trigger is Trigger.USER_ENFORCED


# --- the coordinator ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_coordinator_restart_keeps_group(crew: Crew, kafka: Kafka, clean: bool) -> None:
    for _ in range(2):
        crew.join(["t"])
    crew.settle(t=2)
    before = crew.rebalances()
    generation = kafka.describe_group(GROUP)
    crew.told.clear()
    if clean:
        kafka.stop(keep_data=True)
    else:
        kafka.kill()
    lost = crew.until(lambda: everybody(crew, EventKind.COORDINATOR_LOST))
    assert all(isinstance(event.detail, CoordinatorChanged) and event.detail.node for event in lost)
    kafka.start()
    crew.until(lambda: everybody(crew, EventKind.COORDINATOR_FOUND))
    crew.settle(t=2)
    loaded = [event for event in kafka.events(GROUP) if event.kind is EventKind.GROUP_LOADED]
    assert [event.members for event in loaded] == [2]
    assert crew.rebalances() == before, "its members are known from the log: there is nothing to do again"
    assert kafka.describe_group(GROUP).members == generation.members


def everybody(crew: Crew, kind: EventKind) -> list[GroupEvent]:
    """Return the members' events of this kind, once all members have one."""
    results = [event for event in crew.told if event.kind is kind]
    return results if {event.client for event in results} == {client.client_id for client in crew.members} else []


def test_coordinator_killed_during_rebalance(crew: Crew, kafka: Kafka) -> None:
    late = crew.join(["t"])
    crew.settle(t=2)
    crew.join(["t"])
    crew.until(lambda: kafka.describe_group(GROUP).state == "PreparingRebalance", idle=late)
    crew.told.clear()
    kafka.restart(clean=False)
    crew.settle(t=2)
    assert EventKind.COORDINATOR_LOST in {event.kind for event in crew.told}
    assert EventKind.GROUP_LOADED in {event.kind for event in kafka.events(GROUP)}
    failed = [event for event in crew.of(EventKind.JOIN_REQUESTED) if event.trigger is Trigger.COORDINATOR_FAILOVER]
    assert failed, "whoever was joining says why it joins again"
    assert reason(failed[0]).startswith("rebalance failed due to")


def test_member_events_join_broker_events(crew: Crew, kafka: Kafka) -> None:
    client = crew.join(["t"], group_events_publish=True)
    crew.settle(t=2)
    with admin(kafka) as operator:
        operator.add_partitions("t", 3)
    crew.settle(t=3)

    def published() -> list[GroupEvent]:
        return [event for event in kafka.events(GROUP) if event.trigger is Trigger.PARTITIONS_ADDED]

    crew.until(published)
    assert [event.member for event in published() if event.kind is EventKind.JOIN_REQUESTED] == [id_of(client)]
