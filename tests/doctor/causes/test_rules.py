"""Every cause from rows that a broker and clients would write, with the libraries and forms that a log can have."""

import pytest

from slackwater.doctor.causes.finding import SURE
from slackwater.doctor.causes.rules import CAUSES, RULES
from slackwater.doctor.events.table import FactKind
from slackwater.group.events import EventKind, Trigger
from tests.doctor.scene import Scene

POLL = "consumer poll timeout has expired."
CLOSED = "the consumer is being closed"


def settled(*clients: str, logged: bool = True) -> Scene:
    """A group of members that have been stable for a while."""
    scene = Scene()
    if logged:
        for client in clients:
            scene.started(client, -2)
    return scene.start(*clients)


def kicked(scene: Scene, client: str, at: float, reason: str = "not provided") -> None:
    """A member is put out by its poll timer, and comes back."""
    scene.leave(client, at, reason)
    scene.form(at + 0.5)
    scene.join(client, at + 3)
    scene.form(at + 3.5)


# ---- healthy


def test_a_group_that_only_started_is_healthy() -> None:
    verdict = settled("a", "b").verdict()
    assert (verdict.cause, verdict.action_needed, verdict.rebalances) == ("healthy", False, 1)


def test_few_starting_members_are_healthy() -> None:
    scene = Scene()
    for at, client in enumerate(("a", "b", "c")):
        scene.join(client, at * 1.5)
        scene.form(at * 1.5 + 0.3)
    assert scene.verdict().cause == "healthy"


def test_healthy_names_what_the_broker_log_lacks() -> None:
    verdict = settled("a", "b", logged=False).verdict()
    assert verdict.cause == "healthy"
    assert verdict.confidence < SURE
    assert "clients' logs" in verdict.missing[0]


# ---- poll delay


def test_a_leave_for_the_poll_timeout_is_poll_delay() -> None:
    scene = settled("a", "b", "c")
    for at in (20, 40, 60):
        kicked(scene, "b", at, POLL)
    verdict = scene.verdict()
    assert (verdict.cause, verdict.culprits, verdict.storm) == ("poll_delay", ("b",), True)
    assert verdict.confidence >= SURE


def test_once_is_no_storm() -> None:
    scene = settled("a", "b", "c")
    kicked(scene, "b", 20, POLL)
    verdict = scene.verdict()
    assert (verdict.cause, verdict.storm) == ("poll_delay", False)


def test_leave_and_rejoin_in_one_process_is_poll_delay() -> None:
    scene = settled("a", "b", "c")
    for at in (20, 40):
        kicked(scene, "b", at)
        scene.log("b", EventKind.MEMBER_LEFT, at)
        scene.log("b", EventKind.COMMIT_REFUSED, at + 2, detail={"error": "[Error 25] UnknownMemberIdError"})
    assert scene.verdict().cause == "poll_delay"


def test_leave_without_reason_is_unknown() -> None:
    scene = settled("a", "b", "c", logged=False)
    kicked(scene, "b", 20)
    kicked(scene, "b", 40)
    verdict = scene.verdict()
    assert verdict.cause == "unknown"
    assert {"poll_delay", "crash_loop"} <= set(verdict.alternatives)
    assert "the broker's log does not contain the reason; add the client log of" in verdict.missing[0]


def test_leaves_at_the_poll_limit_are_likely_poll_delay() -> None:
    scene = settled("a", "b", "c", logged=False)
    scene.record(1, limit_ms=5000)
    last = 0.5
    for _ in range(3):
        at = last + 5.2
        kicked(scene, "b", at)
        scene.record(at + 3.6, limit_ms=5000)
        last = at + 3.5
    verdict = scene.verdict()
    assert (verdict.cause, verdict.culprits) == ("poll_delay", ("b",))
    assert verdict.confidence < SURE


