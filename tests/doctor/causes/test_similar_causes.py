"""Similar causes, distinguished by rows that only one of them writes."""

from collections.abc import Callable

import pytest

from slackwater.doctor.causes.finding import SURE
from slackwater.doctor.events.rows import SingleRowDetail
from slackwater.doctor.events.table import DETAIL, OtherEventKind
from slackwater.group.events import EventKind
from tests.doctor.scenario import Scenario

NO_MEMBER = {"error": "UnknownMemberIdError"}


def group(*clients: str, logged: bool = True, session_ms: int | None = None) -> Scenario:
    """A group that is stable from second 1 on."""
    scenario = Scenario()
    for client in clients:
        if logged:
            scenario.started(client, -2)
    scenario.start(*clients)
    if session_ms is not None:
        for client in clients:
            scenario.log(
                client,
                OtherEventKind.CLIENT_SETTING,
                0,
                detail={"setting": "session.timeout.ms", "value": str(session_ms)},
            )
    return scenario


def slow_start(members: int, started: Callable[[int], float] | None, joined: Callable[[int], float]) -> Scenario:
    """Members that start and join one after another."""
    scenario = Scenario()
    for number in range(members):
        if started is not None:
            scenario.started(f"c{number}", started(number))
        scenario.join(f"c{number}", joined(number))
        if number == members // 2:
            scenario.form(joined(number) + 0.2)
    scenario.form(joined(members - 1) + 0.2)
    return scenario


# ---- a startup herd, and a busy machine


def test_processes_started_together_are_no_herd() -> None:
    assert slow_start(10, lambda number: number * 0.1, lambda number: 2 + number * 0.7).verdict().cause == "healthy"


def test_processes_started_in_sequence_are_a_herd() -> None:
    verdict = slow_start(10, lambda number: number * 0.7, lambda number: 2 + number * 0.7).verdict()
    assert verdict.cause == "startup_herd"
    assert verdict.confidence >= SURE


def test_herd_without_client_logs_is_only_likely() -> None:
    verdict = slow_start(10, None, lambda number: number * 0.7).verdict()
    assert verdict.cause == "startup_herd"
    assert verdict.confidence < SURE
    assert "clients' logs" in verdict.missing_input[0]


def test_client_logs_report_starts_before_joins() -> None:
    scenario = Scenario()
    for number in range(8):
        scenario.started(f"c{number}", number * 0.6)
        at, generation = (1.0, 1) if number < 1 else (9.0, 2)  # the second rebalance waits for the first member
        scenario.log(f"c{number}", EventKind.MEMBER_JOINED, at, member=f"c{number}-1", generation=generation)
    assert scenario.verdict().cause == "startup_herd"


def test_half_a_dozen_members_are_no_herd() -> None:
    assert slow_start(6, lambda number: number, lambda number: 1 + number).verdict().cause == "healthy"


# ---- a new member, and a member of the initial start


def test_records_do_not_prove_a_later_join() -> None:
    scenario = Scenario().start("a", "b")
    scenario.record(0.5)
    scenario.join("c", 2)
    scenario.form(5)
    scenario.record(5)
    scenario.rows = [row for row in scenario.rows if not row.is_from_broker]
    verdict = scenario.verdict()
    assert verdict.cause in ("scale_out", "healthy")
    assert verdict.confidence < SURE


# ---- a process that died, a process that hangs, a deleted topic


def test_expired_member_whose_log_ends_crashed() -> None:
    scenario = group("a", "b")
    scenario.expire("b", 20)
    scenario.form(21)
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.culprits) == ("crash", ("b",))
    assert verdict.confidence >= SURE


def test_crash_without_client_log_is_only_likely() -> None:
    scenario = group("a", "b", logged=False)
    scenario.expire("b", 20)
    scenario.form(21)
    verdict = scenario.verdict()
    assert verdict.cause == "crash"
    assert verdict.confidence < SURE
    assert "session_expiry" in verdict.alternatives


def test_member_whose_log_continues_did_not_crash() -> None:
    scenario = group("a", "b")
    scenario.expire("b", 20)
    scenario.form(21)
    scenario.log("b", EventKind.COMMIT_REFUSED, 30, detail={"error": "CommitFailedError"})
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.culprits) == ("session_expiry", ("b",))


