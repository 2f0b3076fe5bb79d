"""Causes that look alike, told apart by what only one of them leaves behind."""

from collections.abc import Callable

import pytest

from slackwater.doctor.causes.finding import SURE
from slackwater.doctor.events.rows import SingleRowDetail
from slackwater.doctor.events.table import DETAIL, FactKind
from slackwater.group.events import EventKind
from tests.doctor.scene import Scene

NO_MEMBER = {"error": "UnknownMemberIdError"}


def group(*clients: str, logged: bool = True, session_ms: int | None = None) -> Scene:
    """A group that is stable from second 1 on."""
    scene = Scene()
    for client in clients:
        if logged:
            scene.started(client, -2)
    scene.start(*clients)
    if session_ms is not None:
        for client in clients:
            scene.log(
                client,
                FactKind.CLIENT_SETTING,
                0,
                detail={"setting": "session.timeout.ms", "value": str(session_ms)},
            )
    return scene


def slow_start(members: int, started: Callable[[int], float] | None, joined: Callable[[int], float]) -> Scene:
    """Members that come up and join one after another."""
    scene = Scene()
    for number in range(members):
        if started is not None:
            scene.started(f"c{number}", started(number))
        scene.join(f"c{number}", joined(number))
        if number == members // 2:
            scene.form(joined(number) + 0.2)
    scene.form(joined(members - 1) + 0.2)
    return scene


# ---- a herd, and a busy machine


def test_processes_started_together_are_no_herd() -> None:
    assert slow_start(10, lambda number: number * 0.1, lambda number: 2 + number * 0.7).verdict().cause == "healthy"


def test_processes_started_in_sequence_are_a_herd() -> None:
    verdict = slow_start(10, lambda number: number * 0.7, lambda number: 2 + number * 0.7).verdict()
    assert verdict.cause == "startup_herd"
    assert verdict.confidence >= SURE


def test_without_their_logs_a_herd_is_only_likely() -> None:
    verdict = slow_start(10, None, lambda number: number * 0.7).verdict()
    assert verdict.cause == "startup_herd"
    assert verdict.confidence < SURE
    assert "clients' logs" in verdict.missing[0]


def test_client_logs_report_starts_before_joins() -> None:
    scene = Scene()
    for number in range(8):
        scene.started(f"c{number}", number * 0.6)
        at, generation = (1.0, 1) if number < 1 else (9.0, 2)  # the second round waits for the first member
        scene.log(f"c{number}", EventKind.MEMBER_JOINED, at, member=f"c{number}-1", generation=generation)
    assert scene.verdict().cause == "startup_herd"


def test_half_a_dozen_members_are_no_herd() -> None:
    assert slow_start(6, lambda number: number, lambda number: 1 + number).verdict().cause == "healthy"


# ---- a new member, and one that came with the start


def test_records_do_not_prove_a_later_join() -> None:
    scene = Scene().start("a", "b")
    scene.record(0.5)
    scene.join("c", 2)
    scene.form(5)
    scene.record(5)
    scene.rows = [row for row in scene.rows if not row.is_from_broker]
    verdict = scene.verdict()
    assert verdict.cause in ("scale_out", "healthy")
    assert verdict.confidence < SURE


# ---- a process that died, one that hangs, one whose topic went


def test_expired_member_whose_log_ends_crashed() -> None:
    scene = group("a", "b")
    scene.expire("b", 20)
    scene.form(21)
    verdict = scene.verdict()
    assert (verdict.cause, verdict.culprits) == ("crash", ("b",))
    assert verdict.confidence >= SURE


def test_without_its_log_it_is_only_likely() -> None:
    scene = group("a", "b", logged=False)
    scene.expire("b", 20)
    scene.form(21)
    verdict = scene.verdict()
    assert verdict.cause == "crash"
    assert verdict.confidence < SURE
    assert "session_expiry" in verdict.alternatives


def test_a_member_whose_log_goes_on_did_not_die() -> None:
    scene = group("a", "b")
    scene.expire("b", 20)
    scene.form(21)
    scene.log("b", EventKind.COMMIT_REFUSED, 30, detail={"error": "CommitFailedError"})
    verdict = scene.verdict()
    assert (verdict.cause, verdict.culprits) == ("session_expiry", ("b",))


