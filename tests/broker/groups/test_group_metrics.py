"""The figures of each group: rebalances from events, members and lag from the coordinator."""

from slackwater.broker.groups.group_metrics import OTHER, GroupFigures, GroupMetrics
from slackwater.group.assignors.consumer_protocol import Assignment, encode_assignment
from slackwater.group.coordinator.group import ClassicGroup, ClassicGroupMember
from slackwater.group.coordinator.records import StoredOffset
from slackwater.group.coordinator.states import STABLE
from slackwater.group.events import (
    EventDetail,
    EventKind,
    EventSource,
    GroupEvent,
    JoinRefused,
    RebalanceCompleted,
    Trigger,
)
from slackwater.group.rebalance_counter import RebalanceKind
from slackwater.group.topic_partition import TopicPartition

MINUTE_MS = 60_000
P0, P1, P2 = (TopicPartition("orders", number) for number in range(3))


class World:
    """Groups, a clock and end offsets."""

    def __init__(self, *names: str) -> None:
        self.now_ms = 0
        self.groups = {name: ClassicGroup(name, 0, 0) for name in names}
        self.end_offsets = {P0: 100, P1: 50}
        self.metrics = GroupMetrics(self.groups, now_ms=lambda: self.now_ms, end_offset=self.end_offsets.get)

    def emit(
        self,
        kind: EventKind,
        group: str = "orders",
        *,
        trigger: Trigger | None = None,
        generation: int | None = None,
        detail: EventDetail | None = None,
    ) -> None:
        self.metrics.apply_event(
            GroupEvent(
                time_ms=self.now_ms,
                group=group,
                kind=kind,
                trigger=trigger,
                generation=generation,
                members=2,
                detail=detail,
                source=EventSource.COORDINATOR,
            )
        )

    def rebalance(self, generation: int, trigger: Trigger, duration_ms: int = 100, group: str = "orders") -> None:
        self.emit(EventKind.REBALANCE_STARTED, group, trigger=trigger)
        self.now_ms += duration_ms
        self.emit(EventKind.GENERATION_FORMED, group, generation=generation)
        self.emit(EventKind.REBALANCE_COMPLETED, group, detail=RebalanceCompleted(duration_ms))

    def read(self, max_groups: int = 10) -> dict[str, GroupFigures]:
        return {figures.name: figures for figures in self.metrics.read(max_groups)}


def add_member(group: ClassicGroup, member_id: str, *partitions: TopicPartition) -> None:
    member = ClassicGroupMember(group, member_id, None, member_id, "/h", 45_000, 300_000, ())
    member.assignment = encode_assignment(Assignment(partitions))
    group.add(member, "consumer")


def test_start_and_follow_up_are_counted_apart() -> None:
    world = World("orders")
    world.rebalance(1, Trigger.MEMBER_JOIN)
    world.now_ms += MINUTE_MS
    world.rebalance(2, Trigger.MEMBER_JOIN)
    world.rebalance(3, Trigger.COOPERATIVE_FOLLOWUP)
    figures = world.read()["orders"]
    assert figures.rebalances == {RebalanceKind.START: 1, RebalanceKind.CHANGE: 1, RebalanceKind.FOLLOW_UP: 1}
    assert figures.triggers == {Trigger.MEMBER_JOIN: 2, Trigger.COOPERATIVE_FOLLOWUP: 1}


def test_durations_of_last_and_longest_rebalance() -> None:
    world = World("orders")
    assert world.read()["orders"].longest_rebalance_s is None
    world.rebalance(1, Trigger.MEMBER_JOIN, 90_000)
    world.rebalance(2, Trigger.MEMBER_JOIN, 2_000)
    world.now_ms += 5_000
    figures = world.read()["orders"]
    assert (figures.last_rebalance_s, figures.longest_rebalance_s, figures.since_last_rebalance_s) == (2, 90, 5)
    world.now_ms += 10 * MINUTE_MS
    assert world.read()["orders"].longest_rebalance_s == 0
    world.emit(EventKind.REBALANCE_STARTED, trigger=Trigger.MEMBER_LEAVE)
    world.now_ms += 70_000
    assert world.read()["orders"].longest_rebalance_s == 70


def test_member_id_required_is_not_a_failure() -> None:
    world = World("orders")
    world.emit(EventKind.JOIN_REFUSED, detail=JoinRefused("MEMBER_ID_REQUIRED"))
    world.emit(EventKind.JOIN_REFUSED, detail=JoinRefused("GROUP_MAX_SIZE_REACHED"))
    assert world.read()["orders"].failed_rebalances == 1


def test_lag_counts_assigned_partitions_only() -> None:
    world = World("orders")
    group = world.groups["orders"]
    add_member(group, "a", P0)
    add_member(group, "b")
    group.state = STABLE
    group.offsets = {P0: StoredOffset(60, -1, "", 0), P1: StoredOffset(10, -1, "", 0), P2: StoredOffset(5, -1, "", 0)}
    figures = world.read()["orders"]
    assert (figures.members, figures.idle_members) == (2, 1)
    assert (figures.lag, figures.committed) == (40, 60)


def test_group_without_members_has_the_lag_of_all_offsets() -> None:
    world = World("orders")
    world.groups["orders"].offsets = {P0: StoredOffset(60, -1, "", 0), P1: StoredOffset(10, -1, "", 0)}
    assert world.read()["orders"].lag == 80
    assert World("orders").read()["orders"].lag is None


def test_groups_beyond_the_limit_are_summed() -> None:
    world = World("a", "b", OTHER)
    for name in world.groups:
        world.rebalance(1, Trigger.MEMBER_JOIN, group=name)
    figures = world.read(max_groups=1)
    assert list(figures) == ["a", OTHER]
    assert figures[OTHER].rebalances[RebalanceKind.START] == 2
    assert OTHER in world.read(max_groups=3)
    assert len(world.read(max_groups=3)) == 2, "a group stays in the sum, so that no counter decreases"


def test_deleted_groups_stay_in_the_sum() -> None:
    world = World("a", "b")
    for name in world.groups:
        world.rebalance(1, Trigger.MEMBER_JOIN, group=name)
    assert world.read(max_groups=1)[OTHER].rebalances[RebalanceKind.START] == 1
    for name in ("a", "b"):
        del world.groups[name]
        world.emit(EventKind.GROUP_DELETED, name)
    assert world.read(max_groups=1)[OTHER].rebalances[RebalanceKind.START] == 2


def test_rejected_joins_to_unknown_groups_use_no_memory() -> None:
    world = World()
    for number in range(1000):
        world.emit(EventKind.JOIN_REFUSED, f"unknown-{number}", detail=JoinRefused("INVALID_SESSION_TIMEOUT"))
    figures = world.read()
    assert list(figures) == [OTHER]
    assert figures[OTHER].failed_rebalances == 1000
