"""OffsetCommit (key 8), v2 to v10.

v2   the oldest version that Kafka 4 supports: generation, member and a retention time
v3   throttle time
v4   throttling by the client: the response is sent at once
v5   no retention time: the broker's setting decides
v6   leader epoch
v7   instance id: static members (KIP-345)
v8   flexible
v9   for groups of the new protocol too: STALE_MEMBER_EPOCH, GROUP_ID_NOT_FOUND (KIP-848)
v10  topic ids instead of names (KIP-848)
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from slackwater.wire.apis import OFFSET_COMMIT
from slackwater.wire.schema import NO_UUID, Int16, Int32, Int64, Request, Response, String, Struct, Uuid, Versions


@dataclass(slots=True)
class OffsetCommitRequestPartition(Struct):
    """One entry of `partitions`."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, Versions("6+", ignorable=True)] = -1
    committed_metadata: String | None = ""


@dataclass(slots=True)
class OffsetCommitRequestTopic(Struct):
    """One entry of `topics`."""

    name: Annotated[String, Versions("2-9", ignorable=True)] = ""
    topic_id: Annotated[Uuid, Versions("10+", ignorable=True)] = NO_UUID
    partitions: list[OffsetCommitRequestPartition] = field(default_factory=list)


@dataclass(slots=True)
class OffsetCommitRequest(Request):
    """Offsets to commit for a group."""

    API: ClassVar = OFFSET_COMMIT

    group_id: String = ""
    generation_id_or_member_epoch: Int32 = -1
    member_id: String = ""
    group_instance_id: Annotated[String | None, Versions("7+")] = None
    retention_time_ms: Annotated[Int64, Versions("2-4", ignorable=True)] = -1
    topics: list[OffsetCommitRequestTopic] = field(default_factory=list)


@dataclass(slots=True)
class OffsetCommitResponsePartition(Struct):
    """One entry of `partitions`."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@dataclass(slots=True)
class OffsetCommitResponseTopic(Struct):
    """One entry of `topics`."""

    name: Annotated[String, Versions("2-9", ignorable=True)] = ""
    topic_id: Annotated[Uuid, Versions("10+", ignorable=True)] = NO_UUID
    partitions: list[OffsetCommitResponsePartition] = field(default_factory=list)


@dataclass(slots=True)
class OffsetCommitResponse(Response):
    """The result."""

    API: ClassVar = OFFSET_COMMIT

    throttle_time_ms: Annotated[Int32, Versions("3+", ignorable=True)] = 0
    topics: list[OffsetCommitResponseTopic] = field(default_factory=list)
