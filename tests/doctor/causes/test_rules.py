"""Every cause, from rows as brokers and clients write them, for several libraries and log formats."""

import pytest

from slackwater.doctor.causes.finding import SURE
from slackwater.doctor.causes.rules import CAUSES, RULES
from slackwater.doctor.events.table import OtherEventKind
from slackwater.group.events import EventKind, Trigger
from tests.doctor.scenario import Scenario

POLL = "consumer poll timeout has expired."
CLOSED = "the consumer is being closed"


def settled(*clients: str, logged: bool = True) -> Scenario:
    """A group of members that have been stable for a while."""
    scenario = Scenario()
    if logged:
        for client in clients:
            scenario.started(client, -2)
    return scenario.start(*clients)


def kicked(scenario: Scenario, client: str, at: float, reason: str = "not provided") -> None:
    """A member leaves because of its poll timer, and rejoins."""
    scenario.leave(client, at, reason)
    scenario.form(at + 0.5)
    scenario.join(client, at + 3)
    scenario.form(at + 3.5)


# ---- healthy


def test_group_that_only_started_is_healthy() -> None:
    verdict = settled("a", "b").verdict()
    assert (verdict.cause, verdict.action_needed, verdict.rebalances) == ("healthy", False, 1)


def deployed(*clients: str) -> Scenario:
    """A group whose members were restarted one after another."""
    scenario = settled(*clients)
    for at, client in enumerate(clients):
        scenario.leave(client, 20 + 20 * at, "the consumer is being closed")
        scenario.form(21 + 20 * at)
        scenario.join(client, 25 + 20 * at)
        scenario.form(26 + 20 * at)
    return scenario


def test_few_starting_members_are_healthy() -> None:
    scenario = Scenario()
    for at, client in enumerate(("a", "b", "c")):
        scenario.join(client, at * 1.5)
        scenario.form(at * 1.5 + 0.3)
    assert scenario.verdict().cause == "healthy"


def test_healthy_names_the_missing_sources() -> None:
    verdict = settled("a", "b", logged=False).verdict()
    assert verdict.cause == "healthy"
    assert verdict.confidence < SURE
    assert "no log of the group's clients" in verdict.missing_input[0]


# ---- poll delay


def test_leave_with_poll_timeout_reason_is_poll_delay() -> None:
    scenario = settled("a", "b", "c")
    for at in (20, 40, 60):
        kicked(scenario, "b", at, POLL)
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.culprits, verdict.is_storm) == ("poll_delay", ("b",), True)
    assert verdict.confidence >= SURE


def test_single_poll_delay_is_no_storm() -> None:
    scenario = settled("a", "b", "c")
    kicked(scenario, "b", 20, POLL)
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.is_storm) == ("poll_delay", False)


def test_leave_and_rejoin_in_one_process_is_poll_delay() -> None:
    scenario = settled("a", "b", "c")
    for at in (20, 40):
        kicked(scenario, "b", at)
        scenario.log("b", EventKind.MEMBER_LEFT, at)
        scenario.log("b", EventKind.COMMIT_REFUSED, at + 2, detail={"error": "[Error 25] UnknownMemberIdError"})
    assert scenario.verdict().cause == "poll_delay"


def test_leave_without_reason_is_unknown() -> None:
    scenario = settled("a", "b", "c", logged=False)
    kicked(scenario, "b", 20)
    kicked(scenario, "b", 40)
    verdict = scenario.verdict()
    assert verdict.cause == "unknown"
    assert {"poll_delay", "crash_loop"} <= set(verdict.alternatives)
    assert "the reason is not in the broker's log; add the client log of" in verdict.missing_input[0]


def test_expiry_without_client_log_is_unknown() -> None:
    scenario = settled("a", "b", "c", logged=False)
    for at in (20, 60):
        scenario.expire("b", at)
        scenario.join("b", at + 10)
        scenario.form(at + 11)
    verdict = scenario.verdict()
    assert verdict.cause == "unknown"
    assert {"session_expiry", "crash_loop"} <= set(verdict.alternatives)
    assert {line.what for line in verdict.evidence} == {
        "b was removed: no heartbeat within its session timeout; why it sent none is not logged"
    }


