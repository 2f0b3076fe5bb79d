"""Kafka's kafka-producer-perf-test and kafka-consumer-perf-test against Apache Kafka and Slackwater, in the same run.

    python benchmarks/broker_perf.py [--rounds N] [--records N] [--only kafka|slackwater]

Method:
- The producer tool writes records of 100 bytes to a topic with one partition at full speed: with the producer's
  defaults (idempotent, acks=all) and with acks=1.
- The consumer tool reads each topic from the beginning with its defaults. The rate is the tool's fetch rate, without
  the time to join its group.
- The brokers alternate, round by round; every round creates and deletes its topics.
- Most of the CPU time is the tool's, on the same two cores. The broker's CPU time per record is part of the table.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.brokers import JARS, PeerFailed, Server, arguments, both, heading, report, run

TOOL: Final = ("java", "-Xmx512m", "-cp", f"{JARS}/*")  # the heap size of Kafka's scripts
RECORD_BYTES: Final = 100
TOOL_SECONDS: Final = 300
WARM_UP_ROUNDS: Final = 1
ACKS: Final = {"defaults": (), "acks=1": ("--command-property", "acks=1")}


class Throughput(NamedTuple):
    """The rate of one tool."""

    rate: float  # per second
    server_us: float  # CPU time of the broker per record


def perf_test(server: Server, records: int, tool: str, *options: str) -> tuple[str, float]:
    """Run a tool; return its last line and the broker's CPU time per record."""
    command = [*TOOL, f"org.apache.kafka.tools.{tool}", "--bootstrap-server", server.bootstrap]
    served = server.cpu_seconds()
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=TOOL_SECONDS)
    served = server.cpu_seconds() - served
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        raise PeerFailed(f"{tool} failed against {server.name}: {(done.stdout + done.stderr)[-1000:]}")
    return lines[-1], served / records * 1e6


def produce(server: Server, topic: str, records: int, options: Sequence[str]) -> Throughput:
    """Return the rate in "2000000 records sent, 351185.7 records/sec (33.49 MB/sec), …"."""
    sizes = ("--num-records", str(records), "--record-size", str(RECORD_BYTES), "--throughput", "-1")
    line, server_us = perf_test(server, records, "ProducerPerformance", "--topic", topic, *sizes, *options)
    sent, _, rest = line.partition(" records sent, ")
    if sent != str(records):
        raise PeerFailed(f"ProducerPerformance sent {sent} of {records} records to {server.name}: {line}")
    return Throughput(float(rest.split()[0]), server_us)


def consume(server: Server, topic: str, records: int, options: Sequence[str] = ()) -> Throughput:
    """Return the last column, fetch.nMsg.sec; the fifth, data.consumed.in.nMsg, must be the number of records."""
    line, server_us = perf_test(
        server,
        records,
        "ConsumerPerformance",
        *("--topic", topic, "--num-records", str(records), "--hide-header"),
        *("--timeout", "60000"),  # a busy machine may need the default of 10 s to join
        *options,
    )
    columns = line.split(", ")
    if len(columns) != 10 or int(columns[4]) < records:
        raise PeerFailed(f"ConsumerPerformance did not read {records} records from {server.name}: {line}")
    return Throughput(float(columns[9]), server_us)


def run_round(server: Server, number: int, records: int) -> dict[str, Throughput]:
    """Produce and consume with both settings of acks."""
    results = {}
    for acks, options in ACKS.items():
        topic = f"perf-{number}-{acks.replace('=', '-')}"
        server.create_topic(topic, 1)
        results[f"produce, {acks}"] = produce(server, topic, records, options)
        results[f"fetch, written with {acks}"] = consume(server, topic, records)
        server.delete_topic(topic)
    return results


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=2_000_000)
    options = parser.parse_args()
    with both(options.only) as servers:
        heading("Kafka's perf tools", [server.name for server in servers])
        rounds = [
            [run_round(server, number, options.records) for server in servers]
            for number in range(WARM_UP_ROUNDS + options.rounds)
        ]
        brokers = list(zip(*rounds[WARM_UP_ROUNDS:], strict=True))
        for name in rounds[0][0]:
            rates = [[results[name].rate for results in broker] for broker in brokers]
            report(f"{name}, records/s", rates, ",.0f", "≥ 1")
            report(
                "  CPU of the broker, µs per record",
                [[results[name].server_us for results in broker] for broker in brokers],
                ".2f",
            )


if __name__ == "__main__":
    run(main)
