"""Helpers of the client tests: consumers with short timeouts, test records, and waiting for conditions."""

import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from slackwater import Consumer, Producer
from slackwater.client.consumer.records import ConsumerRecord
from tests.waiting import wait_until

TIMEOUT_S = 60.0
QUICK: dict[str, object] = {
    "auto.offset.reset": "earliest",
    "heartbeat.interval.ms": 50,
    "retry.backoff.ms": 10,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 50,
    "fetch.max.wait.ms": 50,
}


class Cluster(Protocol):
    """A cluster that clients can connect to."""

    @property
    def bootstrap_servers(self) -> str:
        """The bootstrap servers."""


def consumer(cluster: Cluster, group: str | None = None, **settings: object) -> Consumer:
    """Return a consumer with short timeouts; `group_id` means `group.id`."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    config: dict[str, object] = QUICK | {"bootstrap.servers": cluster.bootstrap_servers} | named
    if group is not None:
        config["group.id"] = group
    return Consumer(config)


def fill(cluster: Cluster, topic: str, values: Iterable[bytes], **options: Any) -> None:
    """Write records."""
    with Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0}) as producer:
        for value in values:
            producer.send(topic, value, **options)


def numbers(count: int, start: int = 0) -> list[bytes]:
    """Values to write."""
    return [b"%d" % number for number in range(start, start + count)]


def wait_for(condition: Callable[[], object], what: str = "it") -> None:
    """Wait until a condition holds, or fail."""
    wait_until(condition, lambda: f"{what} did not happen", TIMEOUT_S)


def poll_until(client: Consumer, condition: Callable[[], object], what: str = "it") -> list[ConsumerRecord]:
    """Poll until a condition holds; return the records received meanwhile."""
    results: list[ConsumerRecord] = []
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {TIMEOUT_S:g} s"
        results += client.poll(0.02)
    return results


def read(client: Consumer, count: int) -> list[ConsumerRecord]:
    """Poll until `count` records have arrived."""
    results: list[ConsumerRecord] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(results) < count:
        assert time.monotonic() < deadline, f"{len(results)} of {count} records arrived within {TIMEOUT_S:g} s"
        results += client.poll(0.1)
    return results
