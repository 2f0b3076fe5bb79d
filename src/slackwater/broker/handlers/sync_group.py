"""SyncGroup, v0 to v5.

v1  throttle time in the answer
v3  instance id
v4  flexible
v5  protocol type and name, both required (SG-02); both in the answer
"""

from collections.abc import Iterable
from typing import Final, TypedDict

from slackwater.group.messages import SyncGroup, SyncGroupResponse

VERSIONS: Final = range(6)


class WireAssignment(TypedDict):
    """One entry of `assignments`."""

    member_id: str
    assignment: bytes


def request(
    version: int,
    *,
    group_id: str,
    generation_id: int,
    member_id: str,
    assignments: Iterable[WireAssignment],
    group_instance_id: str | None = None,
    protocol_type: str | None = None,
    protocol_name: str | None = None,
) -> SyncGroup:
    """What the core is asked."""
    names_protocol = version >= 5
    return SyncGroup(
        group_id=group_id,
        member_id=member_id,
        group_instance_id=group_instance_id if version >= 3 else None,
        generation_id=generation_id,
        protocol_type=protocol_type if names_protocol else None,
        protocol_name=protocol_name if names_protocol else None,
        assignments=tuple((one["member_id"], one["assignment"]) for one in assignments),
        requires_protocol=names_protocol,
    )


def answer(version: int, response: SyncGroupResponse) -> dict[str, object]:
    """What the client is told."""
    fields: dict[str, object] = {"throttle_time_ms": 0} if version >= 1 else {}
    fields["error_code"] = int(response.error)
    if version >= 5:
        fields["protocol_type"] = response.protocol_type
        fields["protocol_name"] = response.protocol_name
    fields["assignment"] = response.assignment
    return fields
