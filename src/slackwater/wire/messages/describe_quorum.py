"""DescribeQuorum (key 55), v0 to v2.

v1   time of a replica's last fetch and of its last being in sync (KIP-836)
v2   error messages, directory ids, addresses of the nodes (KIP-853)
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from slackwater.wire.apis import DESCRIBE_QUORUM
from slackwater.wire.schema import (
    NO_UUID,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    String,
    Struct,
    UInt16,
    Uuid,
    Versions,
)


@dataclass(slots=True)
class RequestPartitionData(Struct):
    """One entry of `partitions`."""

    partition_index: Int32 = 0


@dataclass(slots=True)
class RequestTopicData(Struct):
    """One entry of `topics`."""

    topic_name: String = ""
    partitions: list[RequestPartitionData] = field(default_factory=list)


@dataclass(slots=True)
class DescribeQuorumRequest(Request):
    """The partitions of the metadata log."""

    API: ClassVar = DESCRIBE_QUORUM

    topics: list[RequestTopicData] = field(default_factory=list)


@dataclass(slots=True)
class ReplicaState(Struct):
    """The position of a voter or observer."""

    replica_id: Int32 = 0
    replica_directory_id: Annotated[Uuid, Versions("2+")] = NO_UUID
    log_end_offset: Int64 = 0
    last_fetch_timestamp: Annotated[Int64, Versions("1+", ignorable=True)] = -1
    last_caught_up_timestamp: Annotated[Int64, Versions("1+", ignorable=True)] = -1


@dataclass(slots=True)
class ResponsePartitionData(Struct):
    """One entry of `partitions`."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[String | None, Versions("2+", ignorable=True)] = ""
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    high_watermark: Int64 = 0
    current_voters: list[ReplicaState] = field(default_factory=list)
    observers: list[ReplicaState] = field(default_factory=list)


@dataclass(slots=True)
class ResponseTopicData(Struct):
    """One entry of `topics`."""

    topic_name: String = ""
    partitions: list[ResponsePartitionData] = field(default_factory=list)


@dataclass(slots=True)
class Listener(Struct):
    """One entry of `listeners`."""

    name: String = ""
    host: String = ""
    port: UInt16 = 0


@dataclass(slots=True)
class Node(Struct):
    """One entry of `nodes`."""

    node_id: Int32 = 0
    listeners: list[Listener] = field(default_factory=list)


@dataclass(slots=True)
class DescribeQuorumResponse(Response):
    """Leader, voters and observers."""

    API: ClassVar = DESCRIBE_QUORUM

    error_code: Int16 = 0
    error_message: Annotated[String | None, Versions("2+", ignorable=True)] = ""
    topics: list[ResponseTopicData] = field(default_factory=list)
    nodes: Annotated[list[Node], Versions("2+")] = field(default_factory=list)
