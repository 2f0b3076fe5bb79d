"""LeaveGroup in its versions."""

import pytest

from slackwater.broker.handlers.leave_group import VERSIONS, answer, request
from slackwater.group.errors import Error
from slackwater.group.messages import LeaveGroup, LeaveGroupResponse, Leaver, LeftMember

from .wire_fields import assert_fields, assert_takes


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_has_exactly_its_versions_fields(version: int) -> None:
    response = LeaveGroupResponse(Error.NONE, (LeftMember("m", "i", Error.NONE),))
    assert_fields("LeaveGroupResponse", version, answer(version, response))


def test_a_request_takes_every_versions_fields() -> None:
    assert_takes("LeaveGroupRequest", VERSIONS, request)


@pytest.mark.parametrize("version", range(3))
def test_before_version_3_one_member_leaves_by_its_id(version: int) -> None:
    assert request(version, group_id="g", member_id="m") == LeaveGroup("g", (Leaver("m"),))


@pytest.mark.parametrize("version", range(3, 6))
def test_from_version_3_on_many_leave_and_from_5_on_they_say_why(version: int) -> None:
    asked = request(
        version,
        group_id="g",
        members=[
            {"member_id": "a", "group_instance_id": None, "reason": "why"},
            {"member_id": "", "group_instance_id": "i", "reason": ""},
            {"member_id": "b"},
        ],
    )
    reason = "why" if version >= 5 else None
    assert asked == LeaveGroup("g", (Leaver("a", None, reason), Leaver("", "i"), Leaver("b")))


@pytest.mark.parametrize("version", range(3))
def test_the_answers_own_error_comes_before_the_members(version: int) -> None:
    failed = LeaveGroupResponse(Error.COORDINATOR_NOT_AVAILABLE, (LeftMember("m", None, Error.UNKNOWN_MEMBER_ID),))
    assert answer(version, failed)["error_code"] == Error.COORDINATOR_NOT_AVAILABLE
    assert answer(version, LeaveGroupResponse(Error.NOT_COORDINATOR))["error_code"] == Error.NOT_COORDINATOR
