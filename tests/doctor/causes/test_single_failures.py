"""A failure that was read is never healthy, also without the join before and after."""

from typing import Any

import pytest

from slackwater.doctor.diagnosis import UNKNOWN_CAUSE, exit_code
from slackwater.doctor.events.table import OtherEventKind
from slackwater.group.events import EventKind
from tests.doctor.scenario import Scenario

REBALANCING = {"error": "REBALANCE_IN_PROGRESS"}


@pytest.mark.parametrize(
    ("kind", "detail", "cause"),
    [
        (EventKind.SESSION_LOST, {"error": "session timed out"}, "session_expiry"),
        (EventKind.SESSION_LOST, {"why": "the group coordinator closed the session"}, "session_expiry"),
        (EventKind.HEARTBEAT_REFUSED, {"error": "UNKNOWN_MEMBER_ID"}, "session_expiry"),
        (EventKind.PARTITIONS_LOST, {"partitions": ["t-0"]}, "session_expiry"),
        (EventKind.COMMIT_REFUSED, {"error": "UNKNOWN_MEMBER_ID"}, "poll_delay"),
        (EventKind.COMMIT_REFUSED, {"error": "ILLEGAL_GENERATION"}, "poll_delay"),
        (EventKind.MEMBER_FENCED, {"error": "FENCED_INSTANCE_ID"}, "instance_id_conflict"),
        (EventKind.COORDINATOR_LOST, {"node": "2"}, "coordinator_restart"),
        (EventKind.HEARTBEAT_REFUSED, {"error": "NOT_COORDINATOR"}, "coordinator_restart"),
        (OtherEventKind.CLIENT_FAILED, {"error": "NullPointerException"}, "crash"),
        (EventKind.JOIN_REFUSED, {"error": "GROUP_AUTHORIZATION_FAILED"}, "unknown"),
    ],
)
def test_single_failure_is_named(kind: str, detail: dict[str, Any], cause: str) -> None:
    scenario = Scenario()
    scenario.log("a", kind, 5, detail=detail)
    verdict = scenario.verdict()
    assert verdict.cause == cause
    assert 0.5 <= verdict.confidence <= 0.7
    assert verdict.missing
    assert verdict.evidence
    assert exit_code([verdict]) == UNKNOWN_CAUSE


def test_client_without_a_name_is_not_healthy() -> None:
    scenario = Scenario()
    scenario.log("", EventKind.POLL_OVERRUN, 5, detail={"limit_ms": 300_000})
    assert scenario.verdict().cause == "poll_delay"


def test_request_to_rejoin_is_not_a_failure() -> None:
    scenario = Scenario()
    scenario.log("a", EventKind.HEARTBEAT_REFUSED, 5, detail=REBALANCING)
    scenario.log("a", EventKind.MEMBER_JOINED, 6, generation=2)
    assert scenario.verdict().cause == "healthy"


def test_client_that_never_rejoins_does_not_poll() -> None:
    scenario = Scenario()
    for at in (3, 6, 9, 12):
        scenario.log("a", EventKind.HEARTBEAT_REFUSED, at, detail=REBALANCING)
    verdict = scenario.verdict()
    assert verdict.cause == "poll_delay"
    assert "stuck_rebalance" in verdict.alternatives
    assert verdict.culprits == ("a",)


def test_healthy_needs_evidence_of_health() -> None:
    scenario = Scenario()
    scenario.log("a", EventKind.COORDINATOR_FOUND, 1, detail={"node": "1"})
    verdict = scenario.verdict()
    assert verdict.cause == "unknown"
    assert verdict.missing
    assert exit_code([verdict]) == UNKNOWN_CAUSE
    scenario.log("a", EventKind.MEMBER_JOINED, 2, generation=1)
    assert scenario.verdict().cause == "healthy"


ALREADY = {"reason": "group is already rebalancing"}


def test_heartbeat_thread_asking_to_rejoin_is_a_late_poll() -> None:
    scenario = Scenario()
    for at in (3, 6, 9):
        scenario.log("a", EventKind.JOIN_REQUESTED, at, detail=ALREADY)
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.culprits) == ("poll_delay", ("a",))
    assert verdict.headline == "a was asked to rejoin 3 times in 6.0 s and did not"


@pytest.mark.parametrize("gap", [0.1, 300])
def test_refused_heartbeats_alone_are_no_cause(gap: float) -> None:
    scenario = Scenario()
    for number in range(4):
        scenario.log("a", EventKind.HEARTBEAT_REFUSED, 3 + gap * number, detail=REBALANCING)
    verdict = scenario.verdict()
    assert verdict.cause == "unknown"
    assert verdict.headline == "the group rebalanced; the lines of this client do not show why"
    assert "scale_out" in verdict.alternatives
    assert not verdict.prescriptions


def test_client_that_leaves_and_goes_on_was_not_closed() -> None:
    scenario = Scenario()
    scenario.log("a", EventKind.MEMBER_LEFT, 3, detail={"by": "itself"})
    scenario.log("a", EventKind.PARTITIONS_REVOKED, 4, detail={"partitions": ["t-0"]})
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.culprits) == ("poll_delay", ("a",))
    assert verdict.confidence < 0.8


def test_client_that_is_closed_does_not_go_on() -> None:
    scenario = Scenario()
    scenario.log("a", EventKind.PARTITIONS_REVOKED, 3, detail={"partitions": ["t-0"]})
    scenario.log("a", EventKind.MEMBER_LEFT, 4, detail={"by": "itself"})
    assert scenario.verdict().cause != "poll_delay"


def test_coordinator_that_moved_is_named() -> None:
    scenario = Scenario()
    scenario.log("a", EventKind.COORDINATOR_LOST, 3, detail={"node": "10.0.0.3:9092/3"})
    scenario.log("a", EventKind.COORDINATOR_FOUND, 4, detail={"node": "10.0.0.2:9092/2"})
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.culprits) == ("coordinator_restart", ("broker 3",))
    assert verdict.headline == "the coordinator moved from broker 3 to broker 2"