def test_leaves_at_the_poll_limit_are_likely_poll_delay() -> None:
    scenario = settled("a", "b", "c", logged=False)
    scenario.record(1, limit_ms=5000)
    last = 0.5
    for _ in range(3):
        at = last + 5.2
        kicked(scenario, "b", at)
        scenario.record(at + 3.6, limit_ms=5000)
        last = at + 3.5
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.culprits) == ("poll_delay", ("b",))
    assert verdict.confidence < SURE


def test_members_that_inherit_the_load_are_secondary() -> None:
    scenario = settled("a", "b", "c")
    for client in ("a", "b", "c"):
        scenario.log(
            client, OtherEventKind.CLIENT_SETTING, -1, detail={"setting": "max.poll.interval.ms", "value": "5000"}
        )
    kicked(scenario, "b", 30, POLL)
    kicked(scenario, "a", 37, POLL)
    kicked(scenario, "c", 44, POLL)
    verdict = scenario.verdict()
    assert (verdict.culprits, verdict.secondary_members) == (("b",), ("a", "c"))


def test_members_late_together_are_all_culprits() -> None:
    scenario = settled("a", "b", "c")
    for client in ("a", "b", "c"):
        scenario.log(
            client, OtherEventKind.CLIENT_SETTING, -1, detail={"setting": "max.poll.interval.ms", "value": "5000"}
        )
    for at, client in ((30.0, "b"), (30.2, "a"), (31.0, "c")):
        scenario.leave(client, at, POLL)
    for client in ("a", "b", "c"):
        scenario.join(client, 34)
    scenario.form(35)
    verdict = scenario.verdict()
    assert (set(verdict.culprits), verdict.secondary_members) == ({"a", "b", "c"}, ())


def test_librdkafka_line_alone_names_the_culprit() -> None:
    scenario = Scenario()
    for at in (10, 20):
        scenario.log("b", EventKind.POLL_OVERRUN, at, detail={"limit_ms": 5000, "over_ms": 250})
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.culprits) == ("poll_delay", ("b",))


def test_member_dropped_from_rebalance_is_poll_delay() -> None:
    """Sarama and others have no poll timer: a handler that does not return delays the rebalance until its timeout."""
    scenario = settled("a", "b", "c")
    for at in (20, 60):
        scenario.drop("b", at)
        scenario.form(at)
        scenario.log("b", EventKind.PARTITIONS_REVOKED, at + 5)
        scenario.join("b", at + 6)
        scenario.form(at + 7)
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.culprits) == ("poll_delay", ("b",))


def test_handler_that_blocks_heartbeats_is_poll_delay() -> None:
    """KafkaJS sends heartbeats between messages: it continues although its heartbeats are rejected."""
    scenario = settled("a", "b", "c")
    scenario.record(1)
    scenario.expire("b", 20)
    scenario.form(21)
    for at in (23, 30, 37):
        scenario.log(
            "b", EventKind.HEARTBEAT_REFUSED, at, detail={"error": "The coordinator is not aware of this member"}
        )
    scenario.join("b", 37.1)
    scenario.form(38)
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.culprits) == ("poll_delay", ("b",))
    assert "heartbeat()" in verdict.prescriptions[0].what


def test_kip848_rejoin_with_same_id_is_poll_delay() -> None:
    scenario = Scenario()
    for at, member in enumerate(("A" * 22, "B" * 22)):
        scenario.broker(EventKind.MEMBER_JOINED, at, member=member, detail={"group_protocol": "consumer"})
        scenario.broker(EventKind.GENERATION_FORMED, at, generation=at + 2, detail={"group_protocol": "consumer"})
    for at in (20, 40):
        scenario.broker(EventKind.MEMBER_LEFT, at, member="B" * 22, detail={"group_protocol": "consumer"})
        scenario.broker(EventKind.MEMBER_JOINED, at + 3, member="B" * 22, detail={"group_protocol": "consumer"})
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.culprits) == ("kip848_poll_delay", ("B" * 22,))


