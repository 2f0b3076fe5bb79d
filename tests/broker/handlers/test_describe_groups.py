"""DescribeGroups in its versions."""

from typing import cast

import pytest

from slackwater.broker.handlers.describe_groups import NOT_ASKED, VERSIONS, answer, request
from slackwater.group.errors import Error
from slackwater.group.messages import DescribedGroup, DescribedMember, DescribeGroups, DescribeGroupsResponse

from .wire_fields import assert_fields, assert_takes

MEMBER = DescribedMember("m", "i", "c", "/10.0.0.1", b"sub", b"part")
DESCRIBED = DescribeGroupsResponse((DescribedGroup("g", Error.NONE, "Stable", "consumer", "range", (MEMBER,)),))


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_has_exactly_its_versions_fields(version: int) -> None:
    assert_fields("DescribeGroupsResponse", version, answer(version, DESCRIBED))


def test_a_request_takes_every_versions_fields() -> None:
    assert_takes("DescribeGroupsRequest", VERSIONS, request)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_missing_group_is_an_error_from_version_6_on(version: int) -> None:
    asked = request(version, groups=["g", "h"], include_authorized_operations=True)
    assert asked == DescribeGroups(("g", "h"), reports_missing_group=version >= 6)


def test_authorized_operations_are_told_of_groups_without_an_error() -> None:
    response = DescribeGroupsResponse((*DESCRIBED.groups, DescribedGroup("h", Error.NOT_COORDINATOR)))
    groups = cast(list[dict[str, object]], answer(5, response, authorized_operations=328)["groups"])
    assert [group["authorized_operations"] for group in groups] == [328, NOT_ASKED]


def test_a_message_is_told_from_version_6_on() -> None:
    response = DescribeGroupsResponse(
        (DescribedGroup("g", Error.GROUP_ID_NOT_FOUND, "Dead", error_message="Group g not found."),)
    )
    (group,) = cast(list[dict[str, object]], answer(6, response)["groups"])
    assert group["error_message"] == "Group g not found."
