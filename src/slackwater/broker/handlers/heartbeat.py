"""Heartbeat, v0 to v4.

v1  throttle time in the answer
v3  instance id
v4  flexible
"""

from typing import Final

from slackwater.group.messages import Heartbeat, HeartbeatResponse

VERSIONS: Final = range(5)


def request(
    version: int, *, group_id: str, generation_id: int, member_id: str, group_instance_id: str | None = None
) -> Heartbeat:
    """What the core is asked."""
    return Heartbeat(group_id, member_id, group_instance_id if version >= 3 else None, generation_id)


def answer(version: int, response: HeartbeatResponse) -> dict[str, object]:
    """What the client is told."""
    if version == 0:
        return {"error_code": int(response.error)}
    return {"throttle_time_ms": 0, "error_code": int(response.error)}
