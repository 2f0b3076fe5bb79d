"""Causes that the labelled incidents do not have: unreachable coordinators, Connect, leaders that rejoin."""

import pytest

from slackwater.doctor.causes.finding import SURE
from slackwater.doctor.causes.known_bugs import KNOWN_BUGS
from slackwater.doctor.diagnosis import EXIT_ACTION_NEEDED, EXIT_UNKNOWN, exit_code
from slackwater.doctor.events.table import OtherEventKind
from slackwater.group.events import EventKind, Trigger
from tests.doctor.scenario import START_MS, Scenario

NODE = {"node": "a:9092 (id: 2147483645 rack: null)"}


def lose_coordinator(scenario: Scenario, client: str, times: tuple[float, ...]) -> None:
    for at in times:
        scenario.log(client, EventKind.COORDINATOR_FOUND, at, detail=NODE)
        scenario.log(client, EventKind.COORDINATOR_LOST, at + 0.5, detail=NODE)


def test_coordinator_lost_again_and_again_is_unreachable() -> None:
    scenario = Scenario()
    lose_coordinator(scenario, "a", (1, 2, 3))
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.culprits) == ("coordinator_unreachable", ("a",))
    assert verdict.confidence < SURE
    assert "coordinator_restart" in verdict.alternatives
    assert verdict.headline == "a: found its coordinator and lost it again 3 times in 2.0 s"
    assert exit_code([verdict]) == EXIT_ACTION_NEEDED


def test_one_client_that_cannot_reach_it_is_named() -> None:
    scenario = Scenario()
    scenario.log("b", EventKind.MEMBER_JOINED, 1, generation=4)
    lose_coordinator(scenario, "a", (1, 2, 3))
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.culprits) == ("coordinator_unreachable", ("a",))
    assert verdict.confidence >= SURE


def test_coordinator_that_all_clients_lose_restarted() -> None:
    scenario = Scenario()
    for client in ("a", "b"):
        scenario.log(client, EventKind.MEMBER_JOINED, 0, generation=4, member=f"{client}-1")
        lose_coordinator(scenario, client, (60, 61, 62))
    assert scenario.verdict().cause == "coordinator_restart"


def test_joins_in_between_are_no_unreachable_coordinator() -> None:
    scenario = Scenario()
    for at in (1, 100, 200, 300):
        lose_coordinator(scenario, "a", (at,))
        scenario.log("a", EventKind.MEMBER_JOINED, at + 10, generation=at)
    assert scenario.verdict().cause != "coordinator_unreachable"


@pytest.mark.parametrize(("count", "code"), [(2, EXIT_UNKNOWN), (5, EXIT_ACTION_NEEDED)])
def test_connect_workers_that_do_not_agree(count: int, code: int) -> None:
    scenario = Scenario()
    for at in range(count):
        detail = {"reason": "configuration offset does not match the assignment"}
        scenario.log("connect-1", EventKind.JOIN_REQUESTED, 10 * at, detail=detail)
        scenario.log("connect-1", EventKind.MEMBER_JOINED, 10 * at + 1, generation=7 + at)
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.culprits) == ("connect_config_loop", ("connect-1",))
    assert exit_code([verdict]) == code
    assert "config.storage.topic" in verdict.prescriptions[0].what


def rejoins(gaps: tuple[float, ...]) -> Scenario:
    scenario = Scenario().start("a")
    at = 100.0
    for gap in gaps:
        at += gap
        scenario.rejoin("a", at)
        scenario.form(at + 0.1)
    return scenario


def test_lone_leader_that_rejoins_at_an_interval() -> None:
    verdict = rejoins((300, 300, 301, 300, 299)).verdict()
    assert (verdict.cause, verdict.culprits) == ("leader_rejoins", ("a",))
    assert verdict.headline == "a: rejoined 5 times, every 300 s, as the only member"
    assert verdict.missing_input


