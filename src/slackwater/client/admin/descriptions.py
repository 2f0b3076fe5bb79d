"""What an administrator is told: groups, their members and offsets, settings.

Rules kept here
- Unknown is None, never a guess. What was inferred says so: `generation_source`, `waiting_exact`.
- Idle is a member of a stable group that has no partition. While a group rebalances nobody is called idle.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from slackwater.client.network.cluster import BrokerNode
from slackwater.group.errors import Error
from slackwater.group.topic_partition import TopicPartition

STABLE = "Stable"


class GenerationSource(StrEnum):
    """How a group's generation is known: DescribeGroups does not tell it."""

    GROUP_EVENTS = "group_events"  # told by the coordinator itself: exact
    OFFSETS_TOPIC = "offsets_topic"  # the last that was completed; while a group rebalances, it is the one before
    GROUP_EPOCH = "group_epoch"  # the epoch of a group of the new protocol (KIP-848): exact


class GroupListing(NamedTuple):
    """A group as its coordinator lists it; state and type are "" where the broker is too old to tell."""

    group_id: str
    protocol_type: str
    state: str
    type: str
    coordinator: BrokerNode


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member; partitions are None where its protocol is not a consumer's, topics where the group does not tell."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    partitions: tuple[TopicPartition, ...] | None
    topics: tuple[str, ...] | None = None

    @property
    def is_static(self) -> bool:
        """Whether it keeps its place while it is away."""
        return self.group_instance_id is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group, as its coordinator and what it has written down tell it."""

    group_id: str
    state: str
    type: str
    protocol_type: str
    assignor: str
    coordinator: BrokerNode
    members: tuple[MemberDescription, ...]
    generation: int | None = None
    generation_source: GenerationSource | None = None
    leader: str | None = None
    waiting_for: tuple[str, ...] | None = None  # member ids; None if nothing is waited for, or nobody knows for whom
    waiting_until_ms: int | None = None
    waiting_exact: bool = False

    @property
    def is_rebalancing(self) -> bool:
        """Whether its members are between two assignments."""
        return self.state in ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")

    @property
    def idle(self) -> tuple[MemberDescription, ...]:
        """The members of a stable group that have nothing to do."""
        if self.state != STABLE:
            return ()
        return tuple(member for member in self.members if member.partitions == ())

    def member(self, member_id: str) -> MemberDescription | None:
        """A member by its id."""
        return next((one for one in self.members if one.member_id == member_id), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffset:
    """How far a group has come in one partition; the log's ends are None if the partition is gone or has no leader."""

    partition: TopicPartition
    committed: int | None
    metadata: str | None
    log_start: int | None
    log_end: int | None
    member: MemberDescription | None

    @property
    def lag(self) -> int | None:
        """The records from the committed offset to the end, as Kafka's own tool counts them."""
        if self.committed is None or self.log_end is None:
            return None
        return self.log_end - self.committed

    @property
    def lost(self) -> int:
        """The records that were deleted before they were read: those between committed offset and the log's start."""
        if self.committed is None or self.log_start is None:
            return 0
        return max(self.log_start - self.committed, 0)


class OffsetChange(NamedTuple):
    """An offset to be moved, from where, to where, and what should be known about it."""

    partition: TopicPartition
    old: int | None
    new: int
    note: str = ""


class RemovedMember(NamedTuple):
    """A member that was to be removed, and what came of it."""

    member_id: str
    group_instance_id: str | None
    error: Error


class ConfigEntry(NamedTuple):
    """One setting; a sensitive one has no value."""

    name: str
    value: str | None
    is_default: bool
    read_only: bool
    sensitive: bool
