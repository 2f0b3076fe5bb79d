"""IncrementalAlterConfigs (key 44), v0 to v1.

v1   flexible
"""

from dataclasses import dataclass, field
from typing import ClassVar

from slackwater.wire.apis import INCREMENTAL_ALTER_CONFIGS
from slackwater.wire.schema import Boolean, Int8, Int16, Int32, Request, Response, String, Struct


@dataclass(slots=True)
class AlterableConfig(Struct):
    """One entry of `configs`."""

    name: String = ""
    config_operation: Int8 = 0
    value: String | None = ""


@dataclass(slots=True)
class AlterConfigsResource(Struct):
    """One entry of `resources`."""

    resource_type: Int8 = 0
    resource_name: String = ""
    configs: list[AlterableConfig] = field(default_factory=list)


@dataclass(slots=True)
class IncrementalAlterConfigsRequest(Request):
    """Settings to set (0), delete (1), append to (2) or subtract from (3)."""

    API: ClassVar = INCREMENTAL_ALTER_CONFIGS

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
class IncrementalAlterConfigsResponse(Response):
    """The result of each entry."""

    API: ClassVar = INCREMENTAL_ALTER_CONFIGS

    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = field(default_factory=list)
