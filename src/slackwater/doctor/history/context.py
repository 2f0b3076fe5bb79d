"""What the text around a message says about an event: the group, the ids, the error.

Loggers with fields write them as JSON, as `key=value` or as `key: value`; a stack trace begins in the next line.

Invariants:
- Only values that the template of the message did not capture are looked up.
- An error has the name of its code in Kafka's protocol, followed by the text that was logged.
"""

import re
from collections.abc import Iterator
from typing import Final

from slackwater.doctor.history.lines import LogLine
from slackwater.doctor.history.timestamps import parse_timestamp, parse_undated
from slackwater.group.events import EventKind

MAX_LINES_BACK: Final = 20
"""For a line without a timestamp, at most this many earlier lines are searched for one: a record's header has it."""
_LINES_AFTER: Final = 8
_MAX_HEAD: Final = 80
_HAS_CLOCK: Final = re.compile(r"\d:\d\d", re.ASCII)
_VALUE: Final = r"""\\?["'`]?\s*[:=]\s*\\?["'`]?([^\s"'`,;(){}\[\]\\]+)"""
_FIELDS: Final = {
    "group": re.compile(r"(?<![\w.-])(?:consumer[_ .-]?group|group)(?:[_. -]?(?:id|name))?" + _VALUE, re.IGNORECASE),
    "client": re.compile(r"(?<![\w.-])client[_. -]?id" + _VALUE, re.IGNORECASE),
    "member": re.compile(r"(?<![\w.-])member(?:[_. -]?id)?" + _VALUE, re.IGNORECASE),
    "instance": re.compile(r"(?<![\w.-])(?<!same )(?:group[_.]?)?instance[_.]?id" + _VALUE, re.IGNORECASE),
    "generation": re.compile(r"(?<![\w.-])generation(?:[_. -]?id)?" + _VALUE, re.IGNORECASE),
}
_RUBY_TAG: Final = re.compile(r"\[\[([^\]]+)\] \{")
_GROUP_MEMBER: Final = re.compile(r"Group member \(([^,]+),coor=(#PID<[\d.]+>)?")
"""brod's name of a member: its group and its process."""
_RDKAFKA_GROUP: Final = re.compile(r'\bGroup "([^"\\]+)"')
_COMPOSE: Final = re.compile(r"(?:\d\d?:\d\d:\d\d(?: [AP]M)? )?([A-Za-z][\w.-]*) +\| ", re.ASCII)
"""docker-compose and foreman write the name of the container or process before each line."""
_HEADER: Final = re.compile(r"^(?:.*\W)?[Gg]roup (?:coordinator|member) \(.*\):\s*$")
_ERROR_FIELD: Final = re.compile(
    r"""(?<![\w.-])(?:err|error|reason|cause)["']?\s*[:=]+\s*("(?:[^"\\]|\\.)*(?:"|$)|'[^']*'|[^,;}"'\n]+)"""
)
_EXCEPTION: Final = re.compile(
    r"(?:^|[\s\"\]])((?:[a-z_]\w*\.)+(?:\w+\$)?[A-Z]\w*(?:Exception|Error)\b.{0,200})", re.ASCII
)
_REASON: Final = re.compile(r"(?:^|\s)reason:+\s*(.+)$")
_NOTHING: Final = frozenset({"null", "none", "nil", "undefined", "<nil>", "", "0"})
_ERRORS: Final = (
    (
        "REBALANCE_IN_PROGRESS",
        (
            "rebalance in progress",
            "is rebalancing",
            "rebalanceinprogress",
            "begun rebalancing",
            "undergoing a rebalance",
        ),
    ),
    (
        "ILLEGAL_GENERATION",
        ("illegal generation", "illegalgeneration", "generation id is not", "already rebalanced", "stalememberepoch"),
    ),
    (
        "UNKNOWN_MEMBER_ID",
        (
            "unknown member",
            "unknownmember",
            "not aware of this member",
            "not in the current generation",
            "fencedmemberepoch",
            "partition assignment lost",
        ),
    ),
    ("FENCED_INSTANCE_ID", ("fenced instance", "fencedinstance", "fenced by")),
    ("NOT_COORDINATOR", ("not coordinator", "notcoordinator", "not the correct coordinator", "not coordinator for")),
    (
        "COORDINATOR_NOT_AVAILABLE",
        ("coordinator not available", "coordinatornotavailable", "coordinator is not available"),
    ),
    ("COORDINATOR_LOAD_IN_PROGRESS", ("load in progress", "loadinprogress", "is loading", "still loading offsets")),
    ("INCONSISTENT_GROUP_PROTOCOL", ("inconsistent group protocol", "inconsistentgroupprotocol")),
    ("MAX_POLL_EXCEEDED", ("max poll exceeded", "maximum application poll interval")),
)
"""Names of errors, and the words (in lower case) by which libraries report them."""
_FAILED: Final = (EventKind.REBALANCE_FAILED, EventKind.SESSION_LOST, EventKind.HEARTBEAT_REFUSED)
_KINDS: Final = (
    ("FENCED_INSTANCE_ID", (*_FAILED, EventKind.JOIN_REFUSED, EventKind.COMMIT_REFUSED), EventKind.MEMBER_FENCED),
    ("INCONSISTENT_GROUP_PROTOCOL", _FAILED, EventKind.JOIN_REFUSED),
    ("REBALANCE_IN_PROGRESS", (EventKind.SESSION_LOST,), EventKind.HEARTBEAT_REFUSED),
    ("NOT_COORDINATOR", (EventKind.SESSION_LOST,), EventKind.REBALANCE_FAILED),
    ("COORDINATOR_NOT_AVAILABLE", (EventKind.SESSION_LOST,), EventKind.REBALANCE_FAILED),
)
"""An error, the kinds of messages that can contain it, and the kind of event that it means."""
_CODE_NAMES: Final = re.compile(r"\b[A-Z]{3,}(?:_[A-Z]+)+\b", re.ASCII)


