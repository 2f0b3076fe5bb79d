"""What attribution and the report need to know of each file, collected while its lines are read.

Merging is idempotent: a task that Spark repeats changes nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from numpy.typing import NDArray

from slackwater.doctor.events.member_ids import ARROW_PATTERN
from slackwater.doctor.events.table import CLUSTER_KINDS, TEXT, OtherEventKind
from slackwater.doctor.history.lines import GROUP_EVENT, RECORD
from slackwater.doctor.history.log_events import ARROW_TYPES, has_date, has_value, is_complete, is_one_of
from slackwater.group.events import EventKind, EventSource

WITHOUT_GROUP: Final = (EventKind.MEMBER_FENCED.value, EventKind.LEADER_CHANGED.value)
"""Kinds of rows that name members and may not name their group."""
NAMELESS_GROUP: Final = "(group not named in the log)"
NAMELESS_FAILURES: Final = tuple(
    kind.value
    for kind in (
        EventKind.POLL_OVERRUN,
        EventKind.SESSION_LOST,
        EventKind.COMMIT_REFUSED,
        EventKind.MEMBER_FENCED,
        EventKind.JOIN_REFUSED,
        EventKind.REBALANCE_FAILED,
        EventKind.HEARTBEAT_REFUSED,
        EventKind.PARTITIONS_LOST,
        EventKind.COORDINATOR_LOST,
        OtherEventKind.CLIENT_FAILED,
    )
)
"""Events that are kept without a group: librdkafka without debug never logs one."""
MAX_EXAMPLES: Final = 5
"""Unrecognized lines of a file that are kept."""
NO_TIMESTAMP_PREFIX: Final = "(no date and time that could be read) "


@dataclass(slots=True)
class FileSummary:
    """One file of a cluster."""

    cluster: str | None
    file: str
    ended_ms: int = 0
    """The time of the last row."""
    contents: set[str] = field(default_factory=set)
    """The kinds of rows in the file, by the names in `_contents`."""
    clients: set[str] = field(default_factory=set)
    """The least and the greatest client id; likewise the groups, and the client ids that member ids begin with."""
    groups: set[str] = field(default_factory=set)
    member_clients: set[str] = field(default_factory=set)

    @property
    def only_client(self) -> str | None:
        """The client of the file, if it names exactly one."""
        return _only(self.clients or self.member_clients)

    @property
    def only_group(self) -> str | None:
        """The group of the file, if it names exactly one."""
        return _only(self.groups)

    def merge(self, other: "FileSummary") -> None:
        """Add the summary of another part of the same file."""
        self.ended_ms = max(self.ended_ms, other.ended_ms)
        self.contents |= other.contents
        self.clients = _least_and_greatest(self.clients | other.clients)
        self.groups = _least_and_greatest(self.groups | other.groups)
        self.member_clients = _least_and_greatest(self.member_clients | other.member_clients)


class FileSummaries(dict[tuple[str | None, str], FileSummary]):
    """The summaries of all files."""

    def add(self, summaries: Iterable[FileSummary]) -> "FileSummaries":
        """Merge further summaries into these."""
        for summary in summaries:
            key = (summary.cluster, summary.file)
            self.setdefault(key, FileSummary(*key)).merge(summary)
        return self

    def has_any(self, content: str) -> bool:
        """Return whether a row of any file is of this kind."""
        return any(content in summary.contents for summary in self.values())

    def ended_ms(self) -> dict[str, int]:
        """Return the time of the last row of each cluster."""
        ended: dict[str, int] = {}
        for summary in self.values():
            name = summary.cluster or ""
            ended[name] = max(ended.get(name, 0), summary.ended_ms)
        return ended


def summarize(rows: pa.Table) -> FileSummaries:
    """Return the summary of rows that are all of one file."""
    cluster = rows["cluster"][0].as_py() if "cluster" in rows.column_names else None
    summary = FileSummary(cluster, rows["file"][0].as_py())
    by_client = is_one_of(rows, "source", (EventSource.CLIENT_LOG,))
    summary.contents = {name for name, which in _contents(rows, by_client).items() if which.any()}
    if "time_ms" in rows.column_names:
        summary.ended_ms = pc.max(rows["time_ms"]).as_py() or 0
    if by_client.any():
        _add_names(summary, rows.filter(pa.array(by_client)))
    return FileSummaries().add([summary])


def _contents(rows: pa.Table, by_client: NDArray[np.bool_]) -> dict[str, NDArray[np.bool_]]:
    has_kind, has_group = has_value(rows, "kind"), has_value(rows, "group")
    return {
        "incomplete": has_kind & ~is_complete(rows),
        "cluster_events": is_one_of(rows, "kind", CLUSTER_KINDS),
        "unrecognized": ~has_value(rows, "template"),
        "undated": has_kind & ~has_date(rows),
        "records": is_one_of(rows, "template", (RECORD,)),
        "group_events": is_one_of(rows, "template", (GROUP_EVENT,)),
        "without_names": by_client & ~(has_group & has_value(rows, "client")),
        "without_group": by_client & ~has_group,
        "members_without_group": ~has_group & is_one_of(rows, "kind", WITHOUT_GROUP),
        "instances_without_group": ~has_group & has_kind & has_value(rows, "instance"),
    }


def _add_names(summary: FileSummary, rows: pa.Table) -> None:
    summary.clients = _names(pc.coalesce(_text(rows, "client"), _setting(rows, "client.id")))
    summary.groups = _names(pc.coalesce(_text(rows, "group"), _setting(rows, "group.id")))
    # A client id in a row takes precedence over the member id; a static member's id begins with its instance id.
    dynamic = ~has_value(rows, "instance") & ~has_value(rows, "client")
    members = _text(rows, "member").filter(pa.array(dynamic))
    summary.member_clients = _names(pc.struct_field(pc.extract_regex(members, ARROW_PATTERN), "client"))


def _names(values: pa.Array) -> set[str]:
    return _least_and_greatest({value for value in pc.unique(values).to_pylist() if value is not None})


def _setting(rows: pa.Table, name: str) -> pa.Array:
    """Return the values of a client's setting, null in rows of anything else."""
    which = is_one_of(rows, "kind", (OtherEventKind.CLIENT_SETTING,)) & is_one_of(rows, "setting", (name,))
    return pc.if_else(pa.array(which & ~is_one_of(rows, "value", ("null",))), _text(rows, "value"), None)


def _text(rows: pa.Table, name: str) -> pa.Array:
    if name not in rows.column_names:
        return pa.nulls(rows.num_rows, ARROW_TYPES[TEXT])
    return rows[name].combine_chunks()


def _least_and_greatest(names: set[str]) -> set[str]:
    return {min(names), max(names)} if names else set()


def _only(names: set[str]) -> str | None:
    return next(iter(names)) if len(names) == 1 else None
