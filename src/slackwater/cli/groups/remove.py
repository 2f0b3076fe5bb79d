"""`slackwater groups remove-members`."""

from typing import TYPE_CHECKING, Annotated

import typer

from slackwater.cli.groups.formatting import partitions_text
from slackwater.cli.options import AsJson, Bootstrap, ConfigFile, DryRun, Yes, confirm, open_admin
from slackwater.cli.printing import count, emit, print_line, table, warn
from slackwater.group.errors import BrokerError, Error, UsageError

if TYPE_CHECKING:
    from slackwater.client.admin import GroupDescription, MemberDescription


def remove_members(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group.")],
    members: Annotated[
        list[str] | None, typer.Option("--member", metavar="ID", help="A member id; repeatable.")
    ] = None,
    instances: Annotated[
        list[str] | None, typer.Option("--instance", metavar="ID", help="A group.instance.id; repeatable.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="All members.")] = False,
    reason: Annotated[str, typer.Option(help="The reason for the broker's log.")] = "",
    yes: Yes = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Remove members from a group; the others get their partitions.

    Use it for a static member that will not return, or for a member that a stuck rebalance waits for. A member whose
    process is running rejoins under a new id; to keep it out, stop the process. With --json, each member is one line.
    Exit code 1 if a member could not be removed.
    """
    if all_ and (members or instances):
        raise UsageError("use --all, or --member and --instance, not both.")
    if not (all_ or members or instances):
        raise UsageError("nothing to remove; use --member ID, --instance ID, or --all.")
    with open_admin(bootstrap, config) as admin:
        (described,) = admin.describe_groups([group], find_generation=False)
        selected = list(described.members) if all_ else _select(described, members or [], instances or [])
        if not as_json:
            _show(selected, group, dry_run=dry_run)
        errors = dict.fromkeys((member.member_id for member in selected), Error.NONE)
        if not dry_run and selected:
            confirm(f"Remove {count(len(selected), 'member')} of group {group}?", yes=yes, as_json=as_json)
            removed = admin.remove_members(
                group,
                members=[member.member_id for member in selected if not member.is_static],
                instances=[member.group_instance_id for member in selected if member.group_instance_id is not None],
                reason=reason,
            )
            # The response names static members by their instance ids.
            ids = {member.group_instance_id: member.member_id for member in selected if member.is_static}
            errors |= {ids.get(result.group_instance_id, result.member_id): result.error for result in removed}
    if as_json:
        for member in selected:
            emit(_json(group, member, errors[member.member_id], removed=not dry_run))
    elif not dry_run and selected:
        done = sum(error is Error.NONE for error in errors.values())
        print_line(f"Removed {count(done, 'member')} of group {group}.")
    failed = {member_id: error for member_id, error in errors.items() if error is not Error.NONE}
    for member_id, error in failed.items():
        advice = f"Run `slackwater groups describe {group}` to see the current members."
        warn(f"{member_id} was not removed: {error.name}. {advice}")
    if failed:
        raise typer.Exit(1)


def _select(group: "GroupDescription", members: list[str], instances: list[str]) -> list["MemberDescription"]:
    by_id = {member.member_id: member for member in group.members}
    by_instance = {member.group_instance_id: member for member in group.members if member.is_static}
    unknown = [f"member {member_id}" for member_id in members if member_id not in by_id]
    unknown += [f"instance {instance_id}" for instance_id in instances if instance_id not in by_instance]
    if unknown:
        message = f"Group {group.group_id} has no {unknown[0]}; `slackwater groups describe` shows its members."
        raise BrokerError(Error.UNKNOWN_MEMBER_ID, message)
    selected = [by_id[member_id] for member_id in members] + [by_instance[instance_id] for instance_id in instances]
    return list({member.member_id: member for member in selected}.values())


def _show(selected: list["MemberDescription"], group: str, *, dry_run: bool) -> None:
    if not selected:
        print_line(f"Group {group} has no members.")
        return
    print_line(f"{'Would remove' if dry_run else 'Removing'} {count(len(selected), 'member')} of group {group}:")
    table(
        ["CLIENT", "INSTANCE", "HOST", "PARTITIONS", "MEMBER"],
        (
            [
                member.client_id,
                member.group_instance_id,
                member.client_host,
                partitions_text(member.partitions or ()) or None,
                member.member_id,
            ]
            for member in selected
        ),
    )
    if not all(member.is_static for member in selected):
        print_line(
            "A dynamic member whose process is running rejoins with a new member id, after another rebalance. "
            "To keep it out, stop its process."
        )
    if any(member.is_static for member in selected):
        print_line("A static member rejoins only if its process is running.")


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
