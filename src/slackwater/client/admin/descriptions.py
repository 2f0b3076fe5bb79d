"""Return types of the admin client: groups, members, offsets and settings.

Invariants:
- An unknown value is None. `generation_source` and `waiting_exact` mark inferred values.
- A member of a stable group without partitions is idle. In a rebalancing group no member is idle.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from slackwater.client.network.cluster import BrokerNode
from slackwater.group.errors import Error
from slackwater.group.topic_partition import TopicPartition

STABLE = "Stable"


class GenerationSource(StrEnum):
    """Where a group's generation comes from: DescribeGroups does not contain it."""

    GROUP_EVENTS = "group_events"  # the coordinator's events: exact
    OFFSETS_TOPIC = "offsets_topic"  # the last completed generation; of a rebalancing group the previous one
    GROUP_EPOCH = "group_epoch"  # the epoch of a KIP-848 group: exact


class GroupListing(NamedTuple):
    """A group as its coordinator lists it; state and type are "" for old brokers."""

    group_id: str
    protocol_type: str
    state: str
    type: str
    coordinator: BrokerNode


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member; partitions are None if its protocol is not a consumer's, topics if they are unknown."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    partitions: tuple[TopicPartition, ...] | None
    topics: tuple[str, ...] | None = None

    @property
    def is_static(self) -> bool:
        """Whether it has a group.instance.id."""
        return self.group_instance_id is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group as described by its coordinator and its internal topics."""

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
    waiting_for: tuple[str, ...] | None = None  # member ids; None if the group does not wait, or if they are unknown
    waiting_until_ms: int | None = None
    waiting_exact: bool = False

    @property
    def is_rebalancing(self) -> bool:
        """Whether the group is between two assignments."""
        return self.state in ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")

    @property
    def idle(self) -> tuple[MemberDescription, ...]:
        """The members of a stable group without partitions."""
        if self.state != STABLE:
            return ()
        return tuple(member for member in self.members if member.partitions == ())

    def member(self, member_id: str) -> MemberDescription | None:
        """Return a member by its id, or None."""
        return next((member for member in self.members if member.member_id == member_id), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffset:
    """The progress of a group in one partition; log_start and log_end are None without a partition leader."""

    partition: TopicPartition
    committed: int | None
    metadata: str | None
    log_start: int | None
    log_end: int | None
    member: MemberDescription | None

    @property
    def lag(self) -> int | None:
        """The offsets between the committed offset and the end, as in Kafka's own tool."""
        if self.committed is None or self.log_end is None:
            return None
        return self.log_end - self.committed

    @property
    def lost(self) -> int:
        """The offsets between the committed offset and the log start: deleted before they were read."""
        if self.committed is None or self.log_start is None:
            return 0
        return max(self.log_start - self.committed, 0)


class OffsetChange(NamedTuple):
    """The change of one committed offset; `note` explains an adjusted target."""

    partition: TopicPartition
    old: int | None
    new: int
    note: str = ""


class RemovedMember(NamedTuple):
    """The outcome of removing one member."""

    member_id: str
    group_instance_id: str | None
    error: Error


class ConfigEntry(NamedTuple):
    """One setting; a sensitive setting has no value."""

    name: str
    value: str | None
    is_default: bool
    read_only: bool
    sensitive: bool
