"""Members and coordinator together, on a clock that the test controls.

Whatever happens, checked at every step: no partition has two owners, unless one of them lost it without knowing yet.
"""

from collections import Counter, deque
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from slackwater.group.assignors import CooperativeStickyAssignor, RangeAssignor, TopicInfo
from slackwater.group.events import GroupState
from slackwater.group.member import (
    Callback,
    GroupMember,
    MemberConfig,
    MemberEffect,
    MemberState,
    NotifyListener,
    RebalanceDriver,
    RefreshMetadata,
    Send,
)
from slackwater.group.member.effects import MemberResponse
from slackwater.group.messages import FindCoordinator, JoinGroup
from slackwater.group.topic_partition import TopicPartition

from .coordinator_harness import HOST, CoordinatorHarness
from .member_harness import NODE, at, tps

STEP_MS = 50


class Client:
    """A minimal client: everything happens at once, unless `alive` or `polling` is False."""

    def __init__(self, house: "House", name: str, **settings: Any) -> None:
        defaults: dict[str, Any] = {"group_id": "orders", "client_id": name, "enable_auto_commit": False}
        self.house = house
        self.machine = GroupMember(MemberConfig(**(defaults | settings)))
        self.alive = True
        self.polling = True
        self.heard: list[tuple[Callback, tuple[TopicPartition, ...]]] = []
        self._inbox: deque[tuple[int, MemberResponse]] = deque()
        self.execute(self.machine.subscribe(["t"], self.now_ms))

    @property
    def now_ms(self) -> int:
        """The harness's time."""
        return self.house.harness.now_ms

    def execute(self, effects: list[MemberEffect]) -> None:
        """Execute effects."""
        for effect in effects:
            match effect:
                case Send(request_id=request_id, request=request):
                    if isinstance(request, FindCoordinator):
                        self._inbox.append((request_id, NODE))
                        continue
                    if isinstance(request, JoinGroup):
                        request = replace(request, uuid=self.house.harness.next_uuid(), client_host=HOST)
                    ask: Any = self.house.harness.send
                    ask(request, partial(self._arrived, request_id))
                case NotifyListener():
                    self.heard.append((effect.callback, effect.partitions))
                    self.execute(self.machine.on_listener_done(self.now_ms))
                case RefreshMetadata():
                    self.execute(self.machine.on_metadata(self.house.cluster, self.now_ms))
                case _:
                    pass

    def _arrived(self, request_id: int, response: MemberResponse) -> None:
        self._inbox.append((request_id, response))

    def step(self) -> None:
        """Handle responses, fire timers, poll."""
        if not self.alive:
            self._inbox.clear()
            return
        while self._inbox:
            self.execute(self.machine.on_response(*self._inbox.popleft(), self.now_ms))
        due_ms = self.machine.next_due_ms()
        if due_ms is not None and due_ms <= self.now_ms:
            self.execute(self.machine.tick(self.now_ms))
        if self.polling:
            self.execute(self.machine.poll(self.now_ms))

    @property
    def owned(self) -> tuple[TopicPartition, ...]:
        """Return the owned partitions, sorted."""
        return tuple(sorted(self.machine.owned))


