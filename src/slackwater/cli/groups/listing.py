"""`slackwater groups list`."""

from typing import TYPE_CHECKING, Annotated

import typer

from slackwater.cli.groups.formatting import broker_json, broker_name, total_lag
from slackwater.cli.options import AsJson, Bootstrap, ConfigFile, open_admin
from slackwater.cli.printing import emit, print_line, table, warn

if TYPE_CHECKING:
    from slackwater.client.admin import Admin, GroupDescription, GroupListing, GroupOffset
    from slackwater.client.network.cluster import BrokerNode
    from slackwater.group.errors import SlackwaterError


def list_(
    state: Annotated[
        list[str] | None, typer.Option(metavar="STATE", help="Only groups in this state; repeatable.")
    ] = None,
    type_: Annotated[
        list[str] | None, typer.Option("--type", metavar="TYPE", help="Only groups of this type; repeatable.")
    ] = None,
    lag: Annotated[bool, typer.Option("--lag", help="Also show members, idle members and lag; slower.")] = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """List the groups of all brokers.

    Exit code 1 if a broker did not respond; its groups are missing from the list.
    """
    failed: list[BrokerNode] = []

    def failure(broker: "BrokerNode", error: "SlackwaterError") -> None:
        failed.append(broker)
        warn(f"the groups of {broker_name(broker)} are missing: {error}")

    with open_admin(bootstrap, config) as admin:
        listed = admin.list_groups(state or (), type_ or (), on_failure=failure)
        details = _details(admin, listed) if lag else {}
    rows = [_row(group, details.get(group.group_id)) for group in listed]
    if as_json:
        for row in rows:
            emit(row)
    elif not rows:
        print_line("There are no matching groups." if state or type_ else "There are no groups.")
    else:
        _show(rows, lag=lag)
    if failed:
        raise typer.Exit(1)


Details = tuple["GroupDescription", list["GroupOffset"]]


def _details(admin: "Admin", listings: list["GroupListing"]) -> dict[str, Details]:
    from slackwater.client.admin.groups import DESCRIBED_TYPES

    group_ids = [listing.group_id for listing in listings if listing.type.lower() in DESCRIBED_TYPES]
    described = admin.describe_groups(group_ids, find_generation=False)
    offsets = admin.group_offsets(described)
    return {group.group_id: (group, offsets[group.group_id]) for group in described}


def _row(group: "GroupListing", details: Details | None) -> dict[str, object]:
    row: dict[str, object] = {
        "group": group.group_id,
        "state": group.state or None,
        "type": group.type.lower() or None,
        "protocol_type": group.protocol_type or None,
        "coordinator": broker_json(group.coordinator),
    }
    if details is not None:
        described, offsets = details
        row |= {
            "members": len(described.members),
            "idle": len(described.idle),
            "lag": total_lag(offsets),
        }
    return row


def _show(rows: list[dict[str, object]], *, lag: bool) -> None:
    names = ["group", "state", "type", "protocol_type", *(["members", "idle", "lag"] if lag else [])]
    heads = [name.upper().replace("_TYPE", "") for name in names]
    table(
        [*heads, "COORDINATOR"],
        ([*(row.get(name) for name in names), _address(row["coordinator"])] for row in rows),
        styles={"GROUP": "bold"},
    )


def _address(coordinator: object) -> str:
    assert isinstance(coordinator, dict)
    return f"{coordinator['host']}:{coordinator['port']}"
