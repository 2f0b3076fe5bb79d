"""DescribeGroups (key 15), v0 to v6.

v1   throttle time
v2   throttling by the client: the response is sent at once
v3   authorized operations
v4   instance ids
v5   flexible
v6   GROUP_ID_NOT_FOUND and a message, instead of a dead group (KIP-1043)
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from slackwater.wire.apis import DESCRIBE_GROUPS
from slackwater.wire.schema import Boolean, Bytes, Int16, Int32, Request, Response, String, Struct, Versions


@dataclass(slots=True)
class DescribeGroupsRequest(Request):
    """The groups to describe."""

    API: ClassVar = DESCRIBE_GROUPS

    groups: list[String] = field(default_factory=list)
    include_authorized_operations: Annotated[Boolean, Versions("3+")] = False


@dataclass(slots=True)
class DescribedGroupMember(Struct):
    """One entry of `members`."""

    member_id: String = ""
    group_instance_id: Annotated[String | None, Versions("4+", ignorable=True)] = None
    client_id: String = ""
    client_host: String = ""
    member_metadata: Bytes = b""
    member_assignment: Bytes = b""


@dataclass(slots=True)
class DescribedGroup(Struct):
    """One entry of `groups`."""

    error_code: Int16 = 0
    error_message: Annotated[String | None, Versions("6+")] = None
    group_id: String = ""
    group_state: String = ""
    protocol_type: String = ""
    protocol_data: String = ""
    members: list[DescribedGroupMember] = field(default_factory=list)
    authorized_operations: Annotated[Int32, Versions("3+")] = -(2**31)


@dataclass(slots=True)
class DescribeGroupsResponse(Response):
    """State and members of classic groups."""

    API: ClassVar = DESCRIBE_GROUPS

    throttle_time_ms: Annotated[Int32, Versions("1+", ignorable=True)] = 0
    groups: list[DescribedGroup] = field(default_factory=list)