def test_members_that_inherit_the_load_are_secondary() -> None:
    scene = settled("a", "b", "c")
    for client in ("a", "b", "c"):
        scene.log(client, FactKind.CLIENT_SETTING, -1, detail={"setting": "max.poll.interval.ms", "value": "5000"})
    kicked(scene, "b", 30, POLL)
    kicked(scene, "a", 37, POLL)
    kicked(scene, "c", 44, POLL)
    verdict = scene.verdict()
    assert (verdict.culprits, verdict.secondary) == (("b",), ("a", "c"))


def test_members_late_together_are_all_culprits() -> None:
    scene = settled("a", "b", "c")
    for client in ("a", "b", "c"):
        scene.log(client, FactKind.CLIENT_SETTING, -1, detail={"setting": "max.poll.interval.ms", "value": "5000"})
    for at, client in ((30.0, "b"), (30.2, "a"), (31.0, "c")):
        scene.leave(client, at, POLL)
    for client in ("a", "b", "c"):
        scene.join(client, 34)
    scene.form(35)
    verdict = scene.verdict()
    assert (set(verdict.culprits), verdict.secondary) == ({"a", "b", "c"}, ())


def test_librdkafkas_line_alone_names_the_culprit() -> None:
    scene = Scene()
    for at in (10, 20):
        scene.log("b", EventKind.POLL_OVERRUN, at, detail={"limit_ms": 5000, "over_ms": 250})
    verdict = scene.verdict()
    assert (verdict.cause, verdict.culprits) == ("poll_delay", ("b",))


def test_member_dropped_from_rebalance_is_poll_delay() -> None:
    """sarama and others without a poll timer: a handler that runs on holds the round up until its timeout."""
    scene = settled("a", "b", "c")
    for at in (20, 60):
        scene.drop("b", at)
        scene.form(at)
        scene.log("b", EventKind.PARTITIONS_REVOKED, at + 5)
        scene.join("b", at + 6)
        scene.form(at + 7)
    verdict = scene.verdict()
    assert (verdict.cause, verdict.culprits) == ("poll_delay", ("b",))


def test_handler_that_blocks_heartbeats_is_poll_delay() -> None:
    """kafkajs heartbeats between messages: told again and again that it is no member, it goes on."""
    scene = settled("a", "b", "c")
    scene.record(1)
    scene.expire("b", 20)
    scene.form(21)
    for at in (23, 30, 37):
        scene.log("b", EventKind.HEARTBEAT_REFUSED, at, detail={"error": "The coordinator is not aware of this member"})
    scene.join("b", 37.1)
    scene.form(38)
    verdict = scene.verdict()
    assert (verdict.cause, verdict.culprits) == ("poll_delay", ("b",))
    assert "heartbeat()" in verdict.prescriptions[0].what


def test_kip848_rejoin_with_same_id_is_poll_delay() -> None:
    scene = Scene()
    for at, member in enumerate(("A" * 22, "B" * 22)):
        scene.broker(EventKind.MEMBER_JOINED, at, member=member, detail={"group_protocol": "consumer"})
        scene.broker(EventKind.GENERATION_FORMED, at, generation=at + 2, detail={"group_protocol": "consumer"})
    for at in (20, 40):
        scene.broker(EventKind.MEMBER_LEFT, at, member="B" * 22, detail={"group_protocol": "consumer"})
        scene.broker(EventKind.MEMBER_JOINED, at + 3, member="B" * 22, detail={"group_protocol": "consumer"})
    verdict = scene.verdict()
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
    scene = settled("a", "b", "c", logged=False)
    scene.record(1)
    for at in (20, 60):
        scene.expire("b", at)
        scene.form(at + 0.5)
        scene.log("b", kind, at + 9, detail={"error": error})
        scene.join("b", at + 9.1)
        scene.form(at + 10)
    verdict = scene.verdict()
    assert (verdict.cause, verdict.culprits, verdict.storm) == ("session_expiry", ("b",), True)
    assert verdict.confidence >= SURE
    assert int(verdict.prescriptions[0].settings["session.timeout.ms"]) > 10_000 + 9_000


