"""A failure that was read is never healthy, also without the join before and after."""

from typing import Any
from uuid import UUID

import pytest

from slackwater.doctor.diagnosis import EXIT_UNKNOWN, exit_code
from slackwater.doctor.events.table import OtherEventKind
from slackwater.group.events import EventKind
from tests.doctor.scenario import START_MS, Scenario

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
        (EventKind.JOIN_REFUSED, {"error": "GROUP_AUTHORIZATION_FAILED"}, "join_refused"),
        (
            EventKind.JOIN_REQUESTED,
            {"reason": "rebalance failed due to 'x' (NotCoordinatorException)"},
            "coordinator_restart",
        ),
        (
            EventKind.JOIN_REQUESTED,
            {"reason": "rebalance failed due to 'x' (UnknownMemberIdException)"},
            "session_expiry",
        ),
        (EventKind.REBALANCE_FAILED, {"error": "UNKNOWN_MEMBER_ID"}, "session_expiry"),
        (OtherEventKind.CLIENT_FAILED, {"error": "The coordinator is not aware of this member"}, "session_expiry"),
        (OtherEventKind.CLIENT_FAILED, {"error": "CommitFailedError"}, "poll_delay"),
        (OtherEventKind.CLIENT_FAILED, {"error": "FencedInstanceIdException"}, "instance_id_conflict"),
        (OtherEventKind.CLIENT_FAILED, {"error": "GroupCoordinatorNotFound"}, "coordinator_restart"),
        (EventKind.COMMIT_REFUSED, {"error": "a retriable exception"}, "coordinator_restart"),
        (EventKind.COMMIT_REFUSED, {"error": "This server does not host this topic-partition."}, "unknown"),
    ],
)
def test_single_failure_is_named(kind: str, detail: dict[str, Any], cause: str) -> None:
    scenario = Scenario()
    scenario.log("a", kind, 5, detail=detail)
    verdict = scenario.verdict()
    assert verdict.cause == cause
    assert 0.5 <= verdict.confidence <= 0.7
    assert verdict.missing_input
    assert verdict.evidence
    assert exit_code([verdict]) == EXIT_UNKNOWN


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
    assert verdict.missing_input
    assert exit_code([verdict]) == EXIT_UNKNOWN
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


def test_several_lines_of_one_failure_count_once() -> None:
    scenario = Scenario()
    for at in (3.0, 3.01, 3.4, 60.0):
        scenario.log("a", EventKind.COORDINATOR_LOST, at)
    verdict = scenario.verdict()
    assert verdict.headline == "a lost its coordinator (2 times)"
    assert [line.time_ms for line in verdict.evidence] == [START_MS + 3_000, START_MS + 60_000]


def test_partial_verdict_says_what_to_check() -> None:
    """An expected change needs nothing; a failure that may be one is checked."""
    scenario = Scenario()
    scenario.log("a", EventKind.COORDINATOR_LOST, 3)
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.is_partial) == ("coordinator_restart", True)
    assert verdict.prescriptions
    assert not any("nothing to do" in item.what for item in verdict.prescriptions)


def test_repeated_lines_of_a_rejected_join_count_once() -> None:
    scenario = Scenario(assignor="range").start("a", "b")
    for at in (60.0, 60.01, 60.1, 90.0):
        scenario.log("c", EventKind.REBALANCE_FAILED, at, detail={"error": "INCONSISTENT_GROUP_PROTOCOL"})
    verdict = scenario.verdict()
    assert verdict.headline == "c: rejected, no assignor in common with the group: the group uses range (2 times)"
    setting = {"setting": "partition.assignment.strategy", "value": "[class a.b.StickyAssignor]"}
    scenario.log("c", OtherEventKind.CLIENT_SETTING, 59, detail=setting)
    assert ": it has sticky, the group uses range (2 times)" in scenario.verdict().headline


def test_evidence_is_in_the_order_of_time() -> None:
    scenario = Scenario().start("a", "b", "c")
    for at in (60, 120):
        scenario.leave("b", at, "the consumer is being closed")
        scenario.log("b", OtherEventKind.CLIENT_FAILED, at + 0.1, detail={"error": "IllegalStateException"})
        scenario.form(at + 1)
        scenario.join("b", at + 5)
        scenario.form(at + 6)
    times = [line.time_ms for line in scenario.verdict().evidence]
    assert len(times) > 1
    assert times == sorted(times)


def test_broker_that_does_not_answer_is_named() -> None:
    scenario = Scenario()
    for at in (0, 3600):
        scenario.log("a", EventKind.SESSION_LOST, at, detail={"error": "session timed out", "node": "2"})
    verdict = scenario.verdict()
    assert verdict.headline == "a got no heartbeat response from broker 2 for its session timeout (2 times)"
    assert verdict.missing_input[0].endswith("add the log of broker 2")


@pytest.mark.parametrize(("spread", "is_shared"), [(3, True), (60, False)])
def test_members_that_are_late_together_wait_for_the_same_thing(spread: int, *, is_shared: bool) -> None:
    scenario = Scenario()
    for number in range(4):
        scenario.log(f"c{number}", EventKind.POLL_OVERRUN, number * spread / 3, detail={"limit_ms": 300_000})
    verdict = scenario.verdict()
    assert (verdict.cause, len(verdict.culprits)) == ("poll_delay", 4)
    assert ("(4 members within 3.0 s)" in verdict.headline) is is_shared
    assert ("find what all these members wait for" in verdict.prescriptions[0].what) is is_shared


