"""DescribeProducers (key 61), v0."""

from dataclasses import dataclass, field
from typing import ClassVar

from slackwater.wire.apis import DESCRIBE_PRODUCERS
from slackwater.wire.schema import Int16, Int32, Int64, Request, Response, String, Struct


@dataclass(slots=True)
class TopicRequest(Struct):
    """One entry of `topics`."""

    name: String = ""
    partition_indexes: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class DescribeProducersRequest(Request):
    """The partitions."""

    API: ClassVar = DESCRIBE_PRODUCERS

    topics: list[TopicRequest] = field(default_factory=list)


@dataclass(slots=True)
class ProducerState(Struct):
    """One entry of `active_producers`."""

    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1


@dataclass(slots=True)
class PartitionResponse(Struct):
    """One entry of `partitions`."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    active_producers: list[ProducerState] = field(default_factory=list)


@dataclass(slots=True)
class TopicResponse(Struct):
    """One entry of `topics`."""

    name: String = ""
    partitions: list[PartitionResponse] = field(default_factory=list)


@dataclass(slots=True)
class DescribeProducersResponse(Response):
    """Producers active in them."""

    API: ClassVar = DESCRIBE_PRODUCERS

    throttle_time_ms: Int32 = 0
    topics: list[TopicResponse] = field(default_factory=list)
