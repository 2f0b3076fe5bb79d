"""Log lines to rows of the event table: templates, timestamps, and the values that need more than a pattern.

Invariants:
- The lines of one template become columns together. The fields of `detail` are columns of their own.
- A line that names several removed members becomes one row for each of them.
- The trigger of a rebalance comes from the reason in its line, and from the client's part of the reason if it has one.
- A line without a timestamp has the time of the header of its record, or of the line before it in the same file, or
  else of the first one after it in the same block. If no line of a file has a time, its position is its time
  (events/times.py).
- If the lines of a block are in the reverse order of their times, the order of the rows is reversed: their positions
  are negative, and `evidence` has the place in the file.
- What a client's template does not capture (group, ids, error) is looked for around the message (context.py).
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

from slackwater.doctor.events.member_ids import client_of_member
from slackwater.doctor.events.table import ASSIGNMENT, COLUMNS, DETAIL, EVIDENCE, FLAG, LIST, LONG, TEXT, OtherEventKind
from slackwater.doctor.events.times import MIN_CLOCK_MS, MIN_DATED_MS
from slackwater.doctor.history.context import (
    container_name,
    find_error,
    find_field,
    kind_of_error,
    name_error,
    time_around,
)
from slackwater.doctor.history.garbage_collection import garbage_collection_paused
from slackwater.doctor.history.lines import TEMPLATES, LogLine, literals_in
from slackwater.doctor.history.timestamps import parse_timestamp, zone_of
from slackwater.doctor.templates.reasons import CLIENT_REASONS, REASONS
from slackwater.doctor.templates.wording import CompiledTemplate, TemplateSet
from slackwater.escaping import unescape
from slackwater.group.events import EventKind, EventSource

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
_SETTINGS: Final = (OtherEventKind.BROKER_SETTING, OtherEventKind.CLIENT_SETTING)
_WITH_ERROR: Final = (
    EventKind.COMMIT_REFUSED,
    EventKind.HEARTBEAT_REFUSED,
    EventKind.JOIN_REFUSED,
    EventKind.REBALANCE_FAILED,
    EventKind.SESSION_LOST,
    OtherEventKind.CLIENT_FAILED,
)
"""Kinds of failures of which clients log the error."""
_LOOKED_UP: Final = ("group", "client", "member", "instance", "generation")
_CONSUMER: Final = "#consumer-"
_DEFAULT_CLIENT_ID: Final = "rdkafka"
"""librdkafka's default client id. It does not identify a client; a container's name from docker-compose does."""
_NUMBERED: Final = re.compile(r"[|\[]([^|\[\]]*)#consumer-(\d+)[|\]] \[thrd:", re.ASCII)
_NAMES_OWN_MEMBER: Final = (
    EventKind.MEMBER_LEFT,
    EventKind.POLL_OVERRUN,
    EventKind.HEARTBEAT_REFUSED,
    EventKind.COMMIT_REFUSED,
)
"""Failures of clients and their leaves: the member id in them is their own."""
_MAX_WRAPPED_LINES: Final = 3
_MAX_HEAD: Final = 40
_HAS_CLOCK: Final = re.compile(r"\d:\d\d:\d\d", re.ASCII)
_DAY_MS: Final = 86_400_000
_MIN_DECREASES: Final = 2
"""A block is in reverse order if its times decrease this often and never increase."""
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
        _number_consumers(matches)
        zone = zone_of(file, self.zones, self.zone)
        table = pa.concat_tables(
            [self._template_table(template, line_matches, zone) for template, line_matches in matches.items()],
            promote_options="default",
        )
        numbers = [number for line_matches in matches.values() for number, _, _ in line_matches]
        table = table.take(pa.array(np.argsort(numbers)))
        table = self._fill_times(file, table)
        table = table.append_column("file", pa.repeat(pa.scalar(file), table.num_rows))
        if _is_newest_first(table):
            table = _reversed(table)
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
        """Give each row a time. Times without a date move to the next day when the clock passes midnight."""
        if "kind" not in table.column_names:
            return table
        is_event = has_value(table, "kind")
        has_time = has_value(table, "time_ms")
        times: Values = table["time_ms"].to_pylist() if has_time.any() else [None] * table.num_rows
        if (has_time | ~is_event).all() and min(
            (time for time in times if time is not None), default=0
        ) >= MIN_DATED_MS:
            self._last_time_ms[file] = next(time for time in reversed(times) if time is not None)
            return table
        last = self._last_time_ms.get(file, next((time for time in times if time is not None), None))
        for row in np.flatnonzero(is_event).tolist():
            if times[row] is None:
                times[row] = table["position"][row].as_py() if last is None else last
                continue
            if last is not None and MIN_CLOCK_MS <= times[row] < MIN_CLOCK_MS + _DAY_MS and last < MIN_DATED_MS:
                times[row] += (last - times[row] + _DAY_MS // 2) // _DAY_MS * _DAY_MS if last > times[row] else 0
            last = times[row]
        if last is not None:
            self._last_time_ms[file] = last
        table = table.drop_columns(["time_ms"]) if "time_ms" in table.column_names else table
        return table.append_column("time_ms", pa.array(times, pa.int64()))


def _number_consumers(matches: dict[CompiledTemplate | str, list[LineMatch]]) -> None:
    """Tell the consumers of one process apart: librdkafka numbers those that share a client id."""
    numbers: dict[str, set[str]] = {}
    is_composed = False
    for line_matches in matches.values():
        for _, line, _ in line_matches:
            if _CONSUMER in line.text and (match := _NUMBERED.search(line.text)):
                numbers.setdefault(match[1], set()).add(match[2])
                is_composed |= match[1] == _DEFAULT_CLIENT_ID and container_name(line) is not None
    if not is_composed and not any(len(found) > 1 for found in numbers.values()):
        return
    for template, line_matches in matches.items():
        if isinstance(template, CompiledTemplate) and "client" in template.groups:
            index = template.groups["client"] - 1
            for place, (number, line, groups) in enumerate(line_matches):
                match = _NUMBERED.search(line.text)
                if match is not None and groups[index] == match[1]:
                    container = container_name(line) if match[1] == _DEFAULT_CLIENT_ID else None
                    number_shown = f"{_CONSUMER}{match[2]}" if len(numbers[match[1]]) > 1 else ""
                    name = f"{container or match[1]}{number_shown}"
                    line_matches[place] = (number, line, (*groups[:index], name, *groups[index + 1 :]))


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
    if matched := TEMPLATES.match(line.text, choice):
        template, match = matched
        if line.text.count("(") > line.text.count(")") and (wrapped := _match_wrapped(line)) is not None:
            return wrapped
        return (template if template.template.kind else None), match.groups()
    if (wrapped := _match_wrapped(line)) is not None:
        return wrapped
    return (UNRECOGNIZED if any(word in line.text for word in choice.words) else None), ()


def _match_wrapped(line: LogLine) -> tuple[CompiledTemplate | None, tuple[str | None, ...]] | None:
    """Return the template that matches a message which a terminal or a person has wrapped, with its values.

    The next line continues a message if it has no time and no message of its own.
    """
    if line.surroundings is None or line.raw is not None:
        return None
    text = line.text
    for after in line.surroundings.after(_MAX_WRAPPED_LINES):
        rest = after.strip()
        if not rest or _HAS_CLOCK.search(rest[:_MAX_HEAD]) or after.startswith("\t") or _read_alone(rest):
            return None
        for joined in (f"{text}{rest}", f"{text} {rest}"):
            choice = TEMPLATES.choose(literals_in(joined))
            if choice is not None and (matched := TEMPLATES.match(joined, choice)) is not None:
                template, match = matched
                head = template.groups.get("head")
                if head is not None and match.end(head) < len(line.text):
                    return (template if template.template.kind else None), match.groups()
        text = f"{text} {rest}"
    return None


def _read_alone(text: str) -> bool:
    choice = TEMPLATES.choose(literals_in(text))
    return choice is not None and TEMPLATES.match(text, choice) is not None


def _is_newest_first(table: pa.Table) -> bool:
    """Return whether the times of a block only decrease, as in the output of log viewers."""
    if "time_ms" not in table.column_names:
        return False
    steps = np.diff(table["time_ms"].drop_null().to_numpy())
    return bool((steps < 0).sum() >= _MIN_DECREASES and not (steps > 0).any())


def _reversed(table: pa.Table) -> pa.Table:
    """Return the rows in the reverse order."""
    places = [
        f"{file}:{position}"
        for file, position in zip(table["file"].to_pylist(), table["position"].to_pylist(), strict=True)
    ]
    negative = pc.negate(table["position"])
    table = table.drop_columns(["position"]).append_column("position", negative)
    table = table.append_column("evidence", pa.array(places, pa.string()))
    return table.take(pa.array(np.arange(table.num_rows - 1, -1, -1)))


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
    kind = template.template.kind
    columns["time_ms"] = [
        _time_ms(head, line, zone, looks_around=kind not in _SETTINGS) for head, line in zip(heads, lines, strict=True)
    ]
    if template.constants["source"] == _CLIENT_LOG:
        if template.has_context:
            _add_names(columns, lines)
            if kind in _NAMES_OWN_MEMBER:
                _add_clients(columns)
        if kind in _WITH_ERROR:
            _add_errors(columns, lines, template.has_context)
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


def _time_ms(head: str | None, line: LogLine, zone: str, *, looks_around: bool) -> int | None:
    time_ms = parse_timestamp(head, zone) if head else None
    if time_ms is None and line.timestamp:
        time_ms = parse_timestamp(line.timestamp, zone)
    return time_around(line, zone) if time_ms is None and looks_around else time_ms


def _add_names(columns: Columns, lines: Sequence[LogLine]) -> None:
    """Add the group and the ids that the text around the messages names."""
    for name in _LOOKED_UP:
        known = columns.get(name, [None] * len(lines))
        columns[name] = [
            find_field(name, line) if value is None else value for value, line in zip(known, lines, strict=True)
        ]


def _add_clients(columns: Columns) -> None:
    """Add the client ids that the ids of dynamic members begin with."""
    count = len(columns["kind"])
    rows = zip(*(columns.get(name, [None] * count) for name in ("client", "member", "instance")), strict=True)
    columns["client"] = [
        client_of_member(member) if client is None and instance is None and member else client
        for client, member, instance in rows
    ]


def _add_errors(columns: Columns, lines: Sequence[LogLine], has_context: bool) -> None:
    """Add the errors that the text around the messages names, and the kinds of events that these errors mean."""
    errors = columns.get("error", [None] * len(lines))
    whys = columns.get("why", errors)
    kinds = columns["kind"]
    for row, line in enumerate(lines):
        error = errors[row]
        if error is None and whys[row] is None:
            error = find_error(line, has_fields=has_context)
        if error is not None and (error != errors[row] or has_context):
            errors[row] = name_error(error)
            kinds[row] = kind_of_error(kinds[row], errors[row])
    columns["error"] = errors


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
    complete = has_value(rows, "kind") & has_date(rows) & has_value(rows, "group")
    return complete & (has_value(rows, "client") | ~is_one_of(rows, "source", (_CLIENT_LOG,)))


def has_date(rows: pa.Table) -> NDArray[np.bool_]:
    """Return which rows have a time with a date."""
    if "time_ms" not in rows.column_names:
        return np.zeros(rows.num_rows, np.bool_)
    return np.asarray(pc.fill_null(pc.greater_equal(rows["time_ms"], MIN_DATED_MS), False).to_numpy(), np.bool_)


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
