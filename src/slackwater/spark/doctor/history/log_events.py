"""Log lines to rows of the event table: templates, timestamps, and the values that need more than a pattern.

Invariants:
- The lines of one template become columns together. The fields of `detail` are columns of their own.
- A line that names several removed members becomes one row for each of them.
- The trigger of a rebalance comes from the reason in its line, and from the client's part of the reason if it has one.
- A client's line without a timestamp, and a setting that a broker prints when it starts, have the time of the line
  before it in the same file, or else of the first one after it in the same block.
- Values that our broker and clients have escaped are unescaped, after lists have been split.
- A relevant line that no template matches, and one that is too long, becomes a row without a template. A record or
  group event in JSON becomes a row with its kind in place of the template.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from numpy.typing import NDArray

from slackwater.doctor.events.table import ASSIGNMENT, COLUMNS, DETAIL, EVIDENCE, FLAG, LIST, LONG, TEXT, OtherEventKind
from slackwater.doctor.templates.reasons import CLIENT_REASONS, REASONS
from slackwater.doctor.templates.wording import CompiledTemplate, TemplateSet
from slackwater.escaping import unescape
from slackwater.group.events import EventKind, EventSource
from slackwater.spark.doctor.garbage_collection import garbage_collection_paused
from slackwater.spark.doctor.history.lines import TEMPLATES, LogLine
from slackwater.spark.doctor.history.timestamps import parse_timestamp, zone_of

Values = list[Any]
Columns = dict[str, Values]
LineMatch = tuple[int, LogLine, tuple[str | None, ...]]
"""A line's number in its block, the line, and the values of its template's groups."""

ARROW_TYPES: Final[dict[str, pa.DataType]] = {
    TEXT: pa.string(),
    LONG: pa.int64(),
    FLAG: pa.bool_(),
    LIST: pa.list_(pa.string()),
    ASSIGNMENT: pa.list_(pa.struct([("member", pa.string()), ("partitions", pa.list_(pa.string()))])),
}
"""The Arrow types of the event table's Spark types."""
EVENT_TYPES: Final[dict[str, str]] = COLUMNS | DETAIL | EVIDENCE
UNRECOGNIZED: Final = "unrecognized"
_CLIENT_LOG: Final = EventSource.CLIENT_LOG.value
_REASONS: Final = TemplateSet([REASONS])
_REMOVED: Final = (EventKind.MEMBER_DROPPED, EventKind.MEMBER_UNSYNCED)
_AT_START: Final = (OtherEventKind.BROKER_SETTING, OtherEventKind.BROKER_STARTED)
_INTEGER: Final = re.compile(r"-?\d{1,18}", re.ASCII)
_BRACKETS: Final = re.compile(r"^\w*[(\[{]+|[)\]}]+$", re.ASCII)
_QUOTES: Final = re.compile("['\"]")
_TOPIC_PARTITION: Final = re.compile(r"TopicPartition\(topic='(.*?)', partition=(\d+)\)", re.ASCII)
_NO_NAME: Final = frozenset({"null", "None", "Optional.empty"})
_OPTIONAL: Final = re.compile(r"^(?:Some\(|Optional\[)(.*)[)\]]$")