def test_restart_without_join_is_a_crash() -> None:
    scene = group("a", "b")
    scene.expire("b", 20)
    scene.form(21)
    scene.started("b", 30)
    assert scene.verdict().cause == "crash"


def test_silence_after_topic_deletion_is_explained_by_it() -> None:
    scene = group("a", "b", session_ms=6000)
    scene.around(FactKind.TOPIC_DELETED, 20, topic="t")
    scene.rejoin("a", 21)
    scene.form(22)
    scene.expire("a", 28)
    scene.expire("b", 28)
    verdict = scene.verdict()
    assert (verdict.cause, verdict.culprits) == ("topic_deleted", ("t",))
    assert "crash" not in {finding.cause for finding in verdict.also}


def test_silence_long_after_topic_deletion_is_not() -> None:
    scene = group("a", "b", session_ms=6000)
    scene.around(FactKind.TOPIC_DELETED, 20, topic="t")
    scene.rejoin("a", 21)
    scene.form(22)
    scene.expire("a", 200)
    scene.expire("b", 200)
    assert scene.verdict().cause == "crash"


@pytest.mark.parametrize(("after", "cause"), [(6.0, "new_topic_matched"), (13.0, "crash")])
def test_silence_since_topic_rebalance_is_explained_by_it(after: float, cause: str) -> None:
    scene = group("a", "b", "c", session_ms=6000)
    scene.record(0.6)
    scene.around(FactKind.TOPIC_CREATED, 18, topic="u", count=1)
    scene.rejoin("a", 20)
    scene.form(21)
    scene.record(21, dict.fromkeys("abc", ("t", "u")))
    scene.expire("b", 21 + after)
    scene.form(22 + after)
    assert scene.verdict().cause == cause


@pytest.mark.parametrize(
    ("kind", "detail", "cause"),
    [
        (FactKind.TOPIC_DELETED, {"topic": "t"}, "topic_deleted"),
        (FactKind.PARTITION_CREATED, {"topic": "t", "partition": 7}, "partitions_added"),
    ],
)
def test_topic_change_without_rejoin_is_reported(kind: str, detail: dict[str, object], cause: str) -> None:
    scene = group("a", "b")
    scene.around(kind, 20, **detail)
    verdict = scene.verdict()
    assert (verdict.cause, verdict.culprits) == (cause, ("t",))


# ---- a pause, and a handler that holds the heartbeats up


def expiries(session_ms: int, after: float, times: int = 2) -> Scene:
    """A member that expires so long after each generation, and learns of it and comes back at once."""
    scene = group("a", "b", "c", session_ms=session_ms)
    at = 0.5
    for _ in range(times):
        gone = at + after
        scene.expire("b", gone)
        scene.form(gone + 0.2)
        scene.log("b", EventKind.HEARTBEAT_REFUSED, gone + 5, detail=NO_MEMBER)
        scene.join("b", gone + 5.1)
        at = gone + 5.5
        scene.form(at)
    return scene


def test_member_without_first_heartbeat_is_busy() -> None:
    verdict = expiries(6000, after=6.0).verdict()
    assert (verdict.cause, verdict.culprits, verdict.storm) == ("poll_delay", ("b",), True)


def test_last_silence_counts_without_return() -> None:
    scene = expiries(6000, after=6.0, times=1)
    scene.expire("b", 18.0)
    scene.form(18.2)
    verdict = scene.verdict()
    assert (verdict.cause, verdict.culprits, verdict.storm) == ("poll_delay", ("b",), True)


def test_member_with_heartbeats_was_paused() -> None:
    verdict = expiries(6000, after=13.0).verdict()
    assert (verdict.cause, verdict.culprits, verdict.storm) == ("session_expiry", ("b",), True)


def test_silent_at_once_a_single_time_may_be_a_pause() -> None:
    assert expiries(6000, after=6.0, times=1).verdict().cause == "session_expiry"


def test_client_log_alone_is_unsure_about_silence() -> None:
    scene = Scene()
    for client in ("a", "b"):
        scene.started(client, -1)
        scene.log(client, EventKind.MEMBER_JOINED, 0, member=f"{client}-1", generation=1)
    for number, at in enumerate((20, 40), start=2):
        scene.log("b", EventKind.HEARTBEAT_REFUSED, at, detail=NO_MEMBER)
        scene.log("b", EventKind.MEMBER_JOINED, at + 0.5, member=f"b-{number}", generation=2 * number)
    verdict = scene.verdict()
    assert verdict.cause == "session_expiry"
    assert verdict.confidence < SURE


