"""Requests to a coordinator and its responses, shared by the coordinator and the member.

Invariants:
- There are no API versions. A difference between versions is a named field (`requires_known_member_id`), which the
  handler of the API sets.
- The coordinator's shell sets `JoinGroup.uuid` (for a new member id) and `client_host`; a member leaves both empty.
"""

from typing import Final, NamedTuple

from slackwater.group.errors import Error
from slackwater.group.value_class import value_class

MAX_INT: Final = 2**31 - 1
NO_GENERATION: Final = -1
NO_MEMBER: Final = ""
NO_OFFSET: Final = -1


class JoinProtocol(NamedTuple):
    """One protocol of a JoinGroup request: the assignor's name and the member's metadata for it."""

    name: str
    metadata: bytes


# --- coordinator lookup ---------------------------------------------------------------------------------------


@value_class
class FindCoordinator:
    """Find the coordinator of a group; the broker responds, not the coordinator."""

    group_id: str


@value_class
class FindCoordinatorResponse:
    """The node that coordinates the group."""

    error: Error
    node_id: int = -1
    host: str = ""
    port: int = -1


# --- membership -------------------------------------------------------------------------------------------------


@value_class
class JoinGroup:
    """Join a group, or rejoin it for the next generation."""

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
    client_software: str = ""


class JoinedMember(NamedTuple):
    """A member in the list that the leader receives."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@value_class
class JoinGroupResponse:
    """The new generation, or an error; protocol type and name are None on error (JG-50)."""

    error: Error
    member_id: str = NO_MEMBER
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = NO_MEMBER
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@value_class
class SyncGroup:
    """Request the member's assignment; the leader sends the assignments of all members."""

    group_id: str | None
    member_id: str
    group_instance_id: str | None
    generation_id: int
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()
    requires_protocol: bool = False  # v5+ (SG-02)


@value_class
class SyncGroupResponse:
    """One member's assignment."""

    error: Error
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@value_class
class Heartbeat:
    """Keep a member's session alive."""

    group_id: str | None
    member_id: str
    group_instance_id: str | None
    generation_id: int


@value_class
class HeartbeatResponse:
    """NONE, or the error that the member handles."""

    error: Error


class LeavingMember(NamedTuple):
    """A member to remove: by member id, or by an administrator with the instance id."""

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


@value_class
class LeaveGroup:
    """Remove members."""

    group_id: str | None
    members: tuple[LeavingMember, ...]


class LeftMember(NamedTuple):
    """The result for one leaving member."""

    member_id: str
    group_instance_id: str | None
    error: Error


@value_class
class LeaveGroupResponse:
    """One entry per leaving member, in order; none on a top-level error."""

    error: Error
    members: tuple[LeftMember, ...] = ()


# --- offsets ----------------------------------------------------------------------------------------------------


class OffsetToCommit(NamedTuple):
    """An offset to commit for one partition."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""


@value_class
class OffsetCommit:
    """Store offsets for a group."""

    group_id: str | None
    member_id: str
    group_instance_id: str | None
    generation_id: int
    offsets: tuple[OffsetToCommit, ...]
    retention_ms: int = -1  # v2 to v4 (OC-13)
    reports_missing_group: bool = True  # v9+ responds GROUP_ID_NOT_FOUND (OC-02)


@value_class
class TxnOffsetCommit:
    """Store offsets for a group when a transaction is committed; the response is `OffsetCommitResponse`."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    generation_id: int
    offsets: tuple[OffsetToCommit, ...]
    producer_id: int
    producer_epoch: int
    verification: object = None  # of the shell, returned with the append


class OffsetResult(NamedTuple):
    """The result of committing or deleting the offset of one partition."""

    topic: str
    partition: int
    error: Error


@value_class
class OffsetCommitResponse:
    """One entry per offset, in the order of the request."""

    partitions: tuple[OffsetResult, ...]


class GroupToFetch(NamedTuple):
    """A group and the partitions to fetch; None means all partitions."""

    group_id: str | None
    partitions: tuple[tuple[str, int], ...] | None


@value_class
class OffsetFetch:
    """Read committed offsets of one or more groups."""

    groups: tuple[GroupToFetch, ...]
    require_stable: bool = False


class FetchedOffset(NamedTuple):
    """A committed offset, or -1 if there is none."""

    topic: str
    partition: int
    offset: int = NO_OFFSET
    leader_epoch: int = -1
    metadata: str | None = ""
    error: Error = Error.NONE


class FetchedGroup(NamedTuple):
    """The offsets of one group, or an error."""

    group_id: str | None
    error: Error
    offsets: tuple[FetchedOffset, ...] = ()


@value_class
class OffsetFetchResponse:
    """One entry per requested group."""

    groups: tuple[FetchedGroup, ...]


@value_class
class OffsetDelete:
    """Delete committed offsets of a group."""

    group_id: str | None
    partitions: tuple[tuple[str, int], ...]


@value_class
class OffsetDeleteResponse:
    """A top-level error, or one entry per partition."""

    error: Error
    partitions: tuple[OffsetResult, ...] = ()


# --- administration ---------------------------------------------------------------------------------------------


@value_class
class DescribeGroups:
    """Describe groups and their members."""

    group_ids: tuple[str | None, ...]
    reports_missing_group: bool = True  # v6+ (AD-01)


class DescribedMember(NamedTuple):
    """A member in DescribeGroups."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class DescribedGroup(NamedTuple):
    """A group in DescribeGroups; the state is its name on the wire."""

    group_id: str | None
    error: Error
    state: str = ""
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[DescribedMember, ...] = ()
    error_message: str | None = None


@value_class
class DescribeGroupsResponse:
    """One entry per requested group."""

    groups: tuple[DescribedGroup, ...]


@value_class
class ListGroups:
    """List groups; an empty filter selects all."""

    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


class ListedGroup(NamedTuple):
    """One group in ListGroups."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str = "classic"


@value_class
class ListGroupsResponse:
    """The groups of all partitions that this coordinator owns."""

    error: Error
    groups: tuple[ListedGroup, ...] = ()


@value_class
class DeleteGroups:
    """Delete groups and their offsets."""

    group_ids: tuple[str | None, ...]


class DeletedGroup(NamedTuple):
    """The result for one group."""

    group_id: str | None
    error: Error


@value_class
class DeleteGroupsResponse:
    """One entry per distinct group of the request."""

    groups: tuple[DeletedGroup, ...]


Request = (
    JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | OffsetCommit
    | TxnOffsetCommit
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
