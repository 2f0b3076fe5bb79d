"""Assignors and codec compared with Apache Kafka's on random groups, in one JVM."""

from collections.abc import Iterator
from random import Random

import pytest

from slackwater.group.assignors.consumer_protocol import (
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from tests.java import require_jars

from .groups import GroupModel, new_member, pairs
from .oracle import Oracle, OracleResponse, scenario
from .random_groups import change, random_group

pytestmark = pytest.mark.java

ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    require_jars()
    with Oracle() as running:
        yield running


def run(oracle: Oracle, groups: list[GroupModel]) -> list[OracleResponse]:
    return oracle.run(scenario(group.assignor_name, group.cluster, group.subscriptions) for group in groups)


def check_equal(group: GroupModel, response: OracleResponse) -> None:
    expected = {
        member_id: decode_assignment(bytes.fromhex(data)) for member_id, data in response["assignments"].items()
    }
    assert group.assigned() == pairs(expected)


@pytest.mark.parametrize("name", ASSIGNORS)
@pytest.mark.parametrize("racks", [False, True], ids=["no racks", "racks"])
@pytest.mark.parametrize("equal_subscriptions", [True, False], ids=["equal", "mixed"])
def test_assignments_match_kafka(oracle: Oracle, name: str, equal_subscriptions: bool, racks: bool) -> None:
    groups = [
        random_group(Random(seed), name, equal_subscriptions=equal_subscriptions, racks=racks, claims=seed % 3 == 0)
        for seed in range(40)
    ]
    for group, response in zip(groups, run(oracle, groups), strict=True):
        check_equal(group, response)


@pytest.mark.parametrize("name", ASSIGNORS)
@pytest.mark.parametrize("equal_subscriptions", [True, False], ids=["equal", "mixed"])
def test_assignments_of_larger_groups_match_kafka(oracle: Oracle, name: str, equal_subscriptions: bool) -> None:
    random = Random(1)
    names = [f"topic-{at:02}" for at in range(30)]
    members = {
        f"consumer-{at:02}": new_member(
            *(names if equal_subscriptions else sorted(random.sample(names, random.randint(1, 30))))
        )
        for at in range(25)
    }
    group = GroupModel(name, {topic: random.randint(1, 40) for topic in names}, members)
    for _ in range(3):
        check_equal(group, run(oracle, [group])[0])
        group.rebalance()
        change(random, group, equal_subscriptions=equal_subscriptions, racks=False)


def test_subscription_bytes_match_kafka(oracle: Oracle) -> None:
    groups = [
        random_group(Random(seed), name, equal_subscriptions=False, racks=True, claims=True)
        for seed in range(20)
        for name in ASSIGNORS
    ]
    names = [f"topic-{at:02}" for at in range(40)]
    large = GroupModel("cooperative-sticky", dict.fromkeys(names, 5), {f"c{at}": new_member(*names) for at in range(3)})
    large.rebalance()
    for group, response in zip([*groups, large], run(oracle, [*groups, large]), strict=True):
        for member_id, member in group.subscriptions.items():
            subscription = member.subscription
            for version, theirs in enumerate(response["subscriptions"][member_id]):
                data = bytes.fromhex(theirs)
                ours = Subscription(
                    subscription.topics,
                    subscription.user_data,
                    subscription.owned,
                    subscription.generation_id,
                    subscription.rack_id,
                    version,
                )
                assert encode_subscription(ours) == data
                assert encode_subscription(decode_subscription(data)) == data


def test_assignment_bytes_match_kafka(oracle: Oracle) -> None:
    groups = [
        random_group(Random(seed), "sticky", equal_subscriptions=False, racks=False, claims=False) for seed in range(20)
    ]
    for response in run(oracle, groups):
        for theirs in response["assignments"].values():
            data = bytes.fromhex(theirs)
            assert encode_assignment(decode_assignment(data)) == data