def test_leader_whose_join_is_not_in_the_log_is_named() -> None:
    scenario = rejoins((300, 300, 301, 300, 299))
    scenario.rows = [row for row in scenario.rows if row.time_ms > START_MS + 60_000]
    verdict = scenario.verdict()
    assert verdict.headline == "a: rejoined 5 times, every 300 s, as the only member"


def test_default_limit_of_an_open_rebalance_is_not_shown_as_measured() -> None:
    scenario = Scenario().start("a", "b")
    scenario.join("c", 60)
    scenario.around(OtherEventKind.TOPIC_CREATED, 1260, topic="x")
    verdict = scenario.verdict()
    assert verdict.headline == "a rebalance is open for 20 min"
    assert "timeout_ms" not in verdict.figures


def test_leader_that_rejoins_irregularly_is_not_reported() -> None:
    assert rejoins((300, 20, 900, 40)).verdict().cause != "leader_rejoins"
    assert rejoins((300, 300)).verdict().cause != "leader_rejoins"


def leave_static(*, is_back: bool) -> Scenario:
    scenario = Scenario().start("a")
    scenario.join("b", 1, instance="i")
    scenario.form(2)
    scenario.leave("i", 100)
    scenario.rows[-2] = scenario.rows[-2]._replace(instance="i")
    scenario.form(101)
    if is_back:
        scenario.join("b", 110, instance="i")
        scenario.form(111)
    return scenario


def test_static_member_that_leaves_explicitly() -> None:
    verdict = leave_static(is_back=True).verdict()
    assert (verdict.cause, verdict.culprits) == ("static_member_leaves", ("i",))
    assert verdict.confidence >= SURE
    assert verdict.headline == "i: a static member that sent LeaveGroup, and came back"


def test_static_member_that_stays_away_may_be_removed() -> None:
    verdict = leave_static(is_back=False).verdict()
    assert (verdict.cause, verdict.alternatives) == ("static_member_leaves", ("scale_in",))
    assert "scale_in" not in {finding.cause for finding in verdict.other_findings}  # it is either of them
    assert exit_code([verdict]) == EXIT_UNKNOWN


def test_client_removed_after_a_request_to_rejoin_was_busy() -> None:
    scenario = Scenario()
    scenario.log("a", EventKind.HEARTBEAT_REFUSED, 10, detail={"error": "REBALANCE_IN_PROGRESS"})
    scenario.log("a", EventKind.HEARTBEAT_REFUSED, 50, detail={"error": "UNKNOWN_MEMBER_ID"})
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.alternatives) == ("poll_delay", ("session_expiry",))
    assert verdict.headline == "a was asked to rejoin, did not within 40 s, and was removed from the group"


def test_subscription_change_without_a_broker_log() -> None:
    scenario = Scenario()
    scenario.log("a", EventKind.JOIN_REQUESTED, 10, trigger=Trigger.SUBSCRIPTION_CHANGE)
    verdict = scenario.verdict()
    assert verdict.cause == "subscription_change"
    assert verdict.confidence < SURE


def test_group_that_all_members_leave_together_was_stopped() -> None:
    scenario = Scenario().start("a", "b")
    for row in list(scenario.rows):
        scenario.rows.remove(row)  # the excerpt begins with the leaves
    for at, client in ((100.0, "a"), (100.1, "b")):
        scenario.leave(client, at)
    assert scenario.verdict().cause == "scale_in"


def test_rebalance_without_a_reason_is_not_healthy() -> None:
    scenario = Scenario()
    scenario.log("a", EventKind.PARTITIONS_REVOKED, 10, detail={"partitions": ["t-0", "t-1"]})
    scenario.log("a", EventKind.MEMBER_JOINED, 11, generation=4)
    verdict = scenario.verdict()
    assert verdict.cause == "unknown"
    assert "shared_group_id" in verdict.alternatives
    scenario.log("a", OtherEventKind.CLIENT_STARTED, 1)
    assert scenario.verdict().cause == "healthy"


