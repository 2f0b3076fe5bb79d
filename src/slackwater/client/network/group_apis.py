"""Converts the group member's requests and responses between the core's messages and the wire's.

Invariants:
- Version differences are handled here, as in the broker's handlers; the core has no versions.
- Offsets are committed and fetched by topic name (v9 at most), because subscriptions are by name.
- A field that the negotiated version does not have is left out if nothing is lost. A static member at a broker without
  static membership is rejected by the codec.
"""

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Final, TypeVar

from slackwater.group.errors import Error
from slackwater.group.member.effects import MemberRequest, MemberResponse
from slackwater.group.messages import (
    FetchedGroup,
    FetchedOffset,
    FindCoordinator,
    FindCoordinatorResponse,
    Heartbeat,
    HeartbeatResponse,
    JoinedMember,
    JoinGroup,
    JoinGroupResponse,
    LeaveGroup,
    LeaveGroupResponse,
    LeftMember,
    OffsetCommit,
    OffsetCommitResponse,
    OffsetFetch,
    OffsetFetchResponse,
    OffsetResult,
    SyncGroup,
    SyncGroupResponse,
)
from slackwater.wire import schema
from slackwater.wire.apis import (
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    SYNC_GROUP,
    Api,
)
from slackwater.wire.messages import (
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    offset_fetch,
    sync_group,
)

LAST_OFFSETS_VERSION_BY_NAME: Final = 9  # newer versions of OffsetCommit and OffsetFetch take topic ids
GROUP_KEY: Final = 0
T = TypeVar("T")

APIS: Final[dict[type, Api]] = {
    FindCoordinator: FIND_COORDINATOR,
    JoinGroup: JOIN_GROUP,
    SyncGroup: SYNC_GROUP,
    Heartbeat: HEARTBEAT,
    LeaveGroup: LEAVE_GROUP,
    OffsetCommit: OFFSET_COMMIT,
    OffsetFetch: OFFSET_FETCH,
}


def api_of(request: MemberRequest) -> Api:
    """Return the API of a request."""
    return APIS[type(request)]


def version_of(request: MemberRequest, negotiated: int) -> int:
    """Return the version to send, at most the negotiated one."""
    return (
        min(negotiated, LAST_OFFSETS_VERSION_BY_NAME) if isinstance(request, OffsetCommit | OffsetFetch) else negotiated
    )


def to_wire(request: MemberRequest, version: int) -> schema.Request:
    """Convert a request of the core to the wire message."""
    match request:
        case Heartbeat():
            return heartbeat.HeartbeatRequest(
                group_id=request.group_id or "",
                generation_id=request.generation_id,
                member_id=request.member_id,
                group_instance_id=request.group_instance_id,
            )
        case OffsetCommit():
            return _commit(request)
        case JoinGroup():
            return join_group.JoinGroupRequest(
                group_id=request.group_id or "",
                session_timeout_ms=request.session_timeout_ms,
                rebalance_timeout_ms=request.rebalance_timeout_ms,
                member_id=request.member_id,
                group_instance_id=request.group_instance_id,
                protocol_type=request.protocol_type,
                protocols=[
                    join_group.JoinGroupRequestProtocol(name=protocol.name, metadata=protocol.metadata)
                    for protocol in request.protocols
                ],
                reason=request.reason,
            )
        case SyncGroup():
            return sync_group.SyncGroupRequest(
                group_id=request.group_id or "",
                generation_id=request.generation_id,
                member_id=request.member_id,
                group_instance_id=request.group_instance_id,
                protocol_type=request.protocol_type,
                protocol_name=request.protocol_name,
                assignments=[
                    sync_group.SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                    for member_id, assignment in request.assignments
                ],
            )
        case LeaveGroup():
            return _leave(request, version)
        case OffsetFetch():
            return _fetch(request, version)
        case FindCoordinator():
            if version >= 4:
                return find_coordinator.FindCoordinatorRequest(key_type=GROUP_KEY, coordinator_keys=[request.group_id])
            return find_coordinator.FindCoordinatorRequest(key=request.group_id, key_type=GROUP_KEY)


def from_wire(response: schema.Response, request: MemberRequest, version: int) -> MemberResponse:
    """Convert a wire response to a message of the core."""
    return _CONVERTERS[type(response)](response, request, version)


# --- requests ---------------------------------------------------------------------------------------------------------


def _commit(request: OffsetCommit) -> offset_commit.OffsetCommitRequest:
    return offset_commit.OffsetCommitRequest(
        group_id=request.group_id or "",
        generation_id_or_member_epoch=request.generation_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        retention_time_ms=request.retention_ms,
        topics=[
            offset_commit.OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    offset_commit.OffsetCommitRequestPartition(
                        partition_index=offset.partition,
                        committed_offset=offset.offset,
                        committed_leader_epoch=offset.leader_epoch,
                        committed_metadata=offset.metadata,
                    )
                    for offset in offsets
                ],
            )
            for topic, offsets in groupby(
                sorted(request.offsets, key=lambda offset: offset[:2]), lambda offset: offset.topic
            )
        ],
    )


def _leave(request: LeaveGroup, version: int) -> leave_group.LeaveGroupRequest:
    if version >= 3:
        return leave_group.LeaveGroupRequest(
            group_id=request.group_id or "",
            members=[
                leave_group.MemberIdentity(
                    member_id=leaver.member_id, group_instance_id=leaver.group_instance_id, reason=leaver.reason
                )
                for leaver in request.members
            ],
        )
    (leaver,) = request.members
    return leave_group.LeaveGroupRequest(group_id=request.group_id or "", member_id=leaver.member_id)


