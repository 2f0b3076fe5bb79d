"""What lines say, as rows of the event table (doctor/event_table.py).

Rules kept here
- DataFrame to DataFrame; the columns are those of the event table, but that `detail` is JSON, which leaves out what is
  null, and `evidence` is null. So a row is small; `as_events` makes the table of it, for who asks for it.
- A line that names several members who went is one event for each of them.
- The trigger of a rebalance comes from the reason in its line, and the client's part of it, if there is one.
- Lines that no template reads are counted per file, with examples: they are never dropped in silence.
"""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from slackwater.doctor.event_table import COLUMNS, DETAIL, EVIDENCE
from slackwater.doctor.reasons import CLIENT_REASONS, REASONS
from slackwater.doctor.wording import SLOTS
from slackwater.group.events import Kind
from slackwater.spark.history.recognise import EVENT, RECORD, literal, pack, parts, unpacked
from slackwater.spark.history.stamps import time_ms, zone_of

_GONE: Final = (Kind.MEMBER_DROPPED, Kind.MEMBER_UNSYNCED)
_BRACKETS: Final = r"^[\\w]*[(\\[{]+|[)\\]}]+$"
_PARTITION: Final = r"TopicPartition\\(topic=\'(.*?)\', partition=(\\d+)\\)"
_NOTHING: Final = "('', 'null', 'None', 'Optional.empty')"
_EXAMPLES: Final = 5
_KEPT: Final = f"'{RECORD}', '{EVENT}'"
_STRUCT: Final = ", ".join(f"`{name}` {kind}" for name, kind in DETAIL.items())

_DERIVED: Final[dict[str, str]] = {
    "reason": "nullif(said.reason, '')",
    "client_reason": "coalesce(said.client_reason, why.client_reason)",
    "culprit": "coalesce(said.culprit, why.culprit, get(culprits, 0))",
    "member_ids": "culprits",
    "assignors": "split(said.assignors, ', ')",
    "topics": f"filter(split(regexp_replace(said.topics, '{_BRACKETS}|[\\'\"]', ''), ',? '), x -> x != '')",
    "partitions": "partitions",
    "count": "coalesce(said.count, cast(size(partitions) AS bigint))",
}
"""The fields of `detail` that are not simply a slot of their name, in SQL."""


def log_events(recognised: DataFrame, zones: Mapping[str, str], default_zone: str = "UTC") -> DataFrame:
    """Recognised lines as rows of the event table; `zones` are the zones of files, by a part of their path.

    Lines that are no events stay, with a null kind, for `unread` and for the readers of records and of own events.
    """
    known = recognised.filter(f"said.kind IS NOT NULL OR said.template IS NULL OR said.template IN ({_KEPT})")
    told = known.withColumn("time_ms", time_ms("said.head", "stamp", zone_of("file", zones, default_zone)))
    because = told.withColumn("why_parts", _reason()).withColumn("why", unpacked("why_parts"))
    return _select(_each(because.withColumns({"culprits": _culprits(), "partitions": _partitions()})))


def as_events(told: DataFrame) -> DataFrame:
    """Rows with their detail as a struct, and their place as evidence where there is no other."""
    return told.withColumns(
        {
            "detail": F.from_json("detail", _STRUCT),
            "evidence": F.coalesce("evidence", F.expr("concat(file, ':', position)")),
        }
    )


def as_told(events: DataFrame) -> DataFrame:
    """Events with their detail as JSON."""
    return events.withColumn("detail", F.to_json("detail"))


def unread(told: DataFrame) -> DataFrame:
    """Per cluster and file: how many relevant lines no template reads, and the first few of them."""
    first = F.slice(F.sort_array(F.collect_list(F.struct("position", "text"))), 1, _EXAMPLES)
    return (
        told.filter("template IS NULL")
        .groupBy("cluster", "file")
        .agg(F.count(F.lit(1)).alias("lines"), F.transform(first, lambda one: one["text"]).alias("examples"))
    )


