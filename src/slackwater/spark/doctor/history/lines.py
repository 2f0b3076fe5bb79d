"""Raw lines to lines of logs that may be about groups: what wraps them is taken off, what is about other things goes.

Rules kept here
- Most lines of a broker's log are about other things, and their logger, which stands last, says so: those lines go
  before anything else is done with them. Of the rest, those stay that contain one of a few words.
- One statement of the words, two forms: SQL, for what Spark reads (`relevant`), and a sieve over bytes, for the files
  that workers read themselves (`SIEVE`, `unwrapped`; blocks.py). Both keep the same lines and make the same of them.
- A JSON line of a container runtime or a log shipper holds the line that was logged (`log`, `message` or the like), and
  its own time. Lines that are JSON because their library writes JSON (kafkajs), records of `__consumer_offsets` and
  events of `__group_events` stay as they are.
- What Kubernetes puts before each line of a container (its time, the stream, `F` or `P`) is part of a line's head.
  Before a line that is JSON it is taken off, and its time counts where the wrapper has none.
- A wrapped text of several lines is kept whole: the reader of templates takes it apart.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from slackwater.doctor.templates.java import BROKER_SETTINGS, SETTINGS
from slackwater.spark.doctor.history.kernels import Sieve

RECORD: Final = "record"
EVENT: Final = "group event"
"""Lines that are no log's: records of `__consumer_offsets` and events of `__group_events`, dumped as JSON. They are
kept as they are, under these names (`what`, and then in the place of a template's), for their own readers."""

_IN_RECORDS: Final = ('"partition"', '"key"')
_IN_EVENTS: Final = ('"time_ms":', '"kind":')
_OF_LIBRARY: Final = '"logger":"kafkajs"'
_LOGGED: Final = ("message", "msg", "log", "textPayload")
_STAMPS: Final = ("time", "@timestamp", "timestamp", "ts", "timeMillis", "instant")
"""As Docker, Logstash, ECS, Google's logging, zap and log4j2 name them."""
OF_CONTAINER: Final = r"^\S+ std(?:out|err) [FP] \{"
"""A line that is JSON, as Kubernetes writes it down. No look-ahead: RE2 has none."""
_DATED: Final = "[20"
"""As lines of Kafka's own layout begin."""

_OTHER_LOGGERS: Final = (
    "state.change.logger",
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
"""The loggers of a broker, without their packages, that never say anything a template reads."""

_KAFKA_LAYOUT: Final = {
    "roup": (),
    "og for partition ": (),
    "SHUTTING_DOWN": (),
    "Topics result": (),
    "eartbeat ": (),
    "onsumer": ("ConsumerConfig values:", ".consumer", "onsumer poll"),
    "Server ": ("KafkaServer id=", "Server started"),
}
"""Words of which a line has one, and more closely, one of those behind it: a line that has none costs the fewest looks.
"""
_ANY_LAYOUT: Final = (*_KAFKA_LAYOUT, "[thrd:", "lient", "kafka.errors.", "Exception in thread ")
"""Every marker of every family contains one of these. A line that begins as Kafka's own layout begins, and so as nearly
all lines of a broker, needs fewer of them: the other families do not begin so."""
_SETTINGS: Final = (*SETTINGS, *BROKER_SETTINGS)

SIEVE: Final = Sieve(
    dated=_DATED,
    other_loggers=tuple(f"{name.rpartition('.')[2]})" for name in _OTHER_LOGGERS),
    dated_words=tuple(word for first, closer in _KAFKA_LAYOUT.items() for word in closer or (first,)),
    indented=tuple(f"{name} = " for name in _SETTINGS),
    words=_ANY_LAYOUT,
    wrapped_words=(*_ANY_LAYOUT, *(f"{name} = " for name in _SETTINGS)),
    wrapped_pairs=(_IN_RECORDS, _IN_EVENTS),
)
"""What `relevant` keeps, for who reads bytes. The words that stand behind another contain it."""


# --- in SQL -----------------------------------------------------------------------------------------------------------


def literal(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _is(parts: Sequence[str]) -> str:
    return "(startswith(text, '{') AND " + " AND ".join(f"contains(text, {literal(part)})" for part in parts) + ")"


_IS_RECORD: Final = _is(_IN_RECORDS)
_IS_EVENT: Final = _is(_IN_EVENTS)
_IN_CONTAINER: Final = f"text RLIKE {literal(OF_CONTAINER)}"
_OWN: Final = f"(contains(text, {literal(_OF_LIBRARY)}) OR {_IS_RECORD} OR {_IS_EVENT})"


def relevant(raw: DataFrame) -> DataFrame:
    """Of raw lines (file, position, text) those that may matter, unwrapped, with the wrapper's time in `stamp`."""
    return _unwrapped(raw.filter(_worth_reading()).filter(_coarse()))


def _worth_reading() -> str:
    last = ", ".join(map(literal, SIEVE.other_loggers))
    return f"NOT (startswith(text, '{_DATED}') AND substring_index(text, '.', -1) IN ({last}))"


def _coarse() -> str:
    settings = "^\\s+(" + "|".join(map(re.escape, _SETTINGS)) + ") = "
    return (
        f"CASE WHEN startswith(text, '{_DATED}') THEN {_closely(_KAFKA_LAYOUT)} "
        f"WHEN startswith(text, '\t') THEN text RLIKE {literal(settings)} "
        f"ELSE {_any(_ANY_LAYOUT)} OR (startswith(text, '{{') AND ({_wrapped()})) END"
    )


def _wrapped() -> str:
    """What else matters of a line that is JSON: records, our own events, and settings in a wrapper."""
    settings = "(" + "|".join(map(re.escape, _SETTINGS)) + ") = "
    return f"{_IS_RECORD} OR {_IS_EVENT} OR text RLIKE {literal(settings)}"


def _closely(words: Mapping[str, Sequence[str]]) -> str:
    some = (_any([word]) + (f" AND {_any(closer)}" if closer else "") for word, closer in words.items())
    return "(" + " OR ".join(f"({one})" for one in some) + ")"


def _unwrapped(raw: DataFrame) -> DataFrame:
    what = F.expr(f"CASE WHEN {_IS_RECORD} THEN '{RECORD}' WHEN {_IS_EVENT} THEN '{EVENT}' END")
    outer = F.expr(f"CASE WHEN {_IN_CONTAINER} THEN substring_index(text, ' ', 1) END")
    raw = raw.select("file", "position", _bare().alias("text"), outer.alias("outer"))
    stamp = F.coalesce(F.expr(_inner(_STAMPS)), "outer")
    return raw.select("file", "position", _logged().alias("text"), stamp.alias("stamp"), what.alias("what"))


def logged(raw: DataFrame) -> DataFrame:
    """Raw lines with what was logged in the place of their `text`."""
    return raw.withColumn("text", _bare()).withColumn("text", _logged())


def _bare() -> Column:
    return F.expr(f"CASE WHEN {_IN_CONTAINER} THEN substring(text, locate('{{', text)) ELSE text END")


def _logged() -> Column:
    return F.expr(f"rtrim(coalesce({_inner(_LOGGED)}, text))")


def _inner(names: Iterable[str]) -> str:
    """The first of these fields that a wrapper has. Asked one by one, they cost a line that is not wrapped nothing."""
    fields = ", ".join(f"get_json_object(text, {literal(f'$[{name!r}]')})" for name in names)
    return f"CASE WHEN startswith(text, '{{') AND NOT {_OWN} THEN coalesce({fields}) END"


def _any(parts: Iterable[str]) -> str:
    return "(" + " OR ".join(f"contains(text, {literal(part)})" for part in parts) + ")"


# --- in Python --------------------------------------------------------------------------------------------------------


class Line(NamedTuple):
    """What a line's wrapper holds: the text that was logged, the wrapper's time, and what it is if no log's."""

    text: str
    stamp: str | None = None
    what: str | None = None


def unwrapped(text: str) -> Line:
    """A line that may be a wrapper, without it: what the SQL of `relevant` makes of a line."""
    if _CONTAINERS.match(text):
        head, brace, rest = text.partition("{")
        line = unwrapped(brace + rest)
        return line._replace(stamp=line.stamp or head.split(" ", 1)[0])
    if not text.startswith("{"):
        return Line(text.rstrip(" "))
    for what, parts in ((RECORD, _IN_RECORDS), (EVENT, _IN_EVENTS)):
        if all(part in text for part in parts):
            return Line(text.rstrip(" "), None, what)
    fields = {} if _OF_LIBRARY in text else _fields(text)
    logged, stamp = _first(fields, _LOGGED), _first(fields, _STAMPS)
    return Line((text if logged is None else logged).rstrip(" "), stamp)


_CONTAINERS: Final = re.compile(OF_CONTAINER)


class _Written(float):
    """A number with a fraction, as it was written."""

    text: str

    def __new__(cls, text: str) -> "_Written":
        made = super().__new__(cls, text)
        made.text = text
        return made


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON.")


def _first_of_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        found.setdefault(name, value)
    return found


_JSON: Final = json.JSONDecoder(
    strict=False, parse_float=_Written, parse_constant=_refuse, object_pairs_hook=_first_of_each
)
_QUOTED: Final = re.compile(r"""(["'])((?:\\.|(?!\1)[^\\])*)\1""", re.DOTALL)


def _fields(text: str) -> dict[str, Any]:
    """A wrapper's fields, none where a line only looks like one. As Spark, it takes single quotes for quotes."""
    for way in (str, _requoted):
        try:
            found: dict[str, Any] = _JSON.raw_decode(way(text))[0]
        except (ValueError, RecursionError):
            continue
        return found
    return {}


def _requoted(text: str) -> str:
    def double(found: re.Match[str]) -> str:
        inner = found[2].replace("\\'", "'")
        return '"' + (inner if found[1] == '"' else re.sub(r'(?<!\\)"', r"\"", inner)) + '"'

    return _QUOTED.sub(double, text)


def _first(fields: Mapping[str, Any], names: Iterable[str]) -> str | None:
    """The first of these fields that is there, as a text."""
    value = next((fields[name] for name in names if fields.get(name) is not None), None)
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()  # half a character, which only an escape can write
    return value.text if isinstance(value, _Written) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
