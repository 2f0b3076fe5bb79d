"""JoinGroup in its versions."""

import pytest

from slackwater.broker.handlers import join_group
from slackwater.broker.handlers.join_group import VERSIONS, answer, request
from slackwater.group.errors import Error
from slackwater.group.messages import JoinedMember, JoinGroup, JoinGroupResponse, Protocol

from .wire_fields import assert_fields, assert_takes


def joining(version: int) -> JoinGroup:
    return request(
        version,
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id="m",
        group_instance_id="i",
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b"sub"}],
        reason="why",
        client_id="c",
        client_host="/10.0.0.1",
        uuid="u",
    )


JOINED = JoinGroupResponse(
    Error.NONE, "m", 3, "consumer", "range", "m", skip_assignment=True, members=(JoinedMember("m", "i", b"sub"),)
)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_has_exactly_its_versions_fields(version: int) -> None:
    assert_fields("JoinGroupResponse", version, answer(version, JOINED))


def test_a_request_takes_every_versions_fields() -> None:
    assert_takes("JoinGroupRequest", VERSIONS, join_group.request, "client_id", "client_host", "uuid")


def test_the_newest_version_carries_everything() -> None:
    assert joining(9) == JoinGroup(
        group_id="g",
        member_id="m",
        group_instance_id="i",
        protocol_type="consumer",
        protocols=(Protocol("range", b"sub"),),
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        client_id="c",
        client_host="/10.0.0.1",
        uuid="u",
        reason="why",
        requires_known_member_id=True,
        supports_skipping_assignment=True,
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_version_lacks_is_not_looked_at(version: int) -> None:
    asked = joining(version)
    assert asked.rebalance_timeout_ms == (60_000 if version >= 1 else 10_000)
    assert asked.requires_known_member_id is (version >= 4)
    assert asked.group_instance_id == ("i" if version >= 5 else None)
    assert asked.reason == ("why" if version >= 8 else None)
    assert asked.supports_skipping_assignment is (version >= 9)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_refused_join_names_no_protocol(version: int) -> None:
    fields = answer(version, JoinGroupResponse(Error.UNKNOWN_MEMBER_ID, "m"))
    assert fields["error_code"] == 25
    assert fields["generation_id"] == -1
    assert fields["protocol_name"] == (None if version >= 7 else "")
    assert fields.get("protocol_type") is None
    assert fields["members"] == []
