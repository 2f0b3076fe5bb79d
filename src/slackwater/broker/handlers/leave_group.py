"""LeaveGroup, v0 to v5.

v0  one member, by its id; its error is the answer's (LG-01)
v1  throttle time in the answer
v3  a batch of members, each by its id or its instance id; one error each beside the answer's own
v4  flexible
v5  a reason for each
"""

from collections.abc import Iterable
from typing import Final, NotRequired, TypedDict

from slackwater.group.errors import Error
from slackwater.group.messages import NO_MEMBER, LeaveGroup, LeaveGroupResponse, Leaver

VERSIONS: Final = range(6)


class WireMember(TypedDict):
    """One entry of `members`."""

    member_id: str
    group_instance_id: NotRequired[str | None]
    reason: NotRequired[str | None]


def request(
    version: int, *, group_id: str, member_id: str = NO_MEMBER, members: Iterable[WireMember] = ()
) -> LeaveGroup:
    """What the core is asked."""
    if version < 3:
        return LeaveGroup(group_id, (Leaver(member_id),))
    return LeaveGroup(
        group_id,
        tuple(
            Leaver(
                member["member_id"],
                member.get("group_instance_id"),
                (member.get("reason") or None) if version >= 5 else None,
            )
            for member in members
        ),
    )


def answer(version: int, response: LeaveGroupResponse) -> dict[str, object]:
    """What the client is told."""
    if version >= 3:
        return {
            "throttle_time_ms": 0,
            "error_code": int(response.error),
            "members": [
                {
                    "member_id": member.member_id,
                    "group_instance_id": member.group_instance_id,
                    "error_code": int(member.error),
                }
                for member in response.members
            ],
        }
    errors = [response.error, *(member.error for member in response.members)]
    error = next((one for one in errors if one is not Error.NONE), Error.NONE)
    return {"throttle_time_ms": 0, "error_code": int(error)} if version >= 1 else {"error_code": int(error)}