@dataclass(slots=True)
class LogReader:
    """Reads the lines of one task, block by block, in the order of their files."""

    zones: Mapping[str, str]
    zone: str
    cluster: str | None = None
    clusters_dir: str | None = None
    """A directory whose subdirectories are clusters."""
    with_text: bool = True
    """Whether complete rows have the text of their line. All other rows have it."""
    _last_time_ms: dict[str, int] = field(default_factory=dict, init=False)
    """By file: the time of the last row that passes its time on to rows without one."""

    def read(self, file: str, lines: Iterable[LogLine]) -> pa.Table:
        """Return the rows of a file's next lines, in the order of the lines; columns without values are left out."""
        with garbage_collection_paused():
            return self._read(file, lines)

    def _read(self, file: str, lines: Iterable[LogLine]) -> pa.Table:
        matches: dict[CompiledTemplate | str, list[LineMatch]] = {}
        for number, line in enumerate(lines):
            template, groups = match_line(line)
            if template is not None:
                matches.setdefault(template, []).append((number, line, groups))
        if not matches:
            return pa.table({})
        zone = zone_of(file, self.zones, self.zone)
        table = pa.concat_tables(
            [self._template_table(template, line_matches, zone) for template, line_matches in matches.items()],
            promote_options="default",
        )
        numbers = [number for line_matches in matches.values() for number, _, _ in line_matches]
        table = table.take(pa.array(np.argsort(numbers)))
        if any(_shares_time(template) for template in matches):
            table = self._fill_times(file, table)
        table = table.append_column("file", pa.repeat(pa.scalar(file), table.num_rows))
        cluster = self._cluster_of(file)
        if cluster is not None:
            table = table.append_column("cluster", pa.repeat(pa.scalar(cluster), table.num_rows))
        return _row_per_removed_member(table)

    def _template_table(
        self, template: CompiledTemplate | str, line_matches: Sequence[LineMatch], zone: str
    ) -> pa.Table:
        """Return the rows of the lines that one template matches."""
        lines = [line for _, line, _ in line_matches]
        columns: Columns = {"position": [line.position for line in lines]}
        if isinstance(template, CompiledTemplate):
            groups = list(zip(*(groups for _, _, groups in line_matches), strict=True))
            values = {slot: list(groups[number - 1]) for slot, number in template.groups.items()}
            columns |= _event_columns(template, values, lines, zone)
        elif template != UNRECOGNIZED:
            columns["template"] = [template] * len(lines)
        table = pa.table({name: _as_array(name, column) for name, column in columns.items() if _has_value(column)})
        if self.with_text or not is_complete(table).all():
            table = table.append_column("text", _as_array("text", [line.text for line in lines]))
        return table

    def _cluster_of(self, file: str) -> str | None:
        if self.clusters_dir is None:
            return self.cluster
        return file.rpartition(self.clusters_dir.rstrip("/") + "/")[2].partition("/")[0]

    def _fill_times(self, file: str, table: pa.Table) -> pa.Table:
        """Give rows without a timestamp the time of the row before."""
        times: Values = table["time_ms"].to_pylist() if "time_ms" in table.column_names else [None] * table.num_rows
        kinds, sources = table["kind"].to_pylist(), table["source"].to_pylist()
        sharing = [row for row, kind in enumerate(kinds) if kind and (sources[row] == _CLIENT_LOG or kind in _AT_START)]
        last = self._last_time_ms.get(file)
        if last is None:
            last = next((times[row] for row in sharing if times[row] is not None), None)
        for row in sharing:
            last = times[row] = last if times[row] is None else times[row]
        if last is None:
            return table
        self._last_time_ms[file] = last
        table = table.drop_columns(["time_ms"]) if "time_ms" in table.column_names else table
        return table.append_column("time_ms", pa.array(times, pa.int64()))


def match_line(line: LogLine) -> tuple[CompiledTemplate | str | None, tuple[str | None, ...]]:
    """Return the template that matches a line and the values of its groups.

    Instead of a template, a record or group event has its kind, an unrecognized line UNRECOGNIZED and an irrelevant
    line None.
    """
    if line.record_kind is not None:
        return line.record_kind, ()
    choice = TEMPLATES.choose(line.literals)
    if choice is None:
        return None, ()
    if line.is_too_long:
        return UNRECOGNIZED, ()
    for template in choice.templates:
        if template.required in line.text and (match := template.match(line.text)):
            return (template if template.template.kind else None), match.groups()
    return (UNRECOGNIZED if any(word in line.text for word in choice.words) else None), ()


def _shares_time(template: CompiledTemplate | str) -> bool:
    if isinstance(template, str):
        return False
    return template.constants["source"] == _CLIENT_LOG or template.template.kind in _AT_START


