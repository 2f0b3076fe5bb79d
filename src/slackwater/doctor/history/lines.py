"""The lines of a block of bytes that may report an event, found by one hyperscan pass over the block.

Invariants:
- A candidate line contains a literal of a template, or is a JSON object. Only candidate lines become Python strings.
- Lines of broker loggers that report nothing about groups are dropped, and so are the frames of stack traces.
- A JSON line of a container runtime or log shipper holds the logged text (`log`, `message`, ...) and its own timestamp.
  JSON that a library writes itself (kafkajs), records of `__consumer_offsets` and events of `__group_events` stay as
  they are. A text of several lines becomes several lines with one position.
- The prefix that Kubernetes writes before each line (time, stream, `F` or `P`) is removed before a JSON object only.
- The text of a JSON object that is cut off is read as far as it goes.
- A candidate line of more than MAX_LINE_LENGTH characters is not matched. It is counted and reported as unrecognized.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, NoReturn

import hyperscan

from slackwater.doctor.history.layouts import normalize, without_colours
from slackwater.doctor.templates.java import BROKER_SETTINGS, SETTINGS
from slackwater.doctor.templates.registry import FAMILIES
from slackwater.doctor.templates.wording import TemplateSet

RECORD: Final = "record"
GROUP_EVENT: Final = "group event"
"""Lines that are not from a log: records of `__consumer_offsets` and events of `__group_events`, dumped as JSON. These
names stand in the `template` column until the line is decoded."""
MAX_LINE_LENGTH: Final = 2**16
SHOWN_CHARACTERS: Final = 1_000
"""The length of a line in the evidence of a verdict. In Kafka's layout a line ends with its logger, which names the
library."""

_IN_RECORDS: Final = ('"partition"', '"key"')
_IN_GROUP_EVENTS: Final = ('"time_ms":', '"kind":')
_FIELD: Final = re.compile(r'"([@\w.]+)" ?: ?"((?:[^"\\]|\\.)*)(?:"|\\?$)')
_MAX_DEPTH: Final = 3
"""JSON in JSON: the object of a logger in that of a container runtime in that of a log shipper."""
_KAFKAJS: Final = '"logger":"kafkajs"'
_TEXT_FIELDS: Final = ("message", "msg", "log", "textPayload", "event")
_ERROR_FIELDS: Final = ("err", "error")
_TIMESTAMP_FIELDS: Final = (
    "time",
    "@timestamp",
    "timestamp",
    "ts",
    "timeMillis",
    "instant",
    "__REALTIME_TIMESTAMP",
)
"""As Docker, Logstash, ECS, Google Cloud Logging, zap, log4j2 and journald name them."""
_CONTAINER_JSON: Final = re.compile(r"\S+ std(?:out|err) [FP] \{")
_PREFIXED_JSON: Final = re.compile(r'[^{]*?[ \t:|\]=](?=\{ ?"(?:[@\w.]+)" ?:)', re.ASCII)
_WRAPPERS: Final = (
    "\n{",
    ' {"',
    ' { "',
    '\t{"',
    ':{"',
    '|{"',
    ']{"',
    '={"',
    " stdout F {",
    " stdout P {",
    " stderr F {",
    " stderr P {",
)
"""Literals of lines that may be JSON."""
_KAFKA_LAYOUT: Final = b"[20"
_STACK_FRAMES: Final = (b"\tat ", b"\t... ", b"\t\t")
_OTHER_LOGGERS: Final = frozenset(
    f"{name})".encode()
    for name in (
        "logger",  # state.change.logger
        "BrokerLifecycleManager",
        "BrokerMetadataPublisher",
        "DynamicConfigPublisher",
        "FetchSessionHandler",
        "KafkaRaftClient",
        "LeaderEpochFileCache",
        "LocalLog",
        "LogCleaner",
        "LogLoader",
        "LogSegment",
        "MetadataLoader",
        "NodeToControllerRequestThread",
        "Partition",
        "ProducerStateManager",
        "QuorumController",
        "ReplicaAlterLogDirsManager",
        "ReplicaFetcherManager",
        "ReplicaFetcherThread",
        "ReplicaManager",
        "Selector",
        "SnapshotEmitter",
        "SnapshotGenerator",
        "TransactionCoordinator",
        "TransactionMarkerChannelManager",
        "TransactionStateManager",
        "UnifiedLog",
    )
)
"""The ends of broker loggers' names whose lines no template matches."""
_SETTING_NAMES: Final = "|".join(re.escape(name) for name in (*SETTINGS, *BROKER_SETTINGS))
_INDENTED_SETTING: Final = re.compile(rf"\s+(?:{_SETTING_NAMES}) = ".encode())
_RELEVANT_JSON: Final = re.compile(
    rb"roup|og for partition |SHUTTING_DOWN|Topics result|eartbeat |onsumer|Server |\[thrd:|lient|kafka\.errors\.|"
    rb"Exception in thread |\"partition\"|\"time_ms\":|ebalanc|EBALANC|stream-thread|oordinator|CommitFailed|"
    rb"poll interval|" + rf"(?:{_SETTING_NAMES}) = ".encode()
)
"""A JSON line without any of these and without a template's literal holds no event and no record. JSON escapes quotes
and tabs, so some literals of templates can only be found after the line is decoded."""

