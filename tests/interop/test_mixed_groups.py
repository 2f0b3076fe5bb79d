"""Our consumer in one group with stock clients: whichever client leads, our assignor computes the same assignment.

The members' own view, the coordinator's description and the result of our assignor for the described subscriptions must
be equal, and each member reads its partitions. Where a sticky assignment has several correct results, ours is Java's;
for other leaders the test requires shares of the same size, and that members keep the partitions they own.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest

from slackwater import Admin
from slackwater.group.assignors import MemberSubscription, TopicInfo, get_assignor
from slackwater.group.assignors.consumer_protocol import decode_assignment, decode_subscription
from slackwater.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from tests.broker.raw_client import RawClient
from tests.interop.clients import (
    AIOKAFKA,
    CONFLUENT,
    JAVA,
    KAFKA_PYTHON,
    OURS,
    Client,
    Driver,
    Member,
    MemberSnapshot,
    partitions,
    wait_for_assignment,
    wait_for_records,
    wait_until,
)
from tests.interop.test_groups import offsets, spread

Name = Callable[[str], str]
Start = Callable[[Client], Driver]
OTHERS = (JAVA, CONFLUENT, KAFKA_PYTHON, AIOKAFKA)
EAGER, COOPERATIVE = ("range", "roundrobin"), "cooperative-sticky"
PARTITIONS = 7  # not divisible by the number of members of any group here
RECORDS_PER_PARTITION = 5
LIKE_JAVA = (str(OURS), str(JAVA))  # their cooperative-sticky results are identical


def pairs() -> Iterator[object]:
    """Every client with each of its assignors, and which of the two joins first; in every run each leads in turn."""
    for number, client in enumerate(OTHERS):
        for other, strategy in enumerate((*EAGER, COOPERATIVE)):
            if strategy in client.cannot:
                continue
            for first in (OURS, client):
                marks = [pytest.mark.java] if client is JAVA else []
                if (first is OURS) == bool((number + other) % 2):
                    marks.append(pytest.mark.repetition)
                yield pytest.param(
                    client, strategy, first is OURS, marks=marks, id=f"{client}-{strategy}-{first}-leads"
                )


class DescribedGroup:
    """A group from DescribeGroups: owned and assigned partitions by client id."""

    def __init__(self, response: DescribeGroupsResponse) -> None:
        (self._group,) = response.groups
        self.is_stable = self._group.group_state == "Stable"
        self.assignor = self._group.protocol_data
        self._clients = {member.member_id: member.client_id for member in self._group.members}

    def assigned(self) -> dict[str, frozenset[str]]:
        """The leader's assignment, by client id."""
        return {
            member.client_id: frozenset(map(str, decode_assignment(member.member_assignment).partitions))
            for member in self._group.members
        }

    def owned(self) -> dict[str, frozenset[str]]:
        """The partitions that each member owned when it joined, by client id."""
        return {
            member.client_id: frozenset(map(str, decode_subscription(member.member_metadata).owned_partitions))
            for member in self._group.members
        }

    def expected(self, cluster: Mapping[str, TopicInfo]) -> dict[str, frozenset[str]]:
        """The result of our assignor for the same members, by client id."""
        members = {
            member.member_id: MemberSubscription(member.group_instance_id, decode_subscription(member.member_metadata))
            for member in self._group.members
        }
        result = get_assignor(self.assignor).assign(cluster, members)
        return {self._clients[member_id]: frozenset(map(str, part.partitions)) for member_id, part in result.items()}


def describe_group(bootstrap: str, group: str) -> DescribedGroup:
    async def describe() -> DescribedGroup:
        client = await RawClient.at(int(bootstrap.rpartition(":")[2]), "describer")
        try:
            return DescribedGroup(await client.request(DescribeGroupsRequest([group]), DescribeGroupsResponse))
        finally:
            client.abort()

    return asyncio.run(describe())


