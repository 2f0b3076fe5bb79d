"""Heartbeat (key 12), v0 to v4.

v1   throttle time
v2   throttling by the client: the response is sent at once
v3   instance id: static members (KIP-345)
v4   flexible
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from slackwater.wire.apis import HEARTBEAT
from slackwater.wire.schema import Int16, Int32, Request, Response, String, Versions


@dataclass(slots=True)
class HeartbeatRequest(Request):
    """Heartbeat of a member."""

    API: ClassVar = HEARTBEAT

    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: Annotated[String | None, Versions("3+")] = None


@dataclass(slots=True)
class HeartbeatResponse(Response):
    """The result; REBALANCE_IN_PROGRESS means the member must rejoin."""

    API: ClassVar = HEARTBEAT

    throttle_time_ms: Annotated[Int32, Versions("1+", ignorable=True)] = 0
    error_code: Int16 = 0
