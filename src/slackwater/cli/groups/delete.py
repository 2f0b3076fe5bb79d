"""`slackwater groups delete` and `slackwater groups delete-offsets`."""

from typing import TYPE_CHECKING, Annotated

import typer

from slackwater.cli.connecting import AsJson, Bootstrap, ConfigFile, DryRun, Yes, administrator, may_go_on
from slackwater.cli.printing import count, emit, table, warn
from slackwater.group.errors import BrokerError, Error

if TYPE_CHECKING:
    from slackwater.client.admin import Admin, GroupDescription
    from slackwater.group.topic_partition import TopicPartition


def delete(
    group: Annotated[list[str], typer.Argument(metavar="GROUP", help="The groups.")],
    yes: Yes = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Delete groups and their offsets. They must have no members.

    With --json a group is one line. Exit code 1 if one could not be deleted.
    """
    with administrator(bootstrap, config) as admin:
        described = admin.describe_groups(group, find_generation=False)
        offsets = {one.group_id: len(admin.committed(one.group_id)) for one in described}
        if not as_json:
            typer.echo(f"{'Would delete' if dry_run else 'Deleting'} {count(len(described), 'group')}:")
            table(
                ["GROUP", "STATE", "MEMBERS", "OFFSETS"],
                ([one.group_id, one.state, len(one.members), offsets[one.group_id]] for one in described),
            )
        if not dry_run:
            may_go_on(f"Delete {count(len(described), 'group')}?", yes=yes, as_json=as_json)
        errors = {one.group_id: _deleted(admin, one, dry_run=dry_run) for one in described}
    failed = {group_id: error for group_id, error in errors.items() if error is not None}
    if as_json:
        for one in described:
            error = failed.get(one.group_id)
            emit(
                {
                    "group": one.group_id,
                    "offsets": offsets[one.group_id],
                    "deleted": error is None and not dry_run,
                    "error": error.error.name if error is not None else None,
                }
            )
    elif not dry_run:
        typer.echo(f"Deleted {count(len(errors) - len(failed), 'group')}.")
    for error in failed.values():
        warn(str(error))
    if failed:
        raise typer.Exit(1)


def _deleted(admin: "Admin", group: "GroupDescription", *, dry_run: bool) -> BrokerError | None:
    """Why a group was not, or would not be, deleted."""
    if dry_run:
        if not group.members:
            return None
        seen = f"Group {group.group_id} is {group.state} with {count(len(group.members), 'member')}"
        return BrokerError(Error.NON_EMPTY_GROUP, f"{seen}, and only an empty group can be deleted.")
    try:
        admin.delete_group(group.group_id)
    except BrokerError as error:
        return error
    return None


def delete_offsets(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group.")],
    topic: Annotated[list[str], typer.Option(metavar="TOPIC", help="A topic to forget; repeatable.")],
    yes: Yes = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Forget a group's offsets in topics that its members do not read.

    With --json a partition is one line. Exit code 1 if one could not be forgotten.
    """
    with administrator(bootstrap, config) as admin:
        admin.describe_groups([group], find_generation=False)  # a group that is not there is told as such
        wanted = {one: at.offset for one, at in sorted(admin.committed(group).items()) if one.topic in topic}
        if not as_json:
            _show_offsets(group, wanted, dry_run=dry_run)
        errors: dict[TopicPartition, Error] = dict.fromkeys(wanted, Error.NONE)
        if not dry_run and wanted:
            may_go_on(f"Forget {count(len(wanted), 'offset')} of group {group}?", yes=yes, as_json=as_json)
            errors = admin.delete_offsets(group, wanted)
    failed = {one: error for one, error in errors.items() if error is not Error.NONE}
    if as_json:
        for one, offset in wanted.items():
            emit(
                {
                    "group": group,
                    "topic": one.topic,
                    "partition": one.partition,
                    "committed": offset,
                    "deleted": one not in failed and not dry_run,
                    "error": failed[one].name if one in failed else None,
                }
            )
    elif not dry_run and wanted:
        typer.echo(f"Forgot {count(len(wanted) - len(failed), 'offset')} of group {group}.")
    for partition, error in failed.items():
        why = "a member reads this topic" if error is Error.GROUP_SUBSCRIBED_TO_TOPIC else error.name
        warn(f"the offset of {partition} was not forgotten: {why}.")
    if failed:
        raise typer.Exit(1)


def _show_offsets(group: str, wanted: dict["TopicPartition", int], *, dry_run: bool) -> None:
    if not wanted:
        typer.echo(f"Group {group} has committed nothing there.")
        return
    typer.echo(f"{'Would forget' if dry_run else 'Forgetting'} {count(len(wanted), 'offset')} of group {group}:")
    table(["TOPIC", "PARTITION", "COMMITTED"], ([*one, offset] for one, offset in wanted.items()))
