"""Random groups for tests of assignors."""

from collections import Counter
from dataclasses import replace
from random import Random

from slackwater.group.assignors import TopicInfo
from slackwater.group.assignors.partitions import PartitionsByTopic
from slackwater.group.topic_partition import TopicPartition

from .groups import GroupModel, MemberModel

RACKS = ("rack-a", "rack-b", "rack-c")


def random_group(
    random: Random, assignor_name: str, *, equal_subscriptions: bool, racks: bool, claims: bool
) -> GroupModel:
    """Return a group after up to two rebalances; with `claims`, members claim partitions of others."""
    topics = {f"topic-{number}": random.randint(1, 12) for number in range(random.randint(1, 8))}
    cluster: dict[str, int | TopicInfo] = dict(topics)
    if racks:
        cluster = {
            name: TopicInfo(count, tuple(frozenset(random.sample(RACKS, random.randint(1, 2))) for _ in range(count)))
            for name, count in topics.items()
        }
    group = GroupModel(assignor_name, cluster)
    for _ in range(random.randint(1, 10)):
        add_member(random, group, equal_subscriptions=equal_subscriptions, racks=racks)
    for _ in range(random.randint(0, 2)):
        group.rebalance()
        change(random, group, equal_subscriptions=equal_subscriptions, racks=racks)
    if claims:
        claim_more(random, group, topics)
    return group


def claim_more(random: Random, group: GroupModel, topics: dict[str, int]) -> None:
    """Let members also claim partitions of one other member, in the same or an older generation.

    With three claimants, the result of the Java client depends on its iteration order.
    """
    claimants = Counter(partition for member in group.members.values() for partition in member.owned or ())
    for member_id in random.sample(sorted(group.members), random.randint(1, len(group.members))):
        member = group.members[member_id]
        owned = list(member.owned or ())
        within = [TopicPartition(name, index) for name in member.topics for index in range(topics[name])]
        for partition in random.sample(within, min(len(within), random.randint(0, 3))):
            if claimants[partition] < 2 and partition not in owned:
                claimants[partition] += 1
                owned.append(partition)
        generation_id = max(0, group.generation_id - random.randint(0, 2))
        group.members[member_id] = replace(member, owned=PartitionsByTopic.of(owned), generation_id=generation_id)


def add_member(random: Random, group: GroupModel, *, equal_subscriptions: bool, racks: bool) -> None:
    """Add a static or dynamic member."""
    member_id = f"consumer-{random.randint(0, 99)}-{random.getrandbits(64):016x}"
    names = sorted(group.topics)
    topics = names if equal_subscriptions else sorted(random.sample(names, random.randint(1, len(names))))
    group.members[member_id] = MemberModel(
        tuple(topics),
        rack_id=random.choice((*RACKS, None)) if racks else None,
        group_instance_id=f"instance-{random.getrandbits(32):08x}" if random.random() < 0.3 else None,
    )


def change(random: Random, group: GroupModel, *, equal_subscriptions: bool, racks: bool) -> None:
    """Add and remove members and change subscriptions."""
    for member_id in random.sample(sorted(group.members), random.randint(0, len(group.members) - 1)):
        del group.members[member_id]
    for _ in range(random.randint(0 if group.members else 1, 4)):
        add_member(random, group, equal_subscriptions=equal_subscriptions, racks=racks)
    if not equal_subscriptions and random.random() < 0.3:
        member_id = random.choice(sorted(group.members))
        names = sorted(group.topics)
        topics = tuple(sorted(random.sample(names, random.randint(1, len(names)))))
        group.members[member_id] = replace(group.members[member_id], topics=topics)
