"""What the leader of a generation does: read everybody's subscription, assign, and watch what it assigned from.

Rules kept here
- The leader watches the topics of *all* members; a follower watches nothing (CL-26).
- A snapshot holds what an assignment depends on: partition counts, and replica racks only where the client has one.
- A foreign cooperative assignor may not hand over what somebody still owns (CL-29). Ours take that into account.
- Bytes that are no subscription end in `PeerError`, an assignor that throws in `AssignorFailed`; nothing else does.
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
from slackwater.group.message import message
from slackwater.group.messages import JoinedMember
from slackwater.group.topic_partition import TopicPartition

Racks = tuple[frozenset[str], ...] | None


@message
class MetadataSnapshot:
    """The part of the cluster's metadata that an assignment was made from."""

    topics: tuple[tuple[str, int, Racks], ...]

    @property
    def names(self) -> frozenset[str]:
        """The topics that were known."""
        return frozenset(topic for topic, _, _ in self.topics)

    def __str__(self) -> str:
        return "{" + ", ".join(f"{topic}={partitions}" for topic, partitions, _ in self.topics) + "}"


def snapshot(cluster: Mapping[str, TopicInfo], topics: Iterable[str], client_rack: str | None) -> MetadataSnapshot:
    """What is known of these topics now."""
    known = ((topic, cluster[topic]) for topic in sorted(topics) if topic in cluster)
    return MetadataSnapshot(
        tuple((topic, info.partitions, info.racks if client_rack is not None else None) for topic, info in known)
    )


def read_members(members: Iterable[JoinedMember]) -> dict[str, MemberSubscription]:
    """Everybody's subscription, by member id."""
    read: dict[str, MemberSubscription] = {}
    for member_id, group_instance_id, metadata in members:
        try:
            read[member_id] = MemberSubscription(group_instance_id, decode_subscription(metadata))
        except MalformedMetadata as error:
            raise PeerError(
                f"member {member_id} joined with bytes that are no consumer subscription ({error}); find the client "
                "that sends them: it shares this group.id with consumers."
            ) from error
    return read


def assign(
    assignor: Assignor,
    protocol: RebalanceProtocol,
    cluster: Mapping[str, TopicInfo],
    members: Mapping[str, MemberSubscription],
) -> tuple[dict[str, bytes], frozenset[str]]:
    """Each member's assignment as bytes, and the topics assigned from."""
    try:
        assignments = assignor.assign(cluster, members)
    except Exception as error:  # whatever a foreign assignor throws is told in one way
        raise AssignorFailed(f"assignor {assignor.name} threw {error!r}.") from error
    if protocol is RebalanceProtocol.COOPERATIVE and not assignor.built_in:
        _check_cooperative(assignor.name, members, assignments)
    topics = {topic for member in members.values() for topic in member.subscription.topics}
    if not assignor.built_in:
        # A foreign assignor may give topics nobody asked for; watching them spares a rebalance when they show up.
        topics |= {partition.topic for given in assignments.values() for partition in given.partitions}
    encoded = {member_id: encode_assignment(given) for member_id, given in assignments.items()}
    return encoded, frozenset(topics)


def _check_cooperative(
    name: str, members: Mapping[str, MemberSubscription], assignments: Mapping[str, Assignment]
) -> None:
    added: set[TopicPartition] = set()
    revoked: set[TopicPartition] = set()
    for member_id, given in assignments.items():
        owned = set(members[member_id].subscription.owned_partitions) if member_id in members else set()
        assigned = set(given.partitions)
        added |= assigned - owned
        revoked |= owned - assigned
    if moved := sorted(added & revoked):
        raise AssignorFailed(
            f"Assignor supporting the COOPERATIVE protocol violates its requirements: {name} reassigned "
            f"{', '.join(map(str, moved))} while still owned by another member; it must first take a partition away "
            "and give it to somebody else in the next rebalance."
        )
