"""ListOffsets (key 2), v1 to v11.

v1   the oldest version that Kafka 4 supports: one offset per partition, with its timestamp
v2   isolation level; throttle time in the response
v3   throttling by the client: the response is sent at once
v4   leader epochs, for fencing (KIP-320)
v5   OFFSET_NOT_AVAILABLE may be returned
v6   flexible
v7   timestamp -3 means the largest timestamp (KIP-734)
v8   timestamp -4 means the start of the local log (KIP-405)
v9   timestamp -5 means the last tiered offset (KIP-1005)
v10  a timeout, for offsets that must be looked up remotely (KIP-1075)
v11  timestamp -6 means the first offset not yet uploaded (KIP-1023)
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from slackwater.wire.apis import LIST_OFFSETS
from slackwater.wire.schema import Int8, Int16, Int32, Int64, Request, Response, String, Struct, Versions


@dataclass(slots=True)
class ListOffsetsPartition(Struct):
    """One entry of `partitions`."""

    partition_index: Int32 = 0
    current_leader_epoch: Annotated[Int32, Versions("4+", ignorable=True)] = -1
    timestamp: Int64 = 0


@dataclass(slots=True)
class ListOffsetsTopic(Struct):
    """One entry of `topics`."""

    name: String = ""
    partitions: list[ListOffsetsPartition] = field(default_factory=list)


@dataclass(slots=True)
class ListOffsetsRequest(Request):
    """Offsets by timestamp; -1 is the end of a partition, -2 its start."""

    API: ClassVar = LIST_OFFSETS

    replica_id: Int32 = 0
    isolation_level: Annotated[Int8, Versions("2+")] = 0
    topics: list[ListOffsetsTopic] = field(default_factory=list)
    timeout_ms: Annotated[Int32, Versions("10+", ignorable=True)] = 0


@dataclass(slots=True)
class ListOffsetsPartitionResponse(Struct):
    """One entry of `partitions`."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Annotated[Int32, Versions("4+")] = -1


@dataclass(slots=True)
class ListOffsetsTopicResponse(Struct):
    """One entry of `topics`."""

    name: String = ""
    partitions: list[ListOffsetsPartitionResponse] = field(default_factory=list)


@dataclass(slots=True)
class ListOffsetsResponse(Response):
    """The offsets."""

    API: ClassVar = LIST_OFFSETS

    throttle_time_ms: Annotated[Int32, Versions("2+", ignorable=True)] = 0
    topics: list[ListOffsetsTopicResponse] = field(default_factory=list)
