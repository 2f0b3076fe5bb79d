"""The group leader's work: decode subscriptions, run the assignor, and watch the metadata it used.

Invariants:
- The leader watches the topics of *all* members; a follower watches none (CL-26).
- A snapshot contains the inputs of an assignment: partition counts, and replica racks only if the client has a rack.
- A custom cooperative assignor must not move a partition that a member still owns (CL-29). The built-in ones comply.
- Undecodable subscriptions raise `PeerError`, a failing assignor `AssignorFailed`; no other error is raised.
"""

from collections.abc import Iterable, Mapping

from slackwater.group.assignors.assignor import Assignor, MemberSubscription, RebalanceProtocol, TopicInfo
from slackwater.group.assignors.consumer_protocol import (
    Assignment,
    MalformedMetadata,
    decode_subscription,
    encode_assignment,
)
from slackwater.group.errors import PeerError
from slackwater.group.member.errors import AssignorFailed
from slackwater.group.messages import JoinedMember
from slackwater.group.topic_partition import TopicPartition
from slackwater.group.value_class import value_class

Racks = tuple[frozenset[str], ...] | None


@value_class
class MetadataSnapshot:
    """The cluster metadata that an assignment was computed from."""

    topics: tuple[tuple[str, int, Racks], ...]

    @property
    def names(self) -> frozenset[str]:
        """The topics that existed."""
        return frozenset(topic for topic, _, _ in self.topics)

    def __str__(self) -> str:
        return "{" + ", ".join(f"{topic}={partitions}" for topic, partitions, _ in self.topics) + "}"


def take_snapshot(cluster: Mapping[str, TopicInfo], topics: Iterable[str], client_rack: str | None) -> MetadataSnapshot:
    """The current metadata of these topics."""
    existing = ((topic, cluster[topic]) for topic in sorted(topics) if topic in cluster)
    return MetadataSnapshot(
        tuple((topic, info.partitions, info.racks if client_rack is not None else None) for topic, info in existing)
    )


def decode_subscriptions(members: Iterable[JoinedMember]) -> dict[str, MemberSubscription]:
    """The subscription of every member, by member id."""
    subscriptions: dict[str, MemberSubscription] = {}
    for member_id, group_instance_id, metadata in members:
        try:
            subscriptions[member_id] = MemberSubscription(group_instance_id, decode_subscription(metadata))
        except MalformedMetadata as error:
            raise PeerError(
                f"member {member_id} joined with bytes that are no consumer subscription ({error}); another kind of "
                "client uses this group.id."
            ) from error
    return subscriptions


def assign(
    assignor: Assignor,
    protocol: RebalanceProtocol,
    cluster: Mapping[str, TopicInfo],
    members: Mapping[str, MemberSubscription],
) -> tuple[dict[str, bytes], frozenset[str]]:
    """Run the assignor; returns each member's encoded assignment and the topics to watch."""
    try:
        assignments = assignor.assign(cluster, members)
    except Exception as error:  # a custom assignor may raise anything
        raise AssignorFailed(f"assignor {assignor.name} threw {error!r}.") from error
    if protocol is RebalanceProtocol.COOPERATIVE and not assignor.built_in:
        _check_cooperative(assignor.name, members, assignments)
    topics = {topic for member in members.values() for topic in member.subscription.topics}
    if not assignor.built_in:
        # A custom assignor may assign topics that no member subscribes to; watching them avoids a rebalance later.
        topics |= {partition.topic for assignment in assignments.values() for partition in assignment.partitions}
    encoded = {member_id: encode_assignment(assignment) for member_id, assignment in assignments.items()}
    return encoded, frozenset(topics)


def _check_cooperative(
    name: str, members: Mapping[str, MemberSubscription], assignments: Mapping[str, Assignment]
) -> None:
    added: set[TopicPartition] = set()
    revoked: set[TopicPartition] = set()
    for member_id, assignment in assignments.items():
        owned = set(members[member_id].subscription.owned_partitions) if member_id in members else set()
        assigned = set(assignment.partitions)
        added |= assigned - owned
        revoked |= owned - assigned
    if moved := sorted(added & revoked):
        raise AssignorFailed(
            f"Assignor supporting the COOPERATIVE protocol violates its requirements: {name} reassigned "
            f"{', '.join(map(str, moved))} while still owned by another member; it must revoke a partition first "
            "and assign it to another member in the next rebalance."
        )
