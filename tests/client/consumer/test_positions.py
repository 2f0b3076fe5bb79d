"""Positions: seek, committed offsets and auto.offset.reset."""

import pytest

from slackwater.client.consumer.consumer import OffsetAndMetadata
from slackwater.group.errors import SlackwaterError
from slackwater.group.topic_partition import TopicPartition
from tests.client.clusters import ClusterUnderTest
from tests.client.helpers import consumer, fill, numbers, poll_until, read

pytestmark = pytest.mark.old_kafka


@pytest.fixture(scope="module")
def ten_records(cluster: ClusterUnderTest) -> TopicPartition:
    """A partition with ten_records records, with the timestamps 1000, 2000, …, 10000."""
    topic = cluster.topic()
    for number in range(10):
        fill(cluster, topic, [b"%d" % number], timestamp_ms=(number + 1) * 1000)
    return TopicPartition(topic, 0)


def test_beginning_end_and_time_offsets(cluster: ClusterUnderTest, ten_records: TopicPartition) -> None:
    with consumer(cluster) as client:
        assert client.beginning_offsets([ten_records]) == {ten_records: 0}
        assert client.end_offsets([ten_records]) == {ten_records: 10}
        found_offset = client.offsets_for_times({ten_records: 3_500})[ten_records]
        assert found_offset is not None
        assert (found_offset.offset, found_offset.timestamp) == (3, 4_000)
        assert client.offsets_for_times({ten_records: 10_001}) == {ten_records: None}
        assert client.partitions_for(ten_records.topic) == [ten_records]


def test_seek_to_offset_ends_and_time(cluster: ClusterUnderTest, ten_records: TopicPartition) -> None:
    with consumer(cluster) as client:
        client.assign([ten_records])
        client.seek(ten_records, 7)
        assert [record.offset for record in read(client, 3)] == [7, 8, 9]
        client.seek_to_beginning()
        assert [record.offset for record in read(client, 10)] == list(range(10))
        client.seek_to_timestamp(8_500)
        assert [record.offset for record in read(client, 2)] == [8, 9]
        client.seek_to_timestamp(99_000)
        assert client.position(ten_records) == 10
        client.seek(ten_records, 3)
        client.seek_to_end([ten_records])
        assert client.position(ten_records) == 10


def test_committed_offset_and_metadata_are_used_next(cluster: ClusterUnderTest, ten_records: TopicPartition) -> None:
    group = cluster.name("g")
    with consumer(cluster, group, enable_auto_commit=False) as client:
        client.subscribe([ten_records.topic])
        assert read(client, 10)
        assert client.committed([ten_records]) == {ten_records: None}
        client.commit({ten_records: OffsetAndMetadata(4, metadata="half way")})
        committed = client.committed([ten_records])[ten_records]
        assert committed is not None
        assert (committed.offset, committed.metadata) == (4, "half way")
    with consumer(cluster, group) as other:
        other.subscribe([ten_records.topic])
        assert [record.offset for record in read(other, 6)] == list(range(4, 10))


def test_only_named_partitions_are_committed(cluster: ClusterUnderTest) -> None:
    topic, group = cluster.topic(2), cluster.name("g")
    p0, p1 = cluster.partitions(topic, 0, 1)
    for number in range(2):
        fill(cluster, topic, numbers(3), partition=number)
    with consumer(cluster, group, enable_auto_commit=False) as client:
        client.subscribe([topic])
        read(client, 6)
        client.commit({p1: 2})
        committed = client.committed([p0, p1])
        assert (committed[p0], getattr(committed[p1], "offset", None)) == (None, 2)


def test_auto_commit_commits_returned_records(cluster: ClusterUnderTest) -> None:
    topic, group = cluster.topic(), cluster.name("g")
    (partition,) = cluster.partitions(topic, 0)
    fill(cluster, topic, numbers(5))
    with consumer(cluster, group, auto_commit_interval_ms=20) as client, consumer(cluster, group) as other:
        client.subscribe([topic])
        read(client, 5)
        poll_until(client, lambda: (commit := other.committed([partition])[partition]) and commit.offset == 5)
        fill(cluster, topic, numbers(2, 5))
        read(client, 2)
        client.close()
        commit = other.committed([partition])[partition]
        assert commit is not None
        assert commit.offset == 7


@pytest.mark.parametrize(("policy", "position"), [("earliest", 0), ("latest", 10)])
def test_reset_applies_without_committed_offset(
    cluster: ClusterUnderTest, ten_records: TopicPartition, policy: str, position: int
) -> None:
    with consumer(cluster, cluster.name("g"), auto_offset_reset=policy) as client:
        client.assign([ten_records])
        assert client.position(ten_records) == position


def test_commit_of_removed_member_fails(cluster: ClusterUnderTest, ten_records: TopicPartition) -> None:
    group = cluster.name("g")
    with consumer(cluster, group, enable_auto_commit=False, heartbeat_interval_ms=10_000) as client:
        client.subscribe([ten_records.topic])
        read(client, 10)
        cluster.evict(group, client)
        with pytest.raises(SlackwaterError, match="not committed"):
            client.commit()
        poll_until(client, lambda: client.assignment and client.committed([ten_records])[ten_records] is None)


def test_newer_consumer_fences_same_instance_id(cluster: ClusterUnderTest, ten_records: TopicPartition) -> None:
    group = cluster.name("g")
    with (
        consumer(cluster, group, group_instance_id="pod") as older,
        consumer(cluster, group, group_instance_id="pod") as newer,
    ):
        older.subscribe([ten_records.topic])
        poll_until(older, lambda: older.assignment)
        newer.subscribe([ten_records.topic])
        poll_until(newer, lambda: newer.assignment)
        with pytest.raises(SlackwaterError, match=r"group\.instance\.id 'pod' was taken over"):
            poll_until(older, lambda: False)
        newer.poll(0)
        assert newer.assignment == {ten_records}
