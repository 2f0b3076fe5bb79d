"""Memory over ten thousand rebalances of two consumers in this process; the broker runs in its own.

    python benchmarks/rebalances.py [--rebalances N] [--warm-up N]

One of the two members requests each rebalance. It ends when both members are in the new generation with their
partitions. Resident memory is read after a warm-up, which fills the bounded caches, and at the end. It may grow by a
tenth; otherwise the exit code is 1.
"""

import argparse
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.brokers import run

from slackwater import Broker, Consumer
from slackwater.group.member import GroupMember

PARTITIONS: Final = 4
DEADLINE_S: Final = 60.0
POLL_S: Final = 0.002
MAX_GROWTH: Final = 0.10
MB: Final = 1_000_000
SETTINGS: Final[dict[str, object]] = {
    "group.id": "g",
    "heartbeat.interval.ms": 5,
    "retry.backoff.ms": 1,
    "fetch.max.wait.ms": 50,
}


class Pair:
    """Two members of a group that one thread polls."""

    def __init__(self, broker: Broker, settings: Mapping[str, object] | None = None) -> None:
        broker.create_topic("t", PARTITIONS)
        config = SETTINGS | {"bootstrap.servers": broker.bootstrap_servers} | dict(settings or {})
        self.members = [Consumer(config) for _ in range(2)]
        for member in self.members:
            member.subscribe(["t"])
        self._settle(-1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.close()

    def rebalance(self, times: int) -> None:
        """Run `times` rebalances, one after the other."""
        for number in range(times):
            generation = _machine(self.members[0]).generation_id
            self.members[number % 2].enforce_rebalance()
            self._settle(generation)

    def _settle(self, before: int) -> None:
        """Poll until both are in the same, newer generation and own all partitions together."""
        deadline = time.monotonic() + DEADLINE_S
        while not self._settled(before):
            assert time.monotonic() < deadline, [member.assignment for member in self.members]
            for member in self.members:
                member.poll(POLL_S)

    def _settled(self, before: int) -> bool:
        members = [_machine(member) for member in self.members]
        if any(member.needs_rejoin for member in members):  # also during a rebalance
            return False
        generations = {member.generation_id for member in members}
        owned = {partition for member in members for partition in member.owned}
        return len(generations) == 1 and generations.pop() > before and len(owned) == PARTITIONS


def _machine(member: Consumer) -> GroupMember:
    return member.engine.require_group("rebalances").member


def resident_bytes(pid: int | str) -> int:
    """Return the resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    match = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
    assert match, status
    return int(match[1]) * 1024


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rebalances", type=int, default=10_000, help="measured rebalances")
    parser.add_argument("--warm-up", type=int, default=2_500, help="rebalances before the measurement")
    options = parser.parse_args()
    with Broker(process=True, settings={"group.initial.rebalance.delay.ms": 0}) as broker, Pair(broker) as pair:
        pair.rebalance(options.warm_up)
        before = [resident_bytes(pid) for pid in (broker.pid, "self")]
        began = time.monotonic()
        pair.rebalance(options.rebalances)
        rate = options.rebalances / (time.monotonic() - began)
        after = [resident_bytes(pid) for pid in (broker.pid, "self")]
    title = f"resident memory (MB) over {options.rebalances} rebalances, {rate:.0f} per second"
    print(f"{title:<59}{'before':>9}{'after':>9}  target")
    flat = True
    for name, first, last in zip(("broker", "two consumers"), before, after, strict=True):
        flat = flat and last <= first * (1 + MAX_GROWTH)
        print(f"  {name:<57}{first / MB:>9.1f}{last / MB:>9.1f}  ≤ {first * (1 + MAX_GROWTH) / MB:.1f}")
    if not flat:
        sys.exit("rebalances.py: memory grew by more than a tenth.")


if __name__ == "__main__":
    run(main)
