"""AlterPartitionReassignments (key 45), v0 to v1.

v1   whether the number of replicas may change
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from slackwater.wire.apis import ALTER_PARTITION_REASSIGNMENTS
from slackwater.wire.schema import Boolean, Int16, Int32, Request, Response, String, Struct, Versions


@dataclass(slots=True)
class ReassignablePartition(Struct):
    """One entry of `partitions`."""

    partition_index: Int32 = 0
    replicas: list[Int32] | None = None


@dataclass(slots=True)
class ReassignableTopic(Struct):
    """One entry of `topics`."""

    name: String = ""
    partitions: list[ReassignablePartition] = field(default_factory=list)


@dataclass(slots=True)
class AlterPartitionReassignmentsRequest(Request):
    """Target replicas; null cancels a reassignment."""

    API: ClassVar = ALTER_PARTITION_REASSIGNMENTS

    timeout_ms: Int32 = 60000
    allow_replication_factor_change: Annotated[Boolean, Versions("1+")] = True
    topics: list[ReassignableTopic] = field(default_factory=list)


@dataclass(slots=True)
class ReassignablePartitionResponse(Struct):
    """One entry of `partitions`."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


@dataclass(slots=True)
class ReassignableTopicResponse(Struct):
    """One entry of `responses`."""

    name: String = ""
    partitions: list[ReassignablePartitionResponse] = field(default_factory=list)


@dataclass(slots=True)
class AlterPartitionReassignmentsResponse(Response):
    """The result of each entry."""

    API: ClassVar = ALTER_PARTITION_REASSIGNMENTS

    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Annotated[Boolean, Versions("1+", ignorable=True)] = True
    error_code: Int16 = 0
    error_message: String | None = ""
    responses: list[ReassignableTopicResponse] = field(default_factory=list)
