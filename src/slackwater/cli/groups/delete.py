"""`slackwater groups delete` and `slackwater groups delete-offsets`."""

from typing import TYPE_CHECKING, Annotated

import typer

from slackwater.cli.options import AsJson, Bootstrap, ConfigFile, DryRun, Yes, confirm, open_admin
from slackwater.cli.printing import count, emit, print_line, table, warn
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

    With --json, each group is one line. Exit code 1 if a group could not be deleted.
    """
    with open_admin(bootstrap, config) as admin:
        described = admin.describe_groups(group, find_generation=False)
        offsets = {row.group_id: len(admin.committed(row.group_id)) for row in described}
        if not as_json:
            print_line(f"{'Would delete' if dry_run else 'Deleting'} {count(len(described), 'group')}:")
            table(
                ["GROUP", "STATE", "MEMBERS", "OFFSETS"],
                ([row.group_id, row.state, len(row.members), offsets[row.group_id]] for row in described),
            )
        if not dry_run:
            confirm(f"Delete {count(len(described), 'group')}?", yes=yes, as_json=as_json)
        errors = {row.group_id: _delete(admin, row, dry_run=dry_run) for row in described}
    failed = {group_id: error for group_id, error in errors.items() if error is not None}
    if as_json:
        for row in described:
            error = failed.get(row.group_id)
            emit(
                {
                    "group": row.group_id,
                    "offsets": offsets[row.group_id],
                    "deleted": error is None and not dry_run,
                    "error": error.error.name if error is not None else None,
                }
            )
    elif not dry_run:
        print_line(f"Deleted {count(len(errors) - len(failed), 'group')}.")
    for error in failed.values():
        warn(str(error))
    if failed:
        raise typer.Exit(1)


def _delete(admin: "Admin", group: "GroupDescription", *, dry_run: bool) -> BrokerError | None:
    """Delete the group; return the error, or with `dry_run` the one to expect."""
    if dry_run:
        if not group.members:
            return None
        state = f"Group {group.group_id} is {group.state} with {count(len(group.members), 'member')}"
        return BrokerError(Error.NON_EMPTY_GROUP, f"{state}; only an empty group can be deleted.")
    try:
        admin.delete_group(group.group_id)
    except BrokerError as error:
        return error
    return None


def delete_offsets(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group.")],
    topic: Annotated[list[str], typer.Option(metavar="TOPIC", help="The topic; repeatable.")],
    yes: Yes = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Delete a group's committed offsets of topics that its members do not read.

    With --json, each partition is one line. Exit code 1 if an offset could not be deleted.
    """
    with open_admin(bootstrap, config) as admin:
        admin.describe_groups([group], find_generation=False)  # raises if the group does not exist
        offsets = {
            partition: committed.offset
            for partition, committed in sorted(admin.committed(group).items())
            if partition.topic in topic
        }
        if not as_json:
            _show_offsets(group, offsets, dry_run=dry_run)
        errors: dict[TopicPartition, Error] = dict.fromkeys(offsets, Error.NONE)
        if not dry_run and offsets:
            confirm(f"Delete {count(len(offsets), 'offset')} of group {group}?", yes=yes, as_json=as_json)
            errors = admin.delete_offsets(group, offsets)
    failed = {partition: error for partition, error in errors.items() if error is not Error.NONE}
    if as_json:
        for partition, offset in offsets.items():
            emit(
                {
                    "group": group,
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "committed": offset,
                    "deleted": partition not in failed and not dry_run,
                    "error": failed[partition].name if partition in failed else None,
                }
            )
    elif not dry_run and offsets:
        print_line(f"Deleted {count(len(offsets) - len(failed), 'offset')} of group {group}.")
    for partition, error in failed.items():
        reason = f"{error.name}."
        if error is Error.GROUP_SUBSCRIBED_TO_TOPIC:
            reason = "a member reads this topic. Stop the members that read it, and run the command again."
        warn(f"the offset of {partition} was not deleted: {reason}")
    if failed:
        raise typer.Exit(1)


def _show_offsets(group: str, offsets: dict["TopicPartition", int], *, dry_run: bool) -> None:
    if not offsets:
        print_line(f"Group {group} has no committed offsets of these topics.")
        return
    print_line(f"{'Would delete' if dry_run else 'Deleting'} {count(len(offsets), 'offset')} of group {group}:")
    table(["TOPIC", "PARTITION", "COMMITTED"], ([*partition, offset] for partition, offset in offsets.items()))
