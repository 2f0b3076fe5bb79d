"""Fetch (key 1), v4 to v18.

v4   the oldest version that Kafka 4 supports: isolation level and aborted transactions, record batches v2
v5   log start offset
v6   KAFKA_STORAGE_ERROR may be returned
v7   fetch sessions: only what has changed is sent (KIP-227)
v8   throttling by the client: the response is sent at once
v9   leader epoch in the request (KIP-320)
v10  zstd (KIP-110)
v11  rack and preferred read replica (KIP-392)
v12  flexible; the last fetched epoch, and where the logs diverge (KIP-595)
v13  topic ids instead of names (KIP-516)
v14  OFFSET_MOVED_TO_TIERED_STORAGE (KIP-405)
v15  replica id and epoch as a tagged field (KIP-903)
v16  addresses of new leaders in the response (KIP-951)
v17  directory of the replica (KIP-853)
v18  the follower's high watermark (KIP-1166)
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from slackwater.wire.apis import FETCH
from slackwater.wire.schema import (
    NO_UUID,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    Request,
    Response,
    String,
    Struct,
    Uuid,
    Versions,
)


@dataclass(frozen=True, slots=True)
class ReplicaState(Struct):
    """The type of `replica_state`."""

    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


@dataclass(slots=True)
class FetchPartition(Struct):
    """One entry of `partitions`."""

    partition: Int32 = 0
    current_leader_epoch: Annotated[Int32, Versions("9+", ignorable=True)] = -1
    fetch_offset: Int64 = 0
    last_fetched_epoch: Annotated[Int32, Versions("12+")] = -1
    log_start_offset: Annotated[Int64, Versions("5+", ignorable=True)] = -1
    partition_max_bytes: Int32 = 0
    replica_directory_id: Annotated[Uuid, Versions("17+", tag=0, ignorable=True)] = NO_UUID
    high_watermark: Annotated[Int64, Versions("18+", tag=1, ignorable=True)] = 2**63 - 1


@dataclass(slots=True)
class FetchTopic(Struct):
    """One entry of `topics`."""

    topic: Annotated[String, Versions("4-12", ignorable=True)] = ""
    topic_id: Annotated[Uuid, Versions("13+", ignorable=True)] = NO_UUID
    partitions: list[FetchPartition] = field(default_factory=list)


@dataclass(slots=True)
class ForgottenTopic(Struct):
    """One entry of `forgotten_topics_data`."""

    topic: Annotated[String, Versions("7-12", ignorable=True)] = ""
    topic_id: Annotated[Uuid, Versions("13+", ignorable=True)] = NO_UUID
    partitions: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class FetchRequest(Request):
    """Positions to read from, and size limits."""

    API: ClassVar = FETCH

    cluster_id: Annotated[String | None, Versions("12+", tag=0, ignorable=True)] = None
    replica_id: Annotated[Int32, Versions("4-14")] = -1
    replica_state: Annotated[ReplicaState, Versions("15+", tag=1)] = ReplicaState()
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 2**31 - 1
    isolation_level: Int8 = 0
    session_id: Annotated[Int32, Versions("7+", ignorable=True)] = 0
    session_epoch: Annotated[Int32, Versions("7+", ignorable=True)] = -1
    topics: list[FetchTopic] = field(default_factory=list)
    forgotten_topics_data: Annotated[list[ForgottenTopic], Versions("7+")] = field(default_factory=list)
    rack_id: Annotated[String, Versions("11+", ignorable=True)] = ""


@dataclass(frozen=True, slots=True)
class EpochEndOffset(Struct):
    """The type of `diverging_epoch`."""

    epoch: Int32 = -1
    end_offset: Int64 = -1


@dataclass(frozen=True, slots=True)
class LeaderIdAndEpoch(Struct):
    """The type of `current_leader`."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@dataclass(frozen=True, slots=True)
class SnapshotId(Struct):
    """The type of `snapshot_id`."""

    end_offset: Int64 = -1
    epoch: Int32 = -1


@dataclass(slots=True)
class AbortedTransaction(Struct):
    """One entry of `aborted_transactions`."""

    producer_id: Int64 = 0
    first_offset: Int64 = 0


@dataclass(slots=True)
class PartitionData(Struct):
    """One entry of `partitions`."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Int64 = -1
    log_start_offset: Annotated[Int64, Versions("5+", ignorable=True)] = -1
    diverging_epoch: Annotated[EpochEndOffset, Versions("12+", tag=0)] = EpochEndOffset()
    current_leader: Annotated[LeaderIdAndEpoch, Versions("12+", tag=1)] = LeaderIdAndEpoch()
    snapshot_id: Annotated[SnapshotId, Versions("12+", tag=2)] = SnapshotId()
    aborted_transactions: list[AbortedTransaction] | None = field(default_factory=list)
    preferred_read_replica: Annotated[Int32, Versions("11+")] = -1
    records: Records | None = None


@dataclass(slots=True)
class FetchableTopicResponse(Struct):
    """One entry of `responses`."""

    topic: Annotated[String, Versions("4-12", ignorable=True)] = ""
    topic_id: Annotated[Uuid, Versions("13+", ignorable=True)] = NO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


@dataclass(slots=True)
class NodeEndpoint(Struct):
    """One entry of `node_endpoints`."""

    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None


@dataclass(slots=True)
class FetchResponse(Response):
    """The record batches."""

    API: ClassVar = FETCH

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, Versions("7+", ignorable=True)] = 0
    session_id: Annotated[Int32, Versions("7+")] = 0
    responses: list[FetchableTopicResponse] = field(default_factory=list)
    node_endpoints: Annotated[list[NodeEndpoint], Versions("16+", tag=0)] = field(default_factory=list)