TEMPLATES: Final = TemplateSet(FAMILIES)


class LogLine(NamedTuple):
    """A line that may report an event."""

    position: int
    text: str
    literals: int
    """The literals of `TEMPLATES` that the text contains."""
    timestamp: str | None = None
    """The timestamp of the JSON object or of the container runtime that the text was in."""
    record_kind: str | None = None
    """RECORD or GROUP_EVENT."""
    is_too_long: bool = False
    raw: str | None = None
    """The JSON object that the text was in: its other fields may name the group or the error."""
    surroundings: "Surroundings | None" = None


class Surroundings(NamedTuple):
    """The place of a line in its block, to look at the lines next to it."""

    data: bytes
    start: int
    end: int

    def before(self, count: int) -> Iterator[str]:
        """Yield up to this many lines before the line, the nearest first."""
        end = self.start - 1
        for _ in range(count):
            if end <= 0:
                return
            start = self.data.rfind(b"\n", 0, end) + 1
            yield self.data[start : min(end, start + SHOWN_CHARACTERS)].decode("utf-8", "replace")
            end = start - 1

    def after(self, count: int) -> Iterator[str]:
        """Yield up to this many lines after the line."""
        start = self.end + 1
        for _ in range(count):
            if start >= len(self.data):
                return
            end = self.data.find(b"\n", start)
            end = len(self.data) if end < 0 else end
            yield self.data[start : min(end, start + SHOWN_CHARACTERS)].decode("utf-8", "replace")
            start = end + 1


class LinePrefilter:
    """Finds the lines of a block that contain one of some literals."""

    def __init__(self, literals: Sequence[str]) -> None:
        self._database: Final = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        expressions = [literal.encode() for literal in literals]
        self._database.compile(
            expressions=expressions, ids=list(range(len(literals))), elements=len(literals), flags=0, literal=True
        )

    def scan(self, data: bytes) -> Iterator[tuple[int, int, int]]:
        """Yield start, end and literals (as a bit set) of each line with a literal, in order."""
        matches: list[tuple[int, int]] = []
        self._database.scan(data, match_event_handler=lambda literal, _, end, *__: matches.append((end, literal)))
        start = literals = 0
        line_end = -1
        for end, literal in matches:  # hyperscan reports matches in the order of their ends
            if end > line_end:
                if literals:
                    yield start, line_end, literals
                start = data.rfind(b"\n", 0, end) + 1
                line_end = data.find(b"\n", end)
                line_end = len(data) if line_end < 0 else line_end
                literals = 0
            literals |= 1 << literal
        if literals:
            yield start, line_end, literals

    def literals_in(self, text: str) -> int:
        """Return the literals in a text as a bit set."""
        literals: set[int] = set()
        self._database.scan(text.encode(), match_event_handler=lambda literal, *_: literals.add(literal))
        return sum(1 << literal for literal in literals)


