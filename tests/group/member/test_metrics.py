"""The member's metrics: windows, rates, and Kafka's names."""

from math import isnan

import pytest

from slackwater.group.member import METRIC_GROUPS
from slackwater.group.member.metrics import MemberMetrics, SampledStat
from tests.catalogue_metrics import CONSUMER, COORDINATOR

T0 = 1_000_000


def test_avg_and_max_cover_two_windows() -> None:
    sampled = SampledStat()
    assert isnan(sampled.avg(T0))
    assert isnan(sampled.max(T0))
    sampled.record(10, T0)
    sampled.record(20, T0 + 1)
    sampled.record(60, T0 + 30_000)
    assert sampled.avg(T0 + 30_000) == 30
    assert sampled.max(T0 + 30_000) == 60
    assert sampled.avg(T0 + 60_000) == 60
    assert isnan(sampled.max(T0 + 90_000))
    assert (sampled.count, sampled.total) == (3, 90)


def test_rate_covers_at_least_one_window() -> None:
    sampled = SampledStat()
    assert sampled.rate(T0) == 0
    for _ in range(30):
        sampled.record(1, T0)
    assert sampled.rate(T0) == pytest.approx(1.0)
    assert sampled.rate(T0 + 45_000) == pytest.approx(30 / 45)


def test_poll_idle_ratio() -> None:
    metrics = MemberMetrics()
    metrics.poll_returned(T0)
    metrics.poll_started(T0)
    metrics.poll_returned(T0 + 250)
    metrics.poll_started(T0 + 1_000)
    metrics.poll_started(T0 + 1_000)
    values = metrics.read(T0 + 3_999, assigned_partitions=3, last_heartbeat_ms=None)
    assert values["poll-idle-ratio-avg"] == pytest.approx(0.25)
    assert values["time-between-poll-max"] == 1_000
    assert values["last-poll-seconds-ago"] == 2
    assert values["assigned-partitions"] == 3


def test_rebalance_latency_includes_join_retries() -> None:
    metrics = MemberMetrics()
    metrics.rebalance_started(T0)
    metrics.rebalance_started(T0 + 400)
    metrics.rebalance_succeeded(T0 + 1_000)
    metrics.rebalance_succeeded(T0 + 1_000)
    values = metrics.read(T0 + 2_500, assigned_partitions=0, last_heartbeat_ms=T0)
    assert (values["rebalance-latency-max"], values["rebalance-latency-avg"]) == (1_000, 500)
    assert (values["rebalance-latency-total"], values["rebalance-total"]) == (1_000, 2)
    assert values["rebalance-rate-per-hour"] == pytest.approx(2 / 31.5 * 3_600)
    assert (values["last-rebalance-seconds-ago"], values["last-heartbeat-seconds-ago"]) == (1, 2)


def test_missing_events_are_minus_one_seconds_ago() -> None:
    values = MemberMetrics().read(T0, assigned_partitions=0, last_heartbeat_ms=None)
    for name in ("last-heartbeat-seconds-ago", "last-rebalance-seconds-ago", "last-poll-seconds-ago"):
        assert values[name] == -1


def test_every_metric_of_the_catalogue_exists() -> None:
    expected = dict.fromkeys(COORDINATOR, "consumer-coordinator-metrics") | dict.fromkeys(CONSUMER, "consumer-metrics")
    assert dict(METRIC_GROUPS) == expected
