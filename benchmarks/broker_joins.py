"""How long a group takes to form, with Apache Kafka and with our broker in the same run.

    python benchmarks/broker_joins.py [--rounds N] [--only kafka|slackwater]

500 and 2,000 members join an empty group, and one more joins 500; the time runs from the first request to the moment
at which everybody is synced in the generation that has everybody in it. Every member has a connection of its own, made
beforehand; `group.initial.rebalance.delay.ms` is 0. The brokers take turns, round by round, each time with a new group.
Whoever comes too late for a generation starts the next, so it may take several until all are in. The members live in
one Python process beside the broker: their CPU time is shown, because neither broker can be faster than that.
"""

import sys
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.broker_members import Group
from benchmarks.brokers import Server, arguments, both, heading, report, run

WARM_UP_ROUNDS = 4


class Crowd:
    """One broker's connections, and what was measured over them in milliseconds."""

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
        """Form a group, let one more in, and leave."""
        group = Group(f"joins-{self.size}-{number}", self.size + 1)
        self.server.wait_for_coordinator([group.group_id])
        spent, served = time.process_time(), self.server.cpu_seconds()
        joined = group.join(self.connections[:-1])
        generations = group.generation_id
        spent, served = time.process_time() - spent, self.server.cpu_seconds() - served
        one_more = group.join(self.connections[-1:])
        group.leave()
        if number >= WARM_UP_ROUNDS:
            self.join_ms.append(joined * 1000)
            self.scale_out_ms.append(one_more * 1000)
            self.client_cpu_ms.append(spent * 1000)
            self.server_cpu_ms.append(served * 1000)
            self.generations.append(generations)


def measure(servers: list[Server], size: int, rounds: int) -> list[Crowd]:
    """Some rounds that do not count, then those that do, the brokers taking turns."""
    with ExitStack() as stack:
        crowds = [Crowd(server, size, stack) for server in servers]
        for number in range(WARM_UP_ROUNDS + rounds):
            for crowd in crowds:
                crowd.round(number)
    return crowds


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with both(options.only) as servers:
        heading("joins, ms", [server.name for server in servers])
        for size in (500, 2_000):
            crowds = measure(servers, size, options.rounds)
            report(f"{size:,} members join an empty group", [crowd.join_ms for crowd in crowds], ",.0f", "≤ 1")
            report("  generations until all have joined", [crowd.generations for crowd in crowds], ",.0f")
            report("  CPU of the broker", [crowd.server_cpu_ms for crowd in crowds], ",.0f")
            report("  CPU of the members", [crowd.client_cpu_ms for crowd in crowds], ",.0f")
            target = "≤ 1" if size == 500 else ""
            report(f"one more joins {size:,}", [crowd.scale_out_ms for crowd in crowds], ",.0f", target)


if __name__ == "__main__":
    run(main)
