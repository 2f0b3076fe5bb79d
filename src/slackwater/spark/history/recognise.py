"""Lines to what they say: every template as one expression over the column `text`.

Rules kept here
- One pass, no Python per row: the first marker finds the family, the first key its templates, one regular expression
  takes all values out of the line (`Reading.packed`), and one split takes them apart. A value that nobody asks for
  costs nothing more: the struct `said` is only a name for the parts.
- Most lines of a broker's log are about other things, and their logger, which stands last, says so: those lines go
  before anything else is done with them.
- A line that looks relevant and that no template reads stays in the table, with a null template; all others go.
- The expression has hundreds of branches, far more than the JVM compiles as one method. It stands inside `zip_with`,
  which Spark evaluates as a tree, branch by branch, and never as generated code. What most lines of a log need, to be
  told apart from lines about groups, stands before it and is compiled.
- It is written as SQL text, because it is parsed at once; built up column by column it would take seconds.
"""

import re
from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from slackwater.doctor.event_table import COLUMNS, DETAIL, FLAG, LONG, TEXT
from slackwater.doctor.java_lines import BROKER_SETTINGS, SETTINGS
from slackwater.doctor.templates import FAMILIES
from slackwater.doctor.wording import MARK, SLOTS, Family, Reading, by_key

UNREAD: Final = MARK
"""What a relevant line is packed into that no template reads: nothing."""

RECORD: Final = "record"
EVENT: Final = "group event"
IS_RECORD: Final = """(startswith(text, '{') AND contains(text, '"partition"') AND contains(text, '"key"'))"""
IS_EVENT: Final = """(startswith(text, '{') AND contains(text, '"time_ms":') AND contains(text, '"kind":'))"""
"""Lines that are no log's: records of `__consumer_offsets` and events of `__group_events`, dumped as JSON. They are
kept as they are, under these names in the place of a template's, for their own readers."""

_CASTS: Final = (LONG, FLAG)
_TYPES: Final = COLUMNS | DETAIL

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

_KAFKA_LAYOUT: Final = (
    "roup",
    "[Consumer ",
    "ConsumerConfig values:",
    ".consumer",
    "onsumer poll",
    "og for partition ",
    "KafkaServer id=",
    "Server started",
    "SHUTTING_DOWN",
    "Topics result",
    "eartbeat ",
)
_ANY_LAYOUT: Final = (
    "roup",
    "onsumer",
    "og for partition ",
    "Server ",
    "SHUTTING_DOWN",
    "Topics result",
    "eartbeat ",
    "[thrd:",
    "lient",
    "kafka.errors.",
    "Exception in thread ",
)
"""Every marker of every family contains one of these. A line that begins as Kafka's own layout begins, and so as nearly
all lines of a broker, needs fewer of them: the other families do not begin so."""


def worth_reading(raw: DataFrame) -> DataFrame:
    """Raw lines without those of a broker's other loggers."""
    last = ", ".join(literal(name.rpartition(".")[2] + ")") for name in _OTHER_LOGGERS)
    return raw.filter(f"NOT (startswith(text, '[20') AND substring_index(text, '.', -1) IN ({last}))")


def recognised(lines: DataFrame) -> DataFrame:
    """The relevant lines, with a struct `said` of all slots; its template is null where no template reads the line."""
    rows = lines.filter(_coarse()).withColumn("packed", F.explode(F.expr(_packed_lines())))
    apart = rows.withColumn("parts", parts("packed"))
    return apart.select(*lines.columns, unpacked("parts").alias("said"))


def parts(packed: str) -> Column:
    """A packed text's values as a list of texts; before the first mark stands nothing."""
    return F.expr(f"split({packed}, {literal(MARK)})")


def unpacked(parts: str) -> Column:
    """A list of values as a struct, each with its type, null where there is none; lists are text still."""
    fields = (f"{literal(slot)}, {_value(parts, place, slot)}" for place, slot in enumerate(SLOTS, start=1))
    return F.expr(f"named_struct({', '.join(fields)})")


def _value(parts: str, place: int, slot: str) -> str:
    kind = _TYPES.get(slot, TEXT)
    value = f"nullif(get({parts}, {place}), '')"  # what is no number costs an exception, so the empty go first
    return f"try_cast({value} AS {kind})" if kind in _CASTS else value


def _packed_lines() -> str:
    """SQL for the packed lines of `text`: one, or several where a wrapper held a message of several lines."""
    texts = "CASE WHEN contains(text, '\n') THEN split(text, '\n') ELSE array(text) END"
    read = f"zip_with({texts}, array(''), (line, _) -> {pack('line', FAMILIES)})"
    return (
        f"array_compact(CASE WHEN {IS_RECORD} THEN array({literal(MARK + RECORD)}) "
        f"WHEN {IS_EVENT} THEN array({literal(MARK + EVENT)}) ELSE {read} END)"
    )


def pack(text: str, families: Iterable[Family]) -> str:
    """SQL for a text's values, each after a mark; null where the text does not matter."""
    return _case((_any(text, family.markers), _family(text, family)) for family in families)


def _coarse() -> Column:
    settings = "^\\s+(" + "|".join(map(re.escape, (*SETTINGS, *BROKER_SETTINGS))) + ") = "
    return F.expr(
        f"CASE WHEN startswith(text, '[20') THEN {_any('text', _KAFKA_LAYOUT)} "
        f"WHEN startswith(text, '\t') THEN text RLIKE {literal(settings)} "
        f"ELSE {_any('text', _ANY_LAYOUT)} OR {IS_RECORD} OR {IS_EVENT} END"
    )


def _family(text: str, family: Family) -> str:
    tried = _case((_contains(text, key), _tried(text, some)) for key, some in by_key(family).items())
    unread = f"WHEN {_any('whole', family.words)} THEN {literal(UNREAD)}" if family.words else ""
    outcome = f"CASE WHEN startswith(one, {literal(MARK)}) THEN one {unread} END"
    return f"zip_with(array({tried}), array({text}), (one, whole) -> {outcome})[0]"


def _tried(text: str, readings: list[Reading]) -> str:
    # A pattern never matches a text that is packed already, so the templates of one key can be chained.
    for made in readings:
        text = f"regexp_replace({text}, {literal(made.pattern)}, {literal(made.packed())})"
    return text


def _case(cases: Iterable[tuple[str, str]]) -> str:
    return "CASE " + " ".join(f"WHEN {condition} THEN {value}" for condition, value in cases) + " END"


def _any(text: str, parts: Iterable[str]) -> str:
    return "(" + " OR ".join(_contains(text, part) for part in parts) + ")"


def _contains(text: str, part: str) -> str:
    return f"contains({text}, {literal(part)})" if part else "true"


def literal(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