def test_restart_without_join_is_a_crash() -> None:
    scenario = group("a", "b")
    scenario.expire("b", 20)
    scenario.form(21)
    scenario.started("b", 30)
    assert scenario.verdict().cause == "crash"


def test_silence_after_topic_deletion_is_explained_by_it() -> None:
    scenario = group("a", "b", session_ms=6000)
    scenario.around(OtherEventKind.TOPIC_DELETED, 20, topic="t")
    scenario.rejoin("a", 21)
    scenario.form(22)
    scenario.expire("a", 28)
    scenario.expire("b", 28)
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.culprits) == ("topic_deleted", ("t",))
    assert "crash" not in {finding.cause for finding in verdict.other_findings}


def test_silence_long_after_topic_deletion_is_not() -> None:
    scenario = group("a", "b", session_ms=6000)
    scenario.around(OtherEventKind.TOPIC_DELETED, 20, topic="t")
    scenario.rejoin("a", 21)
    scenario.form(22)
    scenario.expire("a", 200)
    scenario.expire("b", 200)
    assert scenario.verdict().cause == "crash"


@pytest.mark.parametrize(("after", "cause"), [(6.0, "new_topic_matched"), (13.0, "crash")])
def test_silence_since_topic_rebalance_is_explained_by_it(after: float, cause: str) -> None:
    scenario = group("a", "b", "c", session_ms=6000)
    scenario.record(0.6)
    scenario.around(OtherEventKind.TOPIC_CREATED, 18, topic="u", count=1)
    scenario.rejoin("a", 20)
    scenario.form(21)
    scenario.record(21, dict.fromkeys("abc", ("t", "u")))
    scenario.expire("b", 21 + after)
    scenario.form(22 + after)
    assert scenario.verdict().cause == cause


@pytest.mark.parametrize(
    ("kind", "detail", "cause"),
    [
        (OtherEventKind.TOPIC_DELETED, {"topic": "t"}, "topic_deleted"),
        (OtherEventKind.PARTITION_CREATED, {"topic": "t", "partition": 7}, "partitions_added"),
    ],
)
def test_topic_change_without_rejoin_is_reported(kind: str, detail: dict[str, object], cause: str) -> None:
    scenario = group("a", "b")
    scenario.around(kind, 20, **detail)
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.culprits) == (cause, ("t",))


# ---- a pause, and a handler that blocks the heartbeats


def expiries(session_ms: int, after: float, times: int = 2) -> Scenario:
    """A member that expires this long after each generation, is rejected, and rejoins at once."""
    scenario = group("a", "b", "c", session_ms=session_ms)
    at = 0.5
    for _ in range(times):
        expired_at = at + after
        scenario.expire("b", expired_at)
        scenario.form(expired_at + 0.2)
        scenario.log("b", EventKind.HEARTBEAT_REFUSED, expired_at + 5, detail=NO_MEMBER)
        scenario.join("b", expired_at + 5.1)
        at = expired_at + 5.5
        scenario.form(at)
    return scenario


def test_member_without_first_heartbeat_is_busy() -> None:
    verdict = expiries(6000, after=6.0).verdict()
    assert (verdict.cause, verdict.culprits, verdict.is_storm) == ("poll_delay", ("b",), True)


def test_last_silence_counts_without_return() -> None:
    scenario = expiries(6000, after=6.0, times=1)
    scenario.expire("b", 18.0)
    scenario.form(18.2)
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.culprits, verdict.is_storm) == ("poll_delay", ("b",), True)


def test_member_with_heartbeats_was_paused() -> None:
    verdict = expiries(6000, after=13.0).verdict()
    assert (verdict.cause, verdict.culprits, verdict.is_storm) == ("session_expiry", ("b",), True)


def test_silent_at_once_a_single_time_may_be_a_pause() -> None:
    assert expiries(6000, after=6.0, times=1).verdict().cause == "session_expiry"


def test_client_log_alone_is_unsure_about_silence() -> None:
    scenario = Scenario()
    for client in ("a", "b"):
        scenario.started(client, -1)
        scenario.log(client, EventKind.MEMBER_JOINED, 0, member=f"{client}-1", generation=1)
    for number, at in enumerate((20, 40), start=2):
        scenario.log("b", EventKind.HEARTBEAT_REFUSED, at, detail=NO_MEMBER)
        scenario.log("b", EventKind.MEMBER_JOINED, at + 0.5, member=f"b-{number}", generation=2 * number)
    verdict = scenario.verdict()
    assert verdict.cause == "session_expiry"
    assert verdict.confidence < SURE