def _fetch(request: OffsetFetch, version: int) -> offset_fetch.OffsetFetchRequest:
    if version >= 8:
        groups = [
            offset_fetch.OffsetFetchRequestGroup(
                group_id=group.group_id or "",
                topics=_topics(offset_fetch.OffsetFetchRequestTopics, group.partitions),
            )
            for group in request.groups
        ]
        return offset_fetch.OffsetFetchRequest(groups=groups, require_stable=request.require_stable)
    (group,) = request.groups
    return offset_fetch.OffsetFetchRequest(
        group_id=group.group_id or "",
        topics=_topics(offset_fetch.OffsetFetchRequestTopic, group.partitions),
        require_stable=request.require_stable and version >= 7,
    )


def _topics(topic_class: Callable[..., T], partitions: Iterable[tuple[str, int]] | None) -> list[T] | None:
    """Group partitions by topic; None stands for all partitions."""
    if partitions is None:
        return None
    return [
        topic_class(name=topic, partition_indexes=[number for _, number in group])
        for topic, group in groupby(sorted(partitions), lambda partition: partition[0])
    ]


# --- responses --------------------------------------------------------------------------------------------------------


def _heartbeat_response(
    response: heartbeat.HeartbeatResponse, request: MemberRequest, version: int
) -> HeartbeatResponse:
    return HeartbeatResponse(Error(response.error_code))


def _join_response(response: join_group.JoinGroupResponse, request: MemberRequest, version: int) -> JoinGroupResponse:
    protocol_type = response.protocol_type
    if version < 7 and not response.error_code and isinstance(request, JoinGroup):
        protocol_type = request.protocol_type  # the response does not contain it before v7
    return JoinGroupResponse(
        error=Error(response.error_code),
        member_id=response.member_id,
        generation_id=response.generation_id,
        protocol_type=protocol_type,
        protocol_name=response.protocol_name or None,
        leader=response.leader,
        skip_assignment=response.skip_assignment,
        members=tuple(
            JoinedMember(member.member_id, member.group_instance_id, member.metadata) for member in response.members
        ),
    )


def _sync_response(response: sync_group.SyncGroupResponse, request: MemberRequest, version: int) -> SyncGroupResponse:
    protocol_type, protocol_name = response.protocol_type, response.protocol_name
    if version < 5 and not response.error_code and isinstance(request, SyncGroup):
        protocol_type, protocol_name = request.protocol_type, request.protocol_name
    return SyncGroupResponse(
        error=Error(response.error_code),
        protocol_type=protocol_type,
        protocol_name=protocol_name,
        assignment=response.assignment,
    )


def _leave_response(
    response: leave_group.LeaveGroupResponse, request: MemberRequest, version: int
) -> LeaveGroupResponse:
    return LeaveGroupResponse(
        Error(response.error_code),
        tuple(
            LeftMember(member.member_id, member.group_instance_id, Error(member.error_code))
            for member in response.members
        ),
    )


def _commit_response(
    response: offset_commit.OffsetCommitResponse, request: MemberRequest, version: int
) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        tuple(
            OffsetResult(topic.name, partition.partition_index, Error(partition.error_code))
            for topic in response.topics
            for partition in topic.partitions
        )
    )


def _fetch_response(
    response: offset_fetch.OffsetFetchResponse, request: MemberRequest, version: int
) -> OffsetFetchResponse:
    if version >= 8:
        return OffsetFetchResponse(
            tuple(
                FetchedGroup(group.group_id, Error(group.error_code), _offsets(group.topics))
                for group in response.groups
            )
        )
    assert isinstance(request, OffsetFetch)
    return OffsetFetchResponse(
        (FetchedGroup(request.groups[0].group_id, Error(response.error_code), _offsets(response.topics)),)
    )


def _offsets(
    topics: Iterable[offset_fetch.OffsetFetchResponseTopic | offset_fetch.OffsetFetchResponseTopics],
) -> tuple[FetchedOffset, ...]:
    return tuple(
        FetchedOffset(
            topic.name,
            partition.partition_index,
            partition.committed_offset,
            partition.committed_leader_epoch,
            partition.metadata,
            Error(partition.error_code),
        )
        for topic in topics
        for partition in topic.partitions
    )


def _coordinator_response(
    response: find_coordinator.FindCoordinatorResponse, request: MemberRequest, version: int
) -> FindCoordinatorResponse:
    if version >= 4:
        (row,) = response.coordinators
        return FindCoordinatorResponse(Error(row.error_code), row.node_id, row.host, row.port)
    return FindCoordinatorResponse(Error(response.error_code), response.node_id, response.host, response.port)


_CONVERTERS: Final[dict[type, Callable[..., MemberResponse]]] = {
    heartbeat.HeartbeatResponse: _heartbeat_response,
    join_group.JoinGroupResponse: _join_response,
    sync_group.SyncGroupResponse: _sync_response,
    leave_group.LeaveGroupResponse: _leave_response,
    offset_commit.OffsetCommitResponse: _commit_response,
    offset_fetch.OffsetFetchResponse: _fetch_response,
    find_coordinator.FindCoordinatorResponse: _coordinator_response,
}
