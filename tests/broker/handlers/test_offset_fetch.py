"""OffsetFetch in its versions. How answers are put together is in `tests/conformance`'s transcripts."""

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
def test_before_v8_one_group_is_asked_for_and_v5_adds_the_epoch(tmp_path: Path, version: int) -> None:
    with QuietBroker(tmp_path, t=2) as broker:
        client = broker.connect()
        commit(client, 42)
        topics = [{"name": "t", "partition_indexes": [0, 1]}]
        answer = client.ask_fields("OffsetFetch", version, group_id=GROUP, topics=topics)
    rest = {"metadata": "", "error_code": 0} | ({"committed_leader_epoch": -1} if version >= 5 else {})
    partitions = [{"partition_index": index, "committed_offset": offset} | rest for index, offset in ((0, 42), (1, -1))]
    expected: Fields = {"topics": [{"name": "t", "partitions": partitions}]}
    expected |= {"error_code": 0} if version >= 2 else {}
    assert answer == expected | ({"throttle_time_ms": 0} if version >= 3 else {})


@pytest.mark.parametrize("version", range(1, 10))
def test_a_groups_error_stands_on_its_partitions_in_v1_and_on_the_group_from_v2_on(
    tmp_path: Path, version: int
) -> None:
    topics = [{"name": "t", "partition_indexes": [0, 1]}]
    with QuietBroker(tmp_path, t=2) as broker:
        client = broker.connect()
        broker.broker.groups.coordinator.unload(0, None, broker.clock.now_ms())
        if version >= 8:
            asked = {"groups": [{"group_id": GROUP, "topics": topics}]}
            (answer,) = client.ask_fields("OffsetFetch", version, **asked)["groups"]
        else:
            answer = client.ask_fields("OffsetFetch", version, group_id=GROUP, topics=topics)
    if version == 1:
        failed = {"committed_offset": -1, "metadata": "", "error_code": Error.NOT_COORDINATOR}
        partitions = [{"partition_index": index} | failed for index in (0, 1)]
        assert answer["topics"] == [{"name": "t", "partitions": partitions}]
    else:
        assert (answer["topics"], answer["error_code"]) == ([], Error.NOT_COORDINATOR)


def test_v10_knows_topics_by_their_ids_and_tells_of_no_topic_that_has_none(tmp_path: Path) -> None:
    with QuietBroker(tmp_path, t=1, u=1) as broker:
        client, topics = broker.connect(), broker.broker.topics
        commit(client, 1, topic="t")
        commit(client, 2, topic="u")
        t, u = topics.get("t"), topics.get("u")
        assert t is not None
        assert u is not None

        def fetched(wanted: list[OffsetFetchRequestTopics] | None) -> list[tuple[bytes, int, int]]:
            asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(GROUP, topics=wanted)])
            (group,) = client.ask(asked, OffsetFetchResponse, 10).groups
            return [
                (topic.topic_id, one.committed_offset, one.error_code)
                for topic in group.topics
                for one in topic.partitions
            ]

        by_id = [OffsetFetchRequestTopics(topic_id=topic.topic_id, partition_indexes=[0]) for topic in (u, t)]
        assert fetched(by_id) == [(u.topic_id, 2, Error.NONE), (t.topic_id, 1, Error.NONE)]
        assert fetched(None) == [(t.topic_id, 1, Error.NONE), (u.topic_id, 2, Error.NONE)]
        topics.delete(u)
        assert fetched(by_id) == [(t.topic_id, 1, Error.NONE), (u.topic_id, -1, Error.UNKNOWN_TOPIC_ID)]
        assert fetched(None) == [(t.topic_id, 1, Error.NONE)]


def test_a_fetch_that_wants_what_is_stable_waits_for_the_writes_before_it(tmp_path: Path) -> None:
    with QuietBroker(tmp_path, {"flush": "always"}, t=1) as broker:
        committer, reader = broker.connect(), broker.connect()
        held = broker.hold_flushes()
        one = {"partition_index": 0, "committed_offset": 7, "committed_metadata": ""}
        committing = committer.send_fields(
            "OffsetCommit", 8, group_id=GROUP, topics=[{"name": "t", "partitions": [one]}]
        )
        topics = [{"name": "t", "partition_indexes": [0]}]
        fetching = reader.send_fields("OffsetFetch", 7, group_id=GROUP, topics=topics, require_stable=True)
        assert (committing(), fetching()) == (None, None)
        held.release()
        answer = fetching()
        assert answer is not None
        assert answer["topics"][0]["partitions"][0]["committed_offset"] == 7