# ---- sessions


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        (EventKind.SESSION_LOST, "session timed out"),
        (EventKind.SESSION_LOST, "UNKNOWN_MEMBER_ID"),
        (EventKind.HEARTBEAT_REFUSED, "The coordinator is not aware of this member"),
    ],
    ids=["librdkafka", "java and kafka-python", "kafkajs"],
)
def test_expired_session_of_live_process_is_session_expiry(kind: EventKind, error: str) -> None:
    scenario = settled("a", "b", "c", logged=False)
    scenario.record(1)
    for at in (20, 60):
        scenario.expire("b", at)
        scenario.form(at + 0.5)
        scenario.log("b", kind, at + 9, detail={"error": error})
        scenario.join("b", at + 9.1)
        scenario.form(at + 10)
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.culprits, verdict.is_storm) == ("session_expiry", ("b",), True)
    assert verdict.confidence >= SURE
    assert int(verdict.prescriptions[0].settings["session.timeout.ms"]) > 10_000 + 9_000


def test_expired_member_that_stays_away_crashed() -> None:
    scenario = settled("a", "b", "c")
    scenario.expire("b", 20)
    scenario.form(21)
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.culprits, verdict.is_storm) == ("crash", ("b",), False)


def test_unexplained_expiry_is_unknown() -> None:
    scenario = settled("a", "b", "c", logged=False)
    for at in (20, 40):
        scenario.expire("b", at)
        scenario.form(at + 0.5)
        scenario.join("b", at + 5)
        scenario.form(at + 6)
    verdict = scenario.verdict()
    assert verdict.cause == "unknown"
    assert {"session_expiry", "crash_loop"} <= set(verdict.alternatives)


# ---- crash loops


def test_new_id_before_old_one_expires_is_a_crash() -> None:
    scenario = settled("a", "b", "c", logged=False)
    for at in (20, 30, 40):
        old = scenario.ids["b"]
        scenario.join("b", at)
        scenario.expire("b", at + 1, member=old)
        scenario.form(at + 1.5)
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.culprits, verdict.is_storm) == ("crash_loop", ("b",), True)
    assert verdict.confidence >= SURE


def test_expiries_with_starts_are_a_crash_loop() -> None:
    scenario = settled("a", "b", "c")
    for at in (20, 40):
        scenario.expire("b", at)
        scenario.form(at + 0.5)
        scenario.started("b", at + 2)
        scenario.join("b", at + 4)
        scenario.form(at + 5)
    assert scenario.verdict().cause == "crash_loop"


def test_close_after_error_is_a_crash_loop() -> None:
    scenario = settled("a", "b", "c")
    for at in (20, 40, 60):
        scenario.log("b", OtherEventKind.CLIENT_FAILED, at - 0.1, detail={"error": "java.lang.IllegalStateException"})
        scenario.leave("b", at, CLOSED)
        scenario.form(at + 0.5)
        scenario.started("b", at + 2)
        scenario.join("b", at + 4)
        scenario.form(at + 5)
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.culprits) == ("crash_loop", ("b",))


def test_one_member_closing_repeatedly_is_a_crash_loop() -> None:
    """librdkafka does not log a close; max.poll.interval.ms in the records excludes the poll timer."""
    scenario = settled("a", "b", "c", logged=False)
    scenario.record(1)
    for at in (20, 30, 40):
        scenario.leave("b", at)
        scenario.form(at + 0.5)
        scenario.join("b", at + 4)
        scenario.form(at + 5)
        scenario.record(at + 5.1)
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.culprits) == ("crash_loop", ("b",))


# ---- restarts


