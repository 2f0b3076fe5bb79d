"""Counters of requests."""

from typing import cast

import pytest

from slackwater.broker.connection import Connection
from slackwater.broker.metrics import TIME_BOUNDS, Metrics
from slackwater.broker.request_context import RequestContext
from slackwater.wire.request_response import RequestHeader


def request(api_key: int, received_at: float) -> RequestContext:
    return RequestContext(cast(Connection, None), RequestHeader(api_key, 0, 1, None), received_at)


def test_responses_are_counted_by_api_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics, now = Metrics(), 1_000.0
    monkeypatch.setattr("slackwater.broker.metrics.monotonic", lambda: now)
    metrics.count_responses([request(api_key, now - 0.75) for api_key in (12, 12, 8, 12)])
    metrics.count_responses([request(12, now - 10.0)])
    heartbeats, commits = metrics.requests[12], metrics.requests[8]
    assert (heartbeats.count, commits.count) == (4, 1)
    assert heartbeats.seconds == 12.25
    below_1 = TIME_BOUNDS.index(1.0)
    below_30 = TIME_BOUNDS.index(30.0)
    assert {index: count for index, count in enumerate(heartbeats.buckets) if count} == {below_1: 3, below_30: 1}
    assert sum(commits.buckets) == 1
