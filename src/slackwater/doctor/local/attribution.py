"""Adds the missing group and client to rows, as spark/doctor/history/attribution.py does for large input.

Invariants:
- A file that names exactly one client belongs to that client; a file that names exactly one group, to that group.
- A client id, member id or instance id that is known in exactly one group of the cluster is in that group.
- A failure in a client's log, or a fenced member, that belongs to no known group is kept in the nameless group.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Self

from slackwater.doctor.events.member_ids import client_of_member
from slackwater.doctor.history.event_batches import ID_COLUMNS
from slackwater.doctor.history.summaries import (
    NAMELESS_FAILURES,
    NAMELESS_GROUP,
    WITHOUT_GROUP,
    FileSummaries,
)
from slackwater.group.events import EventKind, EventSource

EventRow = dict[str, Any]
"""A row of the event table with its detail as JSON; a column without a value may be missing."""
_Groups = dict[tuple[str | None, str], set[str]]


class RowIds(NamedTuple):
    """The values of ID_COLUMNS in a row."""

    cluster: str | None
    group: str | None
    client: str | None
    member: str | None
    instance: str | None

    @classmethod
    def of(cls, row: EventRow) -> Self:
        return cls(*(row.get(name) for name in ID_COLUMNS))


def fill_names(rows: Iterable[EventRow], summaries: FileSummaries, row_ids: Iterable[RowIds]) -> None:
    """Fill in the groups and clients that a row's file, or the ids in its cluster, determine."""
    clients, members, instances = _Groups(), _Groups(), _Groups()
    for cluster, group, client, member, instance in row_ids:
        if group is None:
            continue
        if not client and member is not None and instance is None:  # a static member's id begins with its instance id
            client = client_of_member(member)
        for groups, name in ((clients, client), (members, member), (instances, instance)):
            if name is not None:
                groups.setdefault((cluster, name), set()).add(group)
    for row in rows:
        cluster, is_client_log = row.get("cluster"), row["source"] == EventSource.CLIENT_LOG
        if is_client_log and (summary := summaries.get((cluster, row["file"]))) is not None:
            row["client"] = row.get("client") or summary.only_client
            row["group"] = row.get("group") or summary.only_group
        if is_client_log:
            _fill_group(row, clients, lambda row: row.get("client"))
        if row["kind"] in WITHOUT_GROUP:
            _fill_group(row, members, _named_member)
        _fill_group(row, instances, lambda row: row.get("instance"))


def assign_nameless_group(rows: Iterable[EventRow]) -> None:
    """Put failures in clients' logs, and fenced members, that belong to no known group into the nameless group."""
    for row in rows:
        is_failure = row["kind"] in NAMELESS_FAILURES and row["source"] == EventSource.CLIENT_LOG
        if not row.get("group") and (is_failure or row["kind"] == EventKind.MEMBER_FENCED):
            row["group"] = NAMELESS_GROUP


def _fill_group(row: EventRow, groups: _Groups, name_of: Callable[[EventRow], str | None]) -> None:
    if not row.get("group") and (name := name_of(row)) is not None:
        known = groups.get((row.get("cluster"), name), set())
        if len(known) == 1:
            row["group"] = next(iter(known))


def _named_member(row: EventRow) -> str | None:
    if member := row.get("member"):
        return str(member)
    detail = json.loads(row.get("detail") or "{}")
    return next((str(detail[name]) for name in ("holder", "old_leader") if detail.get(name)), None)