def leader(bootstrap: str, group: str) -> str:
    """The client id of the leader."""
    with Admin({"bootstrap.servers": bootstrap}) as admin:
        (description,) = admin.describe_groups([group])
    member = description.member(description.leader or "")
    assert member is not None, description
    return member.client_id


def wait_for_agreement(bootstrap: str, group: str, topic: str, members: Sequence[Member]) -> list[MemberSnapshot]:
    """Wait until the group is stable and all views of its assignment are equal."""
    last: list[tuple[list[MemberSnapshot], dict[str, frozenset[str]], DescribedGroup]] = []

    def is_stable() -> bool:
        # A rebalance may start in between: a late follow-up, or a heartbeat that a busy machine delayed.
        snapshots = wait_for_assignment(members, partitions(topic, PARTITIONS))
        assigned = {member.name: snapshot.assignment for member, snapshot in zip(members, snapshots, strict=True)}
        described = describe_group(bootstrap, group)
        last[:] = [(snapshots, assigned, described)]
        return described.is_stable and described.assigned() == assigned

    wait_until(is_stable, lambda: last)
    ((snapshots, assigned, described),) = last
    expected = described.expected({topic: TopicInfo(PARTITIONS)})
    if described.assignor in EAGER or leader(bootstrap, group).endswith(LIKE_JAVA):
        assert expected == assigned
    else:
        assert sorted(map(len, expected.values())) == sorted(map(len, assigned.values()))
        assert all(owned <= assigned[name] for name, owned in described.owned().items())
    return snapshots


def assert_each_reads_its_partitions(
    driver: Driver, topic: str, members: Sequence[Member], snapshots: Sequence[MemberSnapshot]
) -> None:
    """Write to every partition and assert that each member reads exactly its own partitions, in order."""
    driver.produce(topic, spread(PARTITIONS, range(PARTITIONS * RECORDS_PER_PARTITION)))
    wait_for_records(members, PARTITIONS * RECORDS_PER_PARTITION)
    for member, snapshot in zip(members, snapshots, strict=True):
        expected = {partition: list(range(RECORDS_PER_PARTITION)) for partition in snapshot.assignment}
        assert offsets(member.snapshot().records) == expected, member.name


@pytest.mark.parametrize(("client", "strategy", "we_lead"), list(pairs()))
def test_two_clients_share_a_group(
    bootstrap: str, running: Start, name: Name, client: Client, strategy: str, we_lead: bool
) -> None:
    theirs, ours = running(client), running(OURS)
    topic = theirs.create_topic(name("mixed"), PARTITIONS)
    group = name("mixed-group")
    order = (ours, theirs, ours, theirs) if we_lead else (theirs, ours, theirs, ours)
    members: list[Member] = []
    for number, driver in enumerate(order):
        members.append(driver.join(f"{number}-{driver.client}", group, [topic], assignor=strategy))
        snapshots = wait_for_agreement(bootstrap, group, topic, members)
        if not number:
            assert leader(bootstrap, group) == members[0].name
    assert_each_reads_its_partitions(theirs, topic, members, snapshots)

    members.pop(0).close()  # the leader; another member takes over
    wait_for_agreement(bootstrap, group, topic, members)
    for member in members:
        member.close()


@pytest.mark.java
@pytest.mark.parametrize("strategy", EAGER)
@pytest.mark.parametrize("place", [0, len(OTHERS)], ids=["ours-first", "ours-last"])
def test_all_clients_share_a_group(bootstrap: str, running: Start, name: Name, strategy: str, place: int) -> None:
    others = list(map(running, OTHERS))
    topic = others[0].create_topic(name("all"), PARTITIONS)
    group = name("all-group")
    order = [*others[:place], running(OURS), *others[place:]]
    members: list[Member] = []
    for driver in order:
        members.append(driver.join(str(driver.client), group, [topic], assignor=strategy))
        wait_until(lambda: members[-1].snapshot().generation > 0, lambda: [member.snapshot() for member in members])
    snapshots = wait_for_agreement(bootstrap, group, topic, members)
    assert_each_reads_its_partitions(others[0], topic, members, snapshots)
    for member in members:
        member.close()
