"""LeaveGroup (key 13), v0 to v5.

v1   throttle time
v2   throttling by the client: the response is sent at once
v3   several members in one request, by member id or instance id (KIP-345)
v4   flexible
v5   reason (KIP-800)
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from slackwater.wire.apis import LEAVE_GROUP
from slackwater.wire.schema import Int16, Int32, Request, Response, String, Struct, Versions


@dataclass(slots=True)
class MemberIdentity(Struct):
    """One entry of `members`."""

    member_id: String = ""
    group_instance_id: String | None = None
    reason: Annotated[String | None, Versions("5+", ignorable=True)] = None


@dataclass(slots=True)
class LeaveGroupRequest(Request):
    """Members leave."""

    API: ClassVar = LEAVE_GROUP

    group_id: String = ""
    member_id: Annotated[String, Versions("0-2")] = ""
    members: Annotated[list[MemberIdentity], Versions("3+")] = field(default_factory=list)


@dataclass(slots=True)
class MemberResponse(Struct):
    """One entry of `members`."""

    member_id: String = ""
    group_instance_id: String | None = ""
    error_code: Int16 = 0


@dataclass(slots=True)
class LeaveGroupResponse(Response):
    """The result for each member."""

    API: ClassVar = LEAVE_GROUP

    throttle_time_ms: Annotated[Int32, Versions("1+", ignorable=True)] = 0
    error_code: Int16 = 0
    members: Annotated[list[MemberResponse], Versions("3+")] = field(default_factory=list)
