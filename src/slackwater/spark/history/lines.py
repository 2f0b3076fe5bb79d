"""Raw lines to lines of logs that may be about groups: what wraps them is taken off, what is about other things goes.

Rules kept here
- Most lines of a broker's log are about other things, and their logger, which stands last, says so: those lines go
  before anything else is done with them. Of the rest, those stay that contain one of a few words. Spark compiles this.
- A JSON line of a container runtime or a log shipper holds the line that was logged (`log`, `message` or `msg`), and
  its own time. Lines that are JSON because their library writes JSON (kafkajs), records of `__consumer_offsets` and
  events of `__group_events` stay as they are.
- A wrapped text of several lines is kept whole: the reader of templates takes it apart.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from slackwater.doctor.java_lines import BROKER_SETTINGS, SETTINGS

RECORD: Final = "record"
EVENT: Final = "group event"
"""Lines that are no log's: records of `__consumer_offsets` and events of `__group_events`, dumped as JSON. They are
kept as they are, under these names (`what`, and then in the place of a template's), for their own readers."""

_IS_RECORD: Final = """(startswith(text, '{') AND contains(text, '"partition"') AND contains(text, '"key"'))"""
_IS_EVENT: Final = """(startswith(text, '{') AND contains(text, '"time_ms":') AND contains(text, '"kind":'))"""
_OWN: Final = f"""(contains(text, '"logger":"kafkajs"') OR {_IS_RECORD} OR {_IS_EVENT})"""
_LOGGED: Final = ("message", "msg", "log")
_STAMPS: Final = ("time", "@timestamp", "timestamp", "ts")

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


def relevant(raw: DataFrame) -> DataFrame:
    """Of raw lines (file, position, text) those that may matter, unwrapped, with the wrapper's time in `stamp`."""
    return _unwrapped(raw.filter(_worth_reading()).filter(_coarse()))


def _worth_reading() -> str:
    last = ", ".join(literal(name.rpartition(".")[2] + ")") for name in _OTHER_LOGGERS)
    return f"NOT (startswith(text, '[20') AND substring_index(text, '.', -1) IN ({last}))"


def _coarse() -> str:
    settings = "^\\s+(" + "|".join(map(re.escape, (*SETTINGS, *BROKER_SETTINGS))) + ") = "
    return (
        f"CASE WHEN startswith(text, '[20') THEN {_closely(_KAFKA_LAYOUT)} "
        f"WHEN startswith(text, '\t') THEN text RLIKE {literal(settings)} "
        f"ELSE {_any(_ANY_LAYOUT)} OR (startswith(text, '{{') AND ({_wrapped()})) END"
    )


def _wrapped() -> str:
    """What else matters of a line that is JSON: records, our own events, and settings in a wrapper."""
    settings = "(" + "|".join(map(re.escape, (*SETTINGS, *BROKER_SETTINGS))) + ") = "
    return f"{_IS_RECORD} OR {_IS_EVENT} OR text RLIKE {literal(settings)}"


def _closely(words: Mapping[str, Sequence[str]]) -> str:
    some = (_any([word]) + (f" AND {_any(closer)}" if closer else "") for word, closer in words.items())
    return "(" + " OR ".join(f"({one})" for one in some) + ")"


def _unwrapped(raw: DataFrame) -> DataFrame:
    what = F.expr(f"CASE WHEN {_IS_RECORD} THEN '{RECORD}' WHEN {_IS_EVENT} THEN '{EVENT}' END")
    stamp = F.expr(_inner(_STAMPS))
    return raw.select("file", "position", logged().alias("text"), stamp.alias("stamp"), what.alias("what"))


def logged() -> Column:
    """What was logged, of a raw line `text`."""
    return F.expr(f"rtrim(coalesce({_inner(_LOGGED)}, text))")


def _inner(names: Iterable[str]) -> str:
    """The first of these fields that a wrapper has. Asked one by one, they cost a line that is not wrapped nothing."""
    fields = ", ".join(f"get_json_object(text, {literal(f'$[{name!r}]')})" for name in names)
    return f"CASE WHEN startswith(text, '{{') AND NOT {_OWN} THEN coalesce({fields}) END"


def _any(parts: Iterable[str]) -> str:
    return "(" + " OR ".join(f"contains(text, {literal(part)})" for part in parts) + ")"


def literal(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