def test_expired_member_that_stays_away_crashed() -> None:
    scene = settled("a", "b", "c")
    scene.expire("b", 20)
    scene.form(21)
    verdict = scene.verdict()
    assert (verdict.cause, verdict.culprits, verdict.storm) == ("crash", ("b",), False)


def test_an_expiry_that_nobody_explains_is_not_guessed() -> None:
    scene = settled("a", "b", "c", logged=False)
    for at in (20, 40):
        scene.expire("b", at)
        scene.form(at + 0.5)
        scene.join("b", at + 5)
        scene.form(at + 6)
    verdict = scene.verdict()
    assert verdict.cause == "unknown"
    assert {"session_expiry", "crash_loop"} <= set(verdict.alternatives)


# ---- crash loops


def test_new_id_before_old_one_expires_is_a_crash() -> None:
    scene = settled("a", "b", "c", logged=False)
    for at in (20, 30, 40):
        old = scene.ids["b"]
        scene.join("b", at)
        scene.expire("b", at + 1, member=old)
        scene.form(at + 1.5)
    verdict = scene.verdict()
    assert (verdict.cause, verdict.culprits, verdict.storm) == ("crash_loop", ("b",), True)
    assert verdict.confidence >= SURE


def test_expiries_with_starts_are_a_crash_loop() -> None:
    scene = settled("a", "b", "c")
    for at in (20, 40):
        scene.expire("b", at)
        scene.form(at + 0.5)
        scene.started("b", at + 2)
        scene.join("b", at + 4)
        scene.form(at + 5)
    assert scene.verdict().cause == "crash_loop"


def test_close_after_error_is_a_crash_loop() -> None:
    scene = settled("a", "b", "c")
    for at in (20, 40, 60):
        scene.log("b", FactKind.CLIENT_FAILED, at - 0.1, detail={"error": "java.lang.IllegalStateException"})
        scene.leave("b", at, CLOSED)
        scene.form(at + 0.5)
        scene.started("b", at + 2)
        scene.join("b", at + 4)
        scene.form(at + 5)
    verdict = scene.verdict()
    assert (verdict.cause, verdict.culprits) == ("crash_loop", ("b",))


def test_one_member_closing_repeatedly_is_a_crash_loop() -> None:
    """librdkafka says nothing of a close; max.poll.interval.ms in the records excludes the poll timer."""
    scene = settled("a", "b", "c", logged=False)
    scene.record(1)
    for at in (20, 30, 40):
        scene.leave("b", at)
        scene.form(at + 0.5)
        scene.join("b", at + 4)
        scene.form(at + 5)
        scene.record(at + 5.1)
    verdict = scene.verdict()
    assert (verdict.cause, verdict.culprits) == ("crash_loop", ("b",))


# ---- restarts


def restart(scene: Scene, client: str, at: float, reason: str = "not provided", *, logged: bool = True) -> None:
    """A member is deployed."""
    scene.leave(client, at, reason)
    scene.form(at + 0.5)
    if logged:
        scene.started(client, at + 1)
    scene.join(client, at + 2)
    scene.form(at + 2.5)


@pytest.mark.parametrize(("reason", "logged"), [(CLOSED, True), ("not provided", True), (CLOSED, False)])
def test_members_restarting_in_turn_are_a_deploy(reason: str, logged: bool) -> None:
    scene = settled("a", "b", "c", logged=logged)
    scene.assignor = "range"
    for at, client in ((20, "a"), (30, "b"), (40, "c")):
        restart(scene, client, at, reason, logged=logged)
    verdict = scene.verdict()
    assert (verdict.cause, verdict.storm, verdict.action_needed) == ("rolling_restart", False, False)
    assert set(verdict.culprits) == {"a", "b", "c"}
    assert verdict.confidence >= SURE


