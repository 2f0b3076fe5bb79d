"""AlterReplicaLogDirs (key 34), v1 to v2.

v2   flexible
"""

from dataclasses import dataclass, field
from typing import ClassVar

from slackwater.wire.apis import ALTER_REPLICA_LOG_DIRS
from slackwater.wire.schema import Int16, Int32, Request, Response, String, Struct


@dataclass(slots=True)
class AlterReplicaLogDirTopic(Struct):
    """A topic and its partitions."""

    name: String = ""
    partitions: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class AlterReplicaLogDir(Struct):
    """A directory, and the partitions to move there."""

    path: String = ""
    topics: list[AlterReplicaLogDirTopic] = field(default_factory=list)


@dataclass(slots=True)
class AlterReplicaLogDirsRequest(Request):
    """Moves replicas between the directories of a broker."""

    API: ClassVar = ALTER_REPLICA_LOG_DIRS

    dirs: list[AlterReplicaLogDir] = field(default_factory=list)


@dataclass(slots=True)
class AlterReplicaLogDirPartitionResult(Struct):
    """The result for one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@dataclass(slots=True)
class AlterReplicaLogDirTopicResult(Struct):
    """The results for one topic."""

    topic_name: String = ""
    partitions: list[AlterReplicaLogDirPartitionResult] = field(default_factory=list)


@dataclass(slots=True)
class AlterReplicaLogDirsResponse(Response):
    """The result for each partition."""

    API: ClassVar = ALTER_REPLICA_LOG_DIRS

    throttle_time_ms: Int32 = 0
    results: list[AlterReplicaLogDirTopicResult] = field(default_factory=list)
