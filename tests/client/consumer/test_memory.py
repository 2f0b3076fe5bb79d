"""Rebalances leak no memory in the broker and in consumers; `benchmarks/rebalances.py` runs more of them."""

import gc
import tracemalloc
from collections.abc import Iterator

import pytest
from benchmarks.rebalances import Pair

from slackwater import Broker
from slackwater.group.assignors import consumer_protocol
from slackwater.group.coordinator import subscriptions

WARM_UP = 50
MEASURED = 100
MAX_BYTES = 500  # per rebalance: pending timers and log indexes


@pytest.fixture
def tracing() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def held_bytes() -> int:
    """The bytes that Python holds; bounded caches that are still filling are cleared first."""
    subscriptions.is_overlong_cached.cache_clear()
    consumer_protocol.decode_subscription_cached.cache_clear()
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def growth(pair: Pair) -> int:
    """The growth of the held bytes over more rebalances."""
    before = held_bytes()
    pair.rebalance(MEASURED)
    return held_bytes() - before


@pytest.mark.usefixtures("tracing")
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_memory_stays_flat_over_rebalances(assignor: str) -> None:
    # A cancelled timer may hold its rebalance until its time, so the rebalance timeout is short.
    settings = {"partition.assignment.strategy": assignor, "rebalance.timeout.ms": 1_000}
    with Broker(settings={"group.initial.rebalance.delay.ms": 0}) as broker, Pair(broker, settings) as pair:
        pair.rebalance(WARM_UP)
        assert growth(pair) < MEASURED * MAX_BYTES


@pytest.mark.usefixtures("tracing")
def test_leak_check_detects_leaks() -> None:
    with Broker(settings={"group.initial.rebalance.delay.ms": 0}) as broker, Pair(broker) as pair:
        leaked: list[bytes] = []
        pair.members[0].on_event(lambda event: leaked.append(bytes(1_000)))
        pair.rebalance(WARM_UP)
        assert growth(pair) > MEASURED * MAX_BYTES
