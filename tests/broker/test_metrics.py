"""What is counted of requests."""

from time import monotonic
from typing import cast

from slackwater.broker.connection import Connection, RequestContext
from slackwater.broker.metrics import TIME_BOUNDS, Metrics
from slackwater.wire.envelope import RequestHeader


def call(api_key: int, since: float) -> RequestContext:
    return RequestContext(cast(Connection, None), RequestHeader(api_key, 0, 1, None), since)


def test_answers_are_counted_by_api_and_by_how_long_they_took() -> None:
    metrics, now = Metrics(), monotonic()
    metrics.answered([call(12, now - 0.75), call(12, now - 0.75), call(8, now - 0.75), call(12, now - 0.75)])
    metrics.answered([call(12, now - 10.0)])
    beats, commits = metrics.requests[12], metrics.requests[8]
    assert (beats.count, commits.count) == (4, 1)
    assert 12.25 <= beats.seconds < 14.0
    below_1 = TIME_BOUNDS.index(1.0)
    below_30 = TIME_BOUNDS.index(30.0)
    assert {place: count for place, count in enumerate(beats.buckets) if count} == {below_1: 3, below_30: 1}
    assert sum(commits.buckets) == 1


def test_answers_that_leave_together_are_counted_each_by_its_own_time() -> None:
    metrics, now = Metrics(), monotonic()
    metrics.answered_together([call(1, now - 8.0), call(1, now - 6.0)])
    metrics.answered_together([call(1, now - 100.0), call(1, now - 6.0)])
    fetches = metrics.requests[1]
    assert fetches.count == 4
    assert 120.0 <= fetches.seconds < 160.0
    below_30 = TIME_BOUNDS.index(30.0)
    assert {place: count for place, count in enumerate(fetches.buckets) if count} == {below_30: 3, below_30 + 1: 1}
