"""Alerts on generated snapshots: when they begin and end, and which rebalances count."""

from collections.abc import Iterable, Mapping

import pytest

from slackwater.doctor.alerts.monitor import (
    AlertMonitor,
    AlertNotice,
    AlertState,
    ClusterSnapshot,
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
from slackwater.group.rebalance_counter import ObservedGeneration
from slackwater.group.topic_partition import TopicPartition

SECOND = 1000
HOUR = 3_600_000
NOON = 43_200_000
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def member(name: str, *partitions: TopicPartition) -> ObservedMember:
    return ObservedMember(f"{name}-id", name, partitions)


BOTH_MEMBERS = (member("a", P0), member("b", P1))


def group_snapshot(
    state: str = "Stable",
    members: tuple[ObservedMember, ...] = BOTH_MEMBERS,
    *,
    committed: Mapping[TopicPartition, int] | None = None,
    lag: int | None = None,
    epoch: int | None = None,
    waiting_for: tuple[str, ...] = (),
) -> ObservedGroup:
    return ObservedGroup("g", state, members, epoch, committed or {}, lag, waiting_for)


def snapshot(
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


def event(
    kind: EventKind, at_s: float, *, source: EventSource = EventSource.COORDINATOR, **columns: object
) -> GroupEvent:
    return GroupEvent(time_ms=NOON + int(at_s * SECOND), group="g", kind=kind, source=source, **columns)  # type: ignore[arg-type]


def started(at_s: float, trigger: Trigger = Trigger.MEMBER_JOIN) -> GroupEvent:
    detail = RebalanceStarted(culprit="a", old_generation=1, timeout_ms=60_000, initial_delay=False, reason="")
    return event(EventKind.REBALANCE_STARTED, at_s, trigger=trigger, detail=detail)


def names(notices: Iterable[AlertNotice], state: AlertState = AlertState.BEGAN) -> list[str]:
    return [notice.alert.name for notice in notices if notice.state is state]


# --- more than one rebalance per hour ---------------------------------------------------------------------------------


def test_rebalance_alert_ends_after_an_hour() -> None:
    monitor = AlertMonitor()
    assert monitor.observe(snapshot(0, group_snapshot(), [formed(7, -50)])) == []
    (began,) = monitor.observe(snapshot(5, group_snapshot(), [formed(8, 4)]))
    assert (began.state, began.alert.name, began.value) == (AlertState.BEGAN, "RebalancesTooOften", 2)
    assert began.description == "2 rebalances in the last hour, the last 1.0 s ago"
    assert monitor.observe(snapshot(10, group_snapshot())) == []
    (ended,) = monitor.observe(snapshot(3600 - 49, group_snapshot()))
    assert (ended.state, ended.alert.name) == (AlertState.ENDED, "RebalancesTooOften")
    assert names(monitor.fired) == ["RebalancesTooOften"]
    assert monitor.firing == []


def test_generations_before_the_first_snapshot_count() -> None:
    assert names(AlertMonitor().observe(snapshot(0, group_snapshot(), [formed(7, -900), formed(8, -60)]))) == [
        "RebalancesTooOften"
    ]


def test_start_of_a_group_is_not_a_rebalance() -> None:
    monitor = AlertMonitor()
    assert monitor.observe(snapshot(0, group_snapshot(), [formed(1, -10), formed(2, -9), formed(3, -7)])) == []
    assert monitor.observe(snapshot(5, group_snapshot(), [formed(4, 4)])) == []
    assert names(monitor.observe(snapshot(9, group_snapshot(), [formed(5, 8)]))) == ["RebalancesTooOften"]


def test_storm_from_the_beginning_is_no_start() -> None:
    generations = [formed(1, -10, "a"), formed(2, -9, "a", "b"), formed(3, -7, "a"), formed(4, -5, "a", "b")]
    (began,) = AlertMonitor().observe(snapshot(0, group_snapshot(), generations))
    assert began.value == 2
    events = [event(EventKind.GENERATION_FORMED, at, generation=at + 20, members=2 - at % 2) for at in range(-19, 0)]
    (began,) = AlertMonitor().observe(snapshot(0, group_snapshot(), events=events, by=RebalanceSource.EVENTS))
    assert began.value == 17


def test_group_that_was_empty_starts_again() -> None:
    monitor = AlertMonitor()
    assert (
        monitor.observe(
            snapshot(0, group_snapshot(), [formed(7, -90), emptied(8, -60), formed(9, -30), formed(10, -29)])
        )
        == []
    )


def test_follow_up_is_not_counted() -> None:
    monitor = AlertMonitor()
    generations = [formed(7, -60, cooperative=True), formed(8, -58, cooperative=True)]
    assert monitor.observe(snapshot(0, group_snapshot(), generations)) == []
    other = [formed(9, 1, "a", "b", "c", cooperative=True)]
    assert names(monitor.observe(snapshot(2, group_snapshot(), other))) == ["RebalancesTooOften"]


def test_repeated_generation_counts_once() -> None:
    assert AlertMonitor().observe(snapshot(0, group_snapshot(), [formed(7, -60), formed(7, -59)])) == []


def test_recreated_group_starts_again() -> None:
    monitor = AlertMonitor()
    assert monitor.observe(snapshot(0, group_snapshot(), [formed(40, -60), formed(1, -20), formed(2, -10)])) != []
    monitor = AlertMonitor()
    assert monitor.observe(snapshot(0, group_snapshot(), [formed(40, -60), formed(1, -20)])) == []


def test_epoch_growth_is_counted() -> None:
    monitor = AlertMonitor()
    assert monitor.observe(snapshot(0, group_snapshot(epoch=12), by=RebalanceSource.SNAPSHOTS)) == []
    assert monitor.observe(snapshot(5, group_snapshot(epoch=13), by=RebalanceSource.SNAPSHOTS)) == []
    (began,) = monitor.observe(snapshot(10, group_snapshot(epoch=15), by=RebalanceSource.SNAPSHOTS))
    assert began.value == 3
    assert monitor.rebalance_source(group_snapshot(epoch=15)) is RebalanceSource.EPOCH


def epoch(number: int, at_s: float) -> ObservedGeneration:
    return ObservedGeneration("g", NOON + int(at_s * SECOND), number, is_epoch=True)


def test_start_and_end_of_a_group_are_not_counted() -> None:
    monitor = AlertMonitor()
    assert monitor.observe(snapshot(0, group_snapshot(epoch=2), [epoch(1, -50), epoch(2, -40)])) == []
    assert monitor.observe(snapshot(5, group_snapshot(epoch=3), [epoch(3, 4)])) == []
    assert monitor.observe(snapshot(10, group_snapshot("Empty", (), epoch=4), [epoch(4, 9)])) == []
    assert monitor.observe(snapshot(15, group_snapshot(epoch=5), [epoch(5, 14)])) == []
    assert names(monitor.observe(snapshot(30, group_snapshot(epoch=6), [epoch(6, 29)]))) == ["RebalancesTooOften"]


def test_changes_between_snapshots_are_counted() -> None:
    monitor = AlertMonitor()
    three = (*BOTH_MEMBERS, member("c"))
    assert monitor.observe(snapshot(0, group_snapshot(), by=RebalanceSource.SNAPSHOTS)) == []
    assert monitor.observe(snapshot(5, group_snapshot("PreparingRebalance", ()), by=RebalanceSource.SNAPSHOTS)) == []
    # One rebalance with the same assignment as before.
    assert monitor.observe(snapshot(10, group_snapshot(), by=RebalanceSource.SNAPSHOTS)) == []
    assert monitor.observe(snapshot(15, group_snapshot(), by=RebalanceSource.SNAPSHOTS)) == []
    assert names(monitor.observe(snapshot(20, group_snapshot(members=three), by=RebalanceSource.SNAPSHOTS))) == [
        "RebalancesTooOften"
    ]
    assert monitor.rebalance_source(group_snapshot()) is RebalanceSource.SNAPSHOTS
    assert [rule.name for rule in monitor.not_measured()] == ["RebalancesFail"]


def test_group_that_starts_between_snapshots() -> None:
    monitor = AlertMonitor()
    for at in (0, 5):
        assert monitor.observe(snapshot(at, group_snapshot("Empty", ()), by=RebalanceSource.SNAPSHOTS)) == []
    assert monitor.observe(snapshot(10, group_snapshot(), by=RebalanceSource.SNAPSHOTS)) == []
    assert monitor.observe(snapshot(20, group_snapshot(members=BOTH_MEMBERS[:1]), by=RebalanceSource.SNAPSHOTS)) == []
    assert names(monitor.observe(snapshot(30, group_snapshot(), by=RebalanceSource.SNAPSHOTS))) == [
        "RebalancesTooOften"
    ]


# --- by events --------------------------------------------------------------------------------------------------------


def test_coordinator_events_take_precedence() -> None:
    monitor = AlertMonitor()
    events = [
        started(-50),
        event(EventKind.GENERATION_FORMED, -49, generation=7),
        started(-48, Trigger.COOPERATIVE_FOLLOWUP),
        event(EventKind.GENERATION_FORMED, -47, generation=8),
    ]
    assert (
        monitor.observe(
            snapshot(0, group_snapshot(), [formed(7, -49), formed(8, -47)], events, by=RebalanceSource.EVENTS)
        )
        == []
    )
    assert monitor.rebalance_source(group_snapshot()) is RebalanceSource.EVENTS
    assert monitor.not_measured() == []


def test_member_events_do_not_replace_the_coordinators() -> None:
    monitor = AlertMonitor()
    events = [event(EventKind.PARTITIONS_ASSIGNED, -40, source=EventSource.MEMBER, generation=7)]
    notices = monitor.observe(
        snapshot(0, group_snapshot(), [formed(7, -50), formed(8, -40)], events, by=RebalanceSource.EVENTS)
    )
    assert names(notices) == ["RebalancesTooOften"]
    assert monitor.rebalance_source(group_snapshot()) is RebalanceSource.OFFSETS


@pytest.mark.parametrize(
    ("group_event", "fires"),
    [
        (event(EventKind.REBALANCE_FAILED, -5, detail=RebalanceFailed("NOT_COORDINATOR", 100)), True),
        (event(EventKind.REBALANCE_FAILED, -5, detail=RebalanceFailed("REBALANCE_IN_PROGRESS", 100)), False),
        (event(EventKind.JOIN_REFUSED, -5, detail=JoinRefused("INCONSISTENT_GROUP_PROTOCOL")), True),
        (event(EventKind.JOIN_REFUSED, -5, detail=JoinRefused("MEMBER_ID_REQUIRED")), False),
        (event(EventKind.JOIN_REFUSED, -700, detail=JoinRefused("INCONSISTENT_GROUP_PROTOCOL")), False),
    ],
)
def test_failed_rebalances_fire(group_event: GroupEvent, fires: bool) -> None:
    assert names(
        AlertMonitor().observe(snapshot(0, group_snapshot(), events=[group_event], by=RebalanceSource.EVENTS))
    ) == (["RebalancesFail"] if fires else [])


def test_failure_alert_ends_after_ten_minutes() -> None:
    monitor = AlertMonitor()
    monitor.observe(
        snapshot(
            0,
            group_snapshot(),
            events=[event(EventKind.JOIN_REFUSED, -5, detail=JoinRefused("X"))],
            by=RebalanceSource.EVENTS,
        )
    )
    assert monitor.observe(snapshot(590, group_snapshot(), by=RebalanceSource.EVENTS)) == []
    assert names(monitor.observe(snapshot(600, group_snapshot(), by=RebalanceSource.EVENTS)), AlertState.ENDED) == [
        "RebalancesFail"
    ]


def test_long_rebalance_fires_by_its_duration() -> None:
    completed = [event(EventKind.REBALANCE_COMPLETED, -1, detail=RebalanceCompleted(61_000))]
    assert names(
        AlertMonitor().observe(snapshot(0, group_snapshot(), events=completed, by=RebalanceSource.EVENTS))
    ) == ["RebalanceTooLong"]


# --- long and stuck ---------------------------------------------------------------------------------------------------


def test_stuck_rebalance_fires_and_names_members() -> None:
    monitor = AlertMonitor()
    preparing = group_snapshot("PreparingRebalance", waiting_for=("b",))
    for at in range(0, 60, 5):
        assert monitor.observe(snapshot(at, preparing)) == []
    assert [notice.alert.name for notice in monitor.pending] == ["RebalanceStuck"]
    began = monitor.observe(snapshot(60, preparing))
    assert names(began) == ["RebalanceStuck"]
    assert began[0].description == "in PreparingRebalance for 60 s, waiting for b"
    assert names(monitor.observe(snapshot(65, preparing))) == ["RebalanceTooLong"]
    ended = monitor.observe(snapshot(70, group_snapshot(), [formed(8, 68)]))
    # The duration alert stays for ten minutes.
    assert names(ended, AlertState.ENDED) == ["RebalanceStuck"]
    assert names(monitor.firing) == ["RebalanceTooLong"]
    assert monitor.firing[0].description == "a rebalance took 68 s"


def test_consecutive_rebalances_are_not_one_long_rebalance() -> None:
    monitor = AlertMonitor([rule for rule in ALERTS if rule.measure != "rebalances_per_hour"])
    for at in range(0, 200, 5):
        assert monitor.observe(snapshot(at, group_snapshot("PreparingRebalance"), [formed(7 + at, at - 2)])) == []


def test_start_of_a_rebalance_is_taken_from_its_event() -> None:
    monitor = AlertMonitor()
    preparing = group_snapshot("PreparingRebalance")
    assert names(monitor.observe(snapshot(0, preparing, events=[started(-61)], by=RebalanceSource.EVENTS))) == [
        "RebalanceTooLong",
        "RebalanceStuck",
    ]


# --- progress ---------------------------------------------------------------------------------------------------------


def test_lag_without_commits_fires_after_five_minutes() -> None:
    monitor = AlertMonitor()
    for at in range(0, 300, 50):
        assert monitor.observe(snapshot(at, group_snapshot(committed={P0: 5}, lag=10 + at))) == []
    (began,) = monitor.observe(snapshot(300, group_snapshot(committed={P0: 5}, lag=400)))
    assert (began.alert.name, began.description) == ("NoProgress", "no offset committed for 5 min, lag 400")
    assert names(monitor.observe(snapshot(305, group_snapshot(committed={P0: 6}, lag=400))), AlertState.ENDED) == [
        "NoProgress"
    ]


@pytest.mark.parametrize(
    "group",
    [
        group_snapshot(committed={P0: 5}, lag=0),
        group_snapshot(lag=None),
        group_snapshot("Empty", (), committed={P0: 5}, lag=10),
    ],
    ids=["no lag", "nothing committed", "no members"],
)
def test_missing_commits_without_lag_or_members_are_fine(group: ObservedGroup) -> None:
    monitor = AlertMonitor()
    for at in range(0, 1000, 50):
        assert monitor.observe(snapshot(at, group)) == []


# --- idle members -----------------------------------------------------------------------------------------------------


def test_idle_members_fire_after_ten_minutes() -> None:
    idle = group_snapshot(members=(*BOTH_MEMBERS, member("c")))
    monitor = AlertMonitor()
    assert monitor.observe(snapshot(0, idle, [formed(7, -590)])) == []
    (began,) = monitor.observe(snapshot(10, idle))
    assert (began.alert.name, began.description) == ("IdleMembers", "1 of 3 members have no partition: c")
    assert names(monitor.observe(snapshot(15, group_snapshot())), AlertState.ENDED) == ["IdleMembers"]


def test_group_without_records_is_idle_since_known_time() -> None:
    idle = group_snapshot(members=(*BOTH_MEMBERS, member("c")))
    assert names(AlertMonitor().observe(snapshot(0, idle, known_since_s=-3600))) == ["IdleMembers"]
    assert AlertMonitor().observe(snapshot(0, idle, known_since_s=None)) == []


def test_no_member_is_idle_while_partitions_move() -> None:
    monitor = AlertMonitor()
    blank = (ObservedMember("a-id", "a", None), ObservedMember("b-id", "b", None))
    for group in (group_snapshot("CompletingRebalance", (member("a"), member("b"))), group_snapshot(members=blank)):
        assert "IdleMembers" not in names(monitor.observe(snapshot(0, group, known_since_s=-3600)))


# --- deleted groups and adapted rules ---------------------------------------------------------------------------------


def test_alerts_of_a_deleted_group_end() -> None:
    monitor = AlertMonitor()
    monitor.observe(snapshot(0, group_snapshot(), [formed(7, -900), formed(8, -60)]))
    (ended,) = monitor.observe(snapshot(5, None))
    assert (ended.state, ended.group, ended.description) == (AlertState.ENDED, "g", "the group no longer exists")
    assert monitor.firing == []


def test_rules_may_have_other_limits_or_be_off() -> None:
    rules = adapt_rules({"RebalancesTooOften": {"limit": 3}, "IdleMembers": {"off": True}}, "rules.toml")
    monitor = AlertMonitor(rules)
    group = group_snapshot(members=(*BOTH_MEMBERS, member("c")))
    assert (
        monitor.observe(snapshot(0, group, [formed(7, -900), formed(8, -800), formed(9, -700)], known_since_s=-3600))
        == []
    )
    assert names(monitor.observe(snapshot(5, group, [formed(10, 4)]))) == ["RebalancesTooOften"]


@pytest.mark.parametrize(
    ("changes", "message"),
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
def test_invalid_rule_is_a_usage_error(changes: Mapping[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("?", r"\?")):
        adapt_rules(changes, "rules.toml")
