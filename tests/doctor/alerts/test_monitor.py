"""Alerts on looks that were made up: what begins, what ends, and what is not counted."""

from collections.abc import Iterable, Mapping

import pytest

from slackwater.doctor.alerts.monitor import (
    AlertMonitor,
    AlertNotice,
    AlertTransition,
    ClusterSnapshot,
    ObservedGeneration,
    ObservedGroup,
    ObservedMember,
    RebalanceSource,
)
from slackwater.doctor.alerts.rules import ALERTS, adapt_rules
from slackwater.group.errors import UsageError
from slackwater.group.events import (
    EventKind,
    EventSource,
    GroupEvent,
    JoinRefused,
    RebalanceCompleted,
    RebalanceFailed,
    RebalanceStarted,
    Trigger,
)
from slackwater.group.topic_partition import TopicPartition

SECOND = 1000
HOUR = 3_600_000
NOON = 43_200_000
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def member(name: str, *partitions: TopicPartition) -> ObservedMember:
    return ObservedMember(f"{name}-id", name, partitions)


BOTH = (member("a", P0), member("b", P1))


def seen(
    state: str = "Stable",
    members: tuple[ObservedMember, ...] = BOTH,
    *,
    committed: Mapping[TopicPartition, int] | None = None,
    lag: int | None = None,
    epoch: int | None = None,
    waiting_for: tuple[str, ...] = (),
) -> ObservedGroup:
    return ObservedGroup("g", state, members, epoch, committed or {}, lag, waiting_for)


def look(
    at_s: float,
    group: ObservedGroup | None,
    generations: Iterable[ObservedGeneration] = (),
    events: Iterable[GroupEvent] = (),
    *,
    by: RebalanceSource = RebalanceSource.OFFSETS,
    known_since_s: float | None = None,
) -> ClusterSnapshot:
    return ClusterSnapshot(
        time_ms=NOON + int(at_s * SECOND),
        groups={} if group is None else {"g": group},
        generations=list(generations),
        events=list(events),
        has_events=by is RebalanceSource.EVENTS,
        has_offsets=by in (RebalanceSource.EVENTS, RebalanceSource.OFFSETS),
        known_since_ms=None if known_since_s is None else NOON + int(known_since_s * SECOND),
    )


def formed(number: int, at_s: float, *members: str, cooperative: bool = False) -> ObservedGeneration:
    return ObservedGeneration("g", NOON + int(at_s * SECOND), number, frozenset(members or ("a", "b")), cooperative)


def emptied(number: int, at_s: float) -> ObservedGeneration:
    return ObservedGeneration("g", NOON + int(at_s * SECOND), number, frozenset())


def event(kind: EventKind, at_s: float, *, source: EventSource = EventSource.COORDINATOR, **more: object) -> GroupEvent:
    return GroupEvent(time_ms=NOON + int(at_s * SECOND), group="g", kind=kind, source=source, **more)  # type: ignore[arg-type]


def started(at_s: float, trigger: Trigger = Trigger.MEMBER_JOIN) -> GroupEvent:
    detail = RebalanceStarted(culprit="a", old_generation=1, timeout_ms=60_000, initial_delay=False, reason="")
    return event(EventKind.REBALANCE_STARTED, at_s, trigger=trigger, detail=detail)


def names(notices: Iterable[AlertNotice], turn: AlertTransition = AlertTransition.BEGAN) -> list[str]:
    return [one.alert.name for one in notices if one.transition is turn]


# --- more than one rebalance an hour ----------------------------------------------------------------------------------


def test_rebalance_alert_ends_after_an_hour() -> None:
    watch = AlertMonitor()
    assert watch.observe(look(0, seen(), [formed(7, -50)])) == []
    (began,) = watch.observe(look(5, seen(), [formed(8, 4)]))
    assert (began.transition, began.alert.name, began.value) == (AlertTransition.BEGAN, "RebalancesTooOften", 2)
    assert began.seen == "2 rebalances in the last hour, the last 1.0 s ago"
    assert watch.observe(look(10, seen())) == []
    (ended,) = watch.observe(look(3600 - 49, seen()))
    assert (ended.transition, ended.alert.name) == (AlertTransition.ENDED, "RebalancesTooOften")
    assert names(watch.fired) == ["RebalancesTooOften"]
    assert watch.firing == []


def test_what_was_written_before_the_first_look_counts() -> None:
    assert names(AlertMonitor().observe(look(0, seen(), [formed(7, -900), formed(8, -60)]))) == ["RebalancesTooOften"]


