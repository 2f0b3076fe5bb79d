"""One row of the event table.

Invariants:
- A row has the same fields whether it comes from Spark, from a plain Python reader or from a `GroupEvent`.
- An empty string is read as None.
- Detail fields are stored by column, shared by many rows; `detail_index` is the row's index in these columns. A
  missing field is None.
- A row is a named tuple because a history has millions of rows and tuples are the cheapest to build.
- Rows are ordered by time. At the same time the broker's row comes before the client's.
"""

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import compress, count, islice
from operator import eq, itemgetter
from typing import Any, Final, NamedTuple

from slackwater.group.events import EventSource, GroupEvent

_ORDER: Final[dict[str, int]] = {
    EventSource.COORDINATOR: 0,
    EventSource.BROKER_LOG: 1,
    EventSource.OFFSETS_TOPIC: 2,
    EventSource.MEMBER: 3,
    EventSource.CLIENT_LOG: 4,
}
_LOG_SUFFIXES: Final = re.compile(r"(?:\.(?:log|txt|out|err|jsonl?)(?:[.-]\d[\d-]*)?)?(?:\.gz)?$")
"""Suffixes of log files, rotated ones included: orders.log, orders.log.3, orders.log.2026-11-16.gz."""
_SAYS_NOTHING: Final = re.compile(r"(?i:logs?|out|output|stdout|stderr|console|messages|[\d._-]+)")
"""Names of log files that do not name their program."""
_ROTATION: Final = re.compile(r"(?<=[A-Za-z])(?:[.-]\d[\d-]*)?(?:\.gz)?$")
_STDIN: Final = "stdin"
BROKER_SIDE: Final[frozenset[str]] = frozenset({EventSource.COORDINATOR, EventSource.BROKER_LOG})
CLIENT_SIDE: Final[frozenset[str]] = frozenset({EventSource.MEMBER, EventSource.CLIENT_LOG})


Detail = Mapping[str, Sequence[Any]]
"""The detail fields of several rows, by the names in events/table.py: one column per name, also for absent names."""


class SingleRowDetail(dict[str, Sequence[Any]]):
    """The detail fields of one row."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        super().__init__({name: (value,) for name, value in fields.items() if value is not None})

    def __missing__(self, name: str) -> Sequence[Any]:
        return _ABSENT


_ABSENT: Final = (None,)
_NO_DETAIL: Final = SingleRowDetail({})


class Row(NamedTuple):
    """An event."""

    time_ms: int
    kind: str
    source: str
    group: str = ""
    """Also empty when the rows are already separated by group."""
    trigger: str | None = None
    generation: int | None = None
    member: str | None = None
    instance: str | None = None
    client: str | None = None
    host: str | None = None
    assignor: str | None = None
    members: int | None = None
    state_before: str | None = None
    detail: Detail = _NO_DETAIL
    detail_index: int = 0
    """The row's index in the columns of `detail`."""
    evidence: str | None = None
    """Where the event was recorded, if more precise than `file` and `position`."""
    line: str | None = None
    """The log line."""
    file: str | None = None
    position: int = 0

    @property
    def where(self) -> str | None:
        """Where the event was recorded."""
        return self.evidence or (None if self.file is None else f"{self.file}:{self.position}")

    @property
    def label(self) -> str | None:
        """The file's name without directory and suffix: the client's name if its log does not contain one."""
        return None if self.file is None else _label(self.file)

    @property
    def is_from_broker(self) -> bool:
        """Reported by the coordinator, in an event or in the broker's log."""
        return self.source in BROKER_SIDE

    @property
    def is_from_client(self) -> bool:
        """Reported by the member, in an event or in the client's log."""
        return self.source in CLIENT_SIDE

    def detail_value(self, name: str) -> Any:
        """Return a detail field, or None if it is absent."""
        return self.detail[name][self.detail_index]

    def detail_text(self, name: str) -> str:
        """Return a detail field as text, empty if it is absent."""
        value = self.detail[name][self.detail_index]
        return "" if value is None else str(value)

    def detail_number(self, name: str) -> int | None:
        """Return a detail field as an integer, or None if it is absent."""
        value = self.detail[name][self.detail_index]
        return None if value is None else int(value)

    def detail_names(self, name: str) -> tuple[str, ...]:
        """Return a detail field as a list of names."""
        value = self.detail[name][self.detail_index]
        if value is None:
            return ()
        return (value,) if isinstance(value, str) else tuple(str(name) for name in value)


_TIME: Final = itemgetter(Row._fields.index("time_ms"))
KIND: Final = itemgetter(Row._fields.index("kind"))
SOURCE: Final = itemgetter(Row._fields.index("source"))
TRIGGER: Final = itemgetter(Row._fields.index("trigger"))
ASSIGNOR: Final = itemgetter(Row._fields.index("assignor"))
MEMBER_NAMES: Final = itemgetter(*(Row._fields.index(name) for name in ("member", "client", "instance", "host")))
FILE_POSITION: Final = itemgetter(Row._fields.index("file"), Row._fields.index("position"))
"""Fields of a row, for loops over all rows of a history."""


def read_row(columns: Mapping[str, Any]) -> Row:
    """Build a row from its columns."""
    return Row(
        time_ms=int(columns["time_ms"]),
        kind=str(columns["kind"]),
        source=str(columns["source"]),
        group=columns.get("group") or "",
        trigger=columns.get("trigger") or None,
        generation=_integer(columns.get("generation")),
        member=columns.get("member") or None,
        instance=columns.get("instance") or None,
        client=columns.get("client") or None,
        host=columns.get("host") or None,
        assignor=columns.get("assignor") or None,
        members=_integer(columns.get("members")),
        state_before=columns.get("state_before") or None,
        detail=_detail(columns.get("detail")),
        evidence=columns.get("evidence") or None,
        line=columns.get("text") or None,
        file=columns.get("file") or None,
        position=columns.get("position") or 0,
    )


def row_of(event: GroupEvent) -> Row:
    """Convert a group event to a row."""
    return read_row(json.loads(event.to_json()))


def within(rows: Sequence[Row], begin_ms: int, end_ms: int) -> Sequence[Row]:
    """Return the rows between two times (both included); `rows` must be ordered by time."""
    return rows[bisect_left(rows, begin_ms, key=_TIME) : bisect_right(rows, end_ms, key=_TIME)] if rows else ()


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Sort rows by time, and rows of the same millisecond by source, file and position."""
    ordered = sorted(rows, key=_TIME)
    times = list(map(_TIME, ordered))
    same_time = compress(count(), map(eq, times, islice(times, 1, None)))
    begin = end = 0
    for index in [*same_time, len(ordered)]:  # few rows share a millisecond: sort only those again
        if index > end:
            ordered[begin : end + 1] = sorted(ordered[begin : end + 1], key=_sort_key)
            begin = index
        end = index + 1
    return ordered


def _sort_key(row: Row) -> tuple[int, str, int]:
    return _ORDER.get(row.source, 9), row.file or "", row.position


@cache
def _label(file: str) -> str | None:
    name = file.rpartition("/")[2]
    label = _LOG_SUFFIXES.sub("", name)
    if label == _STDIN:
        return "the client in standard input"
    return f"the client in {_ROTATION.sub('', name)}" if _SAYS_NOTHING.fullmatch(label) else label or None


def _detail(value: object) -> Detail:
    if isinstance(value, str):
        value = json.loads(value) if value else {}
    return SingleRowDetail(value) if isinstance(value, Mapping) else _NO_DETAIL


def _integer(value: Any) -> int | None:
    return None if value is None or value != value else int(value)
