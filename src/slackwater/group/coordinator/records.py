"""The records of the coordinator's hard state, which survive a restart.

The shell encodes them; the format of `__consumer_offsets` is in `wire/internal_topics`.

Invariants:
- A record with `value=None` is a tombstone.
- The last record of a key wins (CO-06). The key of `GroupMetadata` is the group; the key of `CommittedOffset` is the
  group and the partition.
"""

from typing import NamedTuple

from slackwater.group.value_class import value_class


class StoredMember(NamedTuple):
    """A member of a stored generation."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    subscription: bytes
    assignment: bytes


@value_class
class StoredGroup:
    """A stored generation: Stable with members, Empty without."""

    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader: str | None
    state_timestamp_ms: int  # -1: written by a broker without this field (EX-01)
    members: tuple[StoredMember, ...]


@value_class
class GroupMetadata:
    """A group's generation; a tombstone when the group was deleted."""

    group_id: str
    value: StoredGroup | None


class StoredOffset(NamedTuple):
    """A committed offset."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None  # set only for old clients (OC-13)


class CommittedOffset(NamedTuple):
    """A group's offset in one partition; a tombstone when it expired or was deleted."""

    group_id: str
    topic: str
    partition: int
    value: StoredOffset | None


CoordinatorRecord = GroupMetadata | CommittedOffset
