"""DeleteAcls (key 31), v1 to v3.

v1   the oldest version that Kafka 4 supports: pattern type (KIP-290)
v2   flexible
v3   users as resources
"""

from dataclasses import dataclass, field
from typing import ClassVar

from slackwater.wire.apis import DELETE_ACLS
from slackwater.wire.schema import Int8, Int16, Int32, Request, Response, String, Struct


@dataclass(slots=True)
class DeleteAclsFilter(Struct):
    """One entry of `filters`."""

    resource_type_filter: Int8 = 0
    resource_name_filter: String | None = ""
    pattern_type_filter: Int8 = 3
    principal_filter: String | None = ""
    host_filter: String | None = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@dataclass(slots=True)
class DeleteAclsRequest(Request):
    """Filters of the ACLs to delete."""

    API: ClassVar = DELETE_ACLS

    filters: list[DeleteAclsFilter] = field(default_factory=list)


@dataclass(slots=True)
class DeleteAclsMatchingAcl(Struct):
    """One entry of `matching_acls`."""

    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = 3
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@dataclass(slots=True)
class DeleteAclsFilterResult(Struct):
    """One entry of `filter_results`."""

    error_code: Int16 = 0
    error_message: String | None = ""
    matching_acls: list[DeleteAclsMatchingAcl] = field(default_factory=list)


@dataclass(slots=True)
class DeleteAclsResponse(Response):
    """The deleted ACLs per filter."""

    API: ClassVar = DELETE_ACLS

    throttle_time_ms: Int32 = 0
    filter_results: list[DeleteAclsFilterResult] = field(default_factory=list)
