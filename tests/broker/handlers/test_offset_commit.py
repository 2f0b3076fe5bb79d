"""OffsetCommit in its versions."""

import pytest

from slackwater.broker.handlers.offset_commit import VERSIONS, answer, request
from slackwater.group.errors import Error
from slackwater.group.messages import CommittedPartition, OffsetCommit, OffsetCommitResponse, OffsetToCommit

from .wire_fields import assert_fields, assert_takes


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_has_exactly_its_versions_fields(version: int) -> None:
    response = OffsetCommitResponse((CommittedPartition("t", 0, Error.NONE),))
    assert_fields("OffsetCommitResponse", version, answer(version, response))


def test_a_request_takes_every_versions_fields() -> None:
    assert_takes("OffsetCommitRequest", VERSIONS, request)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_version_lacks_is_not_looked_at(version: int) -> None:
    asked = request(
        version,
        group_id="g",
        generation_id_or_member_epoch=3,
        member_id="m",
        group_instance_id="i",
        retention_time_ms=60_000,
        topics=[
            {
                "name": "t",
                "partitions": [
                    {
                        "partition_index": 1,
                        "committed_offset": 42,
                        "committed_leader_epoch": 7,
                        "committed_metadata": None,
                    }
                ],
            }
        ],
    )
    assert asked == OffsetCommit(
        group_id="g",
        member_id="m",
        group_instance_id="i" if version >= 7 else None,
        generation_id=3,
        offsets=(OffsetToCommit("t", 1, 42, 7 if version >= 6 else -1, None),),
        retention_ms=60_000 if version <= 4 else -1,
        reports_missing_group=version >= 9,
    )


def test_an_offset_without_a_leader_epoch_has_none() -> None:
    asked = request(
        9,
        group_id="g",
        topics=[
            {"name": "t", "partitions": [{"partition_index": 1, "committed_offset": 42, "committed_metadata": ""}]}
        ],
    )
    assert asked.offsets == (OffsetToCommit("t", 1, 42, -1, ""),)
    assert (asked.generation_id, asked.member_id) == (-1, "")


def test_partitions_are_answered_under_their_topics_in_the_order_asked() -> None:
    response = OffsetCommitResponse(
        (
            CommittedPartition("b", 1, Error.NONE),
            CommittedPartition("b", 0, Error.NONE),
            CommittedPartition("a", 0, Error.UNKNOWN_TOPIC_OR_PARTITION),
            CommittedPartition("b", 2, Error.NONE),
        )
    )
    assert answer(2, response) == {
        "topics": [
            {
                "name": "b",
                "partitions": [{"partition_index": 1, "error_code": 0}, {"partition_index": 0, "error_code": 0}],
            },
            {"name": "a", "partitions": [{"partition_index": 0, "error_code": 3}]},
            {"name": "b", "partitions": [{"partition_index": 2, "error_code": 0}]},
        ]
    }
