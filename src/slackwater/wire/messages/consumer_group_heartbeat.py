"""ConsumerGroupHeartbeat (key 68), v0 to v1.

The only request of a member of the new protocol (KIP-848). Fields that have not changed since the last request are
null or -1.

v1   subscription by a regular expression; the member chooses its own id (KIP-1082)
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from slackwater.wire.apis import CONSUMER_GROUP_HEARTBEAT
from slackwater.wire.schema import NO_UUID, Int16, Int32, Request, Response, String, Struct, Uuid, Versions


@dataclass(slots=True)
class RequestTopicPartitions(Struct):
    """One entry of `topic_partitions`."""

    topic_id: Uuid = NO_UUID
    partitions: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class ConsumerGroupHeartbeatRequest(Request):
    """Heartbeat of a member, with its subscription and owned partitions."""

    API: ClassVar = CONSUMER_GROUP_HEARTBEAT

    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: list[String] | None = None
    subscribed_topic_regex: Annotated[String | None, Versions("1+")] = None
    server_assignor: String | None = None
    topic_partitions: list[RequestTopicPartitions] | None = None


@dataclass(slots=True)
class ResponseTopicPartitions(Struct):
    """A topic and its partitions."""

    topic_id: Uuid = NO_UUID
    partitions: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class Assignment(Struct):
    """The type of `assignment`."""

    topic_partitions: list[ResponseTopicPartitions] = field(default_factory=list)


@dataclass(slots=True)
class ConsumerGroupHeartbeatResponse(Response):
    """The member epoch, and the assignment if it has changed."""

    API: ClassVar = CONSUMER_GROUP_HEARTBEAT

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None
