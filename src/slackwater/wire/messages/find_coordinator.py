"""FindCoordinator (key 10), v0 to v6.

v0   groups only
v1   key type: groups (0) or transactions (1); throttle time and error message in the response
v2   throttling by the client: the response is sent at once
v3   flexible
v4   several keys in one request (KIP-699)
v5   TRANSACTION_ABORTABLE (KIP-890)
v6   share groups (2), the key being "group:topic id:partition" (KIP-932)
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from slackwater.wire.apis import FIND_COORDINATOR
from slackwater.wire.schema import Int8, Int16, Int32, Request, Response, String, Struct, Versions


@dataclass(slots=True)
class FindCoordinatorRequest(Request):
    """Requests the coordinator of groups or transactions."""

    API: ClassVar = FIND_COORDINATOR

    key: Annotated[String, Versions("0-3")] = ""
    key_type: Annotated[Int8, Versions("1+")] = 0
    coordinator_keys: Annotated[list[String], Versions("4+")] = field(default_factory=list)


@dataclass(slots=True)
class Coordinator(Struct):
    """One entry of `coordinators`."""

    key: String = ""
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


@dataclass(slots=True)
class FindCoordinatorResponse(Response):
    """The coordinators."""

    API: ClassVar = FIND_COORDINATOR

    throttle_time_ms: Annotated[Int32, Versions("1+", ignorable=True)] = 0
    error_code: Annotated[Int16, Versions("0-3")] = 0
    error_message: Annotated[String | None, Versions("1-3", ignorable=True)] = ""
    node_id: Annotated[Int32, Versions("0-3")] = 0
    host: Annotated[String, Versions("0-3")] = ""
    port: Annotated[Int32, Versions("0-3")] = 0
    coordinators: Annotated[list[Coordinator], Versions("4+")] = field(default_factory=list)
