"""The core alone: heartbeats through the coordinator, memory per idle member, joins, simulated member-hours.

Run by `make bench`. The targets are the project's own; the broker's benchmarks compare with Kafka.
"""

import time
import tracemalloc
from collections.abc import Callable

from slackwater.group.assignors.consumer_protocol import Subscription, encode_subscription
from slackwater.group.coordinator import AppendRecords, Coordinator, CoordinatorConfig, Effect, SendResponse
from slackwater.group.errors import Error
from slackwater.group.messages import (
    Heartbeat,
    JoinGroup,
    JoinGroupResponse,
    JoinProtocol,
    OffsetCommit,
    OffsetToCommit,
    SyncGroup,
)
from slackwater.sim.soak import run_seeds

HEARTBEATS_TARGET = 250_000
BYTES_TARGET = 2_000
ROUNDS = 5


class CoordinatorHarness:
    """A coordinator whose writes succeed at once."""

    def __init__(self) -> None:
        self.coordinator = Coordinator(
            CoordinatorConfig(offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=0)
        )
        self.coordinator.load(0, 0, 0)
        self.coordinator.finish_loading(0, 0)

    def run_effects(self, effects: list[Effect], now_ms: int) -> list[SendResponse]:
        """Confirm the appends and return the responses."""
        responses: list[SendResponse] = []
        for effect in effects:
            if isinstance(effect, AppendRecords):
                responses += self.run_effects(
                    self.coordinator.on_append_result(effect.write_id, Error.NONE, now_ms), now_ms
                )
            elif isinstance(effect, SendResponse):
                responses.append(effect)
        return responses

    def fill(self, size: int) -> list[str]:
        """Create a stable group of `size` members; returns their ids."""
        for number in range(size):
            self.run_effects(self.coordinator.handle(_join(number), number, 0), 0)
        responses = self.run_effects(self.coordinator.tick(0), 0)
        ids = [a.response.member_id for a in responses if isinstance(a.response, JoinGroupResponse)]
        for member_id in ids:
            assignments = tuple((each, b"x" * 40) for each in ids) if member_id == ids[0] else ()
            sync = SyncGroup("g", member_id, None, 1, "consumer", "range", assignments)
            self.run_effects(self.coordinator.handle(sync, member_id, 0), 0)
        assert self.coordinator.groups["g"].state == "Stable"
        return ids


def _join(number: int) -> JoinGroup:
    """A join as decoded from the wire: members share no strings or bytes."""
    protocols = tuple(
        JoinProtocol(name, encode_subscription(Subscription(("orders",)))) for name in ("range", "cooperative-sticky")
    )
    return JoinGroup(
        "g",
        "",
        None,
        "consumer",
        protocols,
        45_000,
        300_000,
        f"consumer-{number}",
        f"/10.0.{number // 256}.{number % 256}",
        f"{number:036d}",
        requires_known_member_id=False,
    )


def best_rate(amount: int, work: Callable[[], None]) -> float:
    """Things per CPU second, best of a few rounds."""
    rates = []
    for _ in range(ROUNDS):
        started = time.process_time()
        work()
        rates.append(amount / (time.process_time() - started))
    return max(rates)


def heartbeats(members: int) -> float:
    """Heartbeats per second, request objects included."""
    harness = CoordinatorHarness()
    ids = harness.fill(members)
    handle = harness.coordinator.handle
    times = 200_000 // members

    def work() -> None:
        for now_ms in range(times):
            for member_id in ids:
                handle(Heartbeat("g", member_id, None, 1), 1, now_ms)

    return best_rate(times * members, work)


def commits() -> float:
    """Offset commits of one partition per second, written at once."""
    harness = CoordinatorHarness()
    (member_id,) = harness.fill(1)

    def work() -> None:
        for offset in range(20_000):
            commit = OffsetCommit("g", member_id, None, 1, (OffsetToCommit("orders", 0, offset),))
            harness.run_effects(harness.coordinator.handle(commit, 1, offset), offset)

    return best_rate(20_000, work)


def bytes_per_member(members: int = 10_000) -> float:
    """Memory of an idle member, strings and timers included."""
    harness = CoordinatorHarness()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    ids = harness.fill(members)
    allocated = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert len(ids) == members
    return allocated / members


def joins(members: int) -> float:
    """Milliseconds until `members` have joined an empty group and are all synced."""

    def once() -> float:
        started = time.process_time()
        CoordinatorHarness().fill(members)
        return (time.process_time() - started) * 1000

    return min(once() for _ in range(3))


def member_hours() -> float:
    """Simulated member-hours per CPU second."""
    started = time.process_time()
    account = run_seeds(range(150))
    return account.member_ms / 3_600_000 / (time.process_time() - started)


def main() -> None:
    """Print the table."""
    print("core alone, one core" + " " * 32 + "measured      target")
    for members in (16, 200):
        rate = heartbeats(members)
        print(f"  heartbeats/s, {members:>3} members {'':<20} {rate:>12,.0f}  ≥ {HEARTBEATS_TARGET:,}")
    print(f"  offset commits/s {'':<29} {commits():>12,.0f}")
    print(f"  bytes per idle member {'':<24} {bytes_per_member():>12,.0f}  ≤ {BYTES_TARGET:,}")
    for members in (500, 2_000):
        print(f"  {members:>5} members join an empty group, ms {'':<8} {joins(members):>12,.1f}")
    print(f"  simulated member-hours/s {'':<21} {member_hours():>12,.1f}")


if __name__ == "__main__":
    main()
