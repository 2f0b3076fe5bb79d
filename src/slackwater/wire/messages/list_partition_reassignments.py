"""ListPartitionReassignments (key 46), v0."""

from dataclasses import dataclass, field
from typing import ClassVar

from slackwater.wire.apis import LIST_PARTITION_REASSIGNMENTS
from slackwater.wire.schema import Int16, Int32, Request, Response, String, Struct


@dataclass(slots=True)
class ListPartitionReassignmentsTopics(Struct):
    """One entry of `topics`."""

    name: String = ""
    partition_indexes: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class ListPartitionReassignmentsRequest(Request):
    """The partitions; null means all."""

    API: ClassVar = LIST_PARTITION_REASSIGNMENTS

    timeout_ms: Int32 = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = None


@dataclass(slots=True)
class OngoingPartitionReassignment(Struct):
    """One entry of `partitions`."""

    partition_index: Int32 = 0
    replicas: list[Int32] = field(default_factory=list)
    adding_replicas: list[Int32] = field(default_factory=list)
    removing_replicas: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class OngoingTopicReassignment(Struct):
    """One entry of `topics`."""

    name: String = ""
    partitions: list[OngoingPartitionReassignment] = field(default_factory=list)


@dataclass(slots=True)
class ListPartitionReassignmentsResponse(Response):
    """The ongoing reassignments."""

    API: ClassVar = LIST_PARTITION_REASSIGNMENTS

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    topics: list[OngoingTopicReassignment] = field(default_factory=list)
