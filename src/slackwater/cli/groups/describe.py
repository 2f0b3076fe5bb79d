"""`slackwater groups describe`."""

from typing import TYPE_CHECKING, Annotated

import typer

from slackwater.cli.connecting import AsJson, Bootstrap, ConfigFile, administrator
from slackwater.cli.groups.shown import (
    STATES,
    broker_name,
    generation_text,
    group_json,
    lag_text,
    member_json,
    member_name,
    members_text,
    offset_json,
    partitions_text,
    total_lag,
    waiting_text,
)
from slackwater.cli.printing import emit, facts, heading, table
from slackwater.group.errors import UsageError

if TYPE_CHECKING:
    from slackwater.client.admin import GroupDescription, GroupOffset


def describe(
    group: Annotated[list[str] | None, typer.Argument(metavar="GROUP", help="The groups.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="All groups.")] = False,
    state: Annotated[bool, typer.Option("--state", help="State, generation, coordinator, lag.")] = False,
    members: Annotated[bool, typer.Option("--members", help="Members and their partitions.")] = False,
    offsets: Annotated[bool, typer.Option("--offsets", help="Offsets and lag of every partition.")] = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show groups: state, members, lag, and whom a rebalance waits for.

    Without --state, --members or --offsets all three are shown. Generation, and whom a rebalance waits for, are exact
    on a Slackwater broker, and inferred from __consumer_offsets elsewhere; the output says which. With --json a group
    is one line. Exit code 1 if a group does not exist.
    """
    if all_ == bool(group):
        raise UsageError("say which groups, or --all.")
    if not (state or members or offsets):
        state = members = offsets = True
    with administrator(bootstrap, config) as admin:
        names = _all_groups(admin) if all_ else group or []
        described = admin.describe_groups(names)
        progress = admin.group_offsets(described) if state or offsets else {}
    for number, one in enumerate(described):
        rows = progress.get(one.group_id, [])
        if as_json:
            emit(_json(one, rows, members=members, offsets=offsets, lag=bool(state or offsets)))
            continue
        if number:
            typer.echo()
        _show(one, rows, state=state, members=members, offsets=offsets)
    if not described and not as_json:
        typer.echo("There are no groups.")


def _all_groups(admin: object) -> list[str]:
    from slackwater.client.admin import Admin
    from slackwater.client.admin.groups import DESCRIBED_TYPES

    assert isinstance(admin, Admin)
    return [one.group_id for one in admin.list_groups() if one.type.lower() in DESCRIBED_TYPES]


def _json(
    group: "GroupDescription", rows: list["GroupOffset"], *, members: bool, offsets: bool, lag: bool
) -> dict[str, object]:
    found = group_json(group)
    if lag:
        found["lag"] = total_lag(rows)
    if members:
        found["members"] = [member_json(member) for member in group.members]
    if offsets:
        found["offsets"] = [offset_json(row) for row in rows]
    return found


def _show(group: "GroupDescription", rows: list["GroupOffset"], *, state: bool, members: bool, offsets: bool) -> None:
    heading(f"Group {group.group_id}")
    if state:
        _show_state(group, rows)
    if members and group.members:
        if state:
            typer.echo()
        _show_members(group)
    elif members and not state:
        typer.echo("It has no members.")
    if offsets and rows:
        if state or members:
            typer.echo()
        _show_offsets(group, rows)
    elif offsets and not state:
        typer.echo("It has committed nothing, and has no partitions.")


def _show_state(group: "GroupDescription", rows: list["GroupOffset"]) -> None:
    found = [("state", group.state, STATES.get(group.state, ""))]
    if group.protocol_type not in ("", "consumer"):
        found.append(("protocol", group.protocol_type, ""))
    if group.assignor:
        found.append(("assignor", group.assignor, ""))
    waiting = waiting_text(group)
    found += [
        ("generation", generation_text(group), ""),
        ("coordinator", broker_name(group.coordinator), ""),
        ("members", members_text(group), "yellow" if group.idle else ""),
        ("lag", lag_text(rows), ""),
    ]
    if waiting is not None:
        found.append(("waiting for", waiting, "yellow"))
    facts(found)


def _show_members(group: "GroupDescription") -> None:
    waited_for = set(group.waiting_for or ()) if group.waiting_exact else set()
    static = any(member.is_static for member in group.members)
    rows = []
    for member in group.members:
        has = partitions_text(member.partitions) if member.partitions else None
        if member in group.idle:
            has = "idle"
        if member.member_id in waited_for:
            has = f"{has or ''} (waited for)".strip()
        instance = [member.group_instance_id] if static else []
        rows.append([member.client_id, *instance, member.client_host, has, member.member_id])
    table(["CLIENT", *(["INSTANCE"] if static else []), "HOST", "PARTITIONS", "MEMBER"], rows)


def _show_offsets(group: "GroupDescription", rows: list["GroupOffset"]) -> None:
    lost = any(row.lost for row in rows)
    table(
        ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER", *(["NOTE"] if lost else [])],
        (
            [
                *row.partition,
                row.committed,
                row.log_end,
                row.lag,
                member_name(row.member, group.members) if row.member is not None else None,
                *([f"{row.lost:,} deleted unread" if row.lost else ""] if lost else []),
            ]
            for row in rows
        ),
        styles={"LAG": "bold"},
    )
