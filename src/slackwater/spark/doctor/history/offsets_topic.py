"""Records of `__consumer_offsets` to rows of the event table: generations, their members, and commits.

Invariants:
- The input is (cluster, file, position, partition, offset, timestamp, key, value), from a dump or from the topic.
  Records are decoded in batches by the codecs of wire/, each of them once.
- The topic is compacted, so generations may be missing. `gap` counts the missing ones between two that are present; it
  is null for the first one.
- The epoch of a KIP-848 group is its generation. Its member records hold the client id of each member id.
- Commits are summed up by group and minute.
- Records that cannot be decoded are counted. `undecoded` returns them.
"""

from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from slackwater.doctor.events.table import COLUMNS, DETAIL, EVIDENCE
from slackwater.doctor.history.offsets_records import COMMIT, MINUTE_MS, UNDECODABLE, RecordRow, decode
from slackwater.group.events import EventKind, EventSource

_DUMPED: Final = "partition INT, offset BIGINT, timestamp BIGINT, key STRING, value STRING"
_RECORD_COLUMNS: Final = "cluster STRING, file STRING, position BIGINT, partition INT, offset BIGINT, timestamp BIGINT"
_DECODED: Final = (
    "kind STRING, group STRING, topic STRING, topic_partition INT, committed BIGINT, generation BIGINT, "
    "protocol_type STRING, protocol STRING, leader STRING, members BIGINT, member_ids ARRAY<STRING>, "
    f"assignment {DETAIL['assignment']}, member STRING, client STRING, host STRING, instance STRING, "
    "session_timeout_ms BIGINT, rebalance_timeout_ms BIGINT, topics ARRAY<STRING>, partitions ARRAY<STRING>, "
    "group_protocol STRING, error STRING"
)


def dumped_records(lines: DataFrame) -> DataFrame:
    """Return the records in lines of JSON with base64 bytes; invalid base64 becomes no bytes."""
    record = lines.withColumn("record", F.from_json("text", _DUMPED))
    return record.select(
        "cluster",
        "file",
        "position",
        "record.partition",
        "record.offset",
        "record.timestamp",
        *(F.expr(_bytes(f"record.{name}")).alias(name) for name in ("key", "value")),
    )


def _bytes(text: str) -> str:
    return f"coalesce(try_to_binary({text}, 'base64'), CASE WHEN {text} IS NOT NULL THEN X'' END)"


def offsets_events(records: DataFrame, undecodable: Accumulator[int] | None = None) -> DataFrame:
    """Return the events in records; `undecodable` counts the records that cannot be decoded."""
    # The version in the key tells commits from the rest, so that no record is decoded twice.
    commit = F.hex(F.substring("key", 1, 2)).isin("0000", "0001")
    others = _decoded(records.filter(~commit), undecodable).filter(F.col("kind") != UNDECODABLE)
    commits = _decoded(records.filter(commit), undecodable).filter(F.col("kind") == COMMIT)
    return _select(_with_gap(others)).unionByName(_select(_progress(commits)))


def undecoded(records: DataFrame) -> DataFrame:
    """Return the records that cannot be decoded as (cluster, file, position, text); the text is the error."""
    text = F.concat(F.lit("__consumer_offsets-"), "partition", F.lit("@"), "offset", F.lit(": "), "error")
    failed = _decoded(records, None).filter(F.col("kind") == UNDECODABLE)
    return failed.select("cluster", "file", "position", text.alias("text"))


def _decoded(records: DataFrame, undecodable: Accumulator[int] | None) -> DataFrame:
    return records.mapInArrow(_decoding(undecodable), f"{_RECORD_COLUMNS}, {_DECODED}")


def _with_gap(rows: DataFrame) -> DataFrame:
    recorded = F.col("kind") == EventKind.GENERATION_RECORDED
    order = Window.partitionBy("cluster", "group", "kind").orderBy("partition", "offset")
    before = F.lag("generation").over(order)
    passed = F.greatest(F.col("generation") - before - 1, F.lit(0))
    return rows.withColumn("gap", F.when(recorded & before.isNotNull(), passed))


