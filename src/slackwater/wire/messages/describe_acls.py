"""DescribeAcls (key 29), v1 to v3.

v1   the oldest version that Kafka 4 supports: pattern type (KIP-290)
v2   flexible
v3   users as resources
"""

from dataclasses import dataclass, field
from typing import ClassVar

from slackwater.wire.apis import DESCRIBE_ACLS
from slackwater.wire.schema import Int8, Int16, Int32, Request, Response, String, Struct


@dataclass(slots=True)
class DescribeAclsRequest(Request):
    """A filter; null or ANY match everything."""

    API: ClassVar = DESCRIBE_ACLS

    resource_type_filter: Int8 = 0
    resource_name_filter: String | None = ""
    pattern_type_filter: Int8 = 3
    principal_filter: String | None = ""
    host_filter: String | None = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@dataclass(slots=True)
class AclDescription(Struct):
    """One entry of `acls`."""

    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@dataclass(slots=True)
class DescribeAclsResource(Struct):
    """One entry of `resources`."""

    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = 3
    acls: list[AclDescription] = field(default_factory=list)


@dataclass(slots=True)
class DescribeAclsResponse(Response):
    """The matching ACLs."""

    API: ClassVar = DESCRIBE_ACLS

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    resources: list[DescribeAclsResource] = field(default_factory=list)
