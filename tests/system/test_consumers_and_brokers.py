"""Kafka's system tests of consumer groups: consumers and the broker are stopped, killed and restarted.

The scenarios and what they require are those of Kafka's consumer_test.py. Each group reads while a producer writes.
"""

from typing import Final

import pytest

from tests.interop_heavy.restartable_brokers import BrokerUnderTest
from tests.system.cases import with_every_client
from tests.system.conftest import NewGroup
from tests.system.consumer_group import LONG_SESSION_MS, SHORT_SESSION_MS, ConsumerGroup

MEMBERS: Final = ("a", "b", "c")
BOUNCES: Final = 2

by_shutdown = pytest.mark.parametrize("clean", [True, False], ids=["clean", "hard"])
by_bounce = pytest.mark.parametrize("rolling", [True, False], ids=["rolling", "all"])
by_commit = pytest.mark.parametrize("auto_commit", [True, False], ids=["auto-commit", "sync-commit"])


def start(group: ConsumerGroup) -> ConsumerGroup:
    """Start three consumers and wait until they read."""
    group.start(*MEMBERS)
    group.wait_for_assignment()
    group.wait_for_progress()
    return group


def bounce(group: ConsumerGroup, names: tuple[str, ...], *, rolling: bool, clean: bool = True) -> None:
    """Restart consumers, one after another or all at once."""
    for together in [(name,) for name in names] if rolling else [names]:
        group.restart(*together, clean=clean)


@with_every_client
def test_broker_restart_causes_no_rebalance(new_group: NewGroup, broker: BrokerUnderTest) -> None:
    group = start(new_group())
    before = group.rebalances()
    for _ in range(BOUNCES):
        broker.restart(clean=True)
        group.wait_for_progress()
    assert group.rebalances() == before
    group.finish(read_once=True)


@with_every_client
@by_commit
@by_shutdown
def test_broker_failure_causes_no_rebalance(
    new_group: NewGroup, broker: BrokerUnderTest, clean: bool, auto_commit: bool
) -> None:
    group = start(new_group(auto_commit=auto_commit))
    before = group.rebalances()
    broker.restart(clean=clean)
    group.wait_for_progress()
    assert group.rebalances() == before
    group.finish(read_once=True)


@with_every_client
@by_bounce
@by_shutdown
def test_consumer_bounce(new_group: NewGroup, clean: bool, rolling: bool) -> None:
    group = start(new_group(session_ms=LONG_SESSION_MS if clean else SHORT_SESSION_MS))
    for _ in range(BOUNCES):
        bounce(group, MEMBERS, rolling=rolling, clean=clean)
    history = group.finish(read_once=clean)  # the last records of a killed consumer may be read again
    if clean:
        history.check_one_owner()


@with_every_client
@by_bounce
@pytest.mark.parametrize("is_static", [True, False], ids=["static", "dynamic"])
def test_static_bounce_revokes_nothing(new_group: NewGroup, is_static: bool, rolling: bool) -> None:
    group = start(new_group(is_static=is_static))
    before = group.rebalances("a")
    for _ in range(BOUNCES):
        bounce(group, MEMBERS[1:], rolling=rolling)
    assert (group.rebalances("a") == before) is is_static
    group.finish(read_once=True).check_one_owner()


@with_every_client
@by_bounce
def test_static_id_is_persisted_after_rejoin(new_group: NewGroup, broker: BrokerUnderTest, rolling: bool) -> None:
    group = start(new_group(is_static=True))
    assignments = group.assignments()
    bounce(group, MEMBERS, rolling=rolling)  # each gets a new member id
    before = group.rebalances()
    broker.restart(clean=True)
    group.wait_for_progress()  # with a member id that was not persisted, a member would be fenced
    assert group.rebalances() == before
    bounce(group, MEMBERS, rolling=rolling)
    assert group.assignments() == assignments
    group.finish(read_once=True)


@with_every_client
@pytest.mark.parametrize("conflicts", [1, 2])
def test_duplicate_instance_id_fences_stable_member(new_group: NewGroup, conflicts: int) -> None:
    group = start(new_group(is_static=True))
    before = group.assignments()
    duplicates = {f"{name}-again": name for name in MEMBERS[:conflicts]}
    unaffected = MEMBERS[conflicts:]
    rebalances = group.rebalances(*unaffected)
    for duplicate, name in duplicates.items():
        group.start(duplicate, instance=name)
    group.expect_fenced(conflicts, *duplicates.values())
    after = group.wait_for_assignment()
    group.wait_for_progress()
    assert {duplicates.get(name, name): owned for name, owned in after.items()} == before
    assert group.rebalances(*unaffected) == rebalances
    group.finish(read_once=False)


@with_every_client
@pytest.mark.parametrize("conflicts", [1, 2])
def test_duplicate_instance_id_fences_joining_member(new_group: NewGroup, conflicts: int) -> None:
    group = new_group(is_static=True)
    group.start(*MEMBERS)
    for name in MEMBERS[:conflicts]:
        group.start(f"{name}-again", instance=name)
    group.expect_fenced(conflicts, *group.running)
    group.wait_for_assignment()
    group.wait_for_progress()
    group.finish(read_once=False)


@with_every_client
@by_commit
@by_shutdown
def test_consumer_failure(new_group: NewGroup, clean: bool, auto_commit: bool) -> None:
    session_ms = LONG_SESSION_MS if clean else SHORT_SESSION_MS
    group = start(new_group(auto_commit=auto_commit, session_ms=session_ms))
    group.stop(group.owner(0), clean=clean)
    group.wait_for_assignment()
    group.wait_for_progress()
    group.finish(read_once=clean)


@with_every_client
def test_members_join_and_leave_one_by_one(new_group: NewGroup) -> None:
    group = new_group()
    for name in MEMBERS:
        group.start(name)
        group.wait_for_assignment()
        group.wait_for_progress()
    for name in MEMBERS[:-1]:
        group.stop(name)
        group.wait_for_assignment()
        group.wait_for_progress()
    group.finish(read_once=True).check_one_owner()
