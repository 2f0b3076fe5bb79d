"""Following the internal topics of a broker."""

from collections.abc import Callable, Iterator

import pytest

from slackwater import Admin
from slackwater.client.admin.group_log import GroupLogEntries, GroupLogFollower
from slackwater.group.events import EventKind
from slackwater.group.topic_partition import TopicPartition
from slackwater.testing.kafka import Kafka
from tests.client.consumer_pool import ConsumerPool
from tests.waiting import wait_until

DEADLINE_S = 60.0


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    with Kafka() as client:
        client.create_topic("t", 2)
        yield client


@pytest.fixture
def admin(kafka: Kafka) -> Iterator[Admin]:
    with Admin({"bootstrap.servers": kafka.bootstrap_servers}) as client:
        yield client


def until(
    admin: Admin, follower: GroupLogFollower, enough: Callable[[list[GroupLogEntries]], bool]
) -> list[GroupLogEntries]:
    """Look until what was written is enough; all looks."""
    looks: list[GroupLogEntries] = []

    def look() -> bool:
        looks.append(admin.follow_groups(follower, ["g"]))
        return enough(looks)

    wait_until(look, lambda: looks, DEADLINE_S)
    return looks


def formed(looks: list[GroupLogEntries]) -> list[int | None]:
    return [client.generation for look in looks for client in look.events if client.kind is EventKind.GENERATION_FORMED]


def numbers(looks: list[GroupLogEntries]) -> list[int]:
    return [client.generation for look in looks for client in look.generations if client.members]


def test_generations_and_events_are_returned_once(kafka: Kafka, admin: Admin) -> None:
    follower = GroupLogFollower(since_ms=0)
    with ConsumerPool(kafka.bootstrap_servers, "g", ["t"]) as crowd:
        crowd.join()
        crowd.settle(2)
        first = until(admin, follower, lambda looks: bool(numbers(looks) and formed(looks)))
        crowd.join()
        crowd.settle(2)
        newest = crowd.generation(crowd.consumers[0])
        more = until(admin, follower, lambda looks: newest in numbers(looks) and newest in formed(looks))
    looks = first + more
    assert numbers(looks) == sorted(set(numbers(looks)))
    assert formed(looks) == list(range(1, newest + 1))
    last = [client for look in looks for client in look.generations if client.generation == newest]
    assert (len(last[0].members or ()), last[0].group) == (2, "g")
    assert looks[-1].topics == {"__group_events", "__consumer_offsets"}
    assert follower.known_since_ms == 0


def test_older_entries_are_not_returned(kafka: Kafka, admin: Admin) -> None:
    with ConsumerPool(kafka.bootstrap_servers, "g", ["t"]) as crowd:
        crowd.join()
        crowd.settle(2)
        until(admin, GroupLogFollower(0), lambda looks: bool(numbers(looks) and formed(looks)))
        late = admin.follow_groups(GroupLogFollower(since_ms=2**60), ["g"])
    assert (late.generations, late.events) == ([], [])


def test_denied_topic_is_reported_and_not_retried(kafka: Kafka, admin: Admin) -> None:
    admin.alter_offsets("g", {TopicPartition("t", 0): 0})
    until(admin, GroupLogFollower(0), lambda looks: len(looks[-1].topics) == 2)  # events are written a moment later
    fault = kafka.fail("Fetch", "TOPIC_AUTHORIZATION_FAILED", times=None)
    follower = GroupLogFollower(0)
    written = admin.follow_groups(follower, ["g"])
    assert "__consumer_offsets" in written.refused
    met = fault.count
    assert admin.follow_groups(follower, ["g"]) == written
    assert fault.count == met


def test_cluster_without_group_log(admin: Admin) -> None:
    written = admin.follow_groups(GroupLogFollower(0), ["g"])
    assert (written.generations, written.events, written.refused) == ([], [], frozenset())
