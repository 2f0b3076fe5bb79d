"""OffsetForLeaderEpoch (key 23), v2 to v4.

v2   the oldest version that Kafka 4 supports: the current leader epoch, for fencing; throttle time
v3   replica id; -2 is a consumer that may see beyond the high watermark
v4   flexible
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from slackwater.wire.apis import OFFSET_FOR_LEADER_EPOCH
from slackwater.wire.schema import Int16, Int32, Int64, Request, Response, String, Struct, Versions


@dataclass(slots=True)
class OffsetForLeaderPartition(Struct):
    """One entry of `partitions`."""

    partition: Int32 = 0
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32 = 0


@dataclass(slots=True)
class OffsetForLeaderTopic(Struct):
    """One entry of `topics`."""

    topic: String = ""
    partitions: list[OffsetForLeaderPartition] = field(default_factory=list)


@dataclass(slots=True)
class OffsetForLeaderEpochRequest(Request):
    """Requests the end offsets of leader epochs."""

    API: ClassVar = OFFSET_FOR_LEADER_EPOCH

    replica_id: Annotated[Int32, Versions("3+", ignorable=True)] = -2
    topics: list[OffsetForLeaderTopic] = field(default_factory=list)


@dataclass(slots=True)
class EpochEndOffset(Struct):
    """One entry of `partitions`."""

    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


@dataclass(slots=True)
class OffsetForLeaderTopicResult(Struct):
    """One entry of `topics`."""

    topic: String = ""
    partitions: list[EpochEndOffset] = field(default_factory=list)


@dataclass(slots=True)
class OffsetForLeaderEpochResponse(Response):
    """The end offsets."""

    API: ClassVar = OFFSET_FOR_LEADER_EPOCH

    throttle_time_ms: Int32 = 0
    topics: list[OffsetForLeaderTopicResult] = field(default_factory=list)
