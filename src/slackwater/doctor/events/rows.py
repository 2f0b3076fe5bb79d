"""One row of the event table, as the rules read it.

Rules kept here
- A row is a row, whoever told it: the Spark readers, a reader in plain Python, our own `GroupEvent`.
- An empty text is none.
- The fields of a row's detail stand in columns, which rows have in common, and a row knows its place in them. A rule
  asks for a field and gets None when nobody told it.
- A row is a tuple: a history has millions of them, and none of the other kinds of objects is made as quickly.
- Rows are ordered by time; of one time, the broker's line comes before the client's echo of it.
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
_ENDINGS: Final = re.compile(r"(?:\.(?:log|txt|out|err|jsonl?)(?:[.-]\d[\d-]*)?)?(?:\.gz)?$")
"""What a log's name ends with, also one that was put away: orders.log, orders.log.3, orders.log.2026-11-16.gz."""
BROKER_SIDE: Final[frozenset[str]] = frozenset({EventSource.COORDINATOR, EventSource.BROKER_LOG})
CLIENT_SIDE: Final[frozenset[str]] = frozenset({EventSource.MEMBER, EventSource.CLIENT_LOG})


Detail = Mapping[str, Sequence[Any]]
"""What else is told of some events, by the names in event_table.py: a column for each name, also for one never told."""


class Alone(dict[str, Sequence[Any]]):
    """The detail of a single row."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        super().__init__({name: (value,) for name, value in told.items() if value is not None})

    def __missing__(self, name: str) -> Sequence[Any]:
        return _UNTOLD


_UNTOLD: Final = (None,)
_NOTHING: Final = Alone({})


class Row(NamedTuple):
    """An event."""

    time_ms: int
    kind: str
    source: str
    group: str = ""
    """Empty too where who brings the rows has parted them by their groups."""
    trigger: str | None = None
    generation: int | None = None
    member: str | None = None
    instance: str | None = None
    client: str | None = None
    host: str | None = None
    assignor: str | None = None
    members: int | None = None
    state_before: str | None = None
    detail: Detail = _NOTHING
    place: int = 0
    """Where in the columns of `detail` its own fields are."""
    evidence: str | None = None
    """Where it is told, by who knows better than `file` and `position`."""
    said: str | None = None
    """The line itself."""
    file: str | None = None
    position: int = 0

    @property
    def where(self) -> str | None:
        """Where it is told."""
        return self.evidence or (None if self.file is None else f"{self.file}:{self.position}")

    @property
    def label(self) -> str | None:
        """The file's own name without folder and ending: a name for a client whose log never names it."""
        return None if self.file is None else _label(self.file)

    @property
    def of_broker(self) -> bool:
        """Told by the coordinator, itself or in its log."""
        return self.source in BROKER_SIDE

    @property
    def of_client(self) -> bool:
        """Told by the member, itself or in its log."""
        return self.source in CLIENT_SIDE

    def told(self, name: str) -> Any:
        """A field of the detail, None when it was not told."""
        return self.detail[name][self.place]

    def text(self, name: str) -> str:
        """A field of the detail as text, empty when it was not told."""
        value = self.detail[name][self.place]
        return "" if value is None else str(value)

    def number(self, name: str) -> int | None:
        """A field of the detail as a whole number, None when it was not told."""
        value = self.detail[name][self.place]
        return None if value is None else int(value)

    def names(self, name: str) -> tuple[str, ...]:
        """A field of the detail as a list of names."""
        value = self.detail[name][self.place]
        if value is None:
            return ()
        return (value,) if isinstance(value, str) else tuple(str(one) for one in value)


_TIME: Final = itemgetter(Row._fields.index("time_ms"))
KIND: Final = itemgetter(Row._fields.index("kind"))
SOURCE: Final = itemgetter(Row._fields.index("source"))
TRIGGER: Final = itemgetter(Row._fields.index("trigger"))
ASSIGNOR: Final = itemgetter(Row._fields.index("assignor"))
NAMES: Final = itemgetter(*(Row._fields.index(name) for name in ("member", "client", "instance", "host")))
PLACE: Final = itemgetter(Row._fields.index("file"), Row._fields.index("position"))
"""Fields of a row, for those who ask all rows of a history."""


def read_row(columns: Mapping[str, Any]) -> Row:
    """A row from its columns."""
    return Row(
        time_ms=int(columns["time_ms"]),
        kind=str(columns["kind"]),
        source=str(columns["source"]),
        group=columns.get("group") or "",
        trigger=columns.get("trigger") or None,
        generation=_whole(columns.get("generation")),
        member=columns.get("member") or None,
        instance=columns.get("instance") or None,
        client=columns.get("client") or None,
        host=columns.get("host") or None,
        assignor=columns.get("assignor") or None,
        members=_whole(columns.get("members")),
        state_before=columns.get("state_before") or None,
        detail=_detail(columns.get("detail")),
        evidence=columns.get("evidence") or None,
        said=columns.get("text") or None,
        file=columns.get("file") or None,
        position=columns.get("position") or 0,
    )


def row_of(event: GroupEvent) -> Row:
    """One of our own events as a row."""
    return read_row(json.loads(event.to_json()))


def within(rows: Sequence[Row], begin_ms: int, end_ms: int) -> Sequence[Row]:
    """Of rows in order, those of a span of time (both ends belong to it)."""
    return rows[bisect_left(rows, begin_ms, key=_TIME) : bisect_right(rows, end_ms, key=_TIME)] if rows else ()


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Rows by time; of one millisecond, as they stand in their file."""
    found = sorted(rows, key=_TIME)
    times = list(map(_TIME, found))
    alike = compress(count(), map(eq, times, islice(times, 1, None)))
    begin = end = 0
    for place in [*alike, len(found)]:  # few rows have a millisecond in common: only these are compared further
        if place > end:
            found[begin : end + 1] = sorted(found[begin : end + 1], key=_place)
            begin = place
        end = place + 1
    return found


def _place(row: Row) -> tuple[int, str, int]:
    return _ORDER.get(row.source, 9), row.file or "", row.position


@cache
def _label(file: str) -> str | None:
    return _ENDINGS.sub("", file.rpartition("/")[2]) or None


def _detail(value: object) -> Detail:
    if isinstance(value, str):
        value = json.loads(value) if value else {}
    return Alone(value) if isinstance(value, Mapping) else _NOTHING


def _whole(value: Any) -> int | None:
    return None if value is None or value != value else int(value)