def restart(scenario: Scenario, client: str, at: float, reason: str = "not provided", *, logged: bool = True) -> None:
    """A member is restarted by a deploy."""
    scenario.leave(client, at, reason)
    scenario.form(at + 0.5)
    if logged:
        scenario.started(client, at + 1)
    scenario.join(client, at + 2)
    scenario.form(at + 2.5)


@pytest.mark.parametrize(("reason", "logged"), [(CLOSED, True), ("not provided", True), (CLOSED, False)])
def test_members_restarting_in_turn_are_a_deploy(reason: str, logged: bool) -> None:
    scenario = settled("a", "b", "c", logged=logged)
    scenario.assignor = "range"
    for at, client in ((20, "a"), (30, "b"), (40, "c")):
        restart(scenario, client, at, reason, logged=logged)
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.is_storm, verdict.action_needed) == ("rolling_restart", False, True)
    assert verdict.alerts == ("RebalancesTooOften",)
    assert set(verdict.culprits) == {"a", "b", "c"}
    assert verdict.confidence >= SURE


def test_all_members_leaving_once_is_likely_a_deploy() -> None:
    scenario = settled("a", "b", "c", logged=False)
    for at, client in ((20, "a"), (30, "b"), (40, "c")):
        restart(scenario, client, at, logged=False)
    verdict = scenario.verdict()
    assert verdict.cause == "rolling_restart"
    assert verdict.confidence < SURE


def test_deploy_with_renamed_processes() -> None:
    scenario = settled("a-1", "a-2", "a-3", logged=False)
    for at, old, new in ((20, "a-1", "b-1"), (30, "a-2", "b-2"), (40, "a-3", "b-3")):
        scenario.leave(old, at, CLOSED)
        scenario.form(at + 0.5)
        scenario.join(new, at + 2)
        scenario.form(at + 2.5)
    verdict = scenario.verdict()
    assert verdict.cause == "rolling_restart"
    assert verdict.confidence < SURE


def test_deploy_with_other_assignors_is_a_migration() -> None:
    scenario = settled("a", "b")
    for client in ("a", "b"):
        scenario.log(client, OtherEventKind.CLIENT_SETTING, -1, detail=_strategy("x.RangeAssignor"))
    for at, client in ((20, "a"), (30, "b")):
        restart(scenario, client, at, CLOSED)
        scenario.log(client, OtherEventKind.CLIENT_SETTING, at + 1, detail=_strategy("x.CooperativeStickyAssignor"))
    assert scenario.verdict().cause == "assignor_migration"


def _strategy(name: str) -> dict[str, str]:
    return {"setting": "partition.assignment.strategy", "value": f"[class {name}]"}


def static_group() -> Scenario:
    scenario = Scenario()
    for number in range(3):
        scenario.join(f"c{number}", 0, instance=f"i{number}")
    scenario.form(0.5)
    return scenario


def test_static_restart_in_time_forms_no_generation() -> None:
    scenario = static_group()
    for number in range(3):
        scenario.replace(f"i{number}", 20 + 10 * number)
    verdict = scenario.verdict()
    assert (verdict.cause, set(verdict.culprits), verdict.rebalances) == (
        "static_restart_in_time",
        {"i0", "i1", "i2"},
        1,
    )


def test_static_restart_after_session_is_too_late() -> None:
    scenario = static_group()
    for number in range(3):
        limit = {"setting": "session.timeout.ms", "value": "10000"}
        scenario.log(f"c{number}", OtherEventKind.CLIENT_SETTING, 0, instance=f"i{number}", detail=limit)
    for number in range(3):
        at = 20 + 20 * number
        scenario.expire(f"i{number}", at)
        scenario.form(at + 1)
        scenario.join(f"c{number}", at + 5, instance=f"i{number}")
        scenario.form(at + 6)
    verdict = scenario.verdict()
    assert (verdict.cause, set(verdict.culprits)) == ("static_restart_too_late", {"i0", "i1", "i2"})
    # A session of ten seconds expired five seconds before each member was back.
    assert (verdict.figures["late_ms"], verdict.figures["restart_ms"]) == (5_000, 15_000)
    assert int(verdict.prescriptions[0].settings["session.timeout.ms"]) > 15_000


