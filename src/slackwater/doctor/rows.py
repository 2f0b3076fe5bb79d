"""One row of the event table, as the rules read it.

Rules kept here
- A row is a row, whoever told it: the Spark readers, a reader in plain Python, our own `GroupEvent`.
- `detail` is a mapping without nulls, so that a rule asks for a field and gets None when nobody told it.
- Rows are ordered by time; of one time, the broker's line comes before the client's echo of it.
"""

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from slackwater.group.events import GroupEvent, Source

_ORDER: Final[dict[str, int]] = {
    Source.COORDINATOR: 0,
    Source.BROKER_LOG: 1,
    Source.OFFSETS_TOPIC: 2,
    Source.MEMBER: 3,
    Source.CLIENT_LOG: 4,
}
_ENDINGS: Final = re.compile(r"(?:\.(?:log|txt|out|err|jsonl?)(?:[.-]\d[\d-]*)?)?(?:\.gz)?$")
"""What a log's name ends with, also one that was put away: orders.log, orders.log.3, orders.log.2026-11-16.gz."""
BROKER_SIDE: Final[frozenset[str]] = frozenset({Source.COORDINATOR, Source.BROKER_LOG})
CLIENT_SIDE: Final[frozenset[str]] = frozenset({Source.MEMBER, Source.CLIENT_LOG})


@dataclass(frozen=True, slots=True)
class Row:
    """An event with its detail as a mapping."""

    time_ms: int
    kind: str
    source: str
    group: str = ""
    cluster: str = ""
    trigger: str | None = None
    generation: int | None = None
    member: str | None = None
    instance: str | None = None
    client: str | None = None
    host: str | None = None
    assignor: str | None = None
    members: int | None = None
    state_before: str | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
    evidence: str | None = None
    said: str | None = None
    """The line itself."""
    template: str | None = None
    file: str | None = None
    position: int = 0

    @property
    def label(self) -> str | None:
        """The file's own name without folder and ending: a name for a client whose log never names it."""
        return None if self.file is None else _ENDINGS.sub("", self.file.rpartition("/")[2]) or None

    @property
    def of_broker(self) -> bool:
        """Told by the coordinator, itself or in its log."""
        return self.source in BROKER_SIDE

    @property
    def of_client(self) -> bool:
        """Told by the member, itself or in its log."""
        return self.source in CLIENT_SIDE

    def text(self, name: str) -> str:
        """A field of the detail as text, empty when it was not told."""
        value = self.detail.get(name)
        return "" if value is None else str(value)

    def number(self, name: str) -> int | None:
        """A field of the detail as a whole number, None when it was not told."""
        value = self.detail.get(name)
        return None if value is None else int(value)

    def names(self, name: str) -> tuple[str, ...]:
        """A field of the detail as a list of names."""
        value = self.detail.get(name)
        if value is None:
            return ()
        return (value,) if isinstance(value, str) else tuple(str(one) for one in value)


def read_row(columns: Mapping[str, Any]) -> Row:
    """A row from its columns."""
    return Row(
        time_ms=int(columns["time_ms"]),
        kind=str(columns["kind"]),
        source=str(columns["source"]),
        group=columns.get("group") or "",
        cluster=columns.get("cluster") or "",
        trigger=columns.get("trigger"),
        generation=_whole(columns.get("generation")),
        member=columns.get("member") or None,
        instance=columns.get("instance") or None,
        client=columns.get("client") or None,
        host=columns.get("host") or None,
        assignor=columns.get("assignor") or None,
        members=_whole(columns.get("members")),
        state_before=columns.get("state_before"),
        detail=_detail(columns.get("detail")),
        evidence=columns.get("evidence") or _place(columns),
        said=columns.get("text"),
        template=columns.get("template"),
        file=columns.get("file"),
        position=columns.get("position") or 0,
    )


def row_of(event: GroupEvent) -> Row:
    """One of our own events as a row."""
    return read_row(json.loads(event.to_json()))


def within(rows: Sequence[Row], begin_ms: int, end_ms: int) -> Sequence[Row]:
    """Of rows in order, those of a span of time (both ends belong to it)."""
    return rows[bisect_left(rows, begin_ms, key=_time) : bisect_right(rows, end_ms, key=_time)]


def _time(row: Row) -> int:
    return row.time_ms


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Rows by time; of one millisecond, as they stand in their file."""
    return sorted(rows, key=lambda one: (one.time_ms, _ORDER.get(one.source, 9), one.file or "", one.position))


def _place(columns: Mapping[str, Any]) -> str | None:
    file = columns.get("file")
    return None if file is None else f"{file}:{columns.get('position')}"


def _detail(value: object) -> dict[str, Any]:
    if isinstance(value, str):
        value = json.loads(value) if value else {}
    if not isinstance(value, Mapping):
        return {}
    return {name: one for name, one in value.items() if one is not None}


def _whole(value: Any) -> int | None:
    return None if value is None or value != value else int(value)
