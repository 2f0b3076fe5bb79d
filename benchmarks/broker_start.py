"""Time from process start to the first response, and resident memory: Apache Kafka and Slackwater in the same run.

    python benchmarks/broker_start.py [--rounds N] [--only kafka|slackwater]

Method:
- A round starts each broker once, one after the other, on an empty directory (Kafka's is formatted in advance).
- The time runs from the start of the process to the response to ApiVersions, requested every two milliseconds.
- Resident memory is read at the first response, two seconds later, and after load: 200 members in ten groups with
  heartbeats and offset commits for a few seconds each.
"""

import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.broker_members import TOPIC
from benchmarks.broker_requests import KINDS, PARTITIONS, PIPELINED_REQUESTS, members_of, run_load, streams_of
from benchmarks.brokers import BROKERS, Server, arguments, heading, report, run

IDLE_SECONDS = 2
LOAD_SECONDS = 4.0
MEMBERS = 200
GROUP_SIZE = 20
MB = 1_000_000


class Start(NamedTuple):
    """The measurements of one start."""

    seconds: float
    first_mb: float
    idle_mb: float
    loaded_mb: float


def load(server: Server) -> None:
    """Create load: members, heartbeats and offset commits."""
    server.create_topic(TOPIC, PARTITIONS)
    with ExitStack() as stack:
        connections = [stack.enter_context(server.connect()) for _ in range(MEMBERS)]
        members = members_of(server, connections, GROUP_SIZE)
        for kind in KINDS:
            run_load(server, streams_of(kind, members, PIPELINED_REQUESTS), LOAD_SECONDS)


def start(name: str) -> Start:
    """Start a broker and measure it before and after load."""
    with BROKERS[name]() as server:
        first = server.resident_bytes()
        time.sleep(IDLE_SECONDS)
        idle = server.resident_bytes()
        load(server)
        return Start(server.start_seconds, first / MB, idle / MB, server.resident_bytes() / MB)


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    names = [options.only] if options.only else list(BROKERS)
    heading("start and memory", names)
    rounds = [[start(name) for name in names] for _ in range(options.rounds)]
    starts = list(zip(*rounds, strict=True))
    report(
        "process start to first response, s",
        [[start.seconds for start in broker] for broker in starts],
        ".2f",
        "≤ 0.10",
    )
    report(
        "memory at the first response, MB",
        [[start.first_mb for start in broker] for broker in starts],
        ",.0f",
        "≤ 0.25",
    )
    report("memory two seconds later, MB", [[start.idle_mb for start in broker] for broker in starts], ",.0f", "≤ 0.25")
    report("memory after load, MB", [[start.loaded_mb for start in broker] for broker in starts], ",.0f", "≤ 0.25")


if __name__ == "__main__":
    run(main)
