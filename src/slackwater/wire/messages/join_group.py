"""JoinGroup (key 11), v0 to v9.

v1   rebalance timeout; before, the session timeout is used
v2   throttle time
v3   throttling by the client: the response is sent at once
v4   a member without an id gets one and must rejoin with it (KIP-394)
v5   instance id: static members (KIP-345)
v6   flexible
v7   protocol type in the response, and a protocol name that may be null (KIP-559)
v8   reason (KIP-800)
v9   skip_assignment in the response (KIP-814)
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from slackwater.wire.apis import JOIN_GROUP
from slackwater.wire.schema import Boolean, Bytes, Int16, Int32, Request, Response, String, Struct, Versions


@dataclass(slots=True)
class JoinGroupRequestProtocol(Struct):
    """One entry of `protocols`."""

    name: String = ""
    metadata: Bytes = b""


@dataclass(slots=True)
class JoinGroupRequest(Request):
    """A member joins or rejoins."""

    API: ClassVar = JOIN_GROUP

    group_id: String = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Annotated[Int32, Versions("1+", ignorable=True)] = -1
    member_id: String = ""
    group_instance_id: Annotated[String | None, Versions("5+")] = None
    protocol_type: String = ""
    protocols: list[JoinGroupRequestProtocol] = field(default_factory=list)
    reason: Annotated[String | None, Versions("8+", ignorable=True)] = None


@dataclass(slots=True)
class JoinGroupResponseMember(Struct):
    """One entry of `members`."""

    member_id: String = ""
    group_instance_id: Annotated[String | None, Versions("5+", ignorable=True)] = None
    metadata: Bytes = b""


@dataclass(slots=True)
class JoinGroupResponse(Response):
    """The new generation; the leader also gets all members."""

    API: ClassVar = JOIN_GROUP

    throttle_time_ms: Annotated[Int32, Versions("2+", ignorable=True)] = 0
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: Annotated[String | None, Versions("7+", ignorable=True)] = None
    protocol_name: Annotated[String | None, Versions(nullable="7+")] = ""
    leader: String = ""
    skip_assignment: Annotated[Boolean, Versions("9+")] = False
    member_id: String = ""
    members: list[JoinGroupResponseMember] = field(default_factory=list)
