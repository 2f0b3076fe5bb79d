"""DescribeLogDirs (key 35), v1 to v5.

v1   the oldest version that Kafka 4 supports
v2   flexible
v3   an error for the whole response
v4   total and free size of the volume (KIP-827)
v5   whether a directory is cordoned
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from slackwater.wire.apis import DESCRIBE_LOG_DIRS
from slackwater.wire.schema import Boolean, Int16, Int32, Int64, Request, Response, String, Struct, Versions


@dataclass(slots=True)
class DescribableLogDirTopic(Struct):
    """One entry of `topics`."""

    topic: String = ""
    partitions: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class DescribeLogDirsRequest(Request):
    """The partitions; null means all."""

    API: ClassVar = DESCRIBE_LOG_DIRS

    topics: list[DescribableLogDirTopic] | None = field(default_factory=list)


@dataclass(slots=True)
class DescribeLogDirsPartition(Struct):
    """One entry of `partitions`."""

    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: Boolean = False


@dataclass(slots=True)
class DescribeLogDirsTopic(Struct):
    """One entry of `topics`."""

    name: String = ""
    partitions: list[DescribeLogDirsPartition] = field(default_factory=list)


@dataclass(slots=True)
class DescribeLogDirsResult(Struct):
    """One entry of `results`."""

    error_code: Int16 = 0
    log_dir: String = ""
    topics: list[DescribeLogDirsTopic] = field(default_factory=list)
    total_bytes: Annotated[Int64, Versions("4+", ignorable=True)] = -1
    usable_bytes: Annotated[Int64, Versions("4+", ignorable=True)] = -1
    is_cordoned: Annotated[Boolean, Versions("5+", ignorable=True)] = False


@dataclass(slots=True)
class DescribeLogDirsResponse(Response):
    """Log directories and their partitions."""

    API: ClassVar = DESCRIBE_LOG_DIRS

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, Versions("3+", ignorable=True)] = 0
    results: list[DescribeLogDirsResult] = field(default_factory=list)