class House:
    """A harness with clients."""

    def __init__(self, **settings: Any) -> None:
        self.harness = CoordinatorHarness(**({"group_initial_rebalance_delay_ms": 100} | settings))
        self.cluster = {"t": TopicInfo(6)}
        self.clients: list[Client] = []

    def client(self, name: str, **settings: Any) -> Client:
        """Add a client."""
        client = Client(self, name, **settings)
        self.clients.append(client)
        return client

    def run(self, duration_ms: int) -> None:
        """Advance time in small steps."""
        for _ in range(duration_ms // STEP_MS):
            self.harness.advance_ms(STEP_MS)
            for client in self.clients:
                client.step()
                self.check()

    def check(self) -> None:
        """Check that no partition has two owners."""
        group = self.harness.coordinator.groups.get("orders")
        members = group.members if group is not None else {}
        owners = Counter(
            partition
            for client in self.clients
            if client.alive and client.machine.member_id in members
            for partition in client.machine.owned
        )
        assert all(count == 1 for count in owners.values()), owners

    def stable_group(self) -> None:
        """Check that the group is stable and every partition has one owner."""
        assert self.harness.state is GroupState.STABLE
        living = [client for client in self.clients if client.alive]
        assert all(client.machine.state is MemberState.STABLE for client in living)
        owned = sorted(partition for client in living for partition in client.owned)
        assert owned == [TopicPartition("t", n) for n in range(self.cluster["t"].partitions)]


def cooperative() -> dict[str, Any]:
    """Settings of a cooperative client."""
    return {"assignors": (CooperativeStickyAssignor(),)}


@pytest.mark.proves("CL-01", "CL-12", "CL-19")
def test_eager_members_come_and_go() -> None:
    house = House()
    a = house.client("a", assignors=(RangeAssignor(),))
    house.run(2_000)
    assert a.owned == tps("t-0 t-1 t-2 t-3 t-4 t-5")
    b = house.client("b", assignors=(RangeAssignor(),))
    house.run(5_000)
    house.stable_group()
    assert len(a.owned) == len(b.owned) == 3
    b.execute(b.machine.close(b.now_ms))
    house.run(5_000)
    assert b.machine.is_closed
    assert a.owned == tps("t-0 t-1 t-2 t-3 t-4 t-5")


@pytest.mark.proves("CL-21", "CL-23")
def test_cooperative_members_move_only_what_has_to_move() -> None:
    house = House()
    a, b = (house.client(name, **cooperative()) for name in "ab")
    house.run(5_000)
    house.stable_group()
    kept = {client: set(client.owned) for client in (a, b)}
    c = house.client("c", **cooperative())
    for client in (a, b):
        client.heard.clear()
    house.run(10_000)
    house.stable_group()
    for client in (a, b):
        assert set(client.owned) <= kept[client]
        revoked = [partitions for callback, partitions in client.heard if callback is Callback.REVOKED]
        assert [len(partitions) for partitions in revoked] == [1]
    assert len(c.owned) == 2


@pytest.mark.proves("CL-06", "CL-22")
def test_member_that_stops_polling_is_out_and_comes_back() -> None:
    house = House()
    a, b = (house.client(name, max_poll_interval_ms=10_000, **cooperative()) for name in "ab")
    house.run(5_000)
    a.heard.clear()
    a.polling = False
    house.run(20_000)
    assert b.owned == tps("t-0 t-1 t-2 t-3 t-4 t-5")
    assert not a.heard
    a.polling = True
    house.run(10_000)
    house.stable_group()
    assert a.heard[0][0] is Callback.LOST


@pytest.mark.proves("CL-09", "CL-22")
def test_silent_member_gets_unknown_member_id() -> None:
    house = House()
    a, b = (house.client(name, session_timeout_ms=10_000, **cooperative()) for name in "ab")
    house.run(5_000)
    a.alive = False
    house.run(20_000)
    assert len(b.owned) == 6
    a.alive = True
    house.run(10_000)
    house.stable_group()
    assert Callback.LOST in [callback for callback, _ in a.heard]


@pytest.mark.proves("CL-07", "CL-30")
def test_static_restart_within_session_keeps_assignment() -> None:
    house = House()
    settings = {"group_instance_id": "one", "session_timeout_ms": 30_000} | cooperative()
    a = house.client("a", **settings)
    b = house.client("b", group_instance_id="two", session_timeout_ms=30_000, **cooperative())
    house.run(5_000)
    had, generation = a.owned, house.harness.generation
    b.heard.clear()
    a.execute(a.machine.close(a.now_ms))
    assert a.machine.is_closed
    house.clients.remove(a)
    house.run(10_000)
    again = house.client("a", **settings)
    house.run(5_000)
    assert (again.owned, house.harness.generation) == (had, generation)
    assert not b.heard


@pytest.mark.proves("CL-10", "CL-13")
def test_older_process_with_same_instance_id_is_fenced() -> None:
    house = House()
    a = house.client("a", group_instance_id="one", driver=RebalanceDriver.BACKGROUND, **cooperative())
    house.run(2_000)
    b = house.client("b", group_instance_id="one", driver=RebalanceDriver.BACKGROUND, **cooperative())
    house.run(10_000)
    assert len(b.owned) == 6
    assert a.machine.state is MemberState.UNJOINED
    house.run(60_000)
    assert b.machine.state is MemberState.STABLE, "the elder does not come back to fence the younger"


@pytest.mark.proves("CL-23")
def test_batch_is_handed_over_without_blocking_group() -> None:
    house = House()
    a = house.client("a", driver=RebalanceDriver.BACKGROUND, **cooperative())
    house.run(2_000)
    a.machine.hold(a.machine.owned)
    b = house.client("b", driver=RebalanceDriver.BACKGROUND, **cooperative())
    house.run(60_000)
    assert house.harness.state is GroupState.STABLE
    assert len(a.owned) == 6
    assert not b.machine.owned
    assert len(a.machine.leaving) == 3
    generation = house.harness.generation
    a.execute(a.machine.release(a.machine.owned, a.now_ms))
    house.run(10_000)
    house.stable_group()
    assert [len(client.owned) for client in house.clients] == [3, 3]
    assert house.harness.generation <= generation + 2


@pytest.mark.proves("CL-26")
def test_new_partitions_are_assigned_after_metadata_refresh() -> None:
    house = House()
    for name in "ab":
        house.client(name, **cooperative())
    house.run(5_000)
    house.cluster = {"t": TopicInfo(8)}
    for client in house.clients:
        client.execute(client.machine.on_metadata(house.cluster, client.now_ms))
    house.run(10_000)
    house.stable_group()


@pytest.mark.proves("CL-37", "CL-19")
def test_what_was_consumed_is_committed_before_it_changes_hands() -> None:
    house = House()
    a = house.client("a", enable_auto_commit=True, assignors=(RangeAssignor(),))
    house.run(2_000)
    a.machine.set_consumed(at("t-5", 42))
    house.client("b", assignors=(RangeAssignor(),))
    house.run(5_000)
    house.stable_group()
    assert house.harness.offset("t", 5) == 42


@pytest.mark.proves("CL-11")
def test_coordinator_that_restarts_costs_no_rebalance() -> None:
    house = House()
    a, b = (house.client(name, **cooperative()) for name in "ab")
    house.run(5_000)
    generation = house.harness.generation
    for client in (a, b):
        client.heard.clear()
    house.harness.unload()
    house.run(5_000)
    house.harness.restart()
    house.run(5_000)
    house.stable_group()
    assert house.harness.generation == generation
    assert not a.heard
    assert not b.heard