def test_a_group_that_starts_does_not_rebalance() -> None:
    watch = AlertMonitor()
    assert watch.observe(look(0, seen(), [formed(1, -10), formed(2, -9), formed(3, -7)])) == []
    assert watch.observe(look(5, seen(), [formed(4, 4)])) == []
    assert names(watch.observe(look(9, seen(), [formed(5, 8)]))) == ["RebalancesTooOften"]


def test_storm_from_the_beginning_is_no_start() -> None:
    rounds = [formed(1, -10, "a"), formed(2, -9, "a", "b"), formed(3, -7, "a"), formed(4, -5, "a", "b")]
    (began,) = AlertMonitor().observe(look(0, seen(), rounds))
    assert began.value == 2
    told = [event(EventKind.GENERATION_FORMED, at, generation=at + 20, members=2 - at % 2) for at in range(-19, 0)]
    (began,) = AlertMonitor().observe(look(0, seen(), events=told, by=RebalanceSource.EVENTS))
    assert began.value == 17


def test_a_group_that_was_empty_starts_again() -> None:
    watch = AlertMonitor()
    assert watch.observe(look(0, seen(), [formed(7, -90), emptied(8, -60), formed(9, -30), formed(10, -29)])) == []


def test_follow_up_is_not_counted() -> None:
    watch = AlertMonitor()
    rounds = [formed(7, -60, cooperative=True), formed(8, -58, cooperative=True)]
    assert watch.observe(look(0, seen(), rounds)) == []
    other = [formed(9, 1, "a", "b", "c", cooperative=True)]
    assert names(watch.observe(look(2, seen(), other))) == ["RebalancesTooOften"]


def test_a_generation_that_is_told_twice_is_one() -> None:
    assert AlertMonitor().observe(look(0, seen(), [formed(7, -60), formed(7, -59)])) == []


def test_recreated_group_starts_again() -> None:
    watch = AlertMonitor()
    assert watch.observe(look(0, seen(), [formed(40, -60), formed(1, -20), formed(2, -10)])) != []
    watch = AlertMonitor()
    assert watch.observe(look(0, seen(), [formed(40, -60), formed(1, -20)])) == []


def test_epoch_growth_is_counted() -> None:
    watch = AlertMonitor()
    assert watch.observe(look(0, seen(epoch=12), by=RebalanceSource.SNAPSHOTS)) == []
    assert watch.observe(look(5, seen(epoch=13), by=RebalanceSource.SNAPSHOTS)) == []
    (began,) = watch.observe(look(10, seen(epoch=15), by=RebalanceSource.SNAPSHOTS))
    assert began.value == 3
    assert watch.rebalance_source(seen(epoch=15)) is RebalanceSource.EPOCH


def epoch(number: int, at_s: float) -> ObservedGeneration:
    return ObservedGeneration("g", NOON + int(at_s * SECOND), number, is_epoch=True)


def test_start_and_end_of_a_group_are_not_counted() -> None:
    watch = AlertMonitor()
    assert watch.observe(look(0, seen(epoch=2), [epoch(1, -50), epoch(2, -40)])) == []
    assert watch.observe(look(5, seen(epoch=3), [epoch(3, 4)])) == []
    assert watch.observe(look(10, seen("Empty", (), epoch=4), [epoch(4, 9)])) == []
    assert watch.observe(look(15, seen(epoch=5), [epoch(5, 14)])) == []
    assert names(watch.observe(look(30, seen(epoch=6), [epoch(6, 29)]))) == ["RebalancesTooOften"]


def test_changes_between_snapshots_are_counted() -> None:
    watch = AlertMonitor()
    three = (*BOTH, member("c"))
    assert watch.observe(look(0, seen(), by=RebalanceSource.SNAPSHOTS)) == []
    assert watch.observe(look(5, seen("PreparingRebalance", ()), by=RebalanceSource.SNAPSHOTS)) == []
    assert watch.observe(look(10, seen(), by=RebalanceSource.SNAPSHOTS)) == []  # one round, and everybody as before
    assert watch.observe(look(15, seen(), by=RebalanceSource.SNAPSHOTS)) == []
    assert names(watch.observe(look(20, seen(members=three), by=RebalanceSource.SNAPSHOTS))) == ["RebalancesTooOften"]
    assert watch.rebalance_source(seen()) is RebalanceSource.SNAPSHOTS
    assert [rule.name for rule in watch.not_measured()] == ["RebalancesFail"]


