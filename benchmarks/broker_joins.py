"""Time until a group has formed: Apache Kafka and Slackwater in the same run.

    python benchmarks/broker_joins.py [--rounds N] [--only kafka|slackwater]

Method:
- 500 and 2,000 members join an empty group; then one more member joins. The time runs from the first request until
  every member is synced in a generation with all members.
- Every member has its own connection, opened in advance. `group.initial.rebalance.delay.ms` is 0.
- The brokers alternate, round by round, each time with a new group.
- A member that is too late for a generation starts the next one, so several generations may be needed.
- The members run in one Python process; their CPU time is a lower bound for both brokers and is part of the table.
"""

import sys
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.broker_members import Group
from benchmarks.brokers import Server, arguments, both, heading, report, run

WARM_UP_ROUNDS = 4


class JoinTimes:
    """The connections to one broker, and the measured times."""

    def __init__(self, server: Server, size: int, stack: ExitStack) -> None:
        self.server = server
        self.size = size
        self.connections = [stack.enter_context(server.connect()) for _ in range(size + 1)]
        self.join_ms: list[float] = []
        self.scale_out_ms: list[float] = []
        self.client_cpu_ms: list[float] = []
        self.server_cpu_ms: list[float] = []
        self.generations: list[float] = []

    def round(self, number: int) -> None:
        """Form a group, add one member, and leave."""
        group = Group(f"joins-{self.size}-{number}", self.size + 1)
        self.server.wait_for_coordinator([group.group_id])
        spent, served = time.process_time(), self.server.cpu_seconds()
        joined = group.join(self.connections[:-1])
        generations = group.generation_id
        spent, served = time.process_time() - spent, self.server.cpu_seconds() - served
        scale_out = group.join(self.connections[-1:])
        group.leave()
        if number >= WARM_UP_ROUNDS:
            self.join_ms.append(joined * 1000)
            self.scale_out_ms.append(scale_out * 1000)
            self.client_cpu_ms.append(spent * 1000)
            self.server_cpu_ms.append(served * 1000)
            self.generations.append(generations)


def measure(servers: list[Server], size: int, rounds: int) -> list[JoinTimes]:
    """Run warm-up rounds, then the measured ones, alternating between the brokers."""
    with ExitStack() as stack:
        brokers = [JoinTimes(server, size, stack) for server in servers]
        for number in range(WARM_UP_ROUNDS + rounds):
            for broker in brokers:
                broker.round(number)
    return brokers


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with both(options.only) as servers:
        heading("joins", [server.name for server in servers])
        for size in (500, 2_000):
            brokers = measure(servers, size, options.rounds)
            report(f"{size:,} members join an empty group, ms", [broker.join_ms for broker in brokers], ",.0f", "≤ 1")
            report("  generations until all have joined", [broker.generations for broker in brokers], ",.0f")
            report("  CPU of the broker, ms", [broker.server_cpu_ms for broker in brokers], ",.0f")
            report("  CPU of the members, ms", [broker.client_cpu_ms for broker in brokers], ",.0f")
            target = "≤ 1" if size == 500 else ""
            report(f"one more joins {size:,}, ms", [broker.scale_out_ms for broker in brokers], ",.0f", target)


if __name__ == "__main__":
    run(main)