# ---- a process that closed, and one that died


def test_records_do_not_show_how_a_process_ended() -> None:
    scene = Scene()
    member = "A" * 21
    for at, number in ((0, "1"), (20, "2"), (40, "3")):
        for client, own in (("a", member + "a"), ("b", member + number)):
            scene.add_record(
                at,
                FactKind.MEMBER_RECORDED,
                {"member": own, "client": client, "detail": {"topics": ["t"], "group_protocol": "consumer"}},
            )
        if number != "3":
            gone = {"member": member + number, "detail": {"group_protocol": "consumer"}}
            scene.add_record(at + 10, FactKind.MEMBER_GONE, gone)
    verdict = scene.verdict()
    assert verdict.confidence < SURE


def test_a_log_that_tells_of_its_close_tells_of_no_crash() -> None:
    scene = Scene()
    for client in ("a", "b"):
        scene.started(client, -1)
        scene.log(client, EventKind.MEMBER_JOINED, 0, member=f"{client}-1", generation=1)
    for number, at in enumerate((20, 40, 60), start=2):
        scene.started("x", at)
        scene.log("x", EventKind.MEMBER_JOINED, at + 1, member=f"x-{number}", generation=number)
        scene.log("x", FactKind.CLIENT_CLOSED, at + 10)
    verdict = scene.verdict()
    assert verdict.cause == "autoscaler_flapping"
    assert "crash_loop" not in {finding.cause for finding in verdict.also}


@pytest.mark.parametrize(("goes_on", "cause"), [(True, "scale_in"), (False, "crash")])
def test_error_is_a_crash_only_as_last_line(goes_on: bool, cause: str) -> None:
    scene = group("a", "b", "c")
    scene.log("c", FactKind.CLIENT_FAILED, 20, detail={"error": "KafkaTimeoutError"})
    if goes_on:
        scene.log("c", EventKind.MEMBER_JOINED, 30, member=scene.ids["c"], generation=1)
    at = 60 if goes_on else 20.5
    scene.leave("c", at, "the consumer is being closed")
    scene.form(at + 1)
    assert scene.verdict().cause == cause


# ---- a subscription that was changed, and a pattern that matches


def test_new_subscription_is_a_subscription_change() -> None:
    scene = group("a", "b")
    scene.log("b", FactKind.CLIENT_SUBSCRIBED, 20, detail={"topics": ["t", "u"]})
    scene.rejoin("b", 20.1)
    scene.form(21)
    verdict = scene.verdict()
    assert (verdict.cause, verdict.culprits, verdict.action_needed) == ("subscription_change", ("b",), False)


def test_its_joins_tell_it_where_its_log_does_not() -> None:
    scene = group("a", "b", logged=False)
    scene.record(0.6)
    scene.rejoin("b", 20)
    scene.form(21)
    scene.record(21, {"b": ("t", "u")})
    assert scene.verdict().cause == "subscription_change"


def test_pattern_match_is_not_a_subscription_change() -> None:
    scene = group("a", "b", logged=False)
    scene.record(0.6)
    scene.around(FactKind.TOPIC_CREATED, 18, topic="u", count=1)
    scene.rejoin("b", 20)
    scene.form(21)
    scene.record(21, {"a": ("t", "u"), "b": ("t", "u")})
    verdict = scene.verdict()
    assert (verdict.cause, verdict.culprits) == ("new_topic_matched", ("u",))


# ---- two processes with one instance id, and a restart


def static_logs(*joins: tuple[str, str, float]) -> Scene:
    """Joins that logs tell of: whose log, under which member id, when; all in one generation."""
    scene = Scene()
    for log, number, at in joins:
        member = f"i-00000000-0000-0000-0000-{number:>012}"
        scene.log("i", EventKind.MEMBER_JOINED, at, member=member, generation=1, file=f"{log}.log")
    return scene


def test_two_logs_replacing_each_other_are_a_conflict() -> None:
    verdict = static_logs(("p", "1", 0), ("q", "2", 10), ("p", "3", 11), ("q", "4", 12), ("p", "5", 13)).verdict()
    assert verdict.cause == "instance_id_conflict"
    assert {"i", "p", "q"} == set(verdict.culprits)


