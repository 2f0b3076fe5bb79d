"""OffsetDelete (key 47), v0."""

from dataclasses import dataclass, field
from typing import ClassVar

from slackwater.wire.apis import OFFSET_DELETE
from slackwater.wire.schema import Int16, Int32, Request, Response, String, Struct


@dataclass(slots=True)
class OffsetDeleteRequestPartition(Struct):
    """One entry of `partitions`."""

    partition_index: Int32 = 0


@dataclass(slots=True)
class OffsetDeleteRequestTopic(Struct):
    """One entry of `topics`."""

    name: String = ""
    partitions: list[OffsetDeleteRequestPartition] = field(default_factory=list)


@dataclass(slots=True)
class OffsetDeleteRequest(Request):
    """Committed offsets to delete."""

    API: ClassVar = OFFSET_DELETE

    group_id: String = ""
    topics: list[OffsetDeleteRequestTopic] = field(default_factory=list)


@dataclass(slots=True)
class OffsetDeleteResponsePartition(Struct):
    """One entry of `partitions`."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@dataclass(slots=True)
class OffsetDeleteResponseTopic(Struct):
    """One entry of `topics`."""

    name: String = ""
    partitions: list[OffsetDeleteResponsePartition] = field(default_factory=list)


@dataclass(slots=True)
class OffsetDeleteResponse(Response):
    """The result of each entry."""

    API: ClassVar = OFFSET_DELETE

    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: list[OffsetDeleteResponseTopic] = field(default_factory=list)
