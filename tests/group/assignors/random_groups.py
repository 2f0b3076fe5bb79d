"""Random groups, from a seed."""

from collections import Counter
from dataclasses import replace
from random import Random

from slackwater.group.assignors import TopicInfo
from slackwater.group.assignors.partitions import PartitionsByTopic
from slackwater.group.topic_partition import TopicPartition

from .groups import PaperGroup, Who

RACKS = ("rack-a", "rack-b", "rack-c")


def random_group(
    random: Random, assignor_name: str, *, equal_subscriptions: bool, racks: bool, claims: bool
) -> PaperGroup:
    """Some topics and members after up to two rounds; `claims` lets members claim what others own."""
    topics = {f"topic-{at}": random.randint(1, 12) for at in range(random.randint(1, 8))}
    cluster: dict[str, int | TopicInfo] = dict(topics)
    if racks:
        cluster = {
            name: TopicInfo(count, tuple(frozenset(random.sample(RACKS, random.randint(1, 2))) for _ in range(count)))
            for name, count in topics.items()
        }
    group = PaperGroup(assignor_name, cluster)
    for _ in range(random.randint(1, 10)):
        add_member(random, group, equal_subscriptions=equal_subscriptions, racks=racks)
    for _ in range(random.randint(0, 2)):
        group.round()
        change(random, group, equal_subscriptions=equal_subscriptions, racks=racks)
    if claims:
        claim_more(random, group, topics)
    return group


def claim_more(random: Random, group: PaperGroup, topics: dict[str, int]) -> None:
    """Let members also claim what one other member has, in the same generation or an older one.

    One other: between three, the Java client's answer depends on the order in which it looks at them.
    """
    claimants = Counter(one for who in group.members.values() for one in who.owned or ())
    for member_id in random.sample(sorted(group.members), random.randint(1, len(group.members))):
        who = group.members[member_id]
        owned = list(who.owned or ())
        within = [TopicPartition(name, at) for name in who.topics for at in range(topics[name])]
        for one in random.sample(within, min(len(within), random.randint(0, 3))):
            if claimants[one] < 2 and one not in owned:
                claimants[one] += 1
                owned.append(one)
        generation_id = max(0, group.generation_id - random.randint(0, 2))
        group.members[member_id] = replace(who, owned=PartitionsByTopic.of(owned), generation_id=generation_id)


def add_member(random: Random, group: PaperGroup, *, equal_subscriptions: bool, racks: bool) -> None:
    """One more member, static or not."""
    member_id = f"consumer-{random.randint(0, 99)}-{random.getrandbits(64):016x}"
    names = sorted(group.topics)
    topics = names if equal_subscriptions else sorted(random.sample(names, random.randint(1, len(names))))
    group.members[member_id] = Who(
        tuple(topics),
        rack_id=random.choice((*RACKS, None)) if racks else None,
        group_instance_id=f"instance-{random.getrandbits(32):08x}" if random.random() < 0.3 else None,
    )


def change(random: Random, group: PaperGroup, *, equal_subscriptions: bool, racks: bool) -> None:
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