def test_one_restarted_static_member_is_no_conflict() -> None:
    assert static_logs(("p", "1", 0), ("p", "2", 20), ("p", "3", 40)).verdict().cause != "instance_id_conflict"


def test_static_member_replaced_repeatedly_is_a_crash_loop() -> None:
    scene = Scene()
    for instance, client in (("i", "c1"), ("j", "c2")):
        scene.started(client, -2)
        scene.join(client, 0, instance=instance)
        scene.log(client, EventKind.MEMBER_JOINED, 0.4, member=scene.ids[instance], instance=instance, generation=1)
    scene.form(0.5)
    for at in (20, 30, 40):
        scene.log("c1", FactKind.CLIENT_STARTED, at - 1, instance="i")
        scene.replace("i", at)
        scene.log("c1", EventKind.MEMBER_JOINED, at + 0.1, member=scene.ids["i"], instance="i", generation=1)
    verdict = scene.verdict()
    assert (verdict.cause, verdict.culprits, verdict.storm) == ("crash_loop", ("i",), True)
    assert verdict.confidence >= SURE


def test_late_static_member_is_no_conflict() -> None:
    scene = Scene()
    ids = [f"i-00000000-0000-0000-0000-{number:>012}" for number in range(5)]
    scene.started("c", -2)
    scene.broker(EventKind.MEMBER_JOINED, 0, member=ids[0], instance="i")
    scene.log("c", EventKind.MEMBER_JOINED, 0.5, member=ids[0], instance="i", generation=1)
    scene.join("other", 0)
    scene.form(0.5)
    for number, at in enumerate((20, 30, 40, 50)):
        scene.log("c", EventKind.POLL_OVERRUN, at - 4, instance="i", detail={"limit_ms": 6000})
        # The broker names the id that goes, and not the one that comes.
        scene.broker(EventKind.MEMBER_REPLACED, at, instance="i", detail={"old_member": ids[number]})
    verdict = scene.verdict()
    assert (verdict.cause, verdict.culprits, verdict.storm) == ("poll_delay", ("i",), True)
    assert "instance_id_conflict" not in {finding.cause for finding in verdict.also}


@pytest.mark.parametrize("leaves", [True, False])
def test_client_logs_need_leaves_to_show_dynamic_members(leaves: bool) -> None:
    scene = Scene()
    for at, client in ((0, "a"), (0, "b"), (20, "a"), (40, "b")):
        if at and leaves:
            scene.log(client, EventKind.MEMBER_LEFT, at - 2, member=f"{client}-0")
        scene.started(client, at - 1)
        scene.log(client, EventKind.MEMBER_JOINED, at, member=f"{client}-{at}", generation=at + 1, assignor="range")
    verdict = scene.verdict()
    assert verdict.cause == "rolling_restart"
    assert (verdict.confidence >= SURE) is leaves
    assert ("static_restart_too_late" in verdict.alternatives) is not leaves


@pytest.mark.parametrize("assignor", ["range", None])
def test_deploy_with_unknown_assignor_may_be_migration(assignor: str | None) -> None:
    scene = Scene(assignor=assignor)
    scene.start("a", "b")
    for at, client in ((20, "a"), (40, "b")):
        scene.leave(client, at, "the consumer is being closed")
        scene.form(at + 0.5)
        scene.join(client, at + 3)
        scene.form(at + 3.5)
    verdict = scene.verdict()
    assert verdict.cause == "rolling_restart"
    assert (verdict.confidence >= SURE) is (assignor is not None)
    assert ("assignor_migration" in verdict.alternatives) is (assignor is None)


def test_single_replacement_in_records_is_unsure() -> None:
    scene = Scene()
    for at, members in ((0, ("1", "2")), (20, ("3", "2"))):
        ids = [f"{name}-00000000-0000-0000-0000-{number:>012}" for name, number in zip("ij", members, strict=True)]
        scene.generation = 1
        scene.add_record(at, EventKind.GENERATION_RECORDED, {"detail": {"member_ids": ids}})
        for name, member in zip("ij", ids, strict=True):
            scene.add_record(at, FactKind.MEMBER_RECORDED, {"member": member, "instance": name, "client": f"c-{name}"})
    verdict = scene.verdict()
    assert verdict.cause == "static_restart_in_time"
    assert verdict.confidence < SURE
    assert "instance_id_conflict" in verdict.alternatives


