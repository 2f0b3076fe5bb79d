"""GetTelemetrySubscriptions (key 71), v0."""

from dataclasses import dataclass, field
from typing import ClassVar

from slackwater.wire.apis import GET_TELEMETRY_SUBSCRIPTIONS
from slackwater.wire.schema import NO_UUID, Boolean, Int8, Int16, Int32, Request, Response, String, Uuid


@dataclass(slots=True)
class GetTelemetrySubscriptionsRequest(Request):
    """Requests the metrics that the client pushes."""

    API: ClassVar = GET_TELEMETRY_SUBSCRIPTIONS

    client_instance_id: Uuid = NO_UUID


@dataclass(slots=True)
class GetTelemetrySubscriptionsResponse(Response):
    """The metrics to push and the interval; empty means none."""

    API: ClassVar = GET_TELEMETRY_SUBSCRIPTIONS

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    client_instance_id: Uuid = NO_UUID
    subscription_id: Int32 = 0
    accepted_compression_types: list[Int8] = field(default_factory=list)
    push_interval_ms: Int32 = 0
    telemetry_max_bytes: Int32 = 0
    delta_temporality: Boolean = False
    requested_metrics: list[String] = field(default_factory=list)
