"""OffsetCommit: the stored offsets. The transcripts in `tests/conformance` cover the responses."""

from pathlib import Path

import pytest

from slackwater.broker.storage.topics import Partition
from slackwater.group.coordinator import StoredOffset
from slackwater.group.errors import Error
from slackwater.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from slackwater.wire.records.batch import iter_batches
from slackwater.wire.request_response import decode_response, encode_request
from tests.broker.quiet_broker import QuietBroker

from .members import GROUP, join_stable_group


@pytest.mark.parametrize("version", range(2, 11))
def test_committed_fields_survive_a_restart(tmp_path: Path, version: int) -> None:
    with QuietBroker(tmp_path, t=2) as broker:
        now_ms = broker.clock.now_ms()
        topic = broker.broker.topics.get("t")
        assert topic is not None
        request = OffsetCommitRequest(
            GROUP,
            retention_time_ms=60_000,
            topics=[OffsetCommitRequestTopic("t", topic.topic_id, [OffsetCommitRequestPartition(1, 42, 7, "note")])],
        )
        response = broker.connect().request(request, OffsetCommitResponse, version)
    (topic_response,) = response.topics
    assert (topic_response.name, topic_response.topic_id) == (
        ("t", bytes(16)) if version <= 9 else ("", topic.topic_id)
    )
    assert [(partition.partition_index, partition.error_code) for partition in topic_response.partitions] == [
        (1, Error.NONE)
    ]
    epoch = 7 if version >= 6 else -1
    expiry_ms = now_ms + 60_000 if version <= 4 else None
    with QuietBroker(tmp_path) as broker:
        offsets = broker.broker.group_coordinator.coordinator.groups[GROUP].offsets
    assert offsets == {("t", 1): StoredOffset(42, epoch, "note", now_ms, expiry_ms)}


@pytest.mark.parametrize("version", range(2, 10))
def test_instance_id_is_used_since_v7(tmp_path: Path, version: int) -> None:
    with QuietBroker(tmp_path, t=1) as broker:
        client = broker.connect()
        join_stable_group(client, instance="i")
        partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
        member = {"group_id": GROUP, "generation_id_or_member_epoch": 1, "member_id": "other", "group_instance_id": "i"}
        response = client.request_fields(
            "OffsetCommit", version, **member, topics=[{"name": "t", "partitions": [partition]}]
        )
    error = Error.FENCED_INSTANCE_ID if version >= 7 else Error.UNKNOWN_MEMBER_ID
    assert response["topics"][0]["partitions"] == [{"partition_index": 0, "error_code": error}]


def test_pipelined_commits_are_one_batch(tmp_path: Path) -> None:
    with QuietBroker(tmp_path, t=1) as broker:
        client = broker.connect()
        join_stable_group(client)
        log = offsets_partition(broker).log
        before = log.log_end_offset
        frames = [
            encode_request(
                OffsetCommitRequest(
                    group,
                    topics=[OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, offset)])],
                ),
                9,
                number,
                "c",
            )
            for number, (group, offset) in enumerate((("x", 1), ("y", 2), ("x", 3)))
        ]
        client.send_bytes(b"".join(frames))
        assert [decode_response(OffsetCommitResponse, 9, frame)[0] for frame in client.frames()] == [0, 1, 2]
        written = log.read(before, 1_000_000)
        assert isinstance(written, memoryview)
        assert [batch.last_offset_delta + 1 for batch in iter_batches(written)] == [3]
        groups = broker.broker.group_coordinator.coordinator.groups
        assert [offset.offset for group in "xy" for offset in groups[group].offsets.values()] == [3, 2]


def offsets_partition(broker: QuietBroker) -> Partition:
    partition = broker.broker.topics.partition("__consumer_offsets", 0)
    assert partition is not None
    return partition