# ---- a closed process, and a crashed process


def test_records_do_not_show_how_a_process_ended() -> None:
    scenario = Scenario()
    member = "A" * 21
    for at, number in ((0, "1"), (20, "2"), (40, "3")):
        for client, member_id in (("a", member + "a"), ("b", member + number)):
            scenario.add_record(
                at,
                OtherEventKind.MEMBER_RECORDED,
                {"member": member_id, "client": client, "detail": {"topics": ["t"], "group_protocol": "consumer"}},
            )
        if number != "3":
            columns = {"member": member + number, "detail": {"group_protocol": "consumer"}}
            scenario.add_record(at + 10, OtherEventKind.MEMBER_GONE, columns)
    verdict = scenario.verdict()
    assert verdict.confidence < SURE


def test_logged_close_is_not_a_crash() -> None:
    scenario = Scenario()
    for client in ("a", "b"):
        scenario.started(client, -1)
        scenario.log(client, EventKind.MEMBER_JOINED, 0, member=f"{client}-1", generation=1)
    for number, at in enumerate((20, 40, 60), start=2):
        scenario.started("x", at)
        scenario.log("x", EventKind.MEMBER_JOINED, at + 1, member=f"x-{number}", generation=number)
        scenario.log("x", OtherEventKind.CLIENT_CLOSED, at + 10)
    verdict = scenario.verdict()
    assert verdict.cause == "autoscaler_flapping"
    assert "crash_loop" not in {finding.cause for finding in verdict.other_findings}


@pytest.mark.parametrize(("log_continues", "cause"), [(True, "scale_in"), (False, "crash")])
def test_error_is_a_crash_only_as_last_line(log_continues: bool, cause: str) -> None:
    scenario = group("a", "b", "c")
    scenario.log("c", OtherEventKind.CLIENT_FAILED, 20, detail={"error": "KafkaTimeoutError"})
    if log_continues:
        scenario.log("c", EventKind.MEMBER_JOINED, 30, member=scenario.ids["c"], generation=1)
    at = 60 if log_continues else 20.5
    scenario.leave("c", at, "the consumer is being closed")
    scenario.form(at + 1)
    assert scenario.verdict().cause == cause


# ---- a changed subscription, and a pattern that matches a new topic


def test_new_subscription_is_a_subscription_change() -> None:
    scenario = group("a", "b")
    scenario.log("b", OtherEventKind.CLIENT_SUBSCRIBED, 20, detail={"topics": ["t", "u"]})
    scenario.rejoin("b", 20.1)
    scenario.form(21)
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.culprits, verdict.action_needed) == ("subscription_change", ("b",), False)


def test_subscription_change_is_found_from_joins() -> None:
    scenario = group("a", "b", logged=False)
    scenario.record(0.6)
    scenario.rejoin("b", 20)
    scenario.form(21)
    scenario.record(21, {"b": ("t", "u")})
    assert scenario.verdict().cause == "subscription_change"


def test_pattern_match_is_not_a_subscription_change() -> None:
    scenario = group("a", "b", logged=False)
    scenario.record(0.6)
    scenario.around(OtherEventKind.TOPIC_CREATED, 18, topic="u", count=1)
    scenario.rejoin("b", 20)
    scenario.form(21)
    scenario.record(21, {"a": ("t", "u"), "b": ("t", "u")})
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.culprits) == ("new_topic_matched", ("u",))


# ---- two processes with one instance id, and a restart


def static_logs(*joins: tuple[str, str, float]) -> Scenario:
    """Joins from logs: the log, the number of the member id, the time; all in one generation."""
    scenario = Scenario()
    for log, number, at in joins:
        member = f"i-00000000-0000-0000-0000-{number:>012}"
        scenario.log("i", EventKind.MEMBER_JOINED, at, member=member, generation=1, file=f"{log}.log")
    return scenario


def test_two_logs_replacing_each_other_are_a_conflict() -> None:
    verdict = static_logs(("p", "1", 0), ("q", "2", 10), ("p", "3", 11), ("q", "4", 12), ("p", "5", 13)).verdict()
    assert verdict.cause == "instance_id_conflict"
    assert {"i", "p", "q"} == set(verdict.culprits)


