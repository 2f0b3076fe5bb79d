"""DescribeGroups in all versions."""

from pathlib import Path

import pytest

from slackwater.broker.authorization import NOT_REQUESTED
from slackwater.security.acls import OPERATIONS, AclResourceType
from tests.broker.quiet_broker import QuietBroker

from .members import GROUP, join_stable_group

GROUP_OPERATIONS = sum(1 << operation for operation in OPERATIONS[AclResourceType.GROUP])


@pytest.mark.parametrize("version", range(7))
def test_group_is_described_with_its_members(tmp_path: Path, version: int) -> None:
    with QuietBroker(tmp_path) as broker:
        client = broker.connect("c")
        member_id = join_stable_group(client, instance="i")
        (group,) = client.request_fields("DescribeGroups", version, groups=[GROUP])["groups"]
    values = [group[name] for name in ("error_code", "group_id", "group_state", "protocol_type", "protocol_data")]
    assert values == [0, GROUP, "Stable", "consumer", "range"]
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
def test_operations_are_returned_on_request(tmp_path: Path, version: int) -> None:
    with QuietBroker(tmp_path) as broker:
        client = broker.connect()
        join_stable_group(client)
        request = {"groups": [GROUP, "never"], "include_authorized_operations": True}
        groups = client.request_fields("DescribeGroups", version, **request)["groups"]
    operations_of_missing_group = NOT_REQUESTED if version >= 6 else GROUP_OPERATIONS
    assert [group["authorized_operations"] for group in groups] == [GROUP_OPERATIONS, operations_of_missing_group]