# ---- a new member, and a round that does not end


def test_open_rebalance_at_the_end_is_stuck() -> None:
    scene = group("a", "b", "c")
    scene.join("d", 20)
    for client in ("a", "c"):
        scene.log(client, EventKind.JOIN_REQUESTED, 21)
    scene.around(FactKind.TOPIC_CREATED, 100, topic="somebody.elses", count=1)
    verdict = scene.verdict()
    assert (verdict.cause, verdict.culprits, verdict.action_needed) == ("stuck_rebalance", ("b",), True)
    assert verdict.confidence < SURE  # it may wait for another while yet


def test_a_round_that_has_just_begun_at_the_end_is_not() -> None:
    scene = group("a", "b", "c")
    scene.join("d", 20)
    scene.around(FactKind.TOPIC_CREATED, 40, topic="somebody.elses", count=1)
    assert scene.verdict().cause == "scale_out"


# ---- a coordinator that was killed, and whose start takes longer than a session


def test_members_expire_while_killed_broker_starts() -> None:
    scene = group("a", "b", session_ms=6000)
    scene.broker(EventKind.GROUP_LOADED, 30, members=2)
    scene.expire("a", 36)
    scene.expire("b", 36)
    scene.around(FactKind.BROKER_STARTED, 40, node="1")
    for client in ("a", "b"):
        scene.join(client, 41)
    scene.form(42)
    verdict = scene.verdict()
    assert (verdict.cause, verdict.culprits) == ("coordinator_restart", ("broker 1",))


def test_broker_killed_twice_has_two_outages() -> None:
    scene = group("a", "b", session_ms=6000)
    for at in (30, 65):
        scene.broker(EventKind.GROUP_LOADED, at - 10, members=2)
        scene.expire("a", at - 4)
        scene.expire("b", at - 4)
        scene.around(FactKind.BROKER_STARTED, at, node="1")
        scene.around(FactKind.BROKER_STARTED, at + 0.1, node="1")  # two lines tell of one start
        for client in ("a", "b"):
            scene.join(client, at + 1)
        scene.form(at + 2)
    verdict = scene.verdict()
    assert verdict.cause == "coordinator_restart"
    assert "crash" not in {finding.cause for finding in verdict.also}
    assert len(scene.history().outages) == 2


# ---- members that share the library's default client id


def namesakes(logged: bool) -> Scene:
    """Three members with one client id, one of which is put out twice; it comes back with an id that means nothing."""
    scene = Scene()
    members: dict[str, str] = {}
    for log in ("p", "q", "r"):
        members[log] = scene.join("consumer", 0)
        scene.there[log] = None
    scene.form(0.5)
    for at in (20, 40):
        scene.ids["consumer"] = members["q"]
        scene.leave("consumer", at)
        scene.form(at + 0.5)
        members["q"] = scene.join("consumer", at + 3)
        scene.form(at + 3.5)
        if logged:
            scene.log("consumer", EventKind.POLL_OVERRUN, at, detail={"limit_ms": 5000}, file="q.log")
    return scene


def test_without_logs_nobody_can_tell_who_came_back() -> None:
    verdict = namesakes(logged=False).verdict()
    assert verdict.confidence < SURE


def test_shared_client_id_uses_log_names() -> None:
    verdict = namesakes(logged=True).verdict()
    assert (verdict.cause, verdict.culprits, verdict.storm) == ("poll_delay", ("q",), True)


@pytest.mark.parametrize("folder", ["logs/{}.log", "logs/{}/app.log"], ids=["by file", "by folder"])
def test_logs_of_namesakes_are_not_taken_for_one_process(folder: str) -> None:
    scene = Scene()
    for log, number in (("p", 1), ("q", 2)):
        for at, generation in ((number, 1), (20 + number, 2), (40 + number, 3)):
            member = f"consumer-00000000-0000-0000-0000-{number:>012}"
            file = folder.format(log)
            scene.log("consumer", EventKind.MEMBER_JOINED, at, member=member, generation=generation, file=file)
    history = scene.history()
    assert set(history.timelines) == {"p", "q"}
    assert scene.verdict().cause == "healthy"