def _progress(commits: DataFrame) -> DataFrame:
    """Sum up commits by group and minute: how many, of how many partitions, and the advance of the offsets."""
    minute = commits.withColumn("minute", F.expr(f"timestamp div {MINUTE_MS}"))
    each = minute.groupBy("cluster", "group", "topic", "topic_partition", "minute").agg(
        F.min("timestamp").alias("first_ms"),
        F.min("committed").alias("lowest"),
        F.max("committed").alias("highest"),
        F.collect_set("timestamp").alias("stamps"),
        F.max_by(F.struct("file", "position", "partition", "offset"), "offset").alias("last"),
    )
    order = Window.partitionBy("cluster", "group", "topic", "topic_partition").orderBy("minute")
    advance = F.col("highest") - F.coalesce(F.lag("highest").over(order), F.col("lowest"))
    total = each.withColumn("advance", advance).groupBy("cluster", "group", "minute")
    return total.agg(
        F.min("first_ms").alias("timestamp"),
        F.size(F.array_distinct(F.flatten(F.collect_list("stamps")))).alias("commits"),
        F.sum("advance").alias("offsets_advanced"),
        F.count(F.lit(1)).alias("count"),
        F.max("last").alias("last"),
    ).select("*", "last.*", F.lit(EventKind.PROGRESS.value).alias("kind"))


def _select(rows: DataFrame) -> DataFrame:
    has = set(rows.columns)
    columns = {"time_ms": "timestamp"}
    fixed = {
        "source": f"'{EventSource.OFFSETS_TOPIC}'",
        "evidence": "concat('__consumer_offsets-', partition, '@', offset)",
        "template": "CAST(NULL AS string)",
        "text": "CAST(NULL AS string)",
    }
    detail = ", ".join(f"'{name}', {_typed(name, DETAIL[name], has - {'partition'})}" for name in DETAIL)
    return rows.select(
        *(F.expr(_typed(columns.get(name, name), kind, has)).alias(name) for name, kind in COLUMNS.items()),
        F.expr(f"named_struct({detail})").alias("detail"),
        *(F.expr(fixed.get(name, name)).alias(name) for name in EVIDENCE),
    )


def _typed(name: str, kind: str, has: set[str]) -> str:
    return f"CAST(`{name}` AS {kind})" if name in has else f"CAST(NULL AS {kind})"


def _decoding(
    undecodable: Accumulator[int] | None,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def decode_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows: list[RecordRow] = []
            for record in batch.to_pylist():
                common = {name: record[name] for name in _NAMES}
                rows.extend({**common, **row} for row in decode(record["key"], record["value"]))
            if undecodable is not None:
                undecodable.add(sum(row["kind"] == UNDECODABLE for row in rows))
            yield pa.RecordBatch.from_pylist(rows, schema=_SCHEMA)

    return decode_batches


_TEXTS: Final = pa.list_(pa.string())
_PAIR: Final = pa.struct([("member", pa.string()), ("partitions", _TEXTS)])
_ARROW: Final = {"STRING": pa.string(), "BIGINT": pa.int64(), "INT": pa.int32(), "ARRAY<STRING>": _TEXTS}
_NAMES: Final = tuple(part.split()[0] for part in _RECORD_COLUMNS.split(", "))


def _arrow_schema() -> pa.Schema:
    fields = []
    for part in f"{_RECORD_COLUMNS}, {_DECODED}".replace(DETAIL["assignment"], "PAIRS").split(", "):
        name, kind = part.split(" ", 1)
        fields.append(pa.field(name, pa.list_(_PAIR) if kind == "PAIRS" else _ARROW[kind]))
    return pa.schema(fields)


_SCHEMA: Final = _arrow_schema()
