"""`slackwater groups remove-members`."""

from typing import TYPE_CHECKING, Annotated

import typer

from slackwater.cli.connecting import AsJson, Bootstrap, ConfigFile, DryRun, Yes, administrator, may_go_on
from slackwater.cli.groups.shown import partitions_text
from slackwater.cli.printing import count, emit, table, warn
from slackwater.group.errors import BrokerError, Error, UsageError

if TYPE_CHECKING:
    from slackwater.client.admin import GroupDescription, MemberDescription


def remove_members(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group.")],
    member: Annotated[
        list[str] | None, typer.Option("--member", metavar="ID", help="A member by its id; repeatable.")
    ] = None,
    instance: Annotated[
        list[str] | None, typer.Option("--instance", metavar="ID", help="By its group.instance.id; repeatable.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Everybody.")] = False,
    reason: Annotated[str, typer.Option(help="What the broker's log shall say.")] = "",
    yes: Yes = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Take members out of a group; the others share their partitions.

    For a static member that will not be back, or one that a stuck rebalance waits for. A member whose process is alive
    comes back by itself, under a new id: to keep it out, stop it. With --json a member is one line. Exit code 1 if one
    could not be removed.
    """
    if all_ == bool(member or instance):
        raise UsageError("say whom to remove: --member ID, --instance ID, or --all.")
    with administrator(bootstrap, config) as admin:
        (described,) = admin.describe_groups([group], find_generation=False)
        chosen = list(described.members) if all_ else _chosen(described, member or [], instance or [])
        if not as_json:
            _show(chosen, group, dry_run=dry_run)
        errors = dict.fromkeys((one.member_id for one in chosen), Error.NONE)
        if not dry_run and chosen:
            may_go_on(f"Remove {count(len(chosen), 'member')} of group {group}?", yes=yes, as_json=as_json)
            removed = admin.remove_members(
                group,
                members=[one.member_id for one in chosen if not one.is_static],
                instances=[one.group_instance_id for one in chosen if one.group_instance_id is not None],
                reason=reason,
            )
            # Static members are answered for by their instance ids.
            names = {one.group_instance_id: one.member_id for one in chosen if one.is_static}
            errors |= {names.get(one.group_instance_id, one.member_id): one.error for one in removed}
    if as_json:
        for one in chosen:
            emit(_json(group, one, errors[one.member_id], removed=not dry_run))
    elif not dry_run and chosen:
        done = sum(error is Error.NONE for error in errors.values())
        typer.echo(f"Removed {count(done, 'member')} of group {group}.")
    failed = {member_id: error for member_id, error in errors.items() if error is not Error.NONE}
    for member_id, error in failed.items():
        warn(f"{member_id} was not removed: {error.name}.")
    if failed:
        raise typer.Exit(1)


def _chosen(group: "GroupDescription", members: list[str], instances: list[str]) -> list["MemberDescription"]:
    by_id = {one.member_id: one for one in group.members}
    by_instance = {one.group_instance_id: one for one in group.members if one.group_instance_id is not None}
    unknown = [f"member {one}" for one in members if one not in by_id]
    unknown += [f"instance {one}" for one in instances if one not in by_instance]
    if unknown:
        what = f"Group {group.group_id} has no {unknown[0]}; `slackwater groups describe` shows its members."
        raise BrokerError(Error.UNKNOWN_MEMBER_ID, what)
    found = [by_id[one] for one in members] + [by_instance[one] for one in instances]
    return list({one.member_id: one for one in found}.values())


def _show(chosen: list["MemberDescription"], group: str, *, dry_run: bool) -> None:
    if not chosen:
        typer.echo(f"Group {group} has no members.")
        return
    typer.echo(f"{'Would remove' if dry_run else 'Removing'} {count(len(chosen), 'member')} of group {group}:")
    table(
        ["CLIENT", "INSTANCE", "HOST", "PARTITIONS", "MEMBER"],
        (
            [
                one.client_id,
                one.group_instance_id,
                one.client_host,
                partitions_text(one.partitions or ()) or None,
                one.member_id,
            ]
            for one in chosen
        ),
    )
    dynamic = sum(not one.is_static for one in chosen)
    static = len(chosen) - dynamic
    if dynamic:
        whose = "It is a dynamic member" if dynamic == 1 else f"{dynamic} of them are dynamic members"
        typer.echo(
            f"{whose}: if {'its process is' if dynamic == 1 else 'their processes are'} alive, "
            f"{'it' if dynamic == 1 else 'they'} will be back by {'itself' if dynamic == 1 else 'themselves'}, after a "
            "rebalance and under a new id. To keep a member out, stop its process."
        )
    if static:
        whose = "The static member" if static == 1 else f"The {static} static members"
        typer.echo(f"{whose} will be back only if {'its process is' if static == 1 else 'their processes are'} alive.")


def _json(group: str, member: "MemberDescription", error: Error, *, removed: bool) -> dict[str, object]:
    return {
        "group": group,
        "member": member.member_id,
        "instance": member.group_instance_id,
        "client": member.client_id,
        "host": member.client_host,
        "removed": removed and error is Error.NONE,
        "error": None if error is Error.NONE else error.name,
    }
