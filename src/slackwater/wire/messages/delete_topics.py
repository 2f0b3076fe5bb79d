"""DeleteTopics (key 20), v1 to v6.

v1   the oldest version that Kafka 4 supports: throttle time
v2   throttling by the client: the response is sent at once
v3   TOPIC_DELETION_DISABLED may be returned
v4   flexible
v5   error messages; THROTTLING_QUOTA_EXCEEDED (KIP-599)
v6   by name or by topic id (KIP-516)
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from slackwater.wire.apis import DELETE_TOPICS
from slackwater.wire.schema import NO_UUID, Int16, Int32, Request, Response, String, Struct, Uuid, Versions


@dataclass(slots=True)
class DeleteTopicState(Struct):
    """One entry of `topics`."""

    name: String | None = None
    topic_id: Uuid = NO_UUID


@dataclass(slots=True)
class DeleteTopicsRequest(Request):
    """Topics to delete."""

    API: ClassVar = DELETE_TOPICS

    topics: Annotated[list[DeleteTopicState], Versions("6+")] = field(default_factory=list)
    topic_names: Annotated[list[String], Versions("1-5", ignorable=True)] = field(default_factory=list)
    timeout_ms: Int32 = 0


@dataclass(slots=True)
class DeletableTopicResult(Struct):
    """One entry of `responses`."""

    name: Annotated[String | None, Versions(nullable="6+")] = ""
    topic_id: Annotated[Uuid, Versions("6+", ignorable=True)] = NO_UUID
    error_code: Int16 = 0
    error_message: Annotated[String | None, Versions("5+", ignorable=True)] = None


@dataclass(slots=True)
class DeleteTopicsResponse(Response):
    """The result of each entry."""

    API: ClassVar = DELETE_TOPICS

    throttle_time_ms: Int32 = 0
    responses: list[DeletableTopicResult] = field(default_factory=list)
