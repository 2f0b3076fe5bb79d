"""CreateTopics (key 19), v2 to v7.

v2   the oldest version that Kafka 4 supports: validate_only, error messages, throttle time
v3   throttling by the client: the response is sent at once
v4   -1 partitions or replicas mean the broker's default (KIP-464)
v5   flexible; the new topic's settings in the response (KIP-525)
v6   THROTTLING_QUOTA_EXCEEDED (KIP-599)
v7   topic id in the response
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from slackwater.wire.apis import CREATE_TOPICS
from slackwater.wire.schema import (
    NO_UUID,
    Boolean,
    Int8,
    Int16,
    Int32,
    Request,
    Response,
    String,
    Struct,
    Uuid,
    Versions,
)


@dataclass(slots=True)
class CreatableReplicaAssignment(Struct):
    """One entry of `assignments`."""

    partition_index: Int32 = 0
    broker_ids: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class CreatableTopicConfig(Struct):
    """One entry of `configs`."""

    name: String = ""
    value: String | None = ""


@dataclass(slots=True)
class CreatableTopic(Struct):
    """One entry of `topics`."""

    name: String = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: list[CreatableReplicaAssignment] = field(default_factory=list)
    configs: list[CreatableTopicConfig] = field(default_factory=list)


@dataclass(slots=True)
class CreateTopicsRequest(Request):
    """Topics to create."""

    API: ClassVar = CREATE_TOPICS

    topics: list[CreatableTopic] = field(default_factory=list)
    timeout_ms: Int32 = 60000
    validate_only: Boolean = False


@dataclass(slots=True)
class CreatableTopicConfigs(Struct):
    """One entry of `configs`."""

    name: String = ""
    value: String | None = ""
    read_only: Boolean = False
    config_source: Int8 = -1
    is_sensitive: Boolean = False


@dataclass(slots=True)
class CreatableTopicResult(Struct):
    """One entry of `topics`."""

    name: String = ""
    topic_id: Annotated[Uuid, Versions("7+", ignorable=True)] = NO_UUID
    error_code: Int16 = 0
    error_message: String | None = ""
    topic_config_error_code: Annotated[Int16, Versions("5+", tag=0, ignorable=True)] = 0
    num_partitions: Annotated[Int32, Versions("5+", ignorable=True)] = -1
    replication_factor: Annotated[Int16, Versions("5+", ignorable=True)] = -1
    configs: Annotated[list[CreatableTopicConfigs] | None, Versions("5+", ignorable=True)] = field(default_factory=list)


@dataclass(slots=True)
class CreateTopicsResponse(Response):
    """The result of each entry."""

    API: ClassVar = CREATE_TOPICS

    throttle_time_ms: Int32 = 0
    topics: list[CreatableTopicResult] = field(default_factory=list)