def test_all_members_leaving_once_is_likely_a_deploy() -> None:
    scene = settled("a", "b", "c", logged=False)
    for at, client in ((20, "a"), (30, "b"), (40, "c")):
        restart(scene, client, at, logged=False)
    verdict = scene.verdict()
    assert verdict.cause == "rolling_restart"
    assert verdict.confidence < SURE


def test_deploy_with_renamed_processes() -> None:
    scene = settled("a-1", "a-2", "a-3", logged=False)
    for at, old, new in ((20, "a-1", "b-1"), (30, "a-2", "b-2"), (40, "a-3", "b-3")):
        scene.leave(old, at, CLOSED)
        scene.form(at + 0.5)
        scene.join(new, at + 2)
        scene.form(at + 2.5)
    verdict = scene.verdict()
    assert verdict.cause == "rolling_restart"
    assert verdict.confidence < SURE


def test_deploy_with_other_assignors_is_a_migration() -> None:
    scene = settled("a", "b")
    for client in ("a", "b"):
        scene.log(client, FactKind.CLIENT_SETTING, -1, detail=_strategy("x.RangeAssignor"))
    for at, client in ((20, "a"), (30, "b")):
        restart(scene, client, at, CLOSED)
        scene.log(client, FactKind.CLIENT_SETTING, at + 1, detail=_strategy("x.CooperativeStickyAssignor"))
    assert scene.verdict().cause == "assignor_migration"


def _strategy(name: str) -> dict[str, str]:
    return {"setting": "partition.assignment.strategy", "value": f"[class {name}]"}


def static_group() -> Scene:
    scene = Scene()
    for number in range(3):
        scene.join(f"c{number}", 0, instance=f"i{number}")
    scene.form(0.5)
    return scene


def test_static_restart_in_time_forms_no_generation() -> None:
    scene = static_group()
    for number in range(3):
        scene.replace(f"i{number}", 20 + 10 * number)
    verdict = scene.verdict()
    assert (verdict.cause, set(verdict.culprits), verdict.rebalances) == (
        "static_restart_in_time",
        {"i0", "i1", "i2"},
        1,
    )


def test_static_restart_after_session_is_too_late() -> None:
    scene = static_group()
    for number in range(3):
        at = 20 + 20 * number
        scene.expire(f"i{number}", at)
        scene.form(at + 1)
        scene.join(f"c{number}", at + 5, instance=f"i{number}")
        scene.form(at + 6)
    verdict = scene.verdict()
    assert (verdict.cause, set(verdict.culprits)) == ("static_restart_too_late", {"i0", "i1", "i2"})


# ---- conflicts


def test_fenced_request_is_an_instance_id_conflict() -> None:
    scene = static_group()
    for at in (20, 30):
        old, new = scene.replace("i1", at)
        scene.broker(
            EventKind.MEMBER_FENCED,
            at + 0.3,
            member=old,
            instance="i1",
            detail={"operation": "heartbeat", "holder": new},
        )
    scene.log("c1", EventKind.REBALANCE_COMPLETED, 21, instance="i1")
    scene.log("copy", EventKind.REBALANCE_COMPLETED, 31, instance="i1")
    verdict = scene.verdict()
    assert (verdict.cause, verdict.storm) == ("instance_id_conflict", True)
    assert set(verdict.culprits) == {"i1", "c1", "copy"}


def test_repeated_replacement_is_not_surely_a_deploy() -> None:
    scene = static_group()
    for at in (20, 30, 40):
        scene.replace("i1", at)
    verdict = scene.verdict()
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
        (FactKind.CLIENT_FAILED, "InconsistentGroupProtocolError"),
        (
            EventKind.REBALANCE_FAILED,
            "The group member's supported protocols are incompatible with those of existing members",
        ),
    ],
)
def test_inconsistent_protocol_needs_the_client_log(kind: str, error: str) -> None:
    scene = settled("a", "b")
    scene.log("new", kind, 20, detail={"error": error})
    verdict = scene.verdict()
    assert (verdict.cause, verdict.culprits, verdict.storm) == ("inconsistent_protocol", ("new",), False)


