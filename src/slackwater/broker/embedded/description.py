"""Snapshots of groups and members, as `EmbeddedBroker.describe_group` returns them."""

from typing import NamedTuple, Self

from slackwater.group.assignors.consumer_protocol import PROTOCOL_TYPE, MalformedMetadata, decode_assignment
from slackwater.group.messages import DescribedGroup, DescribedMember
from slackwater.group.topic_partition import TopicPartition


class MemberSnapshot(NamedTuple):
    """A member and its partitions."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    partitions: tuple[TopicPartition, ...]


class GroupSnapshot(NamedTuple):
    """A group; the state of an unknown group is Dead."""

    group_id: str
    state: str
    protocol_type: str = ""
    assignor: str = ""
    members: tuple[MemberSnapshot, ...] = ()

    @classmethod
    def of(cls, group_id: str, described: DescribedGroup) -> Self:
        """Convert the coordinator's description."""
        is_consumer = described.protocol_type == PROTOCOL_TYPE
        members = tuple(_member(member, is_consumer) for member in described.members)
        return cls(group_id, described.state, described.protocol_type, described.protocol_name, members)


def _member(member: DescribedMember, is_consumer: bool) -> MemberSnapshot:
    return MemberSnapshot(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        _partitions(member.assignment) if is_consumer and member.assignment else (),
    )


def _partitions(assignment: bytes) -> tuple[TopicPartition, ...]:
    try:
        return decode_assignment(assignment).partitions
    except MalformedMetadata:
        return ()
