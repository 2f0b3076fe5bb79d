"""OffsetFetch (key 9), v1 to v10.

v1   the oldest version that Kafka 4 supports: offsets from `__consumer_offsets`
v2   null means all topics; an error for the whole response
v3   throttle time
v4   throttling by the client: the response is sent at once
v5   leader epoch
v6   flexible
v7   whether offsets of open transactions are returned (KIP-447)
v8   several groups in one request (KIP-709)
v9   member and its epoch, for groups of the new protocol (KIP-848)
v10  topic ids instead of names (KIP-848)
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from slackwater.wire.apis import OFFSET_FETCH
from slackwater.wire.schema import (
    NO_UUID,
    Boolean,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    String,
    Struct,
    Uuid,
    Versions,
)


@dataclass(slots=True)
class OffsetFetchRequestTopic(Struct):
    """One entry of `topics`."""

    name: String = ""
    partition_indexes: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class OffsetFetchRequestTopics(Struct):
    """One entry of `topics`."""

    name: Annotated[String, Versions("8-9", ignorable=True)] = ""
    topic_id: Annotated[Uuid, Versions("10+", ignorable=True)] = NO_UUID
    partition_indexes: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class OffsetFetchRequestGroup(Struct):
    """One entry of `groups`."""

    group_id: String = ""
    member_id: Annotated[String | None, Versions("9+", ignorable=True)] = None
    member_epoch: Annotated[Int32, Versions("9+", ignorable=True)] = -1
    topics: list[OffsetFetchRequestTopics] | None = field(default_factory=list)


@dataclass(slots=True)
class OffsetFetchRequest(Request):
    """Requests committed offsets of groups."""

    API: ClassVar = OFFSET_FETCH

    group_id: Annotated[String, Versions("1-7")] = ""
    topics: Annotated[list[OffsetFetchRequestTopic] | None, Versions("1-7", nullable="2-7")] = field(
        default_factory=list
    )
    groups: Annotated[list[OffsetFetchRequestGroup], Versions("8+")] = field(default_factory=list)
    require_stable: Annotated[Boolean, Versions("7+")] = False


@dataclass(slots=True)
class OffsetFetchResponsePartition(Struct):
    """One entry of `partitions`."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, Versions("5-7", ignorable=True)] = -1
    metadata: String | None = ""
    error_code: Int16 = 0


@dataclass(slots=True)
class OffsetFetchResponseTopic(Struct):
    """One entry of `topics`."""

    name: String = ""
    partitions: list[OffsetFetchResponsePartition] = field(default_factory=list)


@dataclass(slots=True)
class OffsetFetchResponsePartitions(Struct):
    """One entry of `partitions`."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = -1
    metadata: String | None = ""
    error_code: Int16 = 0


@dataclass(slots=True)
class OffsetFetchResponseTopics(Struct):
    """One entry of `topics`."""

    name: Annotated[String, Versions("8-9", ignorable=True)] = ""
    topic_id: Annotated[Uuid, Versions("10+", ignorable=True)] = NO_UUID
    partitions: list[OffsetFetchResponsePartitions] = field(default_factory=list)


@dataclass(slots=True)
class OffsetFetchResponseGroup(Struct):
    """One entry of `groups`."""

    group_id: String = ""
    topics: list[OffsetFetchResponseTopics] = field(default_factory=list)
    error_code: Int16 = 0


@dataclass(slots=True)
class OffsetFetchResponse(Response):
    """Committed offsets; -1 if there is none."""

    API: ClassVar = OFFSET_FETCH

    throttle_time_ms: Annotated[Int32, Versions("3+", ignorable=True)] = 0
    topics: Annotated[list[OffsetFetchResponseTopic], Versions("1-7")] = field(default_factory=list)
    error_code: Annotated[Int16, Versions("2-7", ignorable=True)] = 0
    groups: Annotated[list[OffsetFetchResponseGroup], Versions("8+")] = field(default_factory=list)
