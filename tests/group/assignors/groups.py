"""A model of a group for tests of assignors: topics, members, owned partitions and rebalances."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from slackwater.group.assignors import Assignor, MemberSubscription, TopicInfo, get_assignor
from slackwater.group.assignors.consumer_protocol import Assignment, Subscription
from slackwater.group.assignors.partitions import NO_PARTITIONS, PartitionsByTopic
from slackwater.group.messages import NO_GENERATION
from slackwater.group.topic_partition import TopicPartition

Pairs = dict[str, set[tuple[str, int]]]


@dataclass(frozen=True)
class MemberModel:
    """One member between two rebalances; `owned` is None before its first."""

    topics: tuple[str, ...]
    owned: PartitionsByTopic | None = None
    generation_id: int = NO_GENERATION
    rack_id: str | None = None
    group_instance_id: str | None = None

    def subscription(self, by: Assignor) -> MemberSubscription:
        """Return the subscription of its JoinGroup; an eager member has revoked all its partitions before."""
        owned = self.owned if by.name == "cooperative-sticky" and self.owned else NO_PARTITIONS
        user_data = by.user_data(self.owned, self.generation_id)
        return MemberSubscription(
            self.group_instance_id, Subscription(self.topics, user_data, owned, self.generation_id, self.rack_id)
        )


def new_member(*topics: str, rack_id: str | None = None, group_instance_id: str | None = None) -> MemberModel:
    """Return a new member."""
    return MemberModel(topics, rack_id=rack_id, group_instance_id=group_instance_id)


def member_owning(
    topics: Iterable[str], *owned: tuple[str, int], generation_id: int = 0, rack_id: str | None = None
) -> MemberModel:
    """Return a member that has owned these partitions since that generation."""
    partitions = PartitionsByTopic.of(TopicPartition(*pair) for pair in owned)
    return MemberModel(tuple(topics), partitions, generation_id, rack_id)


@dataclass
class GroupModel:
    """Members and topics by name, and an assignor; each rebalance changes the owned partitions."""

    assignor_name: str
    topics: Mapping[str, int | TopicInfo]
    members: dict[str, MemberModel] = field(default_factory=dict)
    generation_id: int = NO_GENERATION

    @property
    def cluster(self) -> dict[str, TopicInfo]:
        """The topics in the form that an assignor gets."""
        return {
            name: topic if isinstance(topic, TopicInfo) else TopicInfo(topic) for name, topic in self.topics.items()
        }

    @property
    def subscriptions(self) -> dict[str, MemberSubscription]:
        """The subscriptions of all members."""
        by = get_assignor(self.assignor_name)
        return {member_id: member.subscription(by) for member_id, member in self.members.items()}

    def assign(self) -> dict[str, Assignment]:
        """Return the assignments that the leader would compute now."""
        return get_assignor(self.assignor_name).assign(self.cluster, self.subscriptions)

    def assigned(self) -> Pairs:
        """Return the same assignments as pairs of topic and partition."""
        return pairs(self.assign())

    def rebalance(self) -> dict[str, Assignment]:
        """Assign partitions and update every member."""
        assignments = self.assign()
        self.generation_id += 1
        self.members = {
            member_id: replace(member, owned=assignments[member_id].assigned, generation_id=self.generation_id)
            for member_id, member in self.members.items()
        }
        return assignments

    def owned(self) -> Pairs:
        """Return the owned partitions of every member."""
        return {
            member_id: {(topic, number) for topic, number in member.owned or ()}
            for member_id, member in self.members.items()
        }

    def rebalance_until_stable(self) -> int:
        """Rebalance until no member revokes; return the number of rebalances after the first."""
        for count in range(10):
            before = self.owned()
            self.rebalance()
            after = self.owned()
            added = {pair for member_id, owned in after.items() for pair in owned - before[member_id]}
            revoked = {pair for member_id, owned in before.items() for pair in owned - after[member_id]}
            if self.assignor_name == "cooperative-sticky":
                assert not added & revoked, "CS-02: no partition is added to a member while another member revokes it"
            if not revoked:
                return count
        raise AssertionError("the group does not become stable")

    def loads(self) -> dict[str, int]:
        """Return the number of owned partitions of every member."""
        return {member_id: len(member.owned or ()) for member_id, member in self.members.items()}


def pairs(assignments: Mapping[str, Assignment]) -> Pairs:
    """Return assignments as sets of pairs."""
    return {
        member_id: {(topic, number) for topic, number in assignment.assigned}
        for member_id, assignment in assignments.items()
    }


def score(loads: Iterable[int]) -> int:
    """Return the sum of the differences in load between any two members."""
    ascending = sorted(loads)
    return sum(load * (2 * index - len(ascending) + 1) for index, load in enumerate(ascending))


def check_valid(group: GroupModel, assigned: Pairs) -> None:
    """Check that every member appears, gets only subscribed topics, and no partition is assigned twice."""
    assert assigned.keys() == group.members.keys()
    cluster = group.cluster
    seen: set[tuple[str, int]] = set()
    for member_id, partitions in assigned.items():
        assert not partitions & seen
        seen |= partitions
        for topic, number in partitions:
            assert topic in group.members[member_id].topics
            assert 0 <= number < cluster[topic].partitions


def subscribed_partitions(group: GroupModel) -> set[tuple[str, int]]:
    """Return all partitions of subscribed topics."""
    subscribed = {topic for member in group.members.values() for topic in member.topics}
    return {
        (topic, index)
        for topic, info in group.cluster.items()
        if topic in subscribed
        for index in range(info.partitions)
    }


def check_balanced(group: GroupModel, assigned: Pairs) -> None:
    """Check that no partition could move to a member with at least two fewer (SK-08)."""
    min_loads: dict[str, int] = {}
    for member_id, member in group.members.items():
        for topic in member.topics:
            min_loads[topic] = min(min_loads.get(topic, len(assigned[member_id])), len(assigned[member_id]))
    for partitions in assigned.values():
        for topic in {topic for topic, _ in partitions}:
            assert len(partitions) <= min_loads[topic] + 1


def swaps(before: Pairs, after: Pairs) -> set[tuple[str, str, str]]:
    """Return the topics whose partitions two members exchanged: (topic, member, member)."""
    previous_owner = {pair: member_id for member_id, owned_pairs in before.items() for pair in owned_pairs}
    moves = {
        (pair[0], previous_owner[pair], member_id)
        for member_id, owned_pairs in after.items()
        for pair in owned_pairs
        if pair in previous_owner and previous_owner[pair] != member_id
    }
    return {(topic, a, b) for topic, a, b in moves if (topic, b, a) in moves}
