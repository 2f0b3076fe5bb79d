"""DescribeGroups in its versions."""

from pathlib import Path

import pytest

from slackwater.broker.operations import GROUP_OPERATIONS, NOT_REQUESTED
from tests.broker.quiet_broker import QuietBroker

from .members import GROUP, settle


@pytest.mark.parametrize("version", range(7))
def test_a_group_is_shown_with_its_members(tmp_path: Path, version: int) -> None:
    with QuietBroker(tmp_path) as broker:
        client = broker.connect("c")
        member_id = settle(client, instance="i")
        (group,) = client.ask_fields("DescribeGroups", version, groups=[GROUP])["groups"]
    shown = [group[name] for name in ("error_code", "group_id", "group_state", "protocol_type", "protocol_data")]
    assert shown == [0, GROUP, "Stable", "consumer", "range"]
    member = {
        "member_id": member_id,
        "client_id": "c",
        "client_host": "/127.0.0.1",
        "member_metadata": b"",
        "member_assignment": b"part",
    }
    assert group["members"] == [member | ({"group_instance_id": "i"} if version >= 4 else {})]
    assert group.get("authorized_operations", NOT_REQUESTED) == NOT_REQUESTED


@pytest.mark.parametrize("version", range(3, 7))
def test_operations_are_told_if_asked_for_and_of_groups_without_an_error(tmp_path: Path, version: int) -> None:
    with QuietBroker(tmp_path) as broker:
        client = broker.connect()
        settle(client)
        asked = {"groups": [GROUP, "never"], "include_authorized_operations": True}
        groups = client.ask_fields("DescribeGroups", version, **asked)["groups"]
    never = NOT_REQUESTED if version >= 6 else GROUP_OPERATIONS
    assert [group["authorized_operations"] for group in groups] == [GROUP_OPERATIONS, never]