def test_a_group_that_comes_up_between_looks_starts() -> None:
    watch = AlertMonitor()
    for at in (0, 5):
        assert watch.observe(look(at, seen("Empty", ()), by=RebalanceSource.SNAPSHOTS)) == []
    assert watch.observe(look(10, seen(), by=RebalanceSource.SNAPSHOTS)) == []
    assert watch.observe(look(20, seen(members=BOTH[:1]), by=RebalanceSource.SNAPSHOTS)) == []
    assert names(watch.observe(look(30, seen(), by=RebalanceSource.SNAPSHOTS))) == ["RebalancesTooOften"]


# --- by events --------------------------------------------------------------------------------------------------------


def test_coordinator_events_take_precedence() -> None:
    watch = AlertMonitor()
    rounds = [
        started(-50),
        event(EventKind.GENERATION_FORMED, -49, generation=7),
        started(-48, Trigger.COOPERATIVE_FOLLOWUP),
        event(EventKind.GENERATION_FORMED, -47, generation=8),
    ]
    assert watch.observe(look(0, seen(), [formed(7, -49), formed(8, -47)], rounds, by=RebalanceSource.EVENTS)) == []
    assert watch.rebalance_source(seen()) is RebalanceSource.EVENTS
    assert watch.not_measured() == []


def test_member_events_do_not_replace_the_coordinators() -> None:
    watch = AlertMonitor()
    told = [event(EventKind.PARTITIONS_ASSIGNED, -40, source=EventSource.MEMBER, generation=7)]
    notices = watch.observe(look(0, seen(), [formed(7, -50), formed(8, -40)], told, by=RebalanceSource.EVENTS))
    assert names(notices) == ["RebalancesTooOften"]
    assert watch.rebalance_source(seen()) is RebalanceSource.OFFSETS


@pytest.mark.parametrize(
    ("told", "fires"),
    [
        (event(EventKind.REBALANCE_FAILED, -5, detail=RebalanceFailed("NOT_COORDINATOR", 100)), True),
        (event(EventKind.REBALANCE_FAILED, -5, detail=RebalanceFailed("REBALANCE_IN_PROGRESS", 100)), False),
        (event(EventKind.JOIN_REFUSED, -5, detail=JoinRefused("INCONSISTENT_GROUP_PROTOCOL")), True),
        (event(EventKind.JOIN_REFUSED, -5, detail=JoinRefused("MEMBER_ID_REQUIRED")), False),
        (event(EventKind.JOIN_REFUSED, -700, detail=JoinRefused("INCONSISTENT_GROUP_PROTOCOL")), False),
    ],
)
def test_failed_rebalances_fire(told: GroupEvent, fires: bool) -> None:
    assert names(AlertMonitor().observe(look(0, seen(), events=[told], by=RebalanceSource.EVENTS))) == (
        ["RebalancesFail"] if fires else []
    )


def test_a_failure_is_over_after_ten_minutes() -> None:
    watch = AlertMonitor()
    watch.observe(
        look(0, seen(), events=[event(EventKind.JOIN_REFUSED, -5, detail=JoinRefused("X"))], by=RebalanceSource.EVENTS)
    )
    assert watch.observe(look(590, seen(), by=RebalanceSource.EVENTS)) == []
    assert names(watch.observe(look(600, seen(), by=RebalanceSource.EVENTS)), AlertTransition.ENDED) == [
        "RebalancesFail"
    ]


def test_long_rebalance_fires_by_its_duration() -> None:
    took = [event(EventKind.REBALANCE_COMPLETED, -1, detail=RebalanceCompleted(61_000))]
    assert names(AlertMonitor().observe(look(0, seen(), events=took, by=RebalanceSource.EVENTS))) == [
        "RebalanceTooLong"
    ]


# --- long and stuck ---------------------------------------------------------------------------------------------------


def test_stuck_rebalance_fires_and_names_members() -> None:
    watch = AlertMonitor()
    preparing = seen("PreparingRebalance", waiting_for=("b",))
    for at in range(0, 60, 5):
        assert watch.observe(look(at, preparing)) == []
    assert [one.alert.name for one in watch.pending] == ["RebalanceStuck"]
    began = watch.observe(look(60, preparing))
    assert names(began) == ["RebalanceStuck"]
    assert began[0].seen == "in PreparingRebalance for 60 s, waiting for b"
    assert names(watch.observe(look(65, preparing))) == ["RebalanceTooLong"]
    ended = watch.observe(look(70, seen(), [formed(8, 68)]))
    assert names(ended, AlertTransition.ENDED) == ["RebalanceStuck"]  # how long it took is told for ten minutes
    assert names(watch.firing) == ["RebalanceTooLong"]
    assert watch.firing[0].seen == "a rebalance took 68 s"