def test_one_restarted_static_member_is_no_conflict() -> None:
    assert static_logs(("p", "1", 0), ("p", "2", 20), ("p", "3", 40)).verdict().cause != "instance_id_conflict"


def test_static_member_replaced_repeatedly_is_a_crash_loop() -> None:
    scenario = Scenario()
    for instance, client in (("i", "c1"), ("j", "c2")):
        scenario.started(client, -2)
        scenario.join(client, 0, instance=instance)
        scenario.log(
            client, EventKind.MEMBER_JOINED, 0.4, member=scenario.ids[instance], instance=instance, generation=1
        )
    scenario.form(0.5)
    for at in (20, 30, 40):
        scenario.log("c1", OtherEventKind.CLIENT_STARTED, at - 1, instance="i")
        scenario.replace("i", at)
        scenario.log("c1", EventKind.MEMBER_JOINED, at + 0.1, member=scenario.ids["i"], instance="i", generation=1)
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.culprits, verdict.is_storm) == ("crash_loop", ("i",), True)
    assert verdict.confidence >= SURE


def test_late_static_member_is_no_conflict() -> None:
    scenario = Scenario()
    ids = [f"i-00000000-0000-0000-0000-{number:>012}" for number in range(5)]
    scenario.started("c", -2)
    scenario.broker(EventKind.MEMBER_JOINED, 0, member=ids[0], instance="i")
    scenario.log("c", EventKind.MEMBER_JOINED, 0.5, member=ids[0], instance="i", generation=1)
    scenario.join("other", 0)
    scenario.form(0.5)
    for number, at in enumerate((20, 30, 40, 50)):
        scenario.log("c", EventKind.POLL_OVERRUN, at - 4, instance="i", detail={"limit_ms": 6000})
        # The broker logs the old member id but not the new one.
        scenario.broker(EventKind.MEMBER_REPLACED, at, instance="i", detail={"old_member": ids[number]})
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.culprits, verdict.is_storm) == ("poll_delay", ("i",), True)
    assert "instance_id_conflict" not in {finding.cause for finding in verdict.other_findings}


@pytest.mark.parametrize("leaves", [True, False])
def test_client_logs_need_leaves_to_show_dynamic_members(leaves: bool) -> None:
    scenario = Scenario()
    for at, client in ((0, "a"), (0, "b"), (20, "a"), (40, "b")):
        if at and leaves:
            scenario.log(client, EventKind.MEMBER_LEFT, at - 2, member=f"{client}-0")
        scenario.started(client, at - 1)
        scenario.log(client, EventKind.MEMBER_JOINED, at, member=f"{client}-{at}", generation=at + 1, assignor="range")
    verdict = scenario.verdict()
    assert verdict.cause == "rolling_restart"
    assert (verdict.confidence >= SURE) is leaves
    assert ("static_restart_too_late" in verdict.alternatives) is not leaves


@pytest.mark.parametrize("assignor", ["range", None])
def test_deploy_with_unknown_assignor_may_be_migration(assignor: str | None) -> None:
    scenario = Scenario(assignor=assignor)
    scenario.start("a", "b")
    for at, client in ((20, "a"), (40, "b")):
        scenario.leave(client, at, "the consumer is being closed")
        scenario.form(at + 0.5)
        scenario.join(client, at + 3)
        scenario.form(at + 3.5)
    verdict = scenario.verdict()
    assert verdict.cause == "rolling_restart"
    assert (verdict.confidence >= SURE) is (assignor is not None)
    assert ("assignor_migration" in verdict.alternatives) is (assignor is None)


def test_single_replacement_in_records_is_unsure() -> None:
    scenario = Scenario()
    for at, members in ((0, ("1", "2")), (20, ("3", "2"))):
        ids = [f"{name}-00000000-0000-0000-0000-{number:>012}" for name, number in zip("ij", members, strict=True)]
        scenario.generation = 1
        scenario.add_record(at, EventKind.GENERATION_RECORDED, {"detail": {"member_ids": ids}})
        for name, member in zip("ij", ids, strict=True):
            scenario.add_record(
                at, OtherEventKind.MEMBER_RECORDED, {"member": member, "instance": name, "client": f"c-{name}"}
            )
    verdict = scenario.verdict()
    assert verdict.cause == "static_restart_in_time"
    assert verdict.confidence < SURE
    assert "instance_id_conflict" in verdict.alternatives


