"""The Prometheus rules on recorded series: the real promtool fires what `watch` fires, and nothing else."""

import json
import math
import shutil
import subprocess
from pathlib import Path

import pytest

from slackwater.doctor.alerts.rules import ALERTS, KAFKA, SLACKWATER, Alert, prometheus_rules

from .played_incidents import INCIDENTS, MINUTE_MS, RUN_MS, SCRAPE_MS, Incident, Recording, record

PROMTOOL = shutil.which("promtool")
MARGIN_MS = 3 * MINUTE_MS
"""Prometheus sees a change a few scrapes later than `watch`, and its windows are not exact."""

# The rejected client is no process of the simulation, so it has no metrics.
NOT_IN_CLIENT_METRICS = {"join is rejected": {"RebalancesFail"}}


@pytest.mark.parametrize("incident", INCIDENTS, ids=lambda incident: incident.name)
def test_watch_fires_on_a_played_incident(incident: Incident) -> None:
    fired = frozenset().union(*record(incident).firing)
    assert fired == incident.alerts


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed. To add it: apt-get install prometheus")
def test_promtool_accepts_the_rules_file(tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(prometheus_rules())
    assert PROMTOOL is not None
    result = subprocess.run([PROMTOOL, "check", "rules", "rules.yml"], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "duplicate" not in result.stdout + result.stderr


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed. To add it: apt-get install prometheus")
@pytest.mark.parametrize("incident", INCIDENTS, ids=lambda incident: incident.name)
def test_broker_rules_agree_with_watch(incident: Incident, tmp_path: Path) -> None:
    recording = record(incident)
    for name, firing in _promtool_firing(recording, SLACKWATER, tmp_path).items():
        for at_ms, fires in firing.items():
            watched = {
                name in recording.firing[scrape]
                for scrape in range(
                    max(at_ms - MARGIN_MS, 0) // SCRAPE_MS,
                    min((at_ms + MARGIN_MS) // SCRAPE_MS + 1, recording.scrapes),
                )
            }
            if len(watched) == 1:  # not close to the begin or end of an alert
                assert fires in watched, f"{name} after {at_ms // MINUTE_MS} minutes"


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed. To add it: apt-get install prometheus")
@pytest.mark.parametrize("incident", INCIDENTS, ids=lambda incident: incident.name)
def test_client_rules_fire_on_the_same_incidents(incident: Incident, tmp_path: Path) -> None:
    firing = _promtool_firing(record(incident), KAFKA, tmp_path)
    fired = {name for name, minutes in firing.items() if any(minutes.values())}
    assert fired == incident.alerts - NOT_IN_CLIENT_METRICS.get(incident.name, set())


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed. To add it: apt-get install prometheus")
def test_client_rules_know_names_without_total(tmp_path: Path) -> None:
    storm = next(incident for incident in INCIDENTS if incident.name == "storm of poll timeouts")
    recording = Recording(
        {key.replace("_total{", "{"): samples for key, samples in record(storm).series.items()},
        scrapes=RUN_MS // SCRAPE_MS,
    )
    firing = _promtool_firing(recording, KAFKA, tmp_path)
    assert {name for name, minutes in firing.items() if any(minutes.values())} == storm.alerts


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed. To add it: apt-get install prometheus")
@pytest.mark.parametrize(("succeeds", "fires"), [(True, False), (False, True)])
def test_client_rule_ignores_failures_before_a_success(succeeds: bool, fires: bool, tmp_path: Path) -> None:
    """A member that is removed gets MEMBER_ID_REQUIRED, and then joins, or fails again and again."""
    recording = Recording(scrapes=RUN_MS // SCRAPE_MS)
    for name, values in (
        ("failed_rebalance_total", [min(scrape // 8, 20) for scrape in range(recording.scrapes)]),
        ("rebalance_total", [min((scrape - 2) // 8, 20) if succeeds else 1 for scrape in range(recording.scrapes)]),
    ):
        key = f'kafka_consumer_consumer_coordinator_metrics_{name}{{client_id="app",instance="host"}}'
        recording.series[key] = [max(float(value), 0.0) for value in values]
    assert any(_promtool_firing(recording, KAFKA, tmp_path)["RebalancesFail"].values()) == fires


def _promtool_firing(recording: Recording, exporter: str, directory: Path) -> dict[str, dict[int, bool]]:
    """Return for every alert at which minutes it fires.

    promtool only compares with an expectation, so expect nothing and read from its answer what it got.
    """
    rules = _rules_of(exporter)
    (directory / "rules.yml").write_text(rules)
    minutes = range(MINUTE_MS, RUN_MS, MINUTE_MS)
    tests = [
        {
            "interval": f"{SCRAPE_MS // 1000}s",
            "input_series": [
                {"series": key, "values": _values(samples)}
                for key, samples in recording.series.items()
                if key.partition("{")[0].removesuffix("_total") in rules
            ],
            "alert_rule_test": [
                {"eval_time": f"{at_ms // MINUTE_MS}m", "alertname": alert.name, "exp_alerts": []}
                for alert in ALERTS
                for at_ms in minutes
            ],
        }
    ]
    content = {"rule_files": ["rules.yml"], "evaluation_interval": f"{SCRAPE_MS // 1000}s", "tests": tests}
    (directory / "tests.yml").write_text(json.dumps(content))  # JSON is YAML
    assert PROMTOOL is not None
    result = subprocess.run([PROMTOOL, "test", "rules", "tests.yml"], cwd=directory, capture_output=True, text=True)
    output = result.stdout + result.stderr
    assert "SUCCESS" in output or "alertname: " in output, output  # otherwise promtool could not read the files
    return {alert.name: {at_ms: _fired(output, alert, at_ms) for at_ms in minutes} for alert in ALERTS}


def _fired(output: str, alert: Alert, at_ms: int) -> bool:
    hours, minutes = divmod(at_ms // MINUTE_MS, 60)
    time = (f"{hours}h" if hours else "") + (f"{minutes}m" if minutes else "")
    return f"alertname: {alert.name}, time: {time}," in output


def _rules_of(exporter: str) -> str:
    """Return the rules file with the rules of one exporter."""
    head, *groups = prometheus_rules().split("  - name: ")
    return head + "  - name: " + next(group for group in groups if group.startswith(exporter))


def _values(samples: list[float | None]) -> str:
    """Return the samples in promtool's notation; Prometheus marks a series as stale when it is no longer exported."""
    values = []
    before: float | None = None
    for value in samples:
        if value is None:
            values.append("_" if before is None else "stale")
        else:
            values.append("NaN" if math.isnan(value) else repr(float(value)))
        before = value
    return " ".join([*values, "stale"])
