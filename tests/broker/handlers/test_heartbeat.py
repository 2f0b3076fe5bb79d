"""Heartbeat in its versions."""

import pytest

from slackwater.broker.handlers.heartbeat import VERSIONS, answer, request
from slackwater.group.errors import Error
from slackwater.group.messages import Heartbeat, HeartbeatResponse

from .wire_fields import assert_fields, assert_takes


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_has_exactly_its_versions_fields(version: int) -> None:
    fields = answer(version, HeartbeatResponse(Error.REBALANCE_IN_PROGRESS))
    assert_fields("HeartbeatResponse", version, fields)
    assert fields["error_code"] == 27


def test_a_request_takes_every_versions_fields() -> None:
    assert_takes("HeartbeatRequest", VERSIONS, request)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_instance_id_counts_from_version_3_on(version: int) -> None:
    asked = request(version, group_id="g", generation_id=3, member_id="m", group_instance_id="i")
    assert asked == Heartbeat("g", "m", "i" if version >= 3 else None, 3)