def _has_value(column: Values) -> bool:
    """Return whether a column has a value."""
    return any(value is not None for value in column)


def _as_array(name: str, column: Values) -> pa.Array:
    return pa.array(column, ARROW_TYPES[EVENT_TYPES[name]])


def _event_columns(template: CompiledTemplate, values: Columns, lines: Sequence[LogLine], zone: str) -> Columns:
    """Return the columns of the lines that one template matches."""
    count = len(lines)
    heads = values.pop("head", [None] * count)
    columns: Columns = {slot: [value or None for value in column] for slot, column in values.items()}
    columns |= {slot: [value] * count for slot, value in template.constants.items() if value}
    columns["time_ms"] = [_time_ms(head, line, zone) for head, line in zip(heads, lines, strict=True)]
    kind = template.template.kind
    if kind == EventKind.REBALANCE_STARTED and "reason" in columns:
        _add_reasons(columns)
    if "member_ids" in columns:
        _add_member_ids(columns, is_start=kind == EventKind.REBALANCE_STARTED)
    _add_client_triggers(columns, is_leave=kind == EventKind.MEMBER_LEFT)
    for name, convert in _CONVERSIONS.items():
        if name in columns:
            columns[name] = [None if value is None else convert(value) for value in columns[name]]
    if "partitions" in columns:
        counts = columns.get("count", [None] * count)
        columns["count"] = [
            number if number is not None or partitions is None else len(partitions)
            for number, partitions in zip(counts, columns["partitions"], strict=True)
        ]
    if any("\\" in line.text for line in lines):
        columns = {name: [_unescape(value) for value in column] for name, column in columns.items()}
    return columns


def _unescape(value: Any) -> Any:
    if isinstance(value, list):
        return [unescape(item) for item in value]
    return unescape(value) if isinstance(value, str) else value


def _time_ms(head: str | None, line: LogLine, zone: str) -> int | None:
    time_ms = parse_timestamp(head, zone) if head else None
    return parse_timestamp(line.timestamp, zone) if time_ms is None and line.timestamp else time_ms


def _add_reasons(columns: Columns) -> None:
    """Add what the reasons of rebalances report: trigger, culprit, members, instance, the client's reason."""
    read = [(_REASONS.read(reason) or {}) if reason else {} for reason in columns["reason"]]
    for name in ("trigger", "culprit", "member_ids", "instance", "client_reason"):
        reported = [values.get(name) for values in read]
        if _has_value(reported):
            columns[name] = _coalesce(columns.get(name), reported)
    columns["member"] = _coalesce(columns.get("member"), [values.get("culprit") for values in read])


def _add_member_ids(columns: Columns, *, is_start: bool) -> None:
    columns["member_ids"] = [None if text is None else _names(text) for text in columns["member_ids"]]
    first = [members[0] if members else None for members in columns["member_ids"]]
    columns["culprit"] = _coalesce(columns.get("culprit"), first)
    if is_start:
        columns["member"] = _coalesce(columns.get("member"), first)


def _add_client_triggers(columns: Columns, *, is_leave: bool) -> None:
    """Use the trigger that a client's own reason names, if it names one (KIP-800)."""
    reasons = columns.get("client_reason")
    if is_leave and "reason" in columns:
        reasons = _coalesce(reasons, columns["reason"])
    if reasons is not None:
        columns["trigger"] = _coalesce([_client_trigger(reason) for reason in reasons], columns.get("trigger"))


def _client_trigger(reason: str | None) -> str | None:
    if reason is None:
        return None
    return next((str(trigger) for part, trigger in CLIENT_REASONS if part in reason), None)


def _coalesce(first: Values | None, second: Values | None) -> Values:
    if first is None or second is None:
        return first or second or []
    return [other if value is None else value for value, other in zip(first, second, strict=True)]


# --- values -----------------------------------------------------------------------------------------------------------


