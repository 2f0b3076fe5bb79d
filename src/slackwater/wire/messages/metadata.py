"""Metadata (key 3), v0 to v13.

v0   no topics means all topics
v1   null means all topics, none means none; rack, controller and internal topics in the response
v2   cluster id
v3   throttle time
v4   whether an unknown topic may be created
v5   offline replicas
v6   throttling by the client: the response is sent at once
v7   leader epoch
v8   authorized operations of topics and cluster
v9   flexible
v10  topic ids, and names that may be null; not yet usable in requests
v11  no authorized operations of the cluster: DescribeCluster has them (KIP-700)
v12  topics by id
v13  an error for the whole response
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from slackwater.wire.apis import METADATA
from slackwater.wire.schema import NO_UUID, Boolean, Int16, Int32, Request, Response, String, Struct, Uuid, Versions


@dataclass(slots=True)
class MetadataRequestTopic(Struct):
    """One entry of `topics`."""

    topic_id: Annotated[Uuid, Versions("10+", ignorable=True)] = NO_UUID
    name: Annotated[String | None, Versions(nullable="10+")] = ""


@dataclass(slots=True)
class MetadataRequest(Request):
    """The topics to describe."""

    API: ClassVar = METADATA

    topics: Annotated[list[MetadataRequestTopic] | None, Versions(nullable="1+")] = field(default_factory=list)
    allow_auto_topic_creation: Annotated[Boolean, Versions("4+")] = True
    include_cluster_authorized_operations: Annotated[Boolean, Versions("8-10")] = False
    include_topic_authorized_operations: Annotated[Boolean, Versions("8+")] = False


@dataclass(slots=True)
class MetadataResponseBroker(Struct):
    """One entry of `brokers`."""

    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: Annotated[String | None, Versions("1+", ignorable=True)] = None


@dataclass(slots=True)
class MetadataResponsePartition(Struct):
    """One entry of `partitions`."""

    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Annotated[Int32, Versions("7+", ignorable=True)] = -1
    replica_nodes: list[Int32] = field(default_factory=list)
    isr_nodes: list[Int32] = field(default_factory=list)
    offline_replicas: Annotated[list[Int32], Versions("5+", ignorable=True)] = field(default_factory=list)


@dataclass(slots=True)
class MetadataResponseTopic(Struct):
    """One entry of `topics`."""

    error_code: Int16 = 0
    name: Annotated[String | None, Versions(nullable="12+")] = ""
    topic_id: Annotated[Uuid, Versions("10+", ignorable=True)] = NO_UUID
    is_internal: Annotated[Boolean, Versions("1+", ignorable=True)] = False
    partitions: list[MetadataResponsePartition] = field(default_factory=list)
    topic_authorized_operations: Annotated[Int32, Versions("8+")] = -(2**31)


@dataclass(slots=True)
class MetadataResponse(Response):
    """Brokers, topics, partitions and leaders."""

    API: ClassVar = METADATA

    throttle_time_ms: Annotated[Int32, Versions("3+", ignorable=True)] = 0
    brokers: list[MetadataResponseBroker] = field(default_factory=list)
    cluster_id: Annotated[String | None, Versions("2+", ignorable=True)] = None
    controller_id: Annotated[Int32, Versions("1+", ignorable=True)] = -1
    topics: list[MetadataResponseTopic] = field(default_factory=list)
    cluster_authorized_operations: Annotated[Int32, Versions("8-10")] = -(2**31)
    error_code: Annotated[Int16, Versions("13+", ignorable=True)] = 0
