"""Kafka's system tests of assignors: valid assignments, and a rolling change of the assignor.

The scenarios are those of Kafka's consumer_test.py and consumer_rolling_upgrade_test.py, and the two rolling bounces of
KIP-429. librdkafka has no eager sticky assignor, and refuses a list with eager and cooperative assignors.
"""

from typing import Final

import pytest

from tests.system.cases import (
    with_clients_that_have_sticky,
    with_clients_that_mix_protocols,
    with_every_client,
)
from tests.system.conftest import NewGroup
from tests.system.consumer_group import PARTITIONS, ConsumerGroup

MEMBERS: Final = ("a", "b", "c")
RANGE: Final = ("range", {frozenset({0, 1, 2}), frozenset({3, 4, 5})})
ROUND_ROBIN: Final = ("roundrobin", {frozenset({0, 2, 4}), frozenset({1, 3, 5})})
COOPERATIVE: Final = "cooperative-sticky"


def start_one_by_one(group: ConsumerGroup) -> None:
    """Start members; after each one, all have equal shares."""
    for count, name in enumerate(MEMBERS, 1):
        group.start(name)
        assignments = group.wait_for_assignment()
        assert {len(owned) for owned in assignments.values()} == {PARTITIONS // count}
    group.wait_for_progress()
    assert group.protocol() == group.assignor
    group.finish(read_once=True).check_one_owner()


@with_every_client
@pytest.mark.parametrize("assignor", ["range", "roundrobin", COOPERATIVE])
def test_assignment_is_valid(new_group: NewGroup, assignor: str) -> None:
    start_one_by_one(new_group(assignor=assignor))


@with_clients_that_have_sticky
def test_sticky_assignment_is_valid(new_group: NewGroup) -> None:
    start_one_by_one(new_group(assignor="sticky"))


def assignment(group: ConsumerGroup) -> tuple[str, set[frozenset[int]]]:
    """The selected assignor and its shares, without the names of the consumers."""
    shares = set(group.wait_for_assignment().values())
    return group.protocol(), shares


@with_every_client
def test_rolling_change_to_another_eager_assignor(new_group: NewGroup) -> None:
    group = new_group(assignor="range")
    group.start("a", "b")
    assert assignment(group) == RANGE

    group.assignor = "roundrobin,range"
    group.restart("a")
    assert assignment(group) == RANGE  # the only assignor of both
    group.restart("b")
    assert assignment(group) == ROUND_ROBIN

    group.assignor = "roundrobin"
    for name in ("a", "b"):
        group.restart(name)
        assert assignment(group) == ROUND_ROBIN
    group.finish(read_once=True).check_one_owner()


@with_clients_that_mix_protocols
def test_rolling_change_to_the_cooperative_protocol(new_group: NewGroup) -> None:
    group = new_group(assignor="range")
    group.start(*MEMBERS)
    group.wait_for_assignment()

    group.assignor = f"{COOPERATIVE},range"
    for name, protocol in zip(MEMBERS, ("range", "range", COOPERATIVE), strict=True):
        group.restart(name)
        assert group.protocol() == protocol
    group.assignor = COOPERATIVE
    for name in MEMBERS:
        group.restart(name)
        assert group.protocol() == COOPERATIVE

    before = group.assignments()
    revoked_counts = {name: group.running[name].history.revoked_count for name in ("b", "c")}
    group.stop("a")
    after = group.wait_for_assignment()
    assert all(before[name] <= after[name] for name in after)
    assert {name: group.running[name].history.revoked_count for name in after} == revoked_counts  # nothing stopped
    group.finish(read_once=True).check_one_owner()
