"""CreateAcls (key 30), v1 to v3.

v1   the oldest version that Kafka 4 supports: pattern type (KIP-290)
v2   flexible
v3   users as resources
"""

from dataclasses import dataclass, field
from typing import ClassVar

from slackwater.wire.apis import CREATE_ACLS
from slackwater.wire.schema import Int8, Int16, Int32, Request, Response, String, Struct


@dataclass(slots=True)
class AclCreation(Struct):
    """One entry of `creations`."""

    resource_type: Int8 = 0
    resource_name: String = ""
    resource_pattern_type: Int8 = 3
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@dataclass(slots=True)
class CreateAclsRequest(Request):
    """ACLs to create."""

    API: ClassVar = CREATE_ACLS

    creations: list[AclCreation] = field(default_factory=list)


@dataclass(slots=True)
class AclCreationResult(Struct):
    """One entry of `results`."""

    error_code: Int16 = 0
    error_message: String | None = ""


@dataclass(slots=True)
class CreateAclsResponse(Response):
    """The result of each entry."""

    API: ClassVar = CREATE_ACLS

    throttle_time_ms: Int32 = 0
    results: list[AclCreationResult] = field(default_factory=list)
