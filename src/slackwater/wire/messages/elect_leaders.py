"""ElectLeaders (key 43), v0 to v2.

v0   the preferred leader only
v1   election type: preferred (0) or unclean (1); an error for the whole response (KIP-460)
v2   flexible
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from slackwater.wire.apis import ELECT_LEADERS
from slackwater.wire.schema import Int8, Int16, Int32, Request, Response, String, Struct, Versions


@dataclass(slots=True)
class TopicPartitions(Struct):
    """One entry of `topic_partitions`."""

    topic: String = ""
    partitions: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class ElectLeadersRequest(Request):
    """The partitions to elect leaders for; null means all."""

    API: ClassVar = ELECT_LEADERS

    election_type: Annotated[Int8, Versions("1+")] = 0
    topic_partitions: list[TopicPartitions] | None = field(default_factory=list)
    timeout_ms: Int32 = 60000


@dataclass(slots=True)
class PartitionResult(Struct):
    """One entry of `partition_result`."""

    partition_id: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


@dataclass(slots=True)
class ReplicaElectionResult(Struct):
    """One entry of `replica_election_results`."""

    topic: String = ""
    partition_result: list[PartitionResult] = field(default_factory=list)


@dataclass(slots=True)
class ElectLeadersResponse(Response):
    """The result of each entry."""

    API: ClassVar = ELECT_LEADERS

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, Versions("1+")] = 0
    replica_election_results: list[ReplicaElectionResult] = field(default_factory=list)