def test_client_that_gets_no_response_at_the_end_of_its_log_is_not_sure() -> None:
    """Its coordinator may be down; a client that is back has found it."""
    scenario = Scenario()
    member = f"a-{UUID(int=1)}"
    scenario.log("a", EventKind.MEMBER_JOINED, 1, generation=1, member=member)
    scenario.log("a", EventKind.SESSION_LOST, 180, detail={"error": "session timed out"}, member=member)
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.confidence) == ("session_expiry", 0.7)
    assert "coordinator_unreachable" in verdict.alternatives
    assert verdict.evidence[0].what == "a lost its session: no heartbeat response within its session timeout"


@pytest.mark.parametrize("kind", [EventKind.HEARTBEAT_REFUSED, EventKind.COMMIT_REFUSED, EventKind.JOIN_REFUSED])
def test_any_fenced_request_is_a_conflict_of_instance_ids(kind: EventKind) -> None:
    scenario = Scenario()
    scenario.log("a", kind, 3, instance="pod-1", detail={"error": "FENCED_INSTANCE_ID"})
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.culprits) == ("instance_id_conflict", ("pod-1", "a"))
    assert not verdict.evidence[0].what.endswith(":")


def test_loop_that_ends_because_its_session_was_lost_is_no_crash() -> None:
    scenario = Scenario()
    error = {"error": "KafkaJSProtocolError", "why": "The coordinator is not aware of this member"}
    scenario.log("a", OtherEventKind.CLIENT_FAILED, 3, detail=error)
    assert scenario.verdict().cause == "session_expiry"


def test_refused_join_is_named_with_its_error() -> None:
    scenario = Scenario()
    scenario.log("a", EventKind.JOIN_REFUSED, 3, detail={"error": "Group authorization failed."})
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.is_partial) == ("join_refused", True)
    assert verdict.headline == "a failed to join the group: Group authorization failed"
    assert "ACL Read" in verdict.prescriptions[0].what


@pytest.mark.parametrize(
    "reason",
    [
        "rebalance failed due to 'x' (MemberIdRequiredException)",
        "rebalance failed due to 'x' (RebalanceInProgressException)",
    ],
)
def test_join_after_an_expected_error_is_no_failure(reason: str) -> None:
    scenario = Scenario()
    scenario.log("a", EventKind.JOIN_REQUESTED, 5, detail={"reason": reason})
    scenario.log("a", EventKind.MEMBER_JOINED, 6, generation=2)
    assert scenario.verdict().cause == "healthy"


def test_commit_during_a_rebalance_is_not_healthy() -> None:
    scenario = Scenario()
    scenario.log("a", EventKind.COMMIT_REFUSED, 5, detail=REBALANCING)
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.headline) == (
        "unknown",
        "the group rebalanced; the lines of this client do not show why",
    )


def test_client_that_is_closed_is_healthy() -> None:
    scenario = Scenario()
    scenario.log("a", EventKind.MEMBER_LEFT, 5, detail={"by": "itself", "reason": "the consumer is being closed"})
    assert scenario.verdict().cause == "healthy"
    scenario = Scenario()
    scenario.log("a", OtherEventKind.CLIENT_CLOSED, 5)
    assert scenario.verdict().cause == "healthy"


def test_assignment_that_was_not_stored_is_not_healthy() -> None:
    scenario = Scenario()
    scenario.start("a")
    detail = {"reason": "Error when storing group assignment during SyncGroup (member: a-1)"}
    scenario.broker(EventKind.REBALANCE_STARTED, 60, detail=detail)
    scenario.form(61)
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.is_partial, verdict.culprits) == ("unknown", True, ())
    assert "__consumer_offsets" in verdict.headline


def test_commit_that_failed_for_the_application_is_no_late_poll() -> None:
    scenario = Scenario()
    scenario.log("a", EventKind.COMMIT_REFUSED, 5)
    scenario.log("a", EventKind.COMMIT_REFUSED, 5, detail={"error": "com.example.SinkException"})
    verdict = scenario.verdict()
    assert verdict.cause == "unknown"
    assert "poll_delay" in verdict.alternatives


def test_leader_that_rejoins_for_an_unknown_reason_is_not_healthy() -> None:
    scenario = Scenario()
    scenario.start("a", "b")
    scenario.rejoin("a", 60)
    scenario.form(61)
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.headline) == ("unknown", "the leader started a rebalance; the lines do not show why")
    assert "leader_rejoins" in verdict.alternatives


def test_client_that_rejoins_late_is_not_said_to_stay_away() -> None:
    scenario = Scenario()
    for at in (0, 3, 6):
        scenario.log("a", EventKind.HEARTBEAT_REFUSED, at, detail=REBALANCING)
    scenario.log("a", EventKind.MEMBER_JOINED, 9.1, generation=9)
    verdict = scenario.verdict()
    assert verdict.headline == "a was asked to rejoin 3 times in 6.0 s and rejoined only after 9.1 s"
    assert verdict.evidence[-1].what == "a rejoined"
    assert not any("raise" in item.what for item in verdict.prescriptions)
