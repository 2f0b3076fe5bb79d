"""DescribeGroups, ListGroups and DeleteGroups (AD-01 … AD-04, CO-04)."""

from collections.abc import Callable
from functools import partial

from slackwater.group.coordinator.effect_collector import EffectCollector, response_error
from slackwater.group.coordinator.expiry import dissolve
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

GROUP_TYPE = "classic"


def describe(turn: EffectCollector, request: DescribeGroups, caller: object) -> None:
    """Tell what groups are made of."""
    groups = tuple(_describe_group(turn, group_id, request) for group_id in request.group_ids)
    turn.answer(caller, DescribeGroupsResponse(groups))


def _describe_group(turn: EffectCollector, group_id: str | None, request: DescribeGroups) -> DescribedGroup:
    if group_id is None:
        return DescribedGroup(group_id, Error.INVALID_GROUP_ID)
    group = turn.desk.groups.get(group_id)
    if group is None and (error := turn.desk.refusal(group_id)) is not Error.NONE:
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
    """Assignments are shown in every state; what members said only while it holds (AD-02)."""
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


def list_groups(turn: EffectCollector, request: ListGroups, caller: object) -> None:
    """Name the groups of every shard that is owned; a shard still loading makes the listing incomplete (CO-04)."""
    if any(shard.loading for shard in turn.desk.shards.values()):
        turn.answer(caller, ListGroupsResponse(Error.COORDINATOR_LOAD_IN_PROGRESS))
        return
    states = {state.lower() for state in request.states}
    types = {name.lower() for name in request.types}
    groups = tuple(
        ListedGroup(group.group_id, group.protocol_type or "", group.state.wire_name, GROUP_TYPE)
        for group in turn.desk.groups.values()
        if group.state is not DEAD
        and (not states or group.state.wire_name.lower() in states)
        and (not types or GROUP_TYPE in types)
    )
    turn.answer(caller, ListGroupsResponse(Error.NONE, groups))


def delete(turn: EffectCollector, request: DeleteGroups, caller: object) -> None:
    """Forget groups without members, each for itself; one named twice gives one result (AD-04)."""
    results: dict[str | None, Error | None] = dict.fromkeys(request.group_ids)
    if not results:
        turn.answer(caller, DeleteGroupsResponse(()))
        return

    def settle(later: EffectCollector, group_id: str | None, error: Error) -> None:
        results[group_id] = error
        settled = [DeletedGroup(key, value) for key, value in results.items() if value is not None]
        if len(settled) == len(results):
            later.answer(caller, DeleteGroupsResponse(tuple(settled)))

    for group_id in list(results):
        group = None if group_id is None else turn.desk.groups.get(group_id)
        if group is None:
            settle(turn, group_id, _why_absent(turn, group_id))
            continue
        outcome = TRANSITIONS[GroupInput.DELETE][group.state]
        if outcome.act is not GroupAction.DISSOLVE:
            settle(turn, group_id, outcome.error)
            continue
        dissolve(turn, group, partial(_settle_deletion, settle, group_id))


def _settle_deletion(
    settle: Callable[[EffectCollector, str | None, Error], None],
    group_id: str | None,
    turn: EffectCollector,
    error: Error,
) -> None:
    settle(turn, group_id, response_error(error))


def _why_absent(turn: EffectCollector, group_id: str | None) -> Error:
    if group_id is None:
        return Error.INVALID_GROUP_ID
    error = turn.desk.refusal(group_id)
    return Error.GROUP_ID_NOT_FOUND if error is Error.NONE else error
