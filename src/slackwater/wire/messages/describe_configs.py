"""DescribeConfigs (key 32), v1 to v4.

v1   the oldest version that Kafka 4 supports: source of a value, and its synonyms (KIP-226)
v2   throttling by the client: the response is sent at once
v3   types and documentation
v4   flexible
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from slackwater.wire.apis import DESCRIBE_CONFIGS
from slackwater.wire.schema import Boolean, Int8, Int16, Int32, Request, Response, String, Struct, Versions


@dataclass(slots=True)
class DescribeConfigsResource(Struct):
    """One entry of `resources`."""

    resource_type: Int8 = 0
    resource_name: String = ""
    configuration_keys: list[String] | None = field(default_factory=list)


@dataclass(slots=True)
class DescribeConfigsRequest(Request):
    """The resources and their settings; null means all settings."""

    API: ClassVar = DESCRIBE_CONFIGS

    resources: list[DescribeConfigsResource] = field(default_factory=list)
    include_synonyms: Boolean = False
    include_documentation: Annotated[Boolean, Versions("3+")] = False


@dataclass(slots=True)
class DescribeConfigsSynonym(Struct):
    """One entry of `synonyms`."""

    name: String = ""
    value: String | None = ""
    source: Int8 = 0


@dataclass(slots=True)
class DescribeConfigsResourceResult(Struct):
    """One entry of `configs`."""

    name: String = ""
    value: String | None = ""
    read_only: Boolean = False
    config_source: Int8 = -1
    is_sensitive: Boolean = False
    synonyms: list[DescribeConfigsSynonym] = field(default_factory=list)
    config_type: Annotated[Int8, Versions("3+", ignorable=True)] = 0
    documentation: Annotated[String | None, Versions("3+", ignorable=True)] = ""


@dataclass(slots=True)
class DescribeConfigsResult(Struct):
    """One entry of `results`."""

    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: list[DescribeConfigsResourceResult] = field(default_factory=list)


@dataclass(slots=True)
class DescribeConfigsResponse(Response):
    """Settings and their sources."""

    API: ClassVar = DESCRIBE_CONFIGS

    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult] = field(default_factory=list)
