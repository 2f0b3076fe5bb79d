"""DescribeTopicPartitions (key 75), v0."""

from dataclasses import dataclass, field
from typing import ClassVar

from slackwater.wire.apis import DESCRIBE_TOPIC_PARTITIONS
from slackwater.wire.schema import NO_UUID, Boolean, Int16, Int32, Request, Response, String, Struct, Uuid


@dataclass(slots=True)
class TopicRequest(Struct):
    """One entry of `topics`."""

    name: String = ""


@dataclass(slots=True)
class RequestCursor(Struct):
    """The type of `cursor`."""

    topic_name: String = ""
    partition_index: Int32 = 0


@dataclass(slots=True)
class DescribeTopicPartitionsRequest(Request):
    """The topics, with a cursor for paging."""

    API: ClassVar = DESCRIBE_TOPIC_PARTITIONS

    topics: list[TopicRequest] = field(default_factory=list)
    response_partition_limit: Int32 = 2000
    cursor: RequestCursor | None = None


@dataclass(slots=True)
class DescribeTopicPartitionsResponsePartition(Struct):
    """One entry of `partitions`."""

    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = -1
    replica_nodes: list[Int32] = field(default_factory=list)
    isr_nodes: list[Int32] = field(default_factory=list)
    eligible_leader_replicas: list[Int32] | None = None
    last_known_elr: list[Int32] | None = None
    offline_replicas: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class DescribeTopicPartitionsResponseTopic(Struct):
    """One entry of `topics`."""

    error_code: Int16 = 0
    name: String | None = ""
    topic_id: Uuid = NO_UUID
    is_internal: Boolean = False
    partitions: list[DescribeTopicPartitionsResponsePartition] = field(default_factory=list)
    topic_authorized_operations: Int32 = -(2**31)


@dataclass(slots=True)
class ResponseCursor(Struct):
    """The type of `next_cursor`."""

    topic_name: String = ""
    partition_index: Int32 = 0


@dataclass(slots=True)
class DescribeTopicPartitionsResponse(Response):
    """One page, and the cursor of the next."""

    API: ClassVar = DESCRIBE_TOPIC_PARTITIONS

    throttle_time_ms: Int32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic] = field(default_factory=list)
    next_cursor: ResponseCursor | None = None
