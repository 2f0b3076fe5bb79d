"""The coordinator's hard state, as the records that make it: what survives a restart.

Rules kept here
- A record with `value=None` is a tombstone.
- The last record of a key wins (CO-06); the key of `GroupMetadata` is the group, that of `CommittedOffset` the group
  and the partition.
- Bytes are the business of whoever stores them; nothing here knows the format of `__consumer_offsets`.
"""

from typing import NamedTuple

from slackwater.group.message import message


class StoredMember(NamedTuple):
    """A member of a stable generation."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    subscription: bytes
    assignment: bytes


@message
class StoredGroup:
    """A generation: stable if it has members, empty if not."""

    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader: str | None
    state_timestamp_ms: int  # -1: written by a broker that did not stamp it (EX-01)
    members: tuple[StoredMember, ...]


@message
class GroupMetadata:
    """A group's generation; a tombstone when the group is gone."""

    group_id: str
    value: StoredGroup | None


class StoredOffset(NamedTuple):
    """A committed offset."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None  # set only by old clients (OC-13)


class CommittedOffset(NamedTuple):
    """A group's offset in one partition; a tombstone when it expired or was deleted."""

    group_id: str
    topic: str
    partition: int
    value: StoredOffset | None


CoordinatorRecord = GroupMetadata | CommittedOffset
