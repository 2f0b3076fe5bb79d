"""Produce (key 0), v3 to v13.

v3   the oldest version that Kafka 4 supports: transactional id, record batches v2
v4   KAFKA_STORAGE_ERROR may be returned
v5   log start offset in the response
v7   zstd (KIP-110)
v8   the invalid records and the reason in the response (KIP-467)
v9   flexible
v10  the new leader and its address in the response (KIP-951)
v11  TRANSACTION_ABORTABLE (KIP-890)
v12  within a transaction the partition is added to it implicitly (KIP-890)
v13  topic ids instead of names (KIP-516)
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from slackwater.wire.apis import PRODUCE
from slackwater.wire.schema import (
    NO_UUID,
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


@dataclass(slots=True)
class PartitionProduceData(Struct):
    """One entry of `partition_data`."""

    index: Int32 = 0
    records: Records | None = None


@dataclass(slots=True)
class TopicProduceData(Struct):
    """One entry of `topic_data`."""

    name: Annotated[String, Versions("3-12", ignorable=True)] = ""
    topic_id: Annotated[Uuid, Versions("13+", ignorable=True)] = NO_UUID
    partition_data: list[PartitionProduceData] = field(default_factory=list)


@dataclass(slots=True)
class ProduceRequest(Request):
    """Record batches to append."""

    API: ClassVar = PRODUCE

    transactional_id: String | None = None
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: list[TopicProduceData] = field(default_factory=list)


@dataclass(slots=True)
class BatchIndexAndErrorMessage(Struct):
    """One entry of `record_errors`."""

    batch_index: Int32 = 0
    batch_index_error_message: String | None = None


@dataclass(frozen=True, slots=True)
class LeaderIdAndEpoch(Struct):
    """The type of `current_leader`."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@dataclass(slots=True)
class PartitionProduceResponse(Struct):
    """One entry of `partition_responses`."""

    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    log_append_time_ms: Int64 = -1
    log_start_offset: Annotated[Int64, Versions("5+", ignorable=True)] = -1
    record_errors: Annotated[list[BatchIndexAndErrorMessage], Versions("8+", ignorable=True)] = field(
        default_factory=list
    )
    error_message: Annotated[String | None, Versions("8+", ignorable=True)] = None
    current_leader: Annotated[LeaderIdAndEpoch, Versions("10+", tag=0)] = LeaderIdAndEpoch()


@dataclass(slots=True)
class TopicProduceResponse(Struct):
    """One entry of `responses`."""

    name: Annotated[String, Versions("3-12", ignorable=True)] = ""
    topic_id: Annotated[Uuid, Versions("13+", ignorable=True)] = NO_UUID
    partition_responses: list[PartitionProduceResponse] = field(default_factory=list)


@dataclass(slots=True)
class NodeEndpoint(Struct):
    """One entry of `node_endpoints`."""

    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None


@dataclass(slots=True)
class ProduceResponse(Response):
    """The base offsets or errors."""

    API: ClassVar = PRODUCE

    responses: list[TopicProduceResponse] = field(default_factory=list)
    throttle_time_ms: Int32 = 0
    node_endpoints: Annotated[list[NodeEndpoint], Versions("10+", tag=0)] = field(default_factory=list)