def _reason() -> Column:
    packed = f"zip_with(array(said.reason), array(''), (line, _) -> {pack('line', [REASONS])})[0]"
    return parts(f"CASE WHEN said.kind = '{Kind.REBALANCE_STARTED}' THEN {packed} END")


def _culprits() -> Column:
    named = "coalesce(said.member_ids, why.member_ids)"
    return F.expr(f"split(regexp_replace({named}, '{_BRACKETS}', ''), ', ')")


def _partitions() -> Column:
    """`topic-0` from the ways in which the libraries print partitions; null where a way is not known."""
    plain = f"regexp_replace(regexp_replace(said.partitions, '{_PARTITION}', '$1-$2'), '{_BRACKETS}', '')"
    listed = f"filter(split({plain}, ', '), x -> x != '')"
    numbers = "from_json(concat('{', said.partitions, '}'), 'map<string,array<int>>')"
    pairs = f"flatten(transform(map_entries({numbers}), e -> transform(e.value, n -> concat(e.key, '-', n))))"
    return F.expr(
        "CASE WHEN said.partitions IS NULL OR startswith(said.partitions, 'map[') THEN NULL "
        f"WHEN startswith(said.partitions, '\"') THEN {pairs} ELSE {listed} END"
    )


def _each(rows: DataFrame) -> DataFrame:
    """One row for each member that a line says is gone."""
    several = F.when(F.col("said.kind").isin(*_GONE) & F.col("culprits").isNotNull(), F.col("culprits"))
    return rows.withColumn("gone", F.explode(F.coalesce(several, F.array(F.lit(None).cast("string")))))


def _select(rows: DataFrame) -> DataFrame:
    columns = {
        "time_ms": "time_ms",
        "cluster": "cluster",
        "group": f"CASE WHEN said.`group` IN {_NOTHING} THEN NULL ELSE said.`group` END",
        "trigger": _trigger(),
        "member": "coalesce(gone, nullif(said.member, ''), CASE WHEN said.kind = 'rebalance_started' "
        "THEN coalesce(why.culprit, get(culprits, 0)) END)",
        "instance": _instance(),
        "assignor": f"CASE WHEN said.assignor IN {_NOTHING} THEN NULL ELSE said.assignor END",
    }
    evidence = {"evidence": "CAST(NULL AS string)", "file": "file", "position": "position", "text": "text"}
    detail = ", ".join(f"'{name}', {_field(name)}" for name in DETAIL)
    return rows.select(
        *(F.expr(columns.get(name, _column(name))).alias(name) for name in COLUMNS),
        F.expr(f"CASE WHEN said.kind IS NOT NULL THEN to_json(named_struct({detail})) END").alias("detail"),
        *(F.expr(evidence.get(name, f"said.{name}")).alias(name) for name in EVIDENCE),
    )


def _column(name: str) -> str:
    return f"said.`{name}`" if name in SLOTS else f"CAST(NULL AS {COLUMNS[name]})"


def _field(name: str) -> str:
    if name in _DERIVED:
        return _DERIVED[name]
    return f"said.`{name}`" if name in SLOTS else f"CAST(NULL AS {DETAIL[name]})"


def _trigger() -> str:
    told = "coalesce(said.client_reason, why.client_reason, CASE WHEN said.kind = 'member_left' THEN said.reason END)"
    cases = " ".join(f"WHEN contains({told}, {literal(part)}) THEN '{trigger}'" for part, trigger in CLIENT_REASONS)
    return f"CASE {cases} ELSE coalesce(said.trigger, why.trigger) END"


def _instance() -> str:
    given = "coalesce(said.instance, why.instance)"
    inner = f"regexp_replace({given}, '^(?:Some\\\\(|Optional\\\\[)(.*)[)\\\\]]$', '$1')"
    return f"CASE WHEN {given} IN {_NOTHING} THEN NULL ELSE {inner} END"