def _integer(text: str) -> int | None:
    return int(text) if _INTEGER.fullmatch(text) else None


def _flag(text: str) -> bool:
    return text == "true"


def _name(text: str) -> str | None:
    return None if text in _NO_NAME else text


def _instance(text: str) -> str | None:
    return None if text in _NO_NAME else _OPTIONAL.sub(r"\1", text)


def _split(text: str) -> list[str]:
    return text.split(", ")


def _names(text: str) -> list[str]:
    return _BRACKETS.sub("", text).split(", ")


def _topics(text: str) -> list[str]:
    bare = _QUOTES.sub("", _BRACKETS.sub("", text))
    return [topic for topic in re.split(",? ", bare) if topic]


def _partitions(text: str) -> list[str] | None:
    """Return `topic-0` for each partition, in whichever way a library prints it; None if the way is not known."""
    if text.startswith(("map[", '"')):
        return _json_partitions(text)
    return [name for name in _names(_TOPIC_PARTITION.sub(r"\1-\2", text)) if name]


def _json_partitions(text: str) -> list[str] | None:
    """Return the partitions that kafkajs prints as JSON: a list of numbers for each topic."""
    try:
        topics = json.loads("{" + text + "}")
        return [f"{topic}-{number}" for topic, numbers in topics.items() for number in numbers]
    except (ValueError, AttributeError, TypeError):
        return None


_CONVERSIONS: Final[dict[str, Callable[[str], Any]]] = {
    **{name: _integer for name, kind in EVENT_TYPES.items() if kind == LONG and name not in ("time_ms", "position")},
    **{name: _flag for name, kind in EVENT_TYPES.items() if kind == FLAG},
    "group": _name,
    "assignor": _name,
    "instance": _instance,
    "assignors": _split,
    "topics": _topics,
    "partitions": _partitions,
}
"""How the text in a slot becomes the value of a column. All other slots are text."""


def _row_per_removed_member(table: pa.Table) -> pa.Table:
    """Repeat each row about removed members, once for each member."""
    if "member_ids" not in table.column_names or "kind" not in table.column_names:
        return table
    indices: list[int] = []
    members: Values = []
    own = table["member"].to_pylist() if "member" in table.column_names else [None] * table.num_rows
    columns = (table["kind"].to_pylist(), table["member_ids"].to_pylist(), own)
    for index, (kind, removed, member) in enumerate(zip(*columns, strict=True)):
        row_members = removed if kind in _REMOVED and removed is not None else [member]
        indices.extend([index] * len(row_members))
        members.extend(row_members)
    if len(indices) == table.num_rows and members == own:
        return table
    table = table.take(pa.array(indices, pa.int64()))
    table = table.drop_columns(["member"]) if "member" in table.column_names else table
    return table.append_column("member", pa.array(members, pa.string()))


# --- tables ----------------------------------------------------------------------------------------------------------


def is_complete(rows: pa.Table) -> NDArray[np.bool_]:
    """Return which rows need nothing from other rows."""
    complete = has_value(rows, "kind") & has_value(rows, "time_ms") & has_value(rows, "group")
    return complete & (has_value(rows, "client") | ~is_one_of(rows, "source", (_CLIENT_LOG,)))


def has_value(rows: pa.Table, name: str) -> NDArray[np.bool_]:
    """Return which rows have a value in a column."""
    if name not in rows.column_names:
        return np.zeros(rows.num_rows, np.bool_)
    return np.asarray(pc.is_valid(rows[name]).to_numpy(), np.bool_)


def is_one_of(rows: pa.Table, name: str, values: Iterable[str]) -> NDArray[np.bool_]:
    """Return which rows have one of these values in a column."""
    if name not in rows.column_names:
        return np.zeros(rows.num_rows, np.bool_)
    return np.asarray(
        pc.is_in(rows[name], pa.array([str(value) for value in values], pa.string())).to_numpy(), np.bool_
    )
