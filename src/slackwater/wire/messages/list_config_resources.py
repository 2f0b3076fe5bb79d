"""ListConfigResources (key 74), v0 to v1.

v0   client metrics only, under the name ListClientMetricsResources
v1   resource types; none means all (KIP-1142)
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from slackwater.wire.apis import LIST_CONFIG_RESOURCES
from slackwater.wire.schema import Int8, Int16, Int32, Request, Response, String, Struct, Versions


@dataclass(slots=True)
class ListConfigResourcesRequest(Request):
    """The resource types."""

    API: ClassVar = LIST_CONFIG_RESOURCES

    resource_types: Annotated[list[Int8], Versions("1+")] = field(default_factory=list)


@dataclass(slots=True)
class ConfigResource(Struct):
    """One entry of `config_resources`."""

    resource_name: String = ""
    resource_type: Annotated[Int8, Versions("1+", ignorable=True)] = 16


@dataclass(slots=True)
class ListConfigResourcesResponse(Response):
    """Resources that have settings."""

    API: ClassVar = LIST_CONFIG_RESOURCES

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: list[ConfigResource] = field(default_factory=list)
