"""Alert rules: which measurements fire, and the same rules for Prometheus."""

from slackwater.broker.groups.group_metrics import GroupFigures
from slackwater.broker.metrics_page import group_families
from slackwater.doctor.alerts.rules import ALERTS, firing, measure, prometheus_rules
from slackwater.doctor.timeline.rebalances import RecordedRebalance

HOUR = 3_600_000


def rebalance_at(began_ms: int, lasted_ms: int = 100, *, follow_up: bool = False) -> RecordedRebalance:
    return RecordedRebalance(1, began_ms, began_ms + lasted_ms, None, None, None, None, None, True, follow_up, None)


def names(measured: dict[str, float]) -> set[str]:
    return {alert.name for alert in firing(measured)}


def test_nothing_measured_fires_nothing() -> None:
    assert firing({}) == []


def test_two_rebalances_per_hour_fire() -> None:
    assert names(measure([rebalance_at(0)], 0, HOUR)) == set()
    assert names(measure([rebalance_at(0), rebalance_at(1000)], 0, HOUR)) == {"RebalancesTooOften"}


def test_cooperative_follow_up_is_not_counted() -> None:
    assert names(measure([rebalance_at(0), rebalance_at(1000, follow_up=True)], 0, HOUR)) == set()


def test_short_history_is_not_extrapolated_to_an_hour() -> None:
    assert measure([rebalance_at(0)], 0, 1000)["rebalances_per_hour"] == 1


def test_rebalance_longer_than_a_minute_fires() -> None:
    assert names(measure([rebalance_at(0, 61_000)], 0, HOUR)) == {"RebalanceTooLong"}


def test_member_id_required_is_not_a_failure() -> None:
    assert names(measure([], 0, HOUR, ["MEMBER_ID_REQUIRED"])) == set()
    assert names(measure([], 0, HOUR, ["no members rejoined"])) == {"RebalancesFail"}


def test_prometheus_file_has_every_rule_per_exporter() -> None:
    text = prometheus_rules()
    for alert in ALERTS:
        assert text.count(f"- alert: {alert.name}\n") == len(alert.expressions)
        for expression in alert.expressions.values():
            assert f"expr: {expression}\n" in text


def test_rules_use_existing_slackwater_metrics() -> None:
    families = group_families([GroupFigures("orders")])
    exported = {name for family in families for name in (family.name, f"{family.name}_total")}
    used = {word for word in _words(prometheus_rules()) if word.startswith("slackwater_")}
    assert used
    assert used <= exported


def _words(text: str) -> list[str]:
    return "".join(char if char.isalnum() or char == "_" else " " for char in text).split()
