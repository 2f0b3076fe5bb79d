"""`slackwater groups describe`."""

from typing import TYPE_CHECKING, Annotated

import typer

from slackwater.cli.groups.formatting import (
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
from slackwater.cli.options import AsJson, Bootstrap, ConfigFile, open_admin
from slackwater.cli.printing import emit, facts, heading, print_line, table
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
    """Show groups: state, members, lag, and the members that a rebalance waits for.

    Without --state, --members or --offsets all three are shown. The generation and the awaited members are exact on a
    Slackwater broker and inferred from __consumer_offsets elsewhere; the output says which. With --json a group is one
    line. Exit code 1 if a group does not exist.
    """
    if all_ == bool(group):
        raise UsageError("name the groups, or use --all.")
    if not (state or members or offsets):
        state = members = offsets = True
    with open_admin(bootstrap, config) as admin:
        names = _all_groups(admin) if all_ else group or []
        described = admin.describe_groups(names)
        progress = admin.group_offsets(described) if state or offsets else {}
    for number, description in enumerate(described):
        rows = progress.get(description.group_id, [])
        if as_json:
            emit(_json(description, rows, members=members, offsets=offsets, lag=bool(state or offsets)))
            continue
        if number:
            print_line()
        _show(description, rows, state=state, members=members, offsets=offsets)
    if not described and not as_json:
        print_line("There are no groups.")


def _all_groups(admin: object) -> list[str]:
    from slackwater.client.admin import Admin
    from slackwater.client.admin.groups import DESCRIBED_TYPES

    assert isinstance(admin, Admin)
    return [listing.group_id for listing in admin.list_groups() if listing.type.lower() in DESCRIBED_TYPES]


def _json(
    group: "GroupDescription", rows: list["GroupOffset"], *, members: bool, offsets: bool, lag: bool
) -> dict[str, object]:
    row = group_json(group)
    if lag:
        row["lag"] = total_lag(rows)
    if members:
        row["members"] = [member_json(member) for member in group.members]
    if offsets:
        row["offsets"] = [offset_json(row) for row in rows]
    return row


def _show(group: "GroupDescription", rows: list["GroupOffset"], *, state: bool, members: bool, offsets: bool) -> None:
    heading(f"Group {group.group_id}")
    if state:
        _show_state(group, rows)
    if members and group.members:
        if state:
            print_line()
        _show_members(group)
    elif members and not state:
        print_line("No members.")
    if offsets and rows:
        if state or members:
            print_line()
        _show_offsets(group, rows)
    elif offsets and not state:
        print_line("No committed offsets and no assigned partitions.")


def _show_state(group: "GroupDescription", rows: list["GroupOffset"]) -> None:
    lines = [("state", group.state, STATES.get(group.state, ""))]
    if group.protocol_type not in ("", "consumer"):
        lines.append(("protocol", group.protocol_type, ""))
    if group.assignor:
        lines.append(("assignor", group.assignor, ""))
    waiting = waiting_text(group)
    lines += [
        ("generation", generation_text(group), ""),
        ("coordinator", broker_name(group.coordinator), ""),
        ("members", members_text(group), "yellow" if group.idle else ""),
        ("lag", lag_text(rows), ""),
    ]
    if waiting is not None:
        lines.append(("waiting for", waiting, "yellow"))
    facts(lines)


def _show_members(group: "GroupDescription") -> None:
    awaited = set(group.waiting_for or ()) if group.waiting_exact else set()
    static = any(member.is_static for member in group.members)
    rows = []
    for member in group.members:
        partitions = partitions_text(member.partitions) if member.partitions else None
        if member in group.idle:
            partitions = "idle"
        if member.member_id in awaited:
            partitions = f"{partitions or ''} (awaited)".strip()
        instance = [member.group_instance_id] if static else []
        rows.append([member.client_id, *instance, member.client_host, partitions, member.member_id])
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
