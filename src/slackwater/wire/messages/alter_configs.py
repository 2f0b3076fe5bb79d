"""AlterConfigs (key 33), v0 to v2.

v1   throttling by the client: the response is sent at once
v2   flexible
"""

from dataclasses import dataclass, field
from typing import ClassVar

from slackwater.wire.apis import ALTER_CONFIGS
from slackwater.wire.schema import Boolean, Int8, Int16, Int32, Request, Response, String, Struct


@dataclass(slots=True)
class AlterableConfig(Struct):
    """One entry of `configs`."""

    name: String = ""
    value: String | None = ""


@dataclass(slots=True)
class AlterConfigsResource(Struct):
    """One entry of `resources`."""

    resource_type: Int8 = 0
    resource_name: String = ""
    configs: list[AlterableConfig] = field(default_factory=list)


@dataclass(slots=True)
class AlterConfigsRequest(Request):
    """Sets all settings of a resource; missing ones return to their default."""

    API: ClassVar = ALTER_CONFIGS

    resources: list[AlterConfigsResource] = field(default_factory=list)
    validate_only: Boolean = False


@dataclass(slots=True)
class AlterConfigsResourceResponse(Struct):
    """One entry of `responses`."""

    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""


@dataclass(slots=True)
class AlterConfigsResponse(Response):
    """The result of each entry."""

    API: ClassVar = ALTER_CONFIGS

    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = field(default_factory=list)