def test_rounds_one_after_the_other_are_no_long_one() -> None:
    watch = AlertMonitor([rule for rule in ALERTS if rule.measure != "rebalances_per_hour"])
    for at in range(0, 200, 5):
        assert watch.observe(look(at, seen("PreparingRebalance"), [formed(7 + at, at - 2)])) == []


def test_the_start_of_a_round_is_taken_from_its_event() -> None:
    watch = AlertMonitor()
    preparing = seen("PreparingRebalance")
    assert names(watch.observe(look(0, preparing, events=[started(-61)], by=RebalanceSource.EVENTS))) == [
        "RebalanceTooLong",
        "RebalanceStuck",
    ]


# --- progress ---------------------------------------------------------------------------------------------------------


def test_lag_without_commits_fires_after_five_minutes() -> None:
    watch = AlertMonitor()
    for at in range(0, 300, 50):
        assert watch.observe(look(at, seen(committed={P0: 5}, lag=10 + at))) == []
    (began,) = watch.observe(look(300, seen(committed={P0: 5}, lag=400)))
    assert (began.alert.name, began.seen) == ("NoProgress", "no offset committed for 5 min, lag 400")
    assert names(watch.observe(look(305, seen(committed={P0: 6}, lag=400))), AlertTransition.ENDED) == ["NoProgress"]


@pytest.mark.parametrize(
    "group",
    [seen(committed={P0: 5}, lag=0), seen(lag=None), seen("Empty", (), committed={P0: 5}, lag=10)],
    ids=["no lag", "nothing committed", "nobody there"],
)
def test_missing_commits_without_lag_or_members_are_fine(group: ObservedGroup) -> None:
    watch = AlertMonitor()
    for at in range(0, 1000, 50):
        assert watch.observe(look(at, group)) == []


# --- idle members -----------------------------------------------------------------------------------------------------


def test_idle_members_fire_after_ten_minutes() -> None:
    idle = seen(members=(*BOTH, member("c")))
    watch = AlertMonitor()
    assert watch.observe(look(0, idle, [formed(7, -590)])) == []
    (began,) = watch.observe(look(10, idle))
    assert (began.alert.name, began.seen) == ("IdleMembers", "1 of 3 members have no partition: c")
    assert names(watch.observe(look(15, seen())), AlertTransition.ENDED) == ["IdleMembers"]


def test_group_without_records_is_idle_since_known_time() -> None:
    idle = seen(members=(*BOTH, member("c")))
    assert names(AlertMonitor().observe(look(0, idle, known_since_s=-3600))) == ["IdleMembers"]
    assert AlertMonitor().observe(look(0, idle, known_since_s=None)) == []


def test_no_member_is_idle_while_partitions_move() -> None:
    watch = AlertMonitor()
    blank = (ObservedMember("a-id", "a", None), ObservedMember("b-id", "b", None))
    for group in (seen("CompletingRebalance", (member("a"), member("b"))), seen(members=blank)):
        assert "IdleMembers" not in names(watch.observe(look(0, group, known_since_s=-3600)))


# --- groups that go, rules that differ --------------------------------------------------------------------------------


def test_the_alerts_of_a_group_that_is_gone_are_over() -> None:
    watch = AlertMonitor()
    watch.observe(look(0, seen(), [formed(7, -900), formed(8, -60)]))
    (ended,) = watch.observe(look(5, None))
    assert (ended.transition, ended.group, ended.seen) == (AlertTransition.ENDED, "g", "the group no longer exists")
    assert watch.firing == []


def test_rules_may_have_other_limits_or_be_off() -> None:
    rules = adapt_rules({"RebalancesTooOften": {"limit": 3}, "IdleMembers": {"off": True}}, "rules.toml")
    watch = AlertMonitor(rules)
    group = seen(members=(*BOTH, member("c")))
    assert watch.observe(look(0, group, [formed(7, -900), formed(8, -800), formed(9, -700)], known_since_s=-3600)) == []
    assert names(watch.observe(look(5, group, [formed(10, 4)]))) == ["RebalancesTooOften"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"IdleMember": {}}, "did you mean IdleMembers?"),
        ({"Xyz": {}}, "the rules are RebalancesTooOften"),
        ({"IdleMembers": 3}, "write a table"),
        ({"IdleMembers": {"for": 3}}, "a rule has limit, for_s and off"),
        ({"IdleMembers": {"for_s": "3"}}, "whole seconds"),
        ({"IdleMembers": {"limit": -1}}, "a number of 0 or more"),
        ({"IdleMembers": {"off": 1}}, "true or false"),
    ],
)
def test_what_is_wrong_with_a_rule_is_said(changes: Mapping[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said.replace("?", r"\?")):
        adapt_rules(changes, "rules.toml")