def test_next_log_of_a_process_is_the_same_process() -> None:
    scene = Scene()
    for log, number, at in (("monday", 1, 0), ("tuesday", 2, 100)):
        scene.log("c", FactKind.CLIENT_STARTED, at, file=f"{log}.log")
        member = f"c-00000000-0000-0000-0000-{number:>012}"
        scene.log("c", EventKind.MEMBER_JOINED, at + 1, member=member, generation=number, file=f"{log}.log")
    assert set(scene.history().timelines) == {"c"}


def test_shared_names_are_not_a_subscription_change() -> None:
    scene = Scene()
    reads = {}
    for number in range(4):
        member = scene.join("consumer", 0)
        reads[member] = ("t",) if number < 2 else ("u",)
    for at in (0.5, 20, 40):
        scene.form(at)
        scene.add_record(at, EventKind.GENERATION_RECORDED, {"detail": {"member_ids": list(reads)}})
        for member, topics in reads.items():
            columns = {"member": member, "client": "consumer", "detail": {"topics": list(topics)}}
            scene.add_record(at, FactKind.MEMBER_RECORDED, columns)
    assert scene.verdict().cause == "shared_group_id"


def test_subscription_change_after_restart_is_found() -> None:
    scene = group("a", "b")
    scene.leave("b", 20, "the consumer is being closed")
    scene.form(20.5)
    scene.started("b", 22)
    scene.join("b", 23)
    scene.form(23.5)
    scene.log("b", FactKind.CLIENT_SUBSCRIBED, 60, detail={"topics": ["t", "u"]})
    scene.rejoin("b", 60.1)
    scene.form(61)
    causes = {scene.verdict().cause, *(finding.cause for finding in scene.verdict().also)}
    assert "subscription_change" in causes


def test_class_names_and_protocol_names_are_no_migration() -> None:
    scene = group("a", "b")
    for at, client in ((-2, "a"), (-2, "b"), (22, "a"), (42, "b")):
        value = "[class org.apache.kafka.clients.consumer.RangeAssignor, class com.example.OwnAssignor]"
        detail = {"setting": "partition.assignment.strategy", "value": value}
        scene.log(client, FactKind.CLIENT_SETTING, at, detail=detail)
    for at, client in ((20, "a"), (40, "b")):
        scene.leave(client, at, "the consumer is being closed")
        left = scene.rows[-2]
        scene.rows[-2] = left._replace(
            detail=SingleRowDetail(
                {**{name: left.detail_value(name) for name in DETAIL}, "assignors": ["range", "own"]}
            )
        )
        scene.form(at + 0.5)
        scene.started(client, at + 2)
        scene.join(client, at + 3)
        scene.form(at + 3.5)
    assert scene.verdict().cause == "rolling_restart"


def test_a_file_of_several_is_no_clients_name() -> None:
    scene = group("a", "b")
    for at in (30, 60, 90):
        scene.log("b", EventKind.POLL_OVERRUN, at, detail={"limit_ms": 5000}, file="/logs/all.log")
        unnamed = scene.rows[-1]
        scene.rows.append(unnamed._replace(client=None, member=None, position=7))
        scene.leave("b", at + 0.1, "consumer poll timeout has expired.")
        scene.form(at + 0.5)
        scene.join("b", at + 3)
        scene.form(at + 3.5)
    verdict = scene.verdict()
    assert verdict.cause == "poll_delay"
    assert verdict.culprits == ("b",)
    assert "all" not in scene.history().timelines


def test_rejoining_members_joined_before_the_history() -> None:
    scene = group("a", "b", "c", logged=False)
    for at in (30, 60, 90):
        scene.leave("c", at, "consumer poll timeout has expired.")
        for client in ("a", "b"):
            member = scene.ids[client]
            scene.broker(EventKind.MEMBER_REJOINED, at + 0.2, member=member, client=client)
        scene.form(at + 0.5)
        scene.join("c", at + 3)
        scene.form(at + 3.5)
    scene.rows = [row for row in scene.rows if row.time_ms >= 29_000]
    verdict = scene.verdict()
    assert (verdict.cause, verdict.culprits) == ("poll_delay", ("c",))
    assert "scale_out" not in {one.cause for one in verdict.also}