# ---- a new member, and a rebalance that does not end


def test_open_rebalance_at_the_end_is_stuck() -> None:
    scenario = group("a", "b", "c")
    scenario.join("d", 20)
    for client in ("a", "c"):
        scenario.log(client, EventKind.JOIN_REQUESTED, 21)
    scenario.around(OtherEventKind.TOPIC_CREATED, 100, topic="unrelated", count=1)
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.culprits, verdict.action_needed) == ("stuck_rebalance", ("b",), True)
    assert verdict.confidence < SURE  # the rebalance may still complete


def test_rebalance_that_has_just_started_is_not_stuck() -> None:
    scenario = group("a", "b", "c")
    scenario.join("d", 20)
    scenario.around(OtherEventKind.TOPIC_CREATED, 40, topic="unrelated", count=1)
    assert scenario.verdict().cause == "scale_out"


# ---- a coordinator that was killed, and a start that takes longer than a session


def test_members_expire_while_killed_broker_starts() -> None:
    scenario = group("a", "b", session_ms=6000)
    scenario.broker(EventKind.GROUP_LOADED, 30, members=2)
    scenario.expire("a", 36)
    scenario.expire("b", 36)
    scenario.around(OtherEventKind.BROKER_STARTED, 40, node="1")
    for client in ("a", "b"):
        scenario.join(client, 41)
    scenario.form(42)
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.culprits) == ("coordinator_restart", ("broker 1",))


def test_broker_killed_twice_has_two_outages() -> None:
    scenario = group("a", "b", session_ms=6000)
    for at in (30, 65):
        scenario.broker(EventKind.GROUP_LOADED, at - 10, members=2)
        scenario.expire("a", at - 4)
        scenario.expire("b", at - 4)
        scenario.around(OtherEventKind.BROKER_STARTED, at, node="1")
        scenario.around(OtherEventKind.BROKER_STARTED, at + 0.1, node="1")  # a broker logs two lines for one start
        for client in ("a", "b"):
            scenario.join(client, at + 1)
        scenario.form(at + 2)
    verdict = scenario.verdict()
    assert verdict.cause == "coordinator_restart"
    assert "crash" not in {finding.cause for finding in verdict.other_findings}
    assert len(scenario.history().outages) == 2


# ---- members that share the library's default client id


def shared_client_id(logged: bool) -> Scenario:
    """Three members with one client id; one of them leaves twice by its poll timer and rejoins with a new member id."""
    scenario = Scenario()
    members: dict[str, str] = {}
    for log in ("p", "q", "r"):
        members[log] = scenario.join("consumer", 0)
        scenario.current[log] = None
    scenario.form(0.5)
    for at in (20, 40):
        scenario.ids["consumer"] = members["q"]
        scenario.leave("consumer", at)
        scenario.form(at + 0.5)
        members["q"] = scenario.join("consumer", at + 3)
        scenario.form(at + 3.5)
        if logged:
            scenario.log("consumer", EventKind.POLL_OVERRUN, at, detail={"limit_ms": 5000}, file="q.log")
    return scenario


def test_shared_client_id_without_logs_is_unsure() -> None:
    verdict = shared_client_id(logged=False).verdict()
    assert verdict.confidence < SURE


def test_shared_client_id_uses_log_names() -> None:
    verdict = shared_client_id(logged=True).verdict()
    assert (verdict.cause, verdict.culprits, verdict.is_storm) == ("poll_delay", ("q",), True)


@pytest.mark.parametrize("folder", ["logs/{}.log", "logs/{}/app.log"], ids=["by file", "by folder"])
def test_logs_with_a_shared_client_id_are_several_processes(folder: str) -> None:
    scenario = Scenario()
    for log, number in (("p", 1), ("q", 2)):
        for at, generation in ((number, 1), (20 + number, 2), (40 + number, 3)):
            member = f"consumer-00000000-0000-0000-0000-{number:>012}"
            file = folder.format(log)
            scenario.log("consumer", EventKind.MEMBER_JOINED, at, member=member, generation=generation, file=file)
    history = scenario.history()
    assert set(history.timelines) == {"p", "q"}
    assert scenario.verdict().cause == "healthy"


