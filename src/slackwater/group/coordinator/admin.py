"""DescribeGroups, ListGroups and DeleteGroups (AD-01 … AD-04, CO-04)."""

from collections.abc import Callable
from functools import partial

from slackwater.group.coordinator.effect_collector import EffectCollector
from slackwater.group.coordinator.expiry import delete_group
from slackwater.group.coordinator.group import ClassicGroup
from slackwater.group.coordinator.states import DEAD, STABLE, TRANSITIONS, GroupAction, GroupInput
from slackwater.group.errors import Error
from slackwater.group.messages import (
    DeletedGroup,
    DeleteGroups,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedMember,
    DescribeGroups,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroups,
    ListGroupsResponse,
)
from slackwater.group.write_errors import group_response_error

GROUP_TYPE = "classic"


def describe(collector: EffectCollector, request: DescribeGroups, reply_to: object) -> None:
    """Describe groups and their members."""
    groups = tuple(_describe_group(collector, group_id, request) for group_id in request.group_ids)
    collector.respond(reply_to, DescribeGroupsResponse(groups))


def _describe_group(collector: EffectCollector, group_id: str | None, request: DescribeGroups) -> DescribedGroup:
    if group_id is None:
        return DescribedGroup(group_id, Error.INVALID_GROUP_ID)
    group = collector.state.groups.get(group_id)
    if group is None and (error := collector.state.unavailable_error(group_id)) is not Error.NONE:
        return DescribedGroup(group_id, error)
    if group is None or group.state is DEAD:  # AD-01
        if request.reports_missing_group:
            message = f"Group {group_id} not found."
            return DescribedGroup(group_id, Error.GROUP_ID_NOT_FOUND, DEAD.wire_name, error_message=message)
        return DescribedGroup(group_id, Error.NONE, DEAD.wire_name)
    stable = group.state is STABLE
    return DescribedGroup(
        group_id,
        Error.NONE,
        group.state.wire_name,
        group.protocol_type or "",
        (group.protocol_name or "") if stable else "",
        _describe_members(group, stable=stable),
    )


def _describe_members(group: ClassicGroup, *, stable: bool) -> tuple[DescribedMember, ...]:
    """Describe the members: assignments in every state, metadata only in Stable (AD-02)."""
    return tuple(
        DescribedMember(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.metadata(group.protocol_name) if stable else b"",
            member.assignment,
        )
        for member in group.members.values()
    )


def list_groups(collector: EffectCollector, request: ListGroups, reply_to: object) -> None:
    """List the groups of every owned partition; fail while a partition is loading (CO-04)."""
    if any(partition.loading for partition in collector.state.offsets_partitions.values()):
        collector.respond(reply_to, ListGroupsResponse(Error.COORDINATOR_LOAD_IN_PROGRESS))
        return
    states = {state.lower() for state in request.states}
    types = {name.lower() for name in request.types}
    groups = tuple(
        ListedGroup(group.group_id, group.protocol_type or "", group.state.wire_name, GROUP_TYPE)
        for group in collector.state.groups.values()
        if group.state is not DEAD
        and (not states or group.state.wire_name.lower() in states)
        and (not types or GROUP_TYPE in types)
    )
    collector.respond(reply_to, ListGroupsResponse(Error.NONE, groups))


def delete(collector: EffectCollector, request: DeleteGroups, reply_to: object) -> None:
    """Delete groups without members, each separately; a repeated group id gives one result (AD-04)."""
    results: dict[str | None, Error | None] = dict.fromkeys(request.group_ids)
    if not results:
        collector.respond(reply_to, DeleteGroupsResponse(()))
        return

    def set_result(collector: EffectCollector, group_id: str | None, error: Error) -> None:
        results[group_id] = error
        deleted = [DeletedGroup(key, value) for key, value in results.items() if value is not None]
        if len(deleted) == len(results):
            collector.respond(reply_to, DeleteGroupsResponse(tuple(deleted)))

    for group_id in list(results):
        group = None if group_id is None else collector.state.groups.get(group_id)
        if group is None:
            set_result(collector, group_id, _missing_group_error(collector, group_id))
            continue
        transition = TRANSITIONS[GroupInput.DELETE][group.state]
        if transition.action is not GroupAction.DELETE_GROUP:
            set_result(collector, group_id, transition.error)
            continue
        delete_group(collector, group, partial(_set_deletion_result, set_result, group_id))


def _set_deletion_result(
    set_result: Callable[[EffectCollector, str | None, Error], None],
    group_id: str | None,
    collector: EffectCollector,
    error: Error,
) -> None:
    set_result(collector, group_id, group_response_error(error))


def _missing_group_error(collector: EffectCollector, group_id: str | None) -> Error:
    if group_id is None:
        return Error.INVALID_GROUP_ID
    error = collector.state.unavailable_error(group_id)
    return Error.GROUP_ID_NOT_FOUND if error is Error.NONE else error
