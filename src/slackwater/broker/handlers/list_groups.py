"""ListGroups, v0 to v5.

v1  throttle time in the answer
v3  flexible
v4  a filter by state, and the state in the answer (AD-03)
v5  a filter by type, and the type in the answer
"""

from collections.abc import Iterable
from typing import Final

from slackwater.group.messages import ListedGroup, ListGroups, ListGroupsResponse

VERSIONS: Final = range(6)


def request(version: int, *, states_filter: Iterable[str] = (), types_filter: Iterable[str] = ()) -> ListGroups:
    """What the core is asked."""
    return ListGroups(
        states=tuple(states_filter) if version >= 4 else (),
        types=tuple(types_filter) if version >= 5 else (),
    )


def answer(version: int, response: ListGroupsResponse) -> dict[str, object]:
    """What the client is told."""
    fields: dict[str, object] = {"throttle_time_ms": 0} if version >= 1 else {}
    fields["error_code"] = int(response.error)
    fields["groups"] = [_group(version, group) for group in response.groups]
    return fields


def _group(version: int, group: ListedGroup) -> dict[str, object]:
    fields: dict[str, object] = {"group_id": group.group_id, "protocol_type": group.protocol_type}
    if version >= 4:
        fields["group_state"] = group.state
    if version >= 5:
        fields["group_type"] = group.group_type
    return fields
