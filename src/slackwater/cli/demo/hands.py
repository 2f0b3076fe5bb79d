"""A process on Slackwater's own client: the producer that feeds the demo's topic, or a plain member of a group.

Rules kept here
- What was acknowledged and what was read is told on standard output, in JSON lines.
- It ends when its standard input does: if the demo dies, nobody is left behind. SIGTERM closes the client first.
"""

import json
import os
import signal
import sys
import threading
from typing import Any, Final

from slackwater.cli.demo.ledger import runs
from slackwater.cli.demo.members import end_when_alone

TELL_S: Final = 0.25


def feed(config: dict[str, Any], stop: threading.Event) -> None:
    """Write records steadily, and tell how many the broker has."""
    from slackwater.client.producer import Producer

    acknowledged = 0

    def delivered(_where: object, error: object) -> None:
        nonlocal acknowledged
        acknowledged += error is None

    told = number = 0
    with Producer({"bootstrap.servers": config["bootstrap"], "client.id": config["name"]}) as producer:
        while not stop.wait(TELL_S):
            for _ in range(int(config["records_per_s"] * TELL_S)):
                at = number % config["partitions"]
                producer.send(config["topic"], f"{number}", key=f"{number}", partition=at, on_delivery=delivered)
                number += 1
            told += _acknowledged(config["topic"], acknowledged - told)
    _acknowledged(config["topic"], acknowledged - told)


def _acknowledged(topic: str, more: int) -> int:
    print(json.dumps({"topic": topic, "acknowledged": more}), flush=True)
    return more


def consume(config: dict[str, Any], stop: threading.Event) -> None:
    """Be a member."""
    from slackwater.client.consumer.consumer import Consumer

    settings = {
        "bootstrap.servers": config["bootstrap"],
        "group.id": config["group"],
        "client.id": config["name"],
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 500,
        **config["settings"],
    }
    with Consumer(settings) as consumer:
        consumer.subscribe([config["topic"]])
        while not stop.is_set():
            records = consumer.poll(timeout=0.2)
            lines = [json.dumps(run) for run in runs((one.topic, one.partition, one.offset) for one in records)]
            if lines:
                print("\n".join(lines), flush=True)


WORK: Final = {"producer": feed, "consumer": consume}


def main() -> None:
    """Do the work that the arguments say."""
    config: dict[str, Any] = json.loads(sys.argv[1])
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda _signal, _frame: stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the demo's, which ends its hands
    end_when_alone()
    WORK[config["client"]](config, stop)
    os._exit(0)


if __name__ == "__main__":
    main()