def test_members_without_common_topic_share_a_group_id() -> None:
    scene = settled("a", "b", "x", "y", logged=False)
    scene.record(1, {"a": ("orders",), "b": ("orders",), "x": ("reports",), "y": ("reports",)})
    for at in (20, 40):
        kicked(scene, "x", at, POLL)
    verdict = scene.verdict()
    assert (verdict.cause, verdict.culprits) == ("shared_group_id", ("x",))
    assert [finding.cause for finding in verdict.also] == ["poll_delay"]


def test_changed_subscription_is_not_a_shared_group_id() -> None:
    scene = settled("a", "b")
    for at, client in ((20, "a"), (30, "b")):
        scene.leave(client, at, CLOSED)
        scene.form(at + 0.5)
        scene.started(client, at + 1, topics=("other",))
        scene.join(client, at + 2)
        scene.form(at + 3)
    assert scene.verdict().cause == "rolling_restart"


# ---- scaling


def test_new_members_that_stay_are_a_scale_out() -> None:
    scene = settled("a", "b")
    for at, client in ((20, "c"), (30, "d")):
        scene.started(client, at - 1)
        scene.join(client, at)
        scene.form(at + 1)
    verdict = scene.verdict()
    assert (verdict.cause, verdict.culprits, verdict.action_needed) == ("scale_out", ("c", "d"), False)


def test_process_started_before_settling_belongs_to_start() -> None:
    scene = settled("a", "b")
    scene.started("slow", 0)
    scene.join("slow", 6)
    scene.form(7)
    assert scene.verdict().cause == "healthy"


@pytest.mark.parametrize("reason", [CLOSED, "not provided"])
def test_members_that_close_for_good_are_a_scale_in(reason: str) -> None:
    scene = settled("a", "b", "c", logged=False)
    scene.leave("c", 20, reason)
    scene.form(21)
    verdict = scene.verdict()
    assert (verdict.cause, verdict.culprits) == ("scale_in", ("c",))


@pytest.mark.parametrize("names", [("x", "x", "x"), ("x", "y", "z")], ids=["the same pods", "new pods"])
def test_joining_and_leaving_repeatedly_is_flapping(names: tuple[str, str, str]) -> None:
    scene = settled("a", "b", logged=False)
    for at, name in zip((20, 40, 60), names, strict=True):
        scene.join(name, at)
        scene.form(at + 1)
        scene.leave(name, at + 10, CLOSED)
        scene.form(at + 11)
    verdict = scene.verdict()
    assert (verdict.cause, set(verdict.culprits), verdict.storm) == ("autoscaler_flapping", set(names), True)


# ---- topics


@pytest.mark.parametrize(
    ("kind", "detail", "cause"),
    [
        (FactKind.PARTITION_CREATED, {"topic": "t", "partition": 7}, "partitions_added"),
        (FactKind.TOPIC_DELETED, {"topic": "t"}, "topic_deleted"),
        (FactKind.TOPIC_CREATED, {"topic": "t", "count": 3}, "new_topic_matched"),
    ],
)
def test_a_change_of_a_topic_that_the_group_reads(kind: str, detail: dict[str, object], cause: str) -> None:
    scene = settled("a", "b")
    scene.around(kind, 20, **detail)
    scene.around(FactKind.TOPIC_CREATED, 21, topic="somebody.elses", count=1)
    scene.rejoin("a", 22)
    scene.form(23)
    verdict = scene.verdict()
    assert (verdict.cause, verdict.culprits, verdict.action_needed) == (cause, ("t",), False)


def test_leader_log_shows_the_topic_change() -> None:
    scene = Scene()
    scene.log("a", EventKind.MEMBER_JOINED, 0, member="a-1", generation=1)
    scene.log(
        "a",
        EventKind.JOIN_REQUESTED,
        20,
        detail={
            "reason": "cached metadata has changed from (version2: {t=[NO_RACKS, NO_RACKS]}) at the beginning of the "
            "rebalance to (version4: {t=[NO_RACKS, NO_RACKS, NO_RACKS]})"
        },
    )
    verdict = scene.verdict()
    assert (verdict.cause, verdict.culprits) == ("partitions_added", ("t",))


