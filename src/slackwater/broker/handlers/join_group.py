"""JoinGroup, v0 to v9.

v0  no rebalance timeout: the session timeout is used (JG-27)
v1  rebalance timeout
v2  throttle time in the answer
v4  a dynamic member without an id is told MEMBER_ID_REQUIRED, and its new id (JG-08); before, it is a member at once
    (JG-07)
v5  instance id: static members (JG-13)
v6  flexible
v7  protocol type in the answer; the protocol name may be null, before it is "" (JG-50)
v8  reason (JG-51)
v9  skip_assignment in the answer: a static leader that returns keeps the lead (JG-42, JG-43)
"""

from collections.abc import Iterable
from typing import Final, TypedDict

from slackwater.group.messages import NO_MEMBER, JoinGroup, JoinGroupResponse, Protocol

VERSIONS: Final = range(10)


class WireProtocol(TypedDict):
    """One entry of `protocols`."""

    name: str
    metadata: bytes


def request(
    version: int,
    *,
    group_id: str,
    session_timeout_ms: int,
    protocol_type: str,
    protocols: Iterable[WireProtocol],
    rebalance_timeout_ms: int = -1,
    member_id: str = NO_MEMBER,
    group_instance_id: str | None = None,
    reason: str | None = None,
    client_id: str = "",
    client_host: str = "",
    uuid: str = "",
) -> JoinGroup:
    """What the core is asked; client id, host and uuid are the connection's and the shell's, not the body's."""
    return JoinGroup(
        group_id=group_id,
        member_id=member_id,
        group_instance_id=group_instance_id if version >= 5 else None,
        protocol_type=protocol_type,
        protocols=tuple(Protocol(protocol["name"], protocol["metadata"]) for protocol in protocols),
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms if version >= 1 else session_timeout_ms,
        client_id=client_id,
        client_host=client_host,
        uuid=uuid,
        reason=(reason or None) if version >= 8 else None,
        requires_known_member_id=version >= 4,
        supports_skipping_assignment=version >= 9,
    )


def answer(version: int, response: JoinGroupResponse) -> dict[str, object]:
    """What the client is told."""
    fields: dict[str, object] = {"throttle_time_ms": 0} if version >= 2 else {}
    fields["error_code"] = int(response.error)
    fields["generation_id"] = response.generation_id
    if version >= 7:
        fields["protocol_type"] = response.protocol_type
        fields["protocol_name"] = response.protocol_name or None
    else:
        fields["protocol_name"] = response.protocol_name or ""
    fields["leader"] = response.leader
    if version >= 9:
        fields["skip_assignment"] = response.skip_assignment
    fields["member_id"] = response.member_id
    fields["members"] = [
        {"member_id": member.member_id}
        | ({"group_instance_id": member.group_instance_id} if version >= 5 else {})
        | {"metadata": member.metadata}
        for member in response.members
    ]
    return fields