def refreshes(version: str | None) -> Scenario:
    scenario = Scenario()
    if version is not None:
        scenario.log("a", OtherEventKind.CLIENT_STARTED, 1, detail={"version": version})
    for at in (300, 600, 900):
        scenario.log("a", EventKind.JOIN_REQUESTED, at, trigger=Trigger.SUBSCRIPTION_CHANGE)
    return scenario


def test_topics_that_one_client_finds_changed_are_to_be_checked() -> None:
    verdict = refreshes(None).verdict()
    assert (verdict.cause, verdict.is_partial) == ("subscription_change", True)
    assert verdict.headline == "a rejoined because it found other topics than before (3 times)"
    assert [bool(item.cites) for item in verdict.prescriptions] == [False, True]
    assert "check the version of librdkafka: " in verdict.prescriptions[1].what
    assert len(refreshes("v2.3.0").verdict().prescriptions) == 1  # the version excludes the bug


def test_version_with_a_known_bug_is_the_cause() -> None:
    verdict = refreshes("v0.11.6").verdict()
    assert verdict.cause == "known_bug"
    assert verdict.headline.startswith("librdkafka 0.11.6 has a known bug (librdkafka issue 2261)")
    assert verdict.alternatives == ("subscription_change",)
    assert "upgrade" in verdict.prescriptions[0].what
    for version in ("v2.3.0", "0.11.6", None):
        assert refreshes(version).verdict().cause == "subscription_change"


def test_unknown_version_of_a_broker_is_to_be_checked() -> None:
    scenario = Scenario().start("a", "b")
    scenario.broker(EventKind.REBALANCE_FAILED, 400, detail={"error": "no members rejoined"})
    verdict = scenario.verdict()
    assert verdict.cause == "stuck_rebalance"
    bug = next(item for item in verdict.prescriptions if "KAFKA-9752" in item.cites)
    assert "2.2.0 and newer before 2.5.0" in bug.what
    assert any("KAFKA-12890" in item.cites for item in verdict.prescriptions)


@pytest.mark.parametrize(("line", "is_named"), [("Joining group `g`", True), ("[Consumer clientId=a] failed", False)])
def test_bug_of_some_libraries_is_named_for_them_only(line: str, *, is_named: bool) -> None:
    scenario = Scenario()
    scenario.log("a", EventKind.HEARTBEAT_REFUSED, 1, detail={"error": "UNKNOWN_MEMBER_ID"}, line=line)
    verdict = scenario.verdict()
    assert verdict.cause == "session_expiry"
    assert any("KAFKA-8653" in item.cites for item in verdict.prescriptions) is is_named


@pytest.mark.parametrize(
    ("name", "version", "is_affected"),
    [
        ("KAFKA-9752", "2.4.1", True),
        ("KAFKA-9752", "2.5.0", False),
        ("KAFKA-12890", "2.6.0", False),
        ("KAFKA-12890", "2.8.0", True),
        ("KAFKA-12890", "2.8.1", False),
        ("KAFKA-8653", "2.3.0", True),
        ("KAFKA-8653", "2.3.1", False),
        ("KAFKA-12984", "2.8.0", True),
        ("KAFKA-12984", "3.0.0", False),
    ],
)
def test_table_of_bugs_compares_versions(name: str, version: str, *, is_affected: bool) -> None:
    bug = next(bug for bug in KNOWN_BUGS if bug.name == name)
    assert bug.has(tuple(map(int, version.split(".")))) is is_affected


def test_members_of_one_client_id_that_leave_were_stopped() -> None:
    scenario = Scenario()
    for at, member in ((100.0, 1), (100.1, 2)):
        name = f"rdkafka-00000000-0000-0000-0000-00000000000{member}"
        scenario.broker(EventKind.MEMBER_LEFT, at, member=name, detail={"by": "itself"})
    verdict = scenario.verdict()
    assert verdict.cause == "scale_in"
    assert verdict.confidence < SURE
