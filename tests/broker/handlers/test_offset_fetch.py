"""OffsetFetch in all versions. The transcripts in `tests/conformance` cover the responses."""

from pathlib import Path

import pytest

from slackwater.group.errors import Error
from slackwater.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tests.broker.quiet_broker import Fields, QuietBroker

from .members import GROUP, commit


@pytest.mark.parametrize("version", range(1, 8))
def test_single_group_before_v8_and_epoch_since_v5(tmp_path: Path, version: int) -> None:
    with QuietBroker(tmp_path, t=2) as broker:
        client = broker.connect()
        commit(client, 42)
        topics = [{"name": "t", "partition_indexes": [0, 1]}]
        response = client.request_fields("OffsetFetch", version, group_id=GROUP, topics=topics)
    other_fields = {"metadata": "", "error_code": 0} | ({"committed_leader_epoch": -1} if version >= 5 else {})
    partitions = [
        {"partition_index": index, "committed_offset": offset} | other_fields for index, offset in ((0, 42), (1, -1))
    ]
    expected: Fields = {"topics": [{"name": "t", "partitions": partitions}]}
    expected |= {"error_code": 0} if version >= 2 else {}
    assert response == expected | ({"throttle_time_ms": 0} if version >= 3 else {})


@pytest.mark.parametrize("version", range(1, 10))
def test_group_error_is_on_partitions_in_v1(tmp_path: Path, version: int) -> None:
    topics = [{"name": "t", "partition_indexes": [0, 1]}]
    with QuietBroker(tmp_path, t=2) as broker:
        client = broker.connect()
        broker.broker.group_coordinator.coordinator.unload(0, None, broker.clock.now_ms())
        if version >= 8:
            request = {"groups": [{"group_id": GROUP, "topics": topics}]}
            (response,) = client.request_fields("OffsetFetch", version, **request)["groups"]
        else:
            response = client.request_fields("OffsetFetch", version, group_id=GROUP, topics=topics)
    if version == 1:
        failed = {"committed_offset": -1, "metadata": "", "error_code": Error.NOT_COORDINATOR}
        partitions = [{"partition_index": index} | failed for index in (0, 1)]
        assert response["topics"] == [{"name": "t", "partitions": partitions}]
    else:
        assert (response["topics"], response["error_code"]) == ([], Error.NOT_COORDINATOR)


def test_v10_has_topic_ids_and_omits_deleted_topics(tmp_path: Path) -> None:
    with QuietBroker(tmp_path, t=1, u=1) as broker:
        client, topics = broker.connect(), broker.broker.topics
        commit(client, 1, topic="t")
        commit(client, 2, topic="u")
        t, u = topics.get("t"), topics.get("u")
        assert t is not None
        assert u is not None

        def fetch_offsets(requested: list[OffsetFetchRequestTopics] | None) -> list[tuple[bytes, int, int]]:
            request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(GROUP, topics=requested)])
            (group,) = client.request(request, OffsetFetchResponse, 10).groups
            return [
                (topic.topic_id, partition.committed_offset, partition.error_code)
                for topic in group.topics
                for partition in topic.partitions
            ]

        by_id = [OffsetFetchRequestTopics(topic_id=topic.topic_id, partition_indexes=[0]) for topic in (u, t)]
        assert fetch_offsets(by_id) == [(u.topic_id, 2, Error.NONE), (t.topic_id, 1, Error.NONE)]
        assert fetch_offsets(None) == [(t.topic_id, 1, Error.NONE), (u.topic_id, 2, Error.NONE)]
        topics.delete(u)
        assert fetch_offsets(by_id) == [(t.topic_id, 1, Error.NONE), (u.topic_id, -1, Error.UNKNOWN_TOPIC_ID)]
        assert fetch_offsets(None) == [(t.topic_id, 1, Error.NONE)]


def test_require_stable_waits_for_earlier_commits(tmp_path: Path) -> None:
    with QuietBroker(tmp_path, {"flush": "always"}, t=1) as broker:
        committer, reader = broker.connect(), broker.connect()
        held = broker.hold_flushes()
        partition = {"partition_index": 0, "committed_offset": 7, "committed_metadata": ""}
        committing = committer.send_fields(
            "OffsetCommit", 8, group_id=GROUP, topics=[{"name": "t", "partitions": [partition]}]
        )
        topics = [{"name": "t", "partition_indexes": [0]}]
        fetching = reader.send_fields("OffsetFetch", 7, group_id=GROUP, topics=topics, require_stable=True)
        assert (committing(), fetching()) == (None, None)
        held.release()
        response = fetching()
        assert response is not None
        assert response["topics"][0]["partitions"][0]["committed_offset"] == 7
