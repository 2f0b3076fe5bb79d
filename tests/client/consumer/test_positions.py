"""Positions: seek, committed offsets and auto.offset.reset."""

import pytest

from slackwater.client.consumer.consumer import OffsetAndMetadata
from slackwater.group.errors import SlackwaterError
from slackwater.group.topic_partition import TopicPartition
from tests.client.clusters import Side
from tests.client.helpers import consumer, fill, numbers, poll_until, read

pytestmark = pytest.mark.old_kafka


@pytest.fixture(scope="module")
def ten(side: Side) -> TopicPartition:
    """A partition with ten records, of the times 1000, 2000, …, 10000."""
    topic = side.topic()
    for number in range(10):
        fill(side, topic, [b"%d" % number], timestamp_ms=(number + 1) * 1000)
    return TopicPartition(topic, 0)


def test_beginning_end_and_time_offsets(side: Side, ten: TopicPartition) -> None:
    with consumer(side) as client:
        assert client.beginning_offsets([ten]) == {ten: 0}
        assert client.end_offsets([ten]) == {ten: 10}
        results = client.offsets_for_times({ten: 3_500})[ten]
        assert results is not None
        assert (results.offset, results.timestamp) == (3, 4_000)
        assert client.offsets_for_times({ten: 10_001}) == {ten: None}
        assert client.partitions_for(ten.topic) == [ten]


def test_seek_to_offset_ends_and_time(side: Side, ten: TopicPartition) -> None:
    with consumer(side) as client:
        client.assign([ten])
        client.seek(ten, 7)
        assert [record.offset for record in read(client, 3)] == [7, 8, 9]
        client.seek_to_beginning()
        assert [record.offset for record in read(client, 10)] == list(range(10))
        client.seek_to_timestamp(8_500)
        assert [record.offset for record in read(client, 2)] == [8, 9]
        client.seek_to_timestamp(99_000)
        assert client.position(ten) == 10
        client.seek(ten, 3)
        client.seek_to_end([ten])
        assert client.position(ten) == 10


def test_committed_offset_and_metadata_are_used_next(side: Side, ten: TopicPartition) -> None:
    group = side.name("g")
    with consumer(side, group, enable_auto_commit=False) as client:
        client.subscribe([ten.topic])
        assert read(client, 10)
        assert client.committed([ten]) == {ten: None}
        client.commit({ten: OffsetAndMetadata(4, metadata="half way")})
        results = client.committed([ten])[ten]
        assert results is not None
        assert (results.offset, results.metadata) == (4, "half way")
    with consumer(side, group) as other:
        other.subscribe([ten.topic])
        assert [record.offset for record in read(other, 6)] == list(range(4, 10))


def test_only_named_partitions_are_committed(side: Side) -> None:
    topic, group = side.topic(2), side.name("g")
    p0, p1 = side.parts(topic, 0, 1)
    for number in range(2):
        fill(side, topic, numbers(3), partition=number)
    with consumer(side, group, enable_auto_commit=False) as client:
        client.subscribe([topic])
        read(client, 6)
        client.commit({p1: 2})
        results = client.committed([p0, p1])
        assert (results[p0], getattr(results[p1], "offset", None)) == (None, 2)


def test_auto_commit_commits_returned_records(side: Side) -> None:
    topic, group = side.topic(), side.name("g")
    (where,) = side.parts(topic, 0)
    fill(side, topic, numbers(5))
    with consumer(side, group, auto_commit_interval_ms=20) as client, consumer(side, group) as other:
        client.subscribe([topic])
        read(client, 5)
        poll_until(client, lambda: (at := other.committed([where])[where]) is not None and at.offset == 5)
        fill(side, topic, numbers(2, 5))
        read(client, 2)
        client.close()
        at = other.committed([where])[where]
        assert at is not None
        assert at.offset == 7


@pytest.mark.parametrize(("policy", "position"), [("earliest", 0), ("latest", 10)])
def test_reset_applies_without_committed_offset(side: Side, ten: TopicPartition, policy: str, position: int) -> None:
    with consumer(side, side.name("g"), auto_offset_reset=policy) as client:
        client.assign([ten])
        assert client.position(ten) == position


def test_commit_of_removed_member_fails(side: Side, ten: TopicPartition) -> None:
    group = side.name("g")
    with consumer(side, group, enable_auto_commit=False, heartbeat_interval_ms=10_000) as client:
        client.subscribe([ten.topic])
        read(client, 10)
        side.evict(group, client)
        with pytest.raises(SlackwaterError, match="not committed"):
            client.commit()
        poll_until(client, lambda: client.assignment and client.committed([ten])[ten] is None)


def test_newer_consumer_fences_same_instance_id(side: Side, ten: TopicPartition) -> None:
    group = side.name("g")
    with (
        consumer(side, group, group_instance_id="pod") as older,
        consumer(side, group, group_instance_id="pod") as newer,
    ):
        older.subscribe([ten.topic])
        poll_until(older, lambda: older.assignment)
        newer.subscribe([ten.topic])
        poll_until(newer, lambda: newer.assignment)
        with pytest.raises(SlackwaterError, match=r"group\.instance\.id 'pod' was taken over"):
            poll_until(older, lambda: False)
        newer.poll(0)
        assert newer.assignment == {ten}
