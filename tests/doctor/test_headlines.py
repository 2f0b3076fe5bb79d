"""The first line of a verdict: the figures that decide, and nothing that was not measured."""

import pytest

from slackwater.doctor.causes.finding import Finding, joining
from slackwater.doctor.causes.rules import CAUSES, Rank
from slackwater.doctor.events.rows import Row
from slackwater.doctor.headlines import headline, no_action
from slackwater.group.events import EventKind, EventSource
from tests.doctor.scenario import Scenario


def finding(cause: str, culprits: tuple[str, ...] = ("billing-3",), count: int = 1, **figures: int) -> Finding:
    return Finding(cause, culprits, tuple(range(count)), 0.9, figures=figures)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (
            finding("poll_delay", count=7, limit_ms=6_000, longest_ms=9_500),
            "billing-3: 9.5 s between polls, max.poll.interval.ms is 6 s (7 times)",
        ),
        (
            finding("kip848_poll_delay", limit_ms=300_000, longest_ms=300_000),
            "billing-3: more than 300 s (max.poll.interval.ms) between polls",
        ),
        (
            finding("poll_delay", ("a", "b"), 2, limit_ms=300_000, together_ms=3_000),
            "a, b: more than 300 s (max.poll.interval.ms) between polls (2 members within 3.0 s)",
        ),
        (
            finding("poll_delay", ("a", "b"), 7, limit_ms=300_000, together_ms=3_000),
            "a, b: more than 300 s (max.poll.interval.ms) between polls (2 members within 3.0 s, 7 times in all)",
        ),
        (finding("poll_delay"), "billing-3: more than max.poll.interval.ms between polls"),
        (
            finding("poll_delay", handler_blocks=1, session_ms=30_000, handler_ms=42_000),
            "billing-3: no heartbeat while its handler was busy for 42 s, session.timeout.ms is 30 s",
        ),
        (
            finding("session_expiry", count=2, session_ms=10_000, pause_ms=17_000),
            "billing-3: no heartbeat for 17 s, session.timeout.ms is 10 s (2 times)",
        ),
        (finding("session_expiry"), "billing-3: no heartbeat for its session timeout"),
        (
            finding("crash_loop", count=5, uptime_ms=12_000),
            "billing-3: stopped and restarted 5 times; the shortest run was 12 s",
        ),
        (
            finding("static_restart_too_late", late_ms=4_000, session_ms=10_000),
            "billing-3: back 4.0 s after the session expired, session.timeout.ms is 10 s",
        ),
        (
            finding("stuck_rebalance", timeout_ms=60_000, open_ms=75_000),
            "a rebalance is open for 75 s, max.poll.interval.ms is 60 s, waiting for billing-3",
        ),
        (
            finding("autoscaler_flapping", count=24, period_ms=3_700),
            "billing-3: joined or left 24 times, in turn every 3.7 s",
        ),
        (finding("scale_out", ("a", "b", "c", "d", "e")), "5 members joined: a, b, c and 2 more"),
    ],
)
def test_headline_has_the_deciding_figures(found: Finding, text: str) -> None:
    assert headline(found, rebalances=3) == text


def test_expected_changes_say_why_nothing_is_to_do() -> None:
    for name, cause in CAUSES.items():
        is_expected = cause.rank is Rank.CHANGE and name != "healthy"
        assert bool(no_action(finding(name), is_stable=False)) is is_expected, name
    assert no_action(finding("scale_in"), is_stable=True).endswith("removed; the last rebalance completed")
    assert no_action(finding("coordinator_restart", ("broker 1",)), is_stable=False).startswith("broker 1 is back")


@pytest.mark.parametrize("cause", [name for name, cause in CAUSES.items() if cause.rank is not Rank.REMARK])
def test_every_cause_has_a_headline_without_figures(cause: str) -> None:
    text = headline(finding(cause), rebalances=3)
    assert text
    assert " 0 " not in text
    assert cause == "unknown" or "the reason is not in the input" not in text


def test_new_member_only_asked_to_join() -> None:
    asked = Row(1, EventKind.MEMBER_ID_ISSUED, EventSource.BROKER_LOG)
    assert joining(asked, "rejoined") == "asked to join as a new member"
    assert joining(asked._replace(kind=EventKind.MEMBER_JOINED), "rejoined") == "rejoined"


def test_verdict_has_a_headline_in_text_and_json() -> None:
    scenario = Scenario()
    for at in (0, 20):
        scenario.log("a", EventKind.SESSION_LOST, at, detail={"error": "session timed out"})
    verdict = scenario.verdict()
    assert verdict.headline == "a got no heartbeat response for its session timeout (2 times)"
    assert verdict.to_json()["headline"] == verdict.headline