# ---- conflicts


def test_fenced_request_is_an_instance_id_conflict() -> None:
    scenario = static_group()
    for at in (20, 30):
        old, new = scenario.replace("i1", at)
        scenario.broker(
            EventKind.MEMBER_FENCED,
            at + 0.3,
            member=old,
            instance="i1",
            detail={"operation": "heartbeat", "holder": new},
        )
    scenario.log("c1", EventKind.REBALANCE_COMPLETED, 21, instance="i1")
    scenario.log("copy", EventKind.REBALANCE_COMPLETED, 31, instance="i1")
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.is_storm) == ("instance_id_conflict", True)
    assert set(verdict.culprits) == {"i1", "c1", "copy"}


def test_conflict_names_the_id_its_clients_and_their_hosts() -> None:
    scenario = static_group()
    for at, client in ((20, "c1"), (30, "copy")):
        old, new = scenario.replace("i1", at)
        scenario.broker(EventKind.MEMBER_FENCED, at + 0.3, member=old, instance="i1", detail={"operation": "heartbeat"})
        host = {"host": "/10.0.0.7"} if client == "copy" else {}
        scenario.log(client, EventKind.REBALANCE_COMPLETED, at + 1, instance="i1", member=new, **host)
    assert scenario.verdict().headline == (
        "i1: this group.instance.id is used by two running processes, clients c1 and copy on /10.0.0.7 "
        "(they replaced each other 2 times)"
    )


def test_repeated_replacement_is_not_surely_a_deploy() -> None:
    scenario = static_group()
    for at in (20, 30, 40):
        scenario.replace("i1", at)
    verdict = scenario.verdict()
    assert verdict.confidence < SURE
    assert "instance_id_conflict" in (verdict.cause, *verdict.alternatives)


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        (
            EventKind.JOIN_REFUSED,
            "The group member's supported protocols are incompatible with those of existing members",
        ),
        (EventKind.JOIN_REFUSED, "InconsistentGroupProtocolError"),
        (EventKind.JOIN_REFUSED, "Broker: Inconsistent group protocol"),
        (OtherEventKind.CLIENT_FAILED, "InconsistentGroupProtocolError"),
        (
            EventKind.REBALANCE_FAILED,
            "The group member's supported protocols are incompatible with those of existing members",
        ),
    ],
)
def test_inconsistent_protocol_needs_the_client_log(kind: str, error: str) -> None:
    scenario = settled("a", "b")
    scenario.log("new", kind, 20, detail={"error": error})
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.culprits, verdict.is_storm) == ("inconsistent_protocol", ("new",), False)


def test_members_without_common_topic_share_a_group_id() -> None:
    scenario = settled("a", "b", "x", "y", logged=False)
    scenario.record(1, {"a": ("orders",), "b": ("orders",), "x": ("reports",), "y": ("reports",)})
    for at in (20, 40):
        kicked(scenario, "x", at, POLL)
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.culprits) == ("shared_group_id", ("x",))
    assert [finding.cause for finding in verdict.other_findings] == ["poll_delay"]
    assert any("max.poll.interval.ms" in item.settings for item in verdict.prescriptions)


def test_shared_group_id_without_late_members_has_no_advice_about_polls() -> None:
    scenario = settled("a", "x", logged=False)
    scenario.record(1, {"a": ("orders",), "x": ("reports",)})
    verdict = scenario.verdict()
    assert verdict.cause == "shared_group_id"
    assert [item.settings for item in verdict.prescriptions] == [{"group.id": "<one per service>"}]


def test_changed_subscription_is_not_a_shared_group_id() -> None:
    scenario = settled("a", "b")
    for at, client in ((20, "a"), (30, "b")):
        scenario.leave(client, at, CLOSED)
        scenario.form(at + 0.5)
        scenario.started(client, at + 1, topics=("other",))
        scenario.join(client, at + 2)
        scenario.form(at + 3)
    assert scenario.verdict().cause == "rolling_restart"


