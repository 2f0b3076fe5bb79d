"""DescribeClientQuotas (key 48), v0 to v1.

v1   flexible
"""

from dataclasses import dataclass, field
from typing import ClassVar

from slackwater.wire.apis import DESCRIBE_CLIENT_QUOTAS
from slackwater.wire.schema import Boolean, Float64, Int8, Int16, Int32, Request, Response, String, Struct


@dataclass(slots=True)
class ComponentData(Struct):
    """One entry of `components`."""

    entity_type: String = ""
    match_type: Int8 = 0
    match: String | None = ""


@dataclass(slots=True)
class DescribeClientQuotasRequest(Request):
    """A filter over quota entities."""

    API: ClassVar = DESCRIBE_CLIENT_QUOTAS

    components: list[ComponentData] = field(default_factory=list)
    strict: Boolean = False


@dataclass(slots=True)
class EntityData(Struct):
    """One entry of `entity`."""

    entity_type: String = ""
    entity_name: String | None = ""


@dataclass(slots=True)
class ValueData(Struct):
    """One entry of `values`."""

    key: String = ""
    value: Float64 = 0.0


@dataclass(slots=True)
class EntryData(Struct):
    """One entry of `entries`."""

    entity: list[EntityData] = field(default_factory=list)
    values: list[ValueData] = field(default_factory=list)


@dataclass(slots=True)
class DescribeClientQuotasResponse(Response):
    """Entities and their quotas."""

    API: ClassVar = DESCRIBE_CLIENT_QUOTAS

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    entries: list[EntryData] | None = field(default_factory=list)
