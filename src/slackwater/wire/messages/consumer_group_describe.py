"""ConsumerGroupDescribe (key 69), v0 to v1.

v1   member type: classic or consumer, in a group under migration (KIP-1099)
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from slackwater.wire.apis import CONSUMER_GROUP_DESCRIBE
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
class ConsumerGroupDescribeRequest(Request):
    """The groups to describe."""

    API: ClassVar = CONSUMER_GROUP_DESCRIBE

    group_ids: list[String] = field(default_factory=list)
    include_authorized_operations: Boolean = False


@dataclass(slots=True)
class TopicPartitions(Struct):
    """A topic and its partitions."""

    topic_id: Uuid = NO_UUID
    topic_name: String = ""
    partitions: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class Assignment(Struct):
    """The current or target assignment of a member."""

    topic_partitions: list[TopicPartitions] = field(default_factory=list)


@dataclass(slots=True)
class Member(Struct):
    """One entry of `members`."""

    member_id: String = ""
    instance_id: String | None = None
    rack_id: String | None = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: list[String] = field(default_factory=list)
    subscribed_topic_regex: String | None = None
    assignment: Assignment = field(default_factory=Assignment)
    target_assignment: Assignment = field(default_factory=Assignment)
    member_type: Annotated[Int8, Versions("1+", ignorable=True)] = -1


@dataclass(slots=True)
class DescribedGroup(Struct):
    """One entry of `groups`."""

    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String = ""
    members: list[Member] = field(default_factory=list)
    authorized_operations: Int32 = -(2**31)


@dataclass(slots=True)
class ConsumerGroupDescribeResponse(Response):
    """State, members and assignments of consumer groups (KIP-848)."""

    API: ClassVar = CONSUMER_GROUP_DESCRIBE

    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup] = field(default_factory=list)