# ---- scaling


def test_new_members_that_stay_are_a_scale_out() -> None:
    scenario = settled("a", "b")
    for at, client in ((20, "c"), (30, "d")):
        scenario.started(client, at - 1)
        scenario.join(client, at)
        scenario.form(at + 1)
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.culprits, verdict.action_needed) == ("scale_out", ("c", "d"), False)


def test_members_at_the_end_of_an_excerpt_are_no_sure_scaling() -> None:
    scenario = settled("a", "b")
    scenario.join("c", 60)
    scenario.form(61)
    verdict = scenario.verdict()
    assert verdict.confidence < SURE
    assert "rolling_restart" in verdict.alternatives
    scenario = settled("a", "b")
    scenario.leave("b", 60, CLOSED)
    scenario.form(61)
    verdict = scenario.verdict()
    assert verdict.confidence < SURE
    assert verdict.alternatives == ("rolling_restart",)


def test_process_started_before_settling_belongs_to_start() -> None:
    scenario = settled("a", "b")
    scenario.started("slow", 0)
    scenario.join("slow", 6)
    scenario.form(7)
    assert scenario.verdict().cause == "healthy"


@pytest.mark.parametrize("reason", [CLOSED, "not provided"])
def test_members_that_close_for_good_are_a_scale_in(reason: str) -> None:
    scenario = settled("a", "b", "c", logged=False)
    scenario.leave("c", 20, reason)
    scenario.form(21)
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.culprits) == ("scale_in", ("c",))


@pytest.mark.parametrize("names", [("x", "x", "x"), ("x", "y", "z")], ids=["the same pods", "new pods"])
def test_joining_and_leaving_repeatedly_is_flapping(names: tuple[str, str, str]) -> None:
    scenario = settled("a", "b", logged=False)
    for at, name in zip((20, 40, 60), names, strict=True):
        scenario.join(name, at)
        scenario.form(at + 1)
        scenario.leave(name, at + 10, CLOSED)
        scenario.form(at + 11)
    verdict = scenario.verdict()
    assert (verdict.cause, set(verdict.culprits), verdict.is_storm) == ("autoscaler_flapping", set(names), True)


# ---- topics


@pytest.mark.parametrize(
    ("kind", "detail", "cause"),
    [
        (OtherEventKind.PARTITION_CREATED, {"topic": "t", "partition": 7}, "partitions_added"),
        (OtherEventKind.TOPIC_DELETED, {"topic": "t"}, "topic_deleted"),
        (OtherEventKind.TOPIC_CREATED, {"topic": "t", "count": 3}, "new_topic_matched"),
    ],
)
def test_change_of_a_subscribed_topic(kind: str, detail: dict[str, object], cause: str) -> None:
    scenario = settled("a", "b")
    scenario.around(kind, 20, **detail)
    scenario.around(OtherEventKind.TOPIC_CREATED, 21, topic="unrelated", count=1)
    scenario.rejoin("a", 22)
    scenario.form(23)
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.culprits, verdict.action_needed) == (cause, ("t",), False)


def test_leader_log_shows_the_topic_change() -> None:
    scenario = Scenario()
    scenario.log("a", EventKind.MEMBER_JOINED, 0, member="a-1", generation=1)
    scenario.log(
        "a",
        EventKind.JOIN_REQUESTED,
        20,
        detail={
            "reason": "cached metadata has changed from (version2: {t=[NO_RACKS, NO_RACKS]}) at the beginning of the "
            "rebalance to (version4: {t=[NO_RACKS, NO_RACKS, NO_RACKS]})"
        },
    )
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.culprits) == ("partitions_added", ("t",))


def test_change_of_an_unrelated_topic_is_ignored() -> None:
    scenario = settled("a", "b")
    scenario.around(OtherEventKind.TOPIC_DELETED, 20, topic="unrelated")
    assert scenario.verdict().cause == "healthy"


# ---- the coordinator


