"""The member's requests and answers, between the core's words and the wire's.

Rules kept here
- What a version changes is settled here, as the broker's handlers do on their side: the core knows no versions.
- Offsets are committed and fetched by topic name (v9 at most): the group's own subscription is by name.
- A field that the agreed version cannot carry is left out where that loses nothing; a static member at a broker that
  has never heard of them is refused by the codec.
"""

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Final

from slackwater.group.errors import Error
from slackwater.group.member.effects import MemberRequest, MemberResponse
from slackwater.group.messages import (
    CommittedPartition,
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

BY_NAME: Final = 9
"""The newest version of OffsetCommit and OffsetFetch that names topics."""
GROUP_KEY: Final = 0

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
    """The API that carries a request."""
    return APIS[type(request)]


def version_of(request: MemberRequest, agreed: int) -> int:
    """The version to use, where both sides know this one."""
    return min(agreed, BY_NAME) if isinstance(request, OffsetCommit | OffsetFetch) else agreed


def to_wire(request: MemberRequest, version: int) -> schema.Request:
    """A request as it is sent."""
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
                    join_group.JoinGroupRequestProtocol(name=one.name, metadata=one.metadata)
                    for one in request.protocols
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
    """An answer as the core hears it."""
    return _ANSWERS[type(response)](response, request, version)


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
                        partition_index=one.partition,
                        committed_offset=one.offset,
                        committed_leader_epoch=one.leader_epoch,
                        committed_metadata=one.metadata,
                    )
                    for one in offsets
                ],
            )
            for topic, offsets in groupby(sorted(request.offsets, key=lambda one: one[:2]), lambda one: one.topic)
        ],
    )


def _leave(request: LeaveGroup, version: int) -> leave_group.LeaveGroupRequest:
    if version >= 3:
        return leave_group.LeaveGroupRequest(
            group_id=request.group_id or "",
            members=[
                leave_group.MemberIdentity(
                    member_id=one.member_id, group_instance_id=one.group_instance_id, reason=one.reason
                )
                for one in request.members
            ],
        )
    (leaver,) = request.members
    return leave_group.LeaveGroupRequest(group_id=request.group_id or "", member_id=leaver.member_id)


def _fetch(request: OffsetFetch, version: int) -> offset_fetch.OffsetFetchRequest:
    if version >= 8:
        groups = [
            offset_fetch.OffsetFetchRequestGroup(
                group_id=group.group_id or "",
                topics=None
                if group.partitions is None
                else [
                    offset_fetch.OffsetFetchRequestTopics(name=topic, partition_indexes=indexes)
                    for topic, indexes in _by_topic(group.partitions)
                ],
            )
            for group in request.groups
        ]
        return offset_fetch.OffsetFetchRequest(groups=groups, require_stable=request.require_stable)
    (group,) = request.groups
    return offset_fetch.OffsetFetchRequest(
        group_id=group.group_id or "",
        topics=None
        if group.partitions is None
        else [
            offset_fetch.OffsetFetchRequestTopic(name=topic, partition_indexes=indexes)
            for topic, indexes in _by_topic(group.partitions)
        ],
        require_stable=request.require_stable and version >= 7,
    )


def _by_topic(partitions: Iterable[tuple[str, int]]) -> list[tuple[str, list[int]]]:
    return [
        (topic, [partition for _, partition in found])
        for topic, found in groupby(sorted(partitions), lambda one: one[0])
    ]


# --- answers ----------------------------------------------------------------------------------------------------------


def _heartbeat_answer(response: heartbeat.HeartbeatResponse, request: MemberRequest, version: int) -> HeartbeatResponse:
    return HeartbeatResponse(Error(response.error_code))


def _join_answer(response: join_group.JoinGroupResponse, request: MemberRequest, version: int) -> JoinGroupResponse:
    protocol_type = response.protocol_type
    if version < 7 and not response.error_code and isinstance(request, JoinGroup):
        protocol_type = request.protocol_type  # the answer does not tell before v7
    return JoinGroupResponse(
        error=Error(response.error_code),
        member_id=response.member_id,
        generation_id=response.generation_id,
        protocol_type=protocol_type,
        protocol_name=response.protocol_name or None,
        leader=response.leader,
        skip_assignment=response.skip_assignment,
        members=tuple(JoinedMember(one.member_id, one.group_instance_id, one.metadata) for one in response.members),
    )


def _sync_answer(response: sync_group.SyncGroupResponse, request: MemberRequest, version: int) -> SyncGroupResponse:
    protocol_type, protocol_name = response.protocol_type, response.protocol_name
    if version < 5 and not response.error_code and isinstance(request, SyncGroup):
        protocol_type, protocol_name = request.protocol_type, request.protocol_name
    return SyncGroupResponse(
        error=Error(response.error_code),
        protocol_type=protocol_type,
        protocol_name=protocol_name,
        assignment=response.assignment,
    )


def _leave_answer(response: leave_group.LeaveGroupResponse, request: MemberRequest, version: int) -> LeaveGroupResponse:
    return LeaveGroupResponse(
        Error(response.error_code),
        tuple(LeftMember(one.member_id, one.group_instance_id, Error(one.error_code)) for one in response.members),
    )


def _commit_answer(
    response: offset_commit.OffsetCommitResponse, request: MemberRequest, version: int
) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        tuple(
            CommittedPartition(topic.name, one.partition_index, Error(one.error_code))
            for topic in response.topics
            for one in topic.partitions
        )
    )


def _fetch_answer(
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
            one.partition_index,
            one.committed_offset,
            one.committed_leader_epoch,
            one.metadata,
            Error(one.error_code),
        )
        for topic in topics
        for one in topic.partitions
    )


def _coordinator_answer(
    response: find_coordinator.FindCoordinatorResponse, request: MemberRequest, version: int
) -> FindCoordinatorResponse:
    if version >= 4:
        (found,) = response.coordinators
        return FindCoordinatorResponse(Error(found.error_code), found.node_id, found.host, found.port)
    return FindCoordinatorResponse(Error(response.error_code), response.node_id, response.host, response.port)


_ANSWERS: Final[dict[type, Callable[..., MemberResponse]]] = {
    heartbeat.HeartbeatResponse: _heartbeat_answer,
    join_group.JoinGroupResponse: _join_answer,
    sync_group.SyncGroupResponse: _sync_answer,
    leave_group.LeaveGroupResponse: _leave_answer,
    offset_commit.OffsetCommitResponse: _commit_answer,
    offset_fetch.OffsetFetchResponse: _fetch_answer,
    find_coordinator.FindCoordinatorResponse: _coordinator_answer,
}
