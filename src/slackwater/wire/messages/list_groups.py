"""ListGroups (key 16), v0 to v5.

v1   throttle time
v2   throttling by the client: the response is sent at once
v3   flexible
v4   states, as filter and in the response (KIP-518)
v5   types, as filter and in the response (KIP-848)
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from slackwater.wire.apis import LIST_GROUPS
from slackwater.wire.schema import Int16, Int32, Request, Response, String, Struct, Versions


@dataclass(slots=True)
class ListGroupsRequest(Request):
    """Lists groups, with filters."""

    API: ClassVar = LIST_GROUPS

    states_filter: Annotated[list[String], Versions("4+")] = field(default_factory=list)
    types_filter: Annotated[list[String], Versions("5+")] = field(default_factory=list)


@dataclass(slots=True)
class ListedGroup(Struct):
    """One entry of `groups`."""

    group_id: String = ""
    protocol_type: String = ""
    group_state: Annotated[String, Versions("4+", ignorable=True)] = ""
    group_type: Annotated[String, Versions("5+", ignorable=True)] = ""


@dataclass(slots=True)
class ListGroupsResponse(Response):
    """Groups of this broker."""

    API: ClassVar = LIST_GROUPS

    throttle_time_ms: Annotated[Int32, Versions("1+", ignorable=True)] = 0
    error_code: Int16 = 0
    groups: list[ListedGroup] = field(default_factory=list)