def test_a_topic_that_nobody_here_reads_changes_nothing() -> None:
    scene = settled("a", "b")
    scene.around(FactKind.TOPIC_DELETED, 20, topic="somebody.elses")
    assert scene.verdict().cause == "healthy"


# ---- the coordinator


def test_coordinator_restart_explains_what_follows() -> None:
    scene = settled("a", "b", logged=False)
    scene.record(1)
    scene.around(FactKind.BROKER_STOPPING, 30, node="1")
    scene.around(FactKind.BROKER_STARTED, 70, node="1")
    for client in ("a", "b"):
        old = scene.ids[client]
        scene.join(client, 75)
        scene.expire(client, 81, member=old)
    scene.form(82)
    verdict = scene.verdict()
    assert (verdict.cause, verdict.culprits, verdict.action_needed) == ("coordinator_restart", ("broker 1",), False)


def test_coordinator_restart_without_rebalance() -> None:
    scene = settled("a", "b")
    scene.around(FactKind.BROKER_STARTED, 70, node="1")
    assert scene.verdict().cause == "coordinator_restart"


def test_restart_of_another_broker_is_ignored() -> None:
    scene = settled("a", "b")
    scene.broker(EventKind.REBALANCE_COMPLETED, 1, generation=1, detail={"node": "1"})
    scene.around(FactKind.BROKER_STARTED, 70, node="2")
    assert scene.verdict().cause == "healthy"


# ---- starts, and rounds that do not end


def test_slow_start_of_many_members_is_a_herd() -> None:
    scene = Scene()
    for number in range(8):
        scene.join(f"c{number}", number * 0.5)
    scene.form(9)
    verdict = scene.verdict()
    assert (verdict.cause, verdict.rebalances, verdict.action_needed) == ("startup_herd", 1, False)
    assert len(verdict.culprits) == 8


def test_as_many_members_that_start_at_once_are_healthy() -> None:
    assert settled(*(f"c{number}" for number in range(8))).verdict().cause == "healthy"


def test_a_round_that_is_given_up_is_stuck() -> None:
    scene = settled("a", "b")
    scene.rejoin("a", 20)
    scene.broker(EventKind.REBALANCE_FAILED, 320, detail={"error": "no members rejoined"})
    assert scene.verdict().cause == "stuck_rebalance"


def test_follow_up_after_follow_up_never_converges() -> None:
    scene = settled("a", "b")
    for number in range(6):
        scene.rejoin("a", 20 + number, Trigger.COOPERATIVE_FOLLOWUP)
        scene.form(20.5 + number)
    verdict = scene.verdict()
    assert verdict.cause == "assignor_never_converges"
    assert (verdict.rebalances, verdict.changes) == (7, 1)


# ---- all of them


def test_every_rule_finds_causes_that_are_described() -> None:
    assert {cause for rule in RULES for cause in rule.finds} <= set(CAUSES)


def test_no_verdict_depends_on_what_anything_is_called() -> None:
    for names in (("a", "b", "c"), ("dup", "canary", "consumer-1"), ("日本", "x" * 200, "-")):
        scene = settled(*names)
        kicked(scene, names[1], 20, POLL)
        kicked(scene, names[1], 40, POLL)
        verdict = scene.verdict()
        assert (verdict.cause, verdict.culprits) == ("poll_delay", (names[1],))


def test_shared_client_id_uses_member_ids() -> None:
    """Every library has a default client id, and a whole service may run with it."""
    scene = Scene()
    members = [scene.join("rdkafka", 0) for _ in range(3)]
    scene.form(0.5)
    for at in (20, 30):
        scene.rejoin("rdkafka", at)
        scene.form(at + 1)
    assert set(scene.history().timelines) == set(members)