def find_field(name: str, line: LogLine) -> str | None:
    """Return a value that the text around the message names."""
    text = line.raw or line.text
    if (value := _field_in(name, text)) is not None:
        return value
    if line.surroundings is not None:
        before = next(line.surroundings.before(1), "")
        if _HEADER.match(before):
            return _field_in(name, before)
        if _EXCEPTION.match(text) or _EXCEPTION.search(text[:_MAX_HEAD]):
            return next((value for near in _lines_near(line) if (value := _field_in(name, near)) is not None), None)
    return container_name(line) if name == "client" else None


def container_name(line: LogLine) -> str | None:
    """Return the name of the container that docker-compose writes before a line."""
    match = _COMPOSE.match(line.text)
    return None if match is None else match[1]


def _lines_near(line: LogLine) -> Iterator[str]:
    """Yield the lines next to an exception; one of them is the message that it belongs to."""
    if line.surroundings is not None:
        yield from line.surroundings.before(2)
        yield from line.surroundings.after(1)


def _field_in(name: str, text: str) -> str | None:
    if match := _FIELDS[name].search(text):
        value = match[1].rstrip(".:")
        return None if value.lower() in _NOTHING else value
    if name == "group" and (
        match := _RUBY_TAG.search(text) or _GROUP_MEMBER.search(text) or _RDKAFKA_GROUP.search(text)
    ):
        return match[1]
    if name == "client" and (match := _GROUP_MEMBER.search(text)):
        return match[2]
    return None


def find_error(line: LogLine, *, has_fields: bool) -> str | None:
    """Return the error in the fields of a line, or in the exception next to it."""
    if not has_fields:
        return _error_nearby(line)
    text = line.raw or line.text
    for match in _ERROR_FIELD.finditer(text):
        value = match[1].strip("\"' ")
        if value.lower() not in _NOTHING:
            return value
    exception = _EXCEPTION.search(text)
    return exception[1].strip() if exception is not None else _error_nearby(line)


def _error_nearby(line: LogLine) -> str | None:
    """Return the exception of a stack trace next to the line; in a log with the newest line first, it is before it."""
    if line.surroundings is None:
        return None
    for number, text in enumerate(line.surroundings.after(_LINES_AFTER)):
        if number == 0 and (match := _EXCEPTION.search(text) or _REASON.search(text)):
            return match[1].strip()
        if field := _ERROR_FIELD.match(text.strip()):
            return field[1].strip("\"' ")
        if not text[:1].isspace() and text.strip():
            break
    before = next(line.surroundings.before(1), "")
    exception = _EXCEPTION.search(before)
    return exception[1].strip() if exception is not None and before.endswith(exception[1].strip()) else None


def name_error(text: str) -> str:
    """Return an error with the name of its code before its text."""
    if _CODE_NAMES.search(text):
        return text
    lower = text.lower().replace("_", " ")
    name = next((name for name, words in _ERRORS if any(word in lower for word in words)), None)
    return text if name is None else f"{name}: {text}"


def kind_of_error(kind: str, error: str) -> str:
    """Return the kind of event that an error means, if it means more than the message that contains it."""
    return next((named for code, kinds, named in _KINDS if code in error and kind in kinds), kind)


def time_around(line: LogLine, zone: str) -> int | None:
    """Return the time of a line whose head has no date: from its fields, its header line, or its time of day."""
    text = line.raw or line.text
    time_ms = parse_timestamp(text, zone)
    if time_ms is None and not _HAS_CLOCK.search(text[:_MAX_HEAD]) and line.surroundings is not None:
        for before in line.surroundings.before(MAX_LINES_BACK):
            if (time_ms := parse_timestamp(before[:_MAX_HEAD], zone)) is not None:
                return time_ms
            if _HAS_CLOCK.search(before[:_MAX_HEAD]):
                return parse_undated(before[:_MAX_HEAD])
    return parse_undated(text) if time_ms is None else time_ms
