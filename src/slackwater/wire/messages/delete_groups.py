"""DeleteGroups (key 42), v0 to v2.

v1   throttling by the client: the response is sent at once
v2   flexible
"""

from dataclasses import dataclass, field
from typing import ClassVar

from slackwater.wire.apis import DELETE_GROUPS
from slackwater.wire.schema import Int16, Int32, Request, Response, String, Struct


@dataclass(slots=True)
class DeleteGroupsRequest(Request):
    """Groups to delete."""

    API: ClassVar = DELETE_GROUPS

    groups_names: list[String] = field(default_factory=list)


@dataclass(slots=True)
class DeletableGroupResult(Struct):
    """One entry of `results`."""

    group_id: String = ""
    error_code: Int16 = 0


@dataclass(slots=True)
class DeleteGroupsResponse(Response):
    """The result of each entry."""

    API: ClassVar = DELETE_GROUPS

    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult] = field(default_factory=list)
