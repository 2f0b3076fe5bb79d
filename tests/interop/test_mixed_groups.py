"""Our consumer in one group with the stock clients: whoever leads, everybody gets the part that our assignor names.

What a member says of itself, what the coordinator describes, and what our assignor makes of the described
subscriptions must be one and the same, and each member reads its part. Where a sticky assignment leaves a choice (to
whom of two a free partition goes), ours is Java's; of other leaders the same shares are asked, and that everybody keeps
what it claims.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest

from slackwater import Admin
from slackwater.group.assignors import MemberSubscription, TopicInfo, assignor
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
    Look,
    Member,
    consumed,
    partitions,
    settled,
    wait_until,
)
from tests.interop.test_groups import offsets, spread

Name = Callable[[str], str]
Start = Callable[[Client], Driver]
OTHERS = (JAVA, CONFLUENT, KAFKA_PYTHON, AIOKAFKA)
EAGER, COOPERATIVE = ("range", "roundrobin"), "cooperative-sticky"
COUNT = 7  # partitions: no group here shares them evenly
EACH = 5  # records in each of them
LIKE_JAVA = (str(OURS), str(JAVA))  # whose cooperative-sticky is the same to the last partition


def pairs() -> Iterator[object]:
    """Every client with every assignor that it has, and which of the two joins first."""
    for client in OTHERS:
        for strategy in (*EAGER, COOPERATIVE):
            if strategy in client.cannot:
                continue
            for first in (OURS, client):
                marks = [pytest.mark.java] if client is JAVA else []
                yield pytest.param(
                    client, strategy, first is OURS, marks=marks, id=f"{client}-{strategy}-{first}-leads"
                )


# --- what the coordinator knows -------------------------------------------------------------------------------------


class Described:
    """A group as DescribeGroups shows it: what each client id claims, and what it was given."""

    def __init__(self, response: DescribeGroupsResponse) -> None:
        (self._group,) = response.groups
        self.is_stable = self._group.group_state == "Stable"
        self.assignor = self._group.protocol_data
        self._clients = {one.member_id: one.client_id for one in self._group.members}

    def given(self) -> dict[str, frozenset[str]]:
        """What the leader gave, by client id."""
        return {
            one.client_id: frozenset(map(str, decode_assignment(one.member_assignment).partitions))
            for one in self._group.members
        }

    def claimed(self) -> dict[str, frozenset[str]]:
        """What everybody had when it joined, by client id."""
        return {
            one.client_id: frozenset(map(str, decode_subscription(one.member_metadata).owned_partitions))
            for one in self._group.members
        }

    def ours(self, cluster: Mapping[str, TopicInfo]) -> dict[str, frozenset[str]]:
        """What our assignor makes of the same members."""
        members = {
            one.member_id: MemberSubscription(one.group_instance_id, decode_subscription(one.member_metadata))
            for one in self._group.members
        }
        found = assignor(self.assignor).assign(cluster, members)
        return {self._clients[member_id]: frozenset(map(str, one.partitions)) for member_id, one in found.items()}


def described(bootstrap: str, group: str) -> Described:
    async def ask() -> Described:
        client = await RawClient.at(int(bootstrap.rpartition(":")[2]), "looker")
        try:
            return Described(await client.ask(DescribeGroupsRequest([group]), DescribeGroupsResponse))
        finally:
            client.abort()

    return asyncio.run(ask())


def leader(bootstrap: str, group: str) -> str:
    """The client id of the leader."""
    with Admin({"bootstrap.servers": bootstrap}) as admin:
        (seen,) = admin.describe_groups([group])
    member = seen.member(seen.leader or "")
    assert member is not None, seen
    return member.client_id


# --- what all must agree on -----------------------------------------------------------------------------------------


def agreed(bootstrap: str, group: str, topic: str, members: Sequence[Member]) -> list[Look]:
    """Wait until the group rests; then all three accounts of who has what are the same."""
    found: list[tuple[list[Look], dict[str, frozenset[str]], Described]] = []

    def rests() -> bool:
        # A round may begin between two looks: a late follow-up, or a member that a busy machine kept from its beat.
        looks = settled(members, partitions(topic, COUNT))
        said = {member.name: look.assignment for member, look in zip(members, looks, strict=True)}
        seen = described(bootstrap, group)
        found[:] = [(looks, said, seen)]
        return seen.is_stable and seen.given() == said

    wait_until(rests, lambda: found)
    ((looks, said, seen),) = found
    ours = seen.ours({topic: TopicInfo(COUNT)})
    if seen.assignor in EAGER or leader(bootstrap, group).endswith(LIKE_JAVA):
        assert ours == said
    else:
        assert sorted(map(len, ours.values())) == sorted(map(len, said.values()))
        assert all(claims <= said[name] for name, claims in seen.claimed().items())
    return looks


def each_reads_its_part(driver: Driver, topic: str, members: Sequence[Member], looks: Sequence[Look]) -> None:
    """Write to every partition: each member is handed all of its own, in order, and nothing else."""
    driver.produce(topic, spread(COUNT, range(COUNT * EACH)))
    consumed(members, COUNT * EACH)
    for member, look in zip(members, looks, strict=True):
        expected = {partition: list(range(EACH)) for partition in look.assignment}
        assert offsets(member.look().records) == expected, member.name


@pytest.mark.parametrize(("client", "strategy", "we_lead"), list(pairs()))
def test_two_of_ours_and_two_of_theirs_share_a_group(
    bootstrap: str, running: Start, name: Name, client: Client, strategy: str, we_lead: bool
) -> None:
    theirs, ours = running(client), running(OURS)
    topic = theirs.create_topic(name("mixed"), COUNT)
    group = name("mixed-group")
    order = (ours, theirs, ours, theirs) if we_lead else (theirs, ours, theirs, ours)
    members: list[Member] = []
    for number, driver in enumerate(order):
        members.append(driver.join(f"{number}-{driver.client}", group, [topic], assignor=strategy))
        looks = agreed(bootstrap, group, topic, members)
        if not number:
            assert leader(bootstrap, group) == members[0].name
    each_reads_its_part(theirs, topic, members, looks)

    members.pop(0).close()  # the leader: somebody else takes over
    agreed(bootstrap, group, topic, members)
    for member in members:
        member.close()


@pytest.mark.java
@pytest.mark.parametrize("strategy", EAGER)
@pytest.mark.parametrize("place", [0, len(OTHERS)], ids=["we come first", "we come last"])
def test_one_of_every_client_shares_a_group(
    bootstrap: str, running: Start, name: Name, strategy: str, place: int
) -> None:
    others = list(map(running, OTHERS))
    topic = others[0].create_topic(name("all"), COUNT)
    group = name("all-group")
    order = [*others[:place], running(OURS), *others[place:]]
    members: list[Member] = []
    for driver in order:
        members.append(driver.join(str(driver.client), group, [topic], assignor=strategy))
        wait_until(lambda: members[-1].look().generation > 0, lambda: [one.look() for one in members])
    looks = agreed(bootstrap, group, topic, members)
    each_reads_its_part(others[0], topic, members, looks)
    for member in members:
        member.close()