@cache
def _prefilter() -> LinePrefilter:
    return LinePrefilter([*TEMPLATES.literals, *_WRAPPERS])


_TEMPLATE_LITERALS: Final = (1 << len(TEMPLATES.literals)) - 1


def literals_in(text: str) -> int:
    """Return the literals of `TEMPLATES` in a text."""
    return _prefilter().literals_in(text) & _TEMPLATE_LITERALS


def find_lines(data: bytes, position: int = 0) -> Iterator[LogLine]:
    """Yield the lines that may report an event, of a block at this position."""
    data = b"\n" + data  # the first line may be JSON, too
    position -= 1
    if b"\r" in data:
        data = data.replace(b"\r", b"\n")  # Hadoop ends lines at both; the offsets stay the same
    for start, end, literals in _prefilter().scan(data):
        place = Surroundings(data, start, end)
        if literals > _TEMPLATE_LITERALS:
            yield from _json_lines(data[start:end], position + start, place, literals & _TEMPLATE_LITERALS)
        elif TEMPLATES.choose(literals) is not None and _is_candidate(data, start, end):
            text = data[start:end].decode("utf-8", "replace").rstrip(" ")
            yield _log_line(LogLine(position + start, text, literals, surroundings=place))


def _is_candidate(data: bytes, start: int, end: int) -> bool:
    if data.startswith(_KAFKA_LAYOUT, start):
        return data[max(start, data.rfind(b".", start, end) + 1) : end] not in _OTHER_LOGGERS
    return not data.startswith(_STACK_FRAMES, start) or _INDENTED_SETTING.match(data, start) is not None


def _json_lines(line: bytes, position: int, place: Surroundings, literals: int) -> Iterator[LogLine]:
    if TEMPLATES.choose(literals) is None and not _RELEVANT_JSON.search(line):
        return
    raw = line.decode("utf-8", "replace")
    logged = unwrap(raw)
    if logged.record_kind is not None:
        yield LogLine(position, logged.text, 0, None, logged.record_kind)
        return
    for text in logged.text.split("\n"):
        yield _log_line(LogLine(position, text, literals_in(text), logged.timestamp, raw=raw, surroundings=place))


def _log_line(line: LogLine) -> LogLine:
    text = line.text
    if len(text) > MAX_LINE_LENGTH:
        shown = f"(line of {len(text)} characters, longer than {MAX_LINE_LENGTH}) {text[:SHOWN_CHARACTERS]}"
        return line._replace(text=shown, is_too_long=True, raw=None)
    normalized = normalize(text)
    if normalized != text:
        return line._replace(text=normalized, literals=literals_in(normalized))
    return line


# --- JSON wrappers ----------------------------------------------------------------------------------------------------


class LoggedText(NamedTuple):
    """The text in a JSON wrapper, and the wrapper's timestamp."""

    text: str
    timestamp: str | None = None
    record_kind: str | None = None


def unwrap(text: str, depth: int = 0) -> LoggedText:
    """Return the logged text of a line that may be a JSON wrapper."""
    if _CONTAINER_JSON.match(text):
        prefix, brace, rest = text.partition("{")
        logged = unwrap(brace + rest, depth)
        return logged._replace(timestamp=logged.timestamp or prefix.split(" ", 1)[0])
    if not text.startswith("{"):
        return _unwrap_prefixed(text, depth)
    for record_kind, parts in ((RECORD, _IN_RECORDS), (GROUP_EVENT, _IN_GROUP_EVENTS)):
        if all(part in text for part in parts):
            return LoggedText(text.rstrip(" "), None, record_kind)
    if _KAFKAJS in text:
        return LoggedText(text.rstrip(" "))
    fields = _fields(text) or _cut_fields(text)
    inner, timestamp = _first_field(fields, _TEXT_FIELDS), _first_field(fields, _TIMESTAMP_FIELDS)
    if inner is not None and inner.startswith('{"') and depth < _MAX_DEPTH:
        logged = unwrap(inner, depth + 1)
        return logged._replace(timestamp=logged.timestamp or timestamp)
    return LoggedText((text if inner is None else inner).rstrip(" "), timestamp)


