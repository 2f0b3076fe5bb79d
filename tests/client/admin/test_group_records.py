"""Following the internal topics of a broker."""

from collections.abc import Callable, Iterator

import pytest

from slackwater import Admin
from slackwater.client.admin.group_records import GroupRecords, GroupRecordsFollower
from slackwater.group.events import EventKind
from slackwater.group.topic_partition import TopicPartition
from slackwater.testing.kafka import Kafka
from tests.client.consumer_pool import ConsumerPool
from tests.waiting import wait_until

DEADLINE_S = 60.0


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    with Kafka() as running:
        running.create_topic("t", 2)
        yield running


@pytest.fixture
def admin(kafka: Kafka) -> Iterator[Admin]:
    with Admin({"bootstrap.servers": kafka.bootstrap_servers}) as connected:
        yield connected


def follow_until(
    admin: Admin, follower: GroupRecordsFollower, is_enough: Callable[[list[GroupRecords]], bool]
) -> list[GroupRecords]:
    """Follow the log until the entries are enough; return the entries of each read."""
    reads: list[GroupRecords] = []

    def read() -> bool:
        reads.append(admin.follow_groups(follower, ["g"]))
        return is_enough(reads)

    wait_until(read, lambda: reads, DEADLINE_S)
    return reads


def formed_generations(reads: list[GroupRecords]) -> list[int | None]:
    events = [event for entries in reads for event in entries.events]
    return [event.generation for event in events if event.kind is EventKind.GENERATION_FORMED]


def recorded_generations(reads: list[GroupRecords]) -> list[int]:
    return [record.generation for entries in reads for record in entries.generations if record.members]


def test_generations_and_events_are_returned_once(kafka: Kafka, admin: Admin) -> None:
    follower = GroupRecordsFollower(since_ms=0)
    with ConsumerPool(kafka.bootstrap_servers, "g", ["t"]) as pool:
        pool.join()
        pool.settle(2)
        first = follow_until(
            admin, follower, lambda reads: bool(recorded_generations(reads) and formed_generations(reads))
        )
        pool.join()
        pool.settle(2)
        newest = pool.generation(pool.consumers[0])
        more = follow_until(
            admin, follower, lambda reads: newest in recorded_generations(reads) and newest in formed_generations(reads)
        )
    reads = first + more
    assert recorded_generations(reads) == sorted(set(recorded_generations(reads)))
    assert formed_generations(reads) == list(range(1, newest + 1))
    last = [record for entries in reads for record in entries.generations if record.generation == newest]
    assert (len(last[0].members or ()), last[0].group) == (2, "g")
    assert reads[-1].topics == {"__group_events", "__consumer_offsets"}
    assert follower.known_since_ms == 0


def test_older_entries_are_not_returned(kafka: Kafka, admin: Admin) -> None:
    with ConsumerPool(kafka.bootstrap_servers, "g", ["t"]) as pool:
        pool.join()
        pool.settle(2)
        follow_until(
            admin,
            GroupRecordsFollower(0),
            lambda reads: bool(recorded_generations(reads) and formed_generations(reads)),
        )
        late = admin.follow_groups(GroupRecordsFollower(since_ms=2**60), ["g"])
    assert (late.generations, late.events) == ([], [])


def test_denied_topic_is_reported_and_not_retried(kafka: Kafka, admin: Admin) -> None:
    admin.alter_offsets("g", {TopicPartition("t", 0): 0})
    # Events are written with a delay.
    follow_until(admin, GroupRecordsFollower(0), lambda reads: len(reads[-1].topics) == 2)
    fault = kafka.fail("Fetch", "TOPIC_AUTHORIZATION_FAILED", times=None)
    follower = GroupRecordsFollower(0)
    entries = admin.follow_groups(follower, ["g"])
    assert "__consumer_offsets" in entries.denied
    count = fault.count
    assert admin.follow_groups(follower, ["g"]) == entries
    assert fault.count == count


def test_cluster_without_group_log(admin: Admin) -> None:
    entries = admin.follow_groups(GroupRecordsFollower(0), ["g"])
    assert (entries.generations, entries.events, entries.denied) == ([], [], frozenset())
