"""OffsetFetch in its versions."""

import pytest

from slackwater.broker.handlers.offset_fetch import VERSIONS, answer, request
from slackwater.group.errors import Error
from slackwater.group.messages import FetchedGroup, FetchedOffset, GroupToFetch, OffsetFetch, OffsetFetchResponse

from .wire_fields import assert_fields, assert_takes

FETCHED = OffsetFetchResponse((FetchedGroup("g", Error.NONE, (FetchedOffset("t", 1, 42, 7, "meta"),)),))


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_has_exactly_its_versions_fields(version: int) -> None:
    assert_fields("OffsetFetchResponse", version, answer(version, FETCHED))


def test_a_request_takes_every_versions_fields() -> None:
    assert_takes("OffsetFetchRequest", VERSIONS, request)


@pytest.mark.parametrize("version", range(1, 8))
def test_before_version_8_one_group_is_asked_for(version: int) -> None:
    asked = request(version, group_id="g", topics=[{"name": "t", "partition_indexes": [0, 1]}], require_stable=True)
    assert asked == OffsetFetch((GroupToFetch("g", (("t", 0), ("t", 1))),), require_stable=version >= 7)


@pytest.mark.parametrize("version", range(8, 10))
def test_from_version_8_on_many_groups_are_asked_for(version: int) -> None:
    asked = request(
        version,
        groups=[
            {"group_id": "g", "topics": None, "member_id": None, "member_epoch": -1},
            {"group_id": "h", "topics": [{"name": "t", "partition_indexes": [0]}]},
        ],
        require_stable=True,
    )
    assert asked == OffsetFetch((GroupToFetch("g", None), GroupToFetch("h", (("t", 0),))), require_stable=True)


def test_null_topics_ask_for_everything_and_no_topics_for_nothing() -> None:
    assert request(2, group_id="g", topics=None).groups == (GroupToFetch("g", None),)
    assert request(2, group_id="g", topics=[]).groups == (GroupToFetch("g", ()),)


def test_before_version_2_the_groups_error_stands_on_every_partition_asked_for() -> None:
    asked = request(1, group_id="g", topics=[{"name": "t", "partition_indexes": [0, 1]}])
    failed = OffsetFetchResponse((FetchedGroup("g", Error.NOT_COORDINATOR),))
    partition = {"committed_offset": -1, "metadata": "", "error_code": 16}
    assert answer(1, failed, asked) == {
        "topics": [{"name": "t", "partitions": [{"partition_index": number} | partition for number in (0, 1)]}]
    }
    assert answer(2, failed, asked) == {"topics": [], "error_code": 16}


def test_partitions_are_answered_under_their_topics_in_the_order_asked() -> None:
    offsets = (FetchedOffset("b", 1), FetchedOffset("b", 0), FetchedOffset("a", 0), FetchedOffset("b", 2))
    fields = answer(2, OffsetFetchResponse((FetchedGroup("g", Error.NONE, offsets),)))
    partition = {"committed_offset": -1, "metadata": "", "error_code": 0}
    assert fields["topics"] == [
        {"name": "b", "partitions": [{"partition_index": 1} | partition, {"partition_index": 0} | partition]},
        {"name": "a", "partitions": [{"partition_index": 0} | partition]},
        {"name": "b", "partitions": [{"partition_index": 2} | partition]},
    ]