def evidence_text(line: str) -> str:
    """Return a line as the evidence of a verdict shows it: the logged text, with the error of its JSON object."""
    logged = unwrap(line).text
    is_unwrapped = line.startswith("{") and not logged.startswith("{")
    return readable(line)[:SHOWN_CHARACTERS] if is_unwrapped else without_colours(logged)[:SHOWN_CHARACTERS]


def readable(text: str) -> str:
    """Return a line without colours; of a JSON object the message with its error, "" of one without a message."""
    text = without_colours(text)
    if not text.startswith("{"):
        return text
    if any(all(part in text for part in parts) for parts in (_IN_RECORDS, _IN_GROUP_EVENTS)):
        return ""
    fields = _fields(text) or _cut_fields(text)
    message = readable(_first_field(fields, _TEXT_FIELDS) or "")
    values = ((value.get("message") if isinstance(value, dict) else value) for value in map(fields.get, _ERROR_FIELDS))
    error = next((value for value in values if isinstance(value, str) and value), "")
    return f"{message}: {error}" if message and error and error not in message else message


def deciding_words(text: str, width: int) -> str:
    """Return a line from the words on that its template is recognised by; "" if no template matches it.

    If the error in the line is not near these words, return the line from the error on.
    """
    choice = TEMPLATES.choose(TEMPLATES.literals_in(text))
    matched = None if choice is None else TEMPLATES.match(text, choice)
    if matched is None:
        return ""
    template, match = matched
    place = text.find(template.required)
    if not template.required.startswith(" "):
        place = text.rfind(" ", 0, place) + 1
    error = match.start(template.groups["error"]) if "error" in template.groups else -1
    return text[error if error - place > 2 * width // 3 else place :].strip()


def _unwrap_prefixed(text: str, depth: int) -> LoggedText:
    """Return the logged text of a line that may have a JSON wrapper after a prefix, such as that of syslog."""
    head = _PREFIXED_JSON.match(text)
    if head is not None and _KAFKAJS not in text:
        logged = unwrap(text[head.end() :], depth)
        if logged.record_kind is None and not logged.text.startswith("{"):
            return logged._replace(timestamp=logged.timestamp or head[0])
    return LoggedText(text.rstrip(" "))


def _cut_fields(text: str) -> dict[str, Any]:
    """Return the text fields of a JSON object that is cut off."""
    fields: dict[str, Any] = {}
    for match in _FIELD.finditer(text):
        try:
            fields.setdefault(match[1], json.loads(f'"{match[2]}"', strict=False))
        except ValueError:
            continue
    return fields


class _NumberAsWritten(float):
    """A number with a fraction that keeps its digits."""

    text: str

    def __new__(cls, text: str) -> "_NumberAsWritten":
        number = super().__new__(cls, text)
        number.text = text
        return number


def _reject_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _keep_first(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in pairs:
        fields.setdefault(name, value)
    return fields


_JSON: Final = json.JSONDecoder(
    strict=False, parse_float=_NumberAsWritten, parse_constant=_reject_constant, object_pairs_hook=_keep_first
)
_QUOTED: Final = re.compile(r"""(["'])((?:\\.|(?!\1)[^\\])*)\1""", re.DOTALL)


def _fields(text: str) -> dict[str, Any]:
    """Return the fields of a JSON object, {} if the text is not one. Single quotes count as quotes, as in Spark."""
    for convert in (str, _with_double_quotes):
        try:
            fields: dict[str, Any] = _JSON.raw_decode(convert(text))[0]
        except (ValueError, RecursionError):
            continue
        return fields
    return {}


def _with_double_quotes(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        inner = match[2].replace("\\'", "'")
        return '"' + (inner if match[1] == '"' else re.sub(r'(?<!\\)"', r"\"", inner)) + '"'

    return _QUOTED.sub(replace, text)


def _first_field(fields: Mapping[str, Any], names: Iterable[str]) -> str | None:
    """Return the first of these fields that has a value, as text."""
    value = next((fields[name] for name in names if fields.get(name) is not None), None)
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()  # half a surrogate pair, which only an escape can write
    if isinstance(value, _NumberAsWritten):
        return value.text
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
