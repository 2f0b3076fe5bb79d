"""SyncGroup in its versions."""

import pytest

from slackwater.broker.handlers.sync_group import VERSIONS, answer, request
from slackwater.group.errors import Error
from slackwater.group.messages import SyncGroup, SyncGroupResponse

from .wire_fields import assert_fields, assert_takes


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_has_exactly_its_versions_fields(version: int) -> None:
    fields = answer(version, SyncGroupResponse(Error.NONE, "consumer", "range", b"part"))
    assert_fields("SyncGroupResponse", version, fields)
    assert fields["assignment"] == b"part"


def test_a_request_takes_every_versions_fields() -> None:
    assert_takes("SyncGroupRequest", VERSIONS, request)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_version_lacks_is_not_looked_at(version: int) -> None:
    asked = request(
        version,
        group_id="g",
        generation_id=3,
        member_id="m",
        group_instance_id="i",
        protocol_type="consumer",
        protocol_name="range",
        assignments=[{"member_id": "m", "assignment": b"part"}],
    )
    assert asked == SyncGroup(
        group_id="g",
        member_id="m",
        group_instance_id="i" if version >= 3 else None,
        generation_id=3,
        protocol_type="consumer" if version >= 5 else None,
        protocol_name="range" if version >= 5 else None,
        assignments=(("m", b"part"),),
        requires_protocol=version >= 5,
    )
