"""DeleteRecords (key 21), v0 to v2.

v1   throttling by the client: the response is sent at once
v2   flexible
"""

from dataclasses import dataclass, field
from typing import ClassVar

from slackwater.wire.apis import DELETE_RECORDS
from slackwater.wire.schema import Int16, Int32, Int64, Request, Response, String, Struct


@dataclass(slots=True)
class DeleteRecordsPartition(Struct):
    """One entry of `partitions`."""

    partition_index: Int32 = 0
    offset: Int64 = 0


@dataclass(slots=True)
class DeleteRecordsTopic(Struct):
    """One entry of `topics`."""

    name: String = ""
    partitions: list[DeleteRecordsPartition] = field(default_factory=list)


@dataclass(slots=True)
class DeleteRecordsRequest(Request):
    """The offsets before which to delete records; -1 is the high watermark."""

    API: ClassVar = DELETE_RECORDS

    topics: list[DeleteRecordsTopic] = field(default_factory=list)
    timeout_ms: Int32 = 0


@dataclass(slots=True)
class DeleteRecordsPartitionResult(Struct):
    """One entry of `partitions`."""

    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    error_code: Int16 = 0


@dataclass(slots=True)
class DeleteRecordsTopicResult(Struct):
    """One entry of `topics`."""

    name: String = ""
    partitions: list[DeleteRecordsPartitionResult] = field(default_factory=list)


@dataclass(slots=True)
class DeleteRecordsResponse(Response):
    """The new log start offsets."""

    API: ClassVar = DELETE_RECORDS

    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsTopicResult] = field(default_factory=list)
