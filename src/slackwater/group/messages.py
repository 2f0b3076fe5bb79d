"""What members ask a coordinator, and what it answers: small messages in Kafka's words, shared by both machines.

Rules kept here
- No API versions. What a version changes is a named field here (`requires_known_member_id`), and the handler file of
  that API knows from which version on it is set.
- Randomness is an argument: `JoinGroup.uuid` is drawn by the coordinator's shell, and used if this join needs a new
  member id. `client_host` is the shell's too: a member leaves both empty.
"""

from typing import Final, NamedTuple

from slackwater.group.errors import Error
from slackwater.group.message import message

NO_GENERATION: Final = -1
NO_MEMBER: Final = ""
NO_OFFSET: Final = -1


class JoinProtocol(NamedTuple):
    """One assignor a member offers, and its metadata in that assignor's format."""

    name: str
    metadata: bytes


# --- finding the coordinator ------------------------------------------------------------------------------------


@message
class FindCoordinator:
    """Ask any broker who coordinates a group; answered by the broker, not by the coordinator."""

    group_id: str


@message
class FindCoordinatorResponse:
    """The node that coordinates the group."""

    error: Error
    node_id: int = -1
    host: str = ""
    port: int = -1


# --- membership -------------------------------------------------------------------------------------------------


@message
class JoinGroup:
    """Ask to be, or to stay, a member in the next generation."""

    group_id: str | None
    member_id: str
    group_instance_id: str | None
    protocol_type: str
    protocols: tuple[JoinProtocol, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int  # below 0: the session timeout is used (JG-27)
    client_id: str = ""
    client_host: str = ""
    uuid: str = ""
    reason: str | None = None
    requires_known_member_id: bool = True  # v4+ (JG-08)
    supports_skipping_assignment: bool = True  # v9+ (JG-42)


class JoinedMember(NamedTuple):
    """A member as the leader sees it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@message
class JoinGroupResponse:
    """The new generation, or why not; protocol type and name are None on error (JG-50)."""

    error: Error
    member_id: str = NO_MEMBER
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = NO_MEMBER
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@message
class SyncGroup:
    """Ask for this member's part of the assignment; the leader brings everybody's."""

    group_id: str | None
    member_id: str
    group_instance_id: str | None
    generation_id: int
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()
    requires_protocol: bool = False  # v5+ (SG-02)


@message
class SyncGroupResponse:
    """One member's assignment."""

    error: Error
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@message
class Heartbeat:
    """Say that a member lives."""

    group_id: str | None
    member_id: str
    group_instance_id: str | None
    generation_id: int


@message
class HeartbeatResponse:
    """NONE, or what the member has to do."""

    error: Error


class LeavingMember(NamedTuple):
    """One member that is to leave: by id, or by an administrator through its instance id."""

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


@message
class LeaveGroup:
    """Remove members."""

    group_id: str | None
    members: tuple[LeavingMember, ...]


class LeftMember(NamedTuple):
    """What became of one leaver."""

    member_id: str
    group_instance_id: str | None
    error: Error


@message
class LeaveGroupResponse:
    """One entry per leaver, in order; none on a top-level error."""

    error: Error
    members: tuple[LeftMember, ...] = ()


# --- offsets ----------------------------------------------------------------------------------------------------


class OffsetToCommit(NamedTuple):
    """How far one partition has been processed."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""


@message
class OffsetCommit:
    """Store offsets for a group."""

    group_id: str | None
    member_id: str
    group_instance_id: str | None
    generation_id: int
    offsets: tuple[OffsetToCommit, ...]
    retention_ms: int = -1  # v2 to v4 (OC-13)
    reports_missing_group: bool = True  # v9+ answers GROUP_ID_NOT_FOUND (OC-02)


class CommittedPartition(NamedTuple):
    """What became of one offset."""

    topic: str
    partition: int
    error: Error


@message
class OffsetCommitResponse:
    """One entry per offset, in the order asked."""

    partitions: tuple[CommittedPartition, ...]


class GroupToFetch(NamedTuple):
    """A group and the partitions whose offsets are wanted; None means all it has."""

    group_id: str | None
    partitions: tuple[tuple[str, int], ...] | None


@message
class OffsetFetch:
    """Read committed offsets of one or more groups."""

    groups: tuple[GroupToFetch, ...]
    require_stable: bool = False


class FetchedOffset(NamedTuple):
    """A committed offset, or -1 where there is none."""

    topic: str
    partition: int
    offset: int = NO_OFFSET
    leader_epoch: int = -1
    metadata: str | None = ""
    error: Error = Error.NONE


class FetchedGroup(NamedTuple):
    """One group's offsets, or why not."""

    group_id: str | None
    error: Error
    offsets: tuple[FetchedOffset, ...] = ()


@message
class OffsetFetchResponse:
    """One entry per group asked for."""

    groups: tuple[FetchedGroup, ...]


@message
class OffsetDelete:
    """Forget committed offsets of a group."""

    group_id: str | None
    partitions: tuple[tuple[str, int], ...]


@message
class OffsetDeleteResponse:
    """A top-level error, or one entry per partition."""

    error: Error
    partitions: tuple[CommittedPartition, ...] = ()


# --- administration ---------------------------------------------------------------------------------------------


@message
class DescribeGroups:
    """Tell what groups are made of."""

    group_ids: tuple[str | None, ...]
    reports_missing_group: bool = True  # v6+ (AD-01)


class DescribedMember(NamedTuple):
    """A member as an administrator sees it."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class DescribedGroup(NamedTuple):
    """A group as an administrator sees it; the state is the wire's name."""

    group_id: str | None
    error: Error
    state: str = ""
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[DescribedMember, ...] = ()
    error_message: str | None = None


@message
class DescribeGroupsResponse:
    """One entry per group asked for."""

    groups: tuple[DescribedGroup, ...]


@message
class ListGroups:
    """Name the groups, filtered; an empty filter lets everything through."""

    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


class ListedGroup(NamedTuple):
    """One group in a listing."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str = "classic"


@message
class ListGroupsResponse:
    """The groups of all shards this coordinator owns."""

    error: Error
    groups: tuple[ListedGroup, ...] = ()


@message
class DeleteGroups:
    """Forget groups and their offsets."""

    group_ids: tuple[str | None, ...]


class DeletedGroup(NamedTuple):
    """What became of one group."""

    group_id: str | None
    error: Error


@message
class DeleteGroupsResponse:
    """One entry per distinct group asked for."""

    groups: tuple[DeletedGroup, ...]


Request = (
    JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | OffsetCommit
    | OffsetFetch
    | OffsetDelete
    | DescribeGroups
    | ListGroups
    | DeleteGroups
)
Response = (
    JoinGroupResponse
    | SyncGroupResponse
    | HeartbeatResponse
    | LeaveGroupResponse
    | OffsetCommitResponse
    | OffsetFetchResponse
    | OffsetDeleteResponse
    | DescribeGroupsResponse
    | ListGroupsResponse
    | DeleteGroupsResponse
)
