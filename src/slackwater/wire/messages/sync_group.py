"""SyncGroup (key 14), v0 to v5.

v1   throttle time
v2   throttling by the client: the response is sent at once
v3   instance id: static members (KIP-345)
v4   flexible
v5   protocol type and name, in both directions (KIP-559)
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from slackwater.wire.apis import SYNC_GROUP
from slackwater.wire.schema import Bytes, Int16, Int32, Request, Response, String, Struct, Versions


@dataclass(slots=True)
class SyncGroupRequestAssignment(Struct):
    """One entry of `assignments`."""

    member_id: String = ""
    assignment: Bytes = b""


@dataclass(slots=True)
class SyncGroupRequest(Request):
    """Requests the assignment; the leader sends those of all members."""

    API: ClassVar = SYNC_GROUP

    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: Annotated[String | None, Versions("3+")] = None
    protocol_type: Annotated[String | None, Versions("5+", ignorable=True)] = None
    protocol_name: Annotated[String | None, Versions("5+", ignorable=True)] = None
    assignments: list[SyncGroupRequestAssignment] = field(default_factory=list)


@dataclass(slots=True)
class SyncGroupResponse(Response):
    """The member's assignment."""

    API: ClassVar = SYNC_GROUP

    throttle_time_ms: Annotated[Int32, Versions("1+", ignorable=True)] = 0
    error_code: Int16 = 0
    protocol_type: Annotated[String | None, Versions("5+", ignorable=True)] = None
    protocol_name: Annotated[String | None, Versions("5+", ignorable=True)] = None
    assignment: Bytes = b""
