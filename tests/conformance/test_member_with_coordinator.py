"""Members and coordinator together, on a clock that the test controls.

Every step checks that no partition has two owners. A member that the coordinator removed does not count as an owner.
"""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from slackwater.group.assignors import CooperativeStickyAssignor, RangeAssignor, TopicInfo
from slackwater.group.events import GroupState
from slackwater.group.member import (
    Callback,
    MemberState,
    RebalanceDriver,
    Send,
)
from slackwater.group.member.effects import MemberResponse
from slackwater.group.messages import FindCoordinator, JoinGroup
from slackwater.group.topic_partition import TopicPartition

from .coordinator_harness import HOST, CoordinatorHarness
from .member_harness import NODE, MemberHarness, at, tps

STEP_MS = 50


class Client(MemberHarness):
    """A member whose requests go to the coordinator; `alive` and `polling` stop it or its polls."""

    def __init__(self, harness: CoordinatorHarness, topics: Mapping[str, int], name: str, **settings: Any) -> None:
        self.harness = harness
        self.alive = True
        self.polling = True
        self._inbox: deque[tuple[int, MemberResponse]] = deque()
        super().__init__(cluster=topics, now_ms=harness.now_ms, client_id=name, **settings)

    def on_send(self, send: Send) -> None:
        """Send a request to the coordinator; the response is handled in the next step."""
        request = send.request
        if isinstance(request, FindCoordinator):
            self._inbox.append((send.request_id, NODE))
            return
        if isinstance(request, JoinGroup):
            request = replace(request, uuid=self.harness.next_uuid(), client_host=HOST)
        forward: Any = self.harness.send
        forward(request, partial(self._on_response, send.request_id))

    def _on_response(self, request_id: int, response: MemberResponse) -> None:
        self._inbox.append((request_id, response))

    def step(self) -> None:
        """Handle responses, fire timers, poll."""
        self.now_ms = self.harness.now_ms
        if not self.alive:
            self._inbox.clear()
            return
        while self._inbox:
            self.execute(self.machine.on_response(*self._inbox.popleft(), self.now_ms))
        due_ms = self.machine.next_due_ms()
        if due_ms is not None and due_ms <= self.now_ms:
            self.tick()
        if self.polling:
            self.poll()


class MemberCluster:
    """A coordinator harness with clients."""

    def __init__(self, **settings: Any) -> None:
        self.harness = CoordinatorHarness(**({"group_initial_rebalance_delay_ms": 100} | settings))
        self.topics = {"t": 6}
        self.clients: list[Client] = []

    def client(self, name: str, **settings: Any) -> Client:
        """Add a client."""
        client = Client(self.harness, self.topics, name, **settings)
        self.clients.append(client)
        return client

    def set_partitions(self, count: int) -> None:
        """Change the number of partitions of topic t and update the metadata of all clients."""
        self.topics = {"t": count}
        for client in self.clients:
            client.cluster = {"t": TopicInfo(count)}
            client.execute(client.machine.on_metadata(client.cluster, client.now_ms))

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

    def check_stable(self) -> None:
        """Check that the group is stable and every partition has one owner."""
        assert self.harness.state is GroupState.STABLE
        alive = [client for client in self.clients if client.alive]
        assert all(client.machine.state is MemberState.STABLE for client in alive)
        owned = sorted(partition for client in alive for partition in client.owned())
        assert owned == [TopicPartition("t", n) for n in range(self.topics["t"])]


def cooperative() -> dict[str, Any]:
    """Settings of a cooperative client."""
    return {"assignors": (CooperativeStickyAssignor(),)}


@pytest.mark.proves("CL-01", "CL-12", "CL-19")
def test_eager_members_join_and_leave() -> None:
    cluster = MemberCluster()
    a = cluster.client("a", assignors=(RangeAssignor(),))
    cluster.run(2_000)
    assert a.owned() == tps("t-0 t-1 t-2 t-3 t-4 t-5")
    b = cluster.client("b", assignors=(RangeAssignor(),))
    cluster.run(5_000)
    cluster.check_stable()
    assert len(a.owned()) == len(b.owned()) == 3
    b.execute(b.machine.close(b.now_ms))
    cluster.run(5_000)
    assert b.machine.is_closed
    assert a.owned() == tps("t-0 t-1 t-2 t-3 t-4 t-5")


@pytest.mark.proves("CL-21", "CL-23")
def test_cooperative_members_revoke_only_moved_partitions() -> None:
    cluster = MemberCluster()
    a, b = (cluster.client(name, **cooperative()) for name in "ab")
    cluster.run(5_000)
    cluster.check_stable()
    before = {client: set(client.owned()) for client in (a, b)}
    c = cluster.client("c", **cooperative())
    for client in (a, b):
        client.callbacks.clear()
    cluster.run(10_000)
    cluster.check_stable()
    for client in (a, b):
        assert set(client.owned()) <= before[client]
        revoked = [partitions for callback, partitions in client.callbacks if callback is Callback.REVOKED]
        assert [len(partitions) for partitions in revoked] == [1]
    assert len(c.owned()) == 2


