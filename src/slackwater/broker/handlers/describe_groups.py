"""DescribeGroups, v0 to v6.

v1  throttle time in the answer
v3  authorized operations, if they are asked for
v4  instance id of each member in the answer
v5  flexible
v6  a group that does not exist is GROUP_ID_NOT_FOUND, with a message; before, it is Dead without an error (AD-01)
"""

from collections.abc import Iterable
from typing import Final

from slackwater.group.errors import Error
from slackwater.group.messages import DescribedGroup, DescribedMember, DescribeGroups, DescribeGroupsResponse

VERSIONS: Final = range(7)
NOT_ASKED: Final = -(2**31)


def request(version: int, *, groups: Iterable[str], include_authorized_operations: bool = False) -> DescribeGroups:
    """What the core is asked; authorized operations are the broker's business, and `answer` takes them."""
    return DescribeGroups(tuple(groups), reports_missing_group=version >= 6)


def answer(version: int, response: DescribeGroupsResponse, authorized_operations: int = NOT_ASKED) -> dict[str, object]:
    """What the client is told; only groups without an error have authorized operations."""
    fields: dict[str, object] = {"throttle_time_ms": 0} if version >= 1 else {}
    fields["groups"] = [_group(version, group, authorized_operations) for group in response.groups]
    return fields


def _group(version: int, group: DescribedGroup, authorized_operations: int) -> dict[str, object]:
    fields: dict[str, object] = {"error_code": int(group.error)}
    if version >= 6:
        fields["error_message"] = group.error_message
    fields["group_id"] = group.group_id
    fields["group_state"] = group.state
    fields["protocol_type"] = group.protocol_type
    fields["protocol_data"] = group.protocol_name
    fields["members"] = [_member(version, member) for member in group.members]
    if version >= 3:
        fields["authorized_operations"] = authorized_operations if group.error is Error.NONE else NOT_ASKED
    return fields


def _member(version: int, member: DescribedMember) -> dict[str, object]:
    fields: dict[str, object] = {"member_id": member.member_id}
    if version >= 4:
        fields["group_instance_id"] = member.group_instance_id
    fields["client_id"] = member.client_id
    fields["client_host"] = member.client_host
    fields["member_metadata"] = member.metadata
    fields["member_assignment"] = member.assignment
    return fields
