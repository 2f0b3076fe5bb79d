"""CreatePartitions (key 37), v0 to v3.

v1   throttling by the client: the response is sent at once
v2   flexible
v3   THROTTLING_QUOTA_EXCEEDED (KIP-599)
"""

from dataclasses import dataclass, field
from typing import ClassVar

from slackwater.wire.apis import CREATE_PARTITIONS
from slackwater.wire.schema import Boolean, Int16, Int32, Request, Response, String, Struct


@dataclass(slots=True)
class CreatePartitionsAssignment(Struct):
    """One entry of `assignments`."""

    broker_ids: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class CreatePartitionsTopic(Struct):
    """One entry of `topics`."""

    name: String = ""
    count: Int32 = 0
    assignments: list[CreatePartitionsAssignment] | None = field(default_factory=list)


@dataclass(slots=True)
class CreatePartitionsRequest(Request):
    """The new partition counts."""

    API: ClassVar = CREATE_PARTITIONS

    topics: list[CreatePartitionsTopic] = field(default_factory=list)
    timeout_ms: Int32 = 0
    validate_only: Boolean = False


@dataclass(slots=True)
class CreatePartitionsTopicResult(Struct):
    """One entry of `results`."""

    name: String = ""
    error_code: Int16 = 0
    error_message: String | None = None


@dataclass(slots=True)
class CreatePartitionsResponse(Response):
    """The result of each entry."""

    API: ClassVar = CREATE_PARTITIONS

    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult] = field(default_factory=list)