def test_next_log_of_a_process_is_the_same_process() -> None:
    scenario = Scenario()
    for log, number, at in (("monday", 1, 0), ("tuesday", 2, 100)):
        scenario.log("c", OtherEventKind.CLIENT_STARTED, at, file=f"{log}.log")
        member = f"c-00000000-0000-0000-0000-{number:>012}"
        scenario.log("c", EventKind.MEMBER_JOINED, at + 1, member=member, generation=number, file=f"{log}.log")
    assert set(scenario.history().timelines) == {"c"}


def test_shared_names_are_not_a_subscription_change() -> None:
    scenario = Scenario()
    topics_by_member = {}
    for number in range(4):
        member = scenario.join("consumer", 0)
        topics_by_member[member] = ("t",) if number < 2 else ("u",)
    for at in (0.5, 20, 40):
        scenario.form(at)
        scenario.add_record(at, EventKind.GENERATION_RECORDED, {"detail": {"member_ids": list(topics_by_member)}})
        for member, topics in topics_by_member.items():
            columns = {"member": member, "client": "consumer", "detail": {"topics": list(topics)}}
            scenario.add_record(at, OtherEventKind.MEMBER_RECORDED, columns)
    assert scenario.verdict().cause == "shared_group_id"


def test_subscription_change_after_restart_is_found() -> None:
    scenario = group("a", "b")
    scenario.leave("b", 20, "the consumer is being closed")
    scenario.form(20.5)
    scenario.started("b", 22)
    scenario.join("b", 23)
    scenario.form(23.5)
    scenario.log("b", OtherEventKind.CLIENT_SUBSCRIBED, 60, detail={"topics": ["t", "u"]})
    scenario.rejoin("b", 60.1)
    scenario.form(61)
    causes = {scenario.verdict().cause, *(finding.cause for finding in scenario.verdict().other_findings)}
    assert "subscription_change" in causes


def test_class_names_and_protocol_names_are_no_migration() -> None:
    scenario = group("a", "b")
    for at, client in ((-2, "a"), (-2, "b"), (22, "a"), (42, "b")):
        value = "[class org.apache.kafka.clients.consumer.RangeAssignor, class com.example.OwnAssignor]"
        detail = {"setting": "partition.assignment.strategy", "value": value}
        scenario.log(client, OtherEventKind.CLIENT_SETTING, at, detail=detail)
    for at, client in ((20, "a"), (40, "b")):
        scenario.leave(client, at, "the consumer is being closed")
        left = scenario.rows[-2]
        scenario.rows[-2] = left._replace(
            detail=SingleRowDetail(
                {**{name: left.detail_value(name) for name in DETAIL}, "assignors": ["range", "own"]}
            )
        )
        scenario.form(at + 0.5)
        scenario.started(client, at + 2)
        scenario.join(client, at + 3)
        scenario.form(at + 3.5)
    assert scenario.verdict().cause == "rolling_restart"


def test_shared_log_file_is_not_a_client_name() -> None:
    scenario = group("a", "b")
    for at in (30, 60, 90):
        scenario.log("b", EventKind.POLL_OVERRUN, at, detail={"limit_ms": 5000}, file="/logs/all.log")
        unnamed = scenario.rows[-1]
        scenario.rows.append(unnamed._replace(client=None, member=None, position=7))
        scenario.leave("b", at + 0.1, "consumer poll timeout has expired.")
        scenario.form(at + 0.5)
        scenario.join("b", at + 3)
        scenario.form(at + 3.5)
    verdict = scenario.verdict()
    assert verdict.cause == "poll_delay"
    assert verdict.culprits == ("b",)
    assert "all" not in scenario.history().timelines


def test_rejoining_members_joined_before_the_history() -> None:
    scenario = group("a", "b", "c", logged=False)
    for at in (30, 60, 90):
        scenario.leave("c", at, "consumer poll timeout has expired.")
        for client in ("a", "b"):
            member = scenario.ids[client]
            scenario.broker(EventKind.MEMBER_REJOINED, at + 0.2, member=member, client=client)
        scenario.form(at + 0.5)
        scenario.join("c", at + 3)
        scenario.form(at + 3.5)
    scenario.rows = [row for row in scenario.rows if row.time_ms >= 29_000]
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.culprits) == ("poll_delay", ("c",))
    assert "scale_out" not in {finding.cause for finding in verdict.other_findings}