def test_coordinator_restart_explains_what_follows() -> None:
    scenario = settled("a", "b", logged=False)
    scenario.record(1)
    scenario.around(OtherEventKind.BROKER_STOPPING, 30, node="1")
    scenario.around(OtherEventKind.BROKER_STARTED, 70, node="1")
    for client in ("a", "b"):
        old = scenario.ids[client]
        scenario.join(client, 75)
        scenario.expire(client, 81, member=old)
    scenario.form(82)
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.culprits, verdict.action_needed) == ("coordinator_restart", ("broker 1",), False)


def test_deploy_before_a_coordinator_restart_is_a_deploy() -> None:
    scenario = deployed("a", "b", "c")
    scenario.broker(EventKind.GROUP_LOADED, 100, members=3)
    assert scenario.verdict().cause == "rolling_restart"


def test_coordinator_restart_without_rebalance() -> None:
    scenario = settled("a", "b")
    scenario.around(OtherEventKind.BROKER_STARTED, 70, node="1")
    assert scenario.verdict().cause == "coordinator_restart"


def test_restart_of_another_broker_is_ignored() -> None:
    scenario = settled("a", "b")
    scenario.broker(EventKind.REBALANCE_COMPLETED, 1, generation=1, detail={"node": "1"})
    scenario.around(OtherEventKind.BROKER_STARTED, 70, node="2")
    assert scenario.verdict().cause == "healthy"


# ---- starts, and rebalances that do not end


def test_slow_start_of_many_members_is_a_herd() -> None:
    scenario = Scenario()
    for number in range(8):
        scenario.join(f"c{number}", number * 0.5)
    scenario.form(9)
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.rebalances, verdict.action_needed) == ("startup_herd", 1, False)
    assert len(verdict.culprits) == 8


def test_as_many_members_that_start_at_once_are_healthy() -> None:
    assert settled(*(f"c{number}" for number in range(8))).verdict().cause == "healthy"


def test_failed_rebalance_is_stuck() -> None:
    scenario = settled("a", "b")
    scenario.rejoin("a", 20)
    scenario.broker(EventKind.REBALANCE_FAILED, 320, detail={"error": "no members rejoined"})
    assert scenario.verdict().cause == "stuck_rebalance"


def test_rebalance_replaced_by_the_next_is_not_stuck() -> None:
    scenario = deployed("a", "b", "c")
    scenario.broker(EventKind.REBALANCE_FAILED, 20, detail={"error": "REBALANCE_IN_PROGRESS"})
    assert scenario.verdict().cause == "rolling_restart"


def test_follow_up_after_follow_up_never_converges() -> None:
    scenario = settled("a", "b")
    for number in range(6):
        scenario.rejoin("a", 20 + number, Trigger.COOPERATIVE_FOLLOWUP)
        scenario.form(20.5 + number)
    verdict = scenario.verdict()
    assert verdict.cause == "assignor_never_converges"
    assert (verdict.rebalances, verdict.changes) == (7, 1)


# ---- all causes


def test_every_rule_finds_causes_that_are_described() -> None:
    assert {cause for rule in RULES for cause in rule.finds} <= set(CAUSES)


def test_verdict_does_not_depend_on_names() -> None:
    for names in (("a", "b", "c"), ("dup", "canary", "consumer-1"), ("日本", "x" * 200, "-")):
        scenario = settled(*names)
        kicked(scenario, names[1], 20, POLL)
        kicked(scenario, names[1], 40, POLL)
        verdict = scenario.verdict()
        assert (verdict.cause, verdict.culprits) == ("poll_delay", (names[1],))


def test_shared_client_id_uses_member_ids() -> None:
    """Every library has a default client id, and all members of a service may use it."""
    scenario = Scenario()
    members = [scenario.join("rdkafka", 0) for _ in range(3)]
    scenario.form(0.5)
    for at in (20, 30):
        scenario.rejoin("rdkafka", at)
        scenario.form(at + 1)
    assert set(scenario.history().timelines) == set(members)
