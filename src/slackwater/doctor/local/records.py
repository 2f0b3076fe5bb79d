"""Records of `__consumer_offsets` and events of `__group_events` to rows of the event table.

Invariants:
- Commits are summed up by group and minute: the advance of the offsets, and the number of partitions.
- Fields that no rule reads may be missing.
"""

import base64
import binascii
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final, NamedTuple

from slackwater.doctor.events.table import COLUMNS, DETAIL, LIST, TEXT
from slackwater.doctor.history.offsets_records import COMMIT, MINUTE_MS, UNDECODABLE, RecordRow, decode
from slackwater.doctor.local.attribution import EventRow
from slackwater.group.events import EventKind, EventSource
from slackwater.group.internal_topics import OFFSETS_TOPIC

_NOT_IN_DETAIL: Final = ("partition",)
_LOCATION: Final = ("cluster", "file", "position")
_LOCATION_OF: Final = attrgetter("file", "position", "partition", "offset")


class OffsetsRecord(NamedTuple):
    """A record of `__consumer_offsets`."""

    cluster: str | None
    file: str
    position: int
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None

    @property
    def name(self) -> str:
        """The record as evidence."""
        return f"{OFFSETS_TOPIC}-{self.partition}@{self.offset}"


class TextLine(NamedTuple):
    """A line of JSON, or the message about a record that cannot be decoded."""

    cluster: str | None
    file: str
    position: int
    text: str


def dumped_record(line: TextLine) -> OffsetsRecord | None:
    """Return the record in a line of JSON with base64 bytes; invalid base64 becomes no bytes."""
    values = _json(line.text)
    partition, offset, timestamp = (values.get(name) for name in ("partition", "offset", "timestamp"))
    if not (isinstance(partition, int) and isinstance(offset, int) and isinstance(timestamp, int)):
        return None
    key, value = _bytes(values.get("key")), _bytes(values.get("value"))
    return OffsetsRecord(line.cluster, line.file, line.position, partition, offset, timestamp, key, value)


def offsets_rows(records: Iterable[OffsetsRecord]) -> tuple[list[EventRow], list[TextLine]]:
    """Return the rows of some records, and a line for each record that cannot be decoded."""
    rows: list[EventRow] = []
    undecoded = []
    commits: dict[tuple[str | None, str], list[tuple[OffsetsRecord, RecordRow]]] = {}
    for record in records:
        for values in decode(record.key, record.value):
            if values["kind"] == UNDECODABLE:
                text = f"{record.name}: {values['error']}"
                undecoded.append(TextLine(record.cluster, record.file, record.position, text))
            elif values["kind"] == COMMIT:
                commits.setdefault((record.cluster, values["group"]), []).append((record, values))
            else:
                rows.append(_row(record, record.timestamp, values))
    for (_, group), of_group in commits.items():
        rows += _progress(group, of_group)
    return rows, undecoded


def group_event_rows(lines: Iterable[TextLine]) -> Iterator[EventRow]:
    """Yield the events in lines of JSON."""
    for line in lines:
        event = _json(line.text)
        if event.get("kind") is None:
            continue
        detail = event.get("detail") if isinstance(event.get("detail"), dict) else {}
        own = {name: value for name, value in (detail or {}).items() if name in DETAIL and name != "assignment"}
        if isinstance(own.get("partitions"), list):
            own["partitions"] = ["-".join(map(str, partition)) for partition in own["partitions"]]
        row = {name: _typed(kind, event.get(name)) for name, kind in COLUMNS.items()}
        yield row | {
            "cluster": line.cluster,
            "source": event.get("source"),
            "evidence": event.get("evidence") or f"{line.file}:{line.position}",
            "file": line.file,
            "position": line.position,
            "text": line.text,
            "detail": _detail({name: _typed(DETAIL[name], value) for name, value in own.items()}),
        }


@dataclass(slots=True)
class _Minute:
    """The commits of a group in one minute."""

    first_ms: int
    last: OffsetsRecord
    advanced: int = 0
    stamps: set[int] = field(default_factory=set)
    partitions: set[tuple[str, int]] = field(default_factory=set)


def _progress(group: str, commits: list[tuple[OffsetsRecord, RecordRow]]) -> Iterator[EventRow]:
    ranges: dict[tuple[str, int], dict[int, tuple[int, int]]] = {}
    minutes: dict[int, _Minute] = {}
    for record, values in commits:
        number, partition = record.timestamp // MINUTE_MS, (values["topic"], values["topic_partition"])
        minute = minutes.setdefault(number, _Minute(record.timestamp, record))
        minute.first_ms = min(minute.first_ms, record.timestamp)
        minute.last = max(minute.last, record, key=_LOCATION_OF)
        minute.stamps.add(record.timestamp)
        minute.partitions.add(partition)
        of_partition = ranges.setdefault(partition, {})
        lowest, highest = of_partition.get(number, (values["committed"], values["committed"]))
        of_partition[number] = min(lowest, values["committed"]), max(highest, values["committed"])
    for of_partition in ranges.values():
        before = None
        for number, (lowest, highest) in sorted(of_partition.items()):
            minutes[number].advanced += highest - (lowest if before is None else before)
            before = highest
    for _, minute in sorted(minutes.items()):
        yield _row(
            minute.last,
            minute.first_ms,
            {
                "kind": EventKind.PROGRESS,
                "group": group,
                "commits": len(minute.stamps),
                "offsets_advanced": minute.advanced,
                "count": len(minute.partitions),
            },
        )


def _row(record: OffsetsRecord, time_ms: int, values: RecordRow) -> EventRow:
    return {
        **{name: values[name] for name in COLUMNS if name in values},
        **{name: getattr(record, name) for name in _LOCATION},
        "time_ms": time_ms,
        "kind": str(values["kind"]),
        "source": EventSource.OFFSETS_TOPIC.value,
        "evidence": record.name,
        "detail": _detail({name: values[name] for name in DETAIL if name in values and name not in _NOT_IN_DETAIL}),
    }


def _detail(values: dict[str, Any]) -> str:
    return json.dumps({name: value for name, value in values.items() if value is not None})


def _typed(kind: str, value: Any) -> Any:
    """Return a value of JSON, None if it does not have this type; a number may be a text."""
    match value:
        case None:
            return None
        case bool():
            return value if kind == "boolean" else None
        case int():
            return str(value) if kind == TEXT else value if kind == "bigint" else None
        case str():
            return value if kind == TEXT else None
        case list():
            return [str(item) for item in value] if kind == LIST else None
    return None


def _json(text: str) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def _bytes(text: object) -> bytes | None:
    if text is None:
        return None
    try:
        return base64.b64decode(str(text), validate=True)
    except (binascii.Error, ValueError):
        return b""
