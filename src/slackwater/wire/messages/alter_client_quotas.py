"""AlterClientQuotas (key 49), v0 to v1.

v1   flexible
"""

from dataclasses import dataclass, field
from typing import ClassVar

from slackwater.wire.apis import ALTER_CLIENT_QUOTAS
from slackwater.wire.schema import Boolean, Float64, Int16, Int32, Request, Response, String, Struct


@dataclass(slots=True)
class EntityData(Struct):
    """One entry of `entity`."""

    entity_type: String = ""
    entity_name: String | None = ""


@dataclass(slots=True)
class OpData(Struct):
    """A quota to set or to remove."""

    key: String = ""
    value: Float64 = 0.0
    remove: Boolean = False


@dataclass(slots=True)
class EntryData(Struct):
    """One entry of `entries` of the request."""

    entity: list[EntityData] = field(default_factory=list)
    ops: list[OpData] = field(default_factory=list)


@dataclass(slots=True)
class AlterClientQuotasRequest(Request):
    """Changes quotas."""

    API: ClassVar = ALTER_CLIENT_QUOTAS

    entries: list[EntryData] = field(default_factory=list)
    validate_only: Boolean = False


@dataclass(slots=True)
class EntryResult(Struct):
    """The result for one entity."""

    error_code: Int16 = 0
    error_message: String | None = ""
    entity: list[EntityData] = field(default_factory=list)


@dataclass(slots=True)
class AlterClientQuotasResponse(Response):
    """The result for each entity."""

    API: ClassVar = ALTER_CLIENT_QUOTAS

    throttle_time_ms: Int32 = 0
    entries: list[EntryResult] = field(default_factory=list)