@pytest.mark.proves("CL-06", "CL-22")
def test_member_that_stops_polling_leaves_and_rejoins() -> None:
    cluster = MemberCluster()
    a, b = (cluster.client(name, max_poll_interval_ms=10_000, **cooperative()) for name in "ab")
    cluster.run(5_000)
    a.callbacks.clear()
    a.polling = False
    cluster.run(20_000)
    assert b.owned() == tps("t-0 t-1 t-2 t-3 t-4 t-5")
    assert not a.callbacks
    a.polling = True
    cluster.run(10_000)
    cluster.check_stable()
    assert a.callbacks[0][0] is Callback.LOST


@pytest.mark.proves("CL-09", "CL-22")
def test_silent_member_gets_unknown_member_id() -> None:
    cluster = MemberCluster()
    a, b = (cluster.client(name, session_timeout_ms=10_000, **cooperative()) for name in "ab")
    cluster.run(5_000)
    a.alive = False
    cluster.run(20_000)
    assert len(b.owned()) == 6
    a.alive = True
    cluster.run(10_000)
    cluster.check_stable()
    assert Callback.LOST in [callback for callback, _ in a.callbacks]


@pytest.mark.proves("CL-07", "CL-30")
def test_static_restart_within_session_keeps_assignment() -> None:
    cluster = MemberCluster()
    settings = {"group_instance_id": "one", "session_timeout_ms": 30_000} | cooperative()
    a = cluster.client("a", **settings)
    b = cluster.client("b", group_instance_id="two", session_timeout_ms=30_000, **cooperative())
    cluster.run(5_000)
    owned, generation = a.owned(), cluster.harness.generation
    b.callbacks.clear()
    a.execute(a.machine.close(a.now_ms))
    assert a.machine.is_closed
    cluster.clients.remove(a)
    cluster.run(10_000)
    restarted = cluster.client("a", **settings)
    cluster.run(5_000)
    assert (restarted.owned(), cluster.harness.generation) == (owned, generation)
    assert not b.callbacks


@pytest.mark.proves("CL-10", "CL-13")
def test_older_process_with_same_instance_id_is_fenced() -> None:
    cluster = MemberCluster()
    a = cluster.client("a", group_instance_id="one", driver=RebalanceDriver.BACKGROUND, **cooperative())
    cluster.run(2_000)
    b = cluster.client("b", group_instance_id="one", driver=RebalanceDriver.BACKGROUND, **cooperative())
    cluster.run(10_000)
    assert len(b.owned()) == 6
    assert a.machine.state is MemberState.UNJOINED
    cluster.run(60_000)
    assert b.machine.state is MemberState.STABLE, "the older process does not rejoin and fence the newer one"


@pytest.mark.proves("CL-23")
def test_held_partitions_do_not_block_group() -> None:
    cluster = MemberCluster()
    a = cluster.client("a", driver=RebalanceDriver.BACKGROUND, **cooperative())
    cluster.run(2_000)
    a.machine.hold(a.machine.owned)
    b = cluster.client("b", driver=RebalanceDriver.BACKGROUND, **cooperative())
    cluster.run(60_000)
    assert cluster.harness.state is GroupState.STABLE
    assert len(a.owned()) == 6
    assert not b.machine.owned
    assert len(a.machine.pending_revocation) == 3
    generation = cluster.harness.generation
    a.execute(a.machine.release(a.machine.owned, a.now_ms))
    cluster.run(10_000)
    cluster.check_stable()
    assert [len(client.owned()) for client in cluster.clients] == [3, 3]
    assert cluster.harness.generation <= generation + 2


@pytest.mark.proves("CL-26")
def test_new_partitions_are_assigned_after_metadata_refresh() -> None:
    cluster = MemberCluster()
    for name in "ab":
        cluster.client(name, **cooperative())
    cluster.run(5_000)
    cluster.set_partitions(8)
    cluster.run(10_000)
    cluster.check_stable()


@pytest.mark.proves("CL-37", "CL-19")
def test_consumed_offsets_are_committed_before_revocation() -> None:
    cluster = MemberCluster()
    a = cluster.client("a", enable_auto_commit=True, assignors=(RangeAssignor(),))
    cluster.run(2_000)
    a.machine.set_consumed(at("t-5", 42))
    cluster.client("b", assignors=(RangeAssignor(),))
    cluster.run(5_000)
    cluster.check_stable()
    assert cluster.harness.offset("t", 5) == 42


@pytest.mark.proves("CL-11")
def test_coordinator_restart_causes_no_rebalance() -> None:
    cluster = MemberCluster()
    a, b = (cluster.client(name, **cooperative()) for name in "ab")
    cluster.run(5_000)
    generation = cluster.harness.generation
    for client in (a, b):
        client.callbacks.clear()
    cluster.harness.unload()
    cluster.run(5_000)
    cluster.harness.restart()
    cluster.run(5_000)
    cluster.check_stable()
    assert cluster.harness.generation == generation
    assert not a.callbacks
    assert not b.callbacks
