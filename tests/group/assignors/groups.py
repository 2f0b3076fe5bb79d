"""A group without I/O: topics, members and owned partitions, and rounds of assignment."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from slackwater.group.assignors import Assignor, MemberSubscription, TopicInfo, assignor
from slackwater.group.assignors.consumer_protocol import NO_GENERATION, Assignment, Subscription
from slackwater.group.assignors.partitions import NO_PARTITIONS, PartitionsByTopic
from slackwater.group.topic_partition import TopicPartition

Pairs = dict[str, set[tuple[str, int]]]


@dataclass(frozen=True)
class Who:
    """One member between two rounds; `owned` is None before its first."""

    topics: tuple[str, ...]
    owned: PartitionsByTopic | None = None
    generation_id: int = NO_GENERATION
    rack_id: str | None = None
    group_instance_id: str | None = None

    def joining(self, by: Assignor) -> MemberSubscription:
        """What this member sends when it joins: an eager one has given everything up before."""
        kept = self.owned if by.name == "cooperative-sticky" and self.owned else NO_PARTITIONS
        user_data = by.user_data(self.owned, self.generation_id)
        return MemberSubscription(
            self.group_instance_id, Subscription(self.topics, user_data, kept, self.generation_id, self.rack_id)
        )


def who(*topics: str, rack_id: str | None = None, group_instance_id: str | None = None) -> Who:
    """A member that is new."""
    return Who(topics, rack_id=rack_id, group_instance_id=group_instance_id)


def owning(topics: Iterable[str], *owned: tuple[str, int], generation_id: int = 0, rack_id: str | None = None) -> Who:
    """A member that owns these partitions since that generation."""
    partitions = PartitionsByTopic.of(TopicPartition(*one) for one in owned)
    return Who(tuple(topics), partitions, generation_id, rack_id)


@dataclass
class PaperGroup:
    """Members and topics by name, one assignor; each round changes what the members own."""

    assignor_name: str
    topics: Mapping[str, int | TopicInfo]
    members: dict[str, Who] = field(default_factory=dict)
    generation_id: int = NO_GENERATION

    @property
    def cluster(self) -> dict[str, TopicInfo]:
        """The topics as an assignor sees them."""
        return {name: one if isinstance(one, TopicInfo) else TopicInfo(one) for name, one in self.topics.items()}

    @property
    def joining(self) -> dict[str, MemberSubscription]:
        """What all members send."""
        by = assignor(self.assignor_name)
        return {member_id: one.joining(by) for member_id, one in self.members.items()}

    def assign(self) -> dict[str, Assignment]:
        """What the leader would answer now."""
        return assignor(self.assignor_name).assign(self.cluster, self.joining)

    def given(self) -> Pairs:
        """The same as pairs of topic and number."""
        return pairs(self.assign())

    def round(self) -> dict[str, Assignment]:
        """One generation: assign, and let every member have what it was given."""
        given = self.assign()
        self.generation_id += 1
        self.members = {
            member_id: replace(one, owned=given[member_id].assigned, generation_id=self.generation_id)
            for member_id, one in self.members.items()
        }
        return given

    def held(self) -> Pairs:
        """What everybody owns now."""
        return {
            member_id: {(topic, number) for topic, number in one.owned or ()} for member_id, one in self.members.items()
        }

    def settle(self) -> int:
        """Run rounds until no member revokes; returns the number of rounds after the first."""
        for followed in range(10):
            before = self.held()
            self.round()
            after = self.held()
            added = {one for member_id, held in after.items() for one in held - before[member_id]}
            revoked = {one for member_id, held in before.items() for one in held - after[member_id]}
            if self.assignor_name == "cooperative-sticky":
                assert not added & revoked, "CS-02: nothing is added to one while it is taken from another"
            if not revoked:
                return followed
        raise AssertionError("the group does not settle")

    def loads(self) -> dict[str, int]:
        """How many partitions everybody owns now."""
        return {member_id: len(one.owned or ()) for member_id, one in self.members.items()}


def pairs(assignments: Mapping[str, Assignment]) -> Pairs:
    """Assignments as sets of pairs."""
    return {
        member_id: {(topic, number) for topic, number in given.assigned} for member_id, given in assignments.items()
    }


def score(loads: Iterable[int]) -> int:
    """The sum of the differences in load between any two members."""
    ascending = sorted(loads)
    return sum(load * (2 * at - len(ascending) + 1) for at, load in enumerate(ascending))


def check_valid(group: PaperGroup, given: Pairs) -> None:
    """Check that every member appears, gets only subscribed topics, and no partition is assigned twice."""
    assert given.keys() == group.members.keys()
    cluster = group.cluster
    seen: set[tuple[str, int]] = set()
    for member_id, partitions in given.items():
        assert not partitions & seen
        seen |= partitions
        for topic, number in partitions:
            assert topic in group.members[member_id].topics
            assert 0 <= number < cluster[topic].partitions


def everything(group: PaperGroup) -> set[tuple[str, int]]:
    """All partitions that somebody subscribes to."""
    wanted = {topic for one in group.members.values() for topic in one.topics}
    return {(topic, at) for topic, info in group.cluster.items() if topic in wanted for at in range(info.partitions)}


def check_balanced(group: PaperGroup, given: Pairs) -> None:
    """No partition could move to a member that holds at least two fewer (SK-08)."""
    least: dict[str, int] = {}
    for member_id, one in group.members.items():
        for topic in one.topics:
            least[topic] = min(least.get(topic, len(given[member_id])), len(given[member_id]))
    for partitions in given.values():
        for topic in {topic for topic, _ in partitions}:
            assert len(partitions) <= least[topic] + 1


def swaps(before: Pairs, after: Pairs) -> set[tuple[str, str, str]]:
    """Topics of which two members exchanged partitions: (topic, member, member)."""
    had = {one: member_id for member_id, held in before.items() for one in held}
    moves = {
        (one[0], had[one], member_id)
        for member_id, held in after.items()
        for one in held
        if one in had and had[one] != member_id
    }
    return {(topic, a, b) for topic, a, b in moves if (topic, b, a) in moves}
