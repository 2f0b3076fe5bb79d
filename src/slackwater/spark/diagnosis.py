"""Events to verdicts: each group judged by itself, wherever Spark has its rows.

Rules kept here
- Raw lines never come here: what a group's history is made of is the event table, which is small beside the logs.
- One pass over a group's rows, in work that grows with their number; a row is stripped to what rules read before it
  moves. Rows that no rule asks for stay behind.
- What brokers and topics did belongs to all groups of a cluster. It is little, and goes to every worker.
- A group of which nothing but its loading is known was not alive in this history: it has no verdict.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from slackwater.doctor.cluster_history import ClusterHistory
from slackwater.doctor.event_table import FactKind
from slackwater.doctor.history import GroupHistory
from slackwater.doctor.rows import Row, read_row
from slackwater.doctor.verdict import Verdict, judge
from slackwater.group.events import Kind

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

_COLUMNS: Final = (
    "time_ms",
    "kind",
    "source",
    "trigger",
    "generation",
    "member",
    "instance",
    "client",
    "host",
    "assignor",
    "members",
    "state_before",
    "evidence",
    "template",
    "file",
    "position",
)
_SAID: Final = 300
"""Of a line that may be shown as evidence, so many characters."""
_UNASKED: Final = (
    Kind.PARTITIONS_REVOKED,
    Kind.PARTITIONS_LOST,
    Kind.COORDINATOR_FOUND,
    Kind.OFFSETS_EXPIRED,
    Kind.OFFSETS_DELETED,
    FactKind.COORDINATOR_ELECTED,
    FactKind.COORDINATOR_RESIGNED,
    FactKind.COORDINATOR_LOADED,
    FactKind.BROKER_SETTING,
)
"""Kinds that no rule asks for."""
_AROUND: Final = (
    FactKind.TOPIC_CREATED,
    FactKind.TOPIC_DELETED,
    FactKind.PARTITION_CREATED,
    FactKind.PARTITION_DELETED,
    FactKind.BROKER_STARTED,
    FactKind.BROKER_STOPPING,
)
_LIFELESS: Final = frozenset({Kind.GROUP_LOADED, Kind.GROUP_UNLOADED, Kind.GROUP_DELETED, Kind.PROGRESS})
_BATCH_MS: Final = 1_000
"""Partitions of one topic that are created or deleted within this are told as one."""
VERDICTS: Final = "cluster string, `group` string, cause string, confidence double, verdict binary"


def verdicts(events: DataFrame, *, around: DataFrame | None = None, placed: bool = True) -> list[Verdict]:
    """The verdict on every group, by cluster and name.

    `around` is where to look for what brokers and topics did, if not among all events. Without `placed` no event is
    known to lack its group.
    """
    surroundings = clusters(events if around is None else around)
    judged = by_group(events, placed=placed).mapInArrow(_judge(surroundings), VERDICTS)
    found = [pickle.loads(bytes(row.verdict)) for row in judged.select("verdict").collect()]
    return sorted(found, key=lambda verdict: (verdict.cluster, verdict.group))


def by_group(events: DataFrame, *, placed: bool = True) -> DataFrame:
    """What rules read, group after group: what verdicts are made of. `whole_groups` takes it apart again."""
    asked = _asked(events)
    if placed:
        asked = _placed(asked.localCheckpoint())  # which is asked for twice
    told = asked.filter("group IS NOT NULL")
    return told.repartition("cluster", "group").sortWithinPartitions("cluster", "group")


def whole_groups(batches: Iterable["pa.RecordBatch"]) -> Iterator[tuple[str, str, "pa.Table"]]:
    """Cluster, group and all its rows, of one group after the other.

    A grouped map would do the same with a stream of its own for each group; thousands of small groups are many streams.
    """
    import pyarrow as pa

    key: tuple[str, str] | None = None
    held: list[pa.RecordBatch] = []
    for batch in batches:
        for rows in _runs(batch):
            this = (rows.column("cluster")[0].as_py(), rows.column("group")[0].as_py())
            if key is not None and this != key:
                yield (*key, pa.Table.from_batches(held))
                held = []
            key = this
            held.append(rows)
    if key is not None:
        yield (*key, pa.Table.from_batches(held))


def _runs(batch: "pa.RecordBatch") -> Iterator["pa.RecordBatch"]:
    """A batch cut wherever another group begins."""
    import pyarrow.compute as pc  # type: ignore[import-untyped]

    if not batch.num_rows:
        return
    differs = [pc.not_equal(column[1:], column[:-1]) for column in map(batch.column, ("cluster", "group"))]
    cuts = pc.indices_nonzero(pc.or_(*differs)).to_pylist() if batch.num_rows > 1 else []
    begin = 0
    for last in [*cuts, batch.num_rows - 1]:
        yield batch.slice(begin, last + 1 - begin)
        begin = last + 1


def clusters(events: DataFrame) -> dict[str, ClusterHistory]:
    """What happened to the brokers and the topics of each cluster."""
    around = _asked(events.filter(F.col("kind").isin(*_AROUND)))
    told = around.withColumn("told", F.from_json("detail", "topic string, node string, partition bigint"))
    together = told.groupBy(
        "cluster", "kind", "told.topic", "told.node", F.expr(f"time_ms div {_BATCH_MS}").alias("second")
    ).agg(
        F.min("time_ms").alias("time_ms"),
        F.min("told.partition").alias("partition"),
        F.min_by("evidence", "time_ms").alias("evidence"),
        F.min_by("source", "time_ms").alias("source"),
        F.min_by("text", "time_ms").alias("text"),
    )
    rows: dict[str, list[Row]] = {}
    for row in together.collect():
        columns = row.asDict()
        detail = {name: columns.pop(name) for name in ("topic", "node", "partition")}
        rows.setdefault(columns["cluster"], []).append(read_row(columns | {"detail": detail}))
    return {name: ClusterHistory.of(found) for name, found in rows.items()}


def _asked(events: DataFrame) -> DataFrame:
    """What rules read of the rows that rules read, with the detail as JSON, which leaves out what is null."""
    if not isinstance(events.schema["detail"].dataType, StringType):
        events = events.withColumn("detail", F.to_json("detail"))
    error = F.get_json_object("detail", "$.error")
    rebalancing = (F.col("kind") == Kind.HEARTBEAT_REFUSED) & (error == "REBALANCE_IN_PROGRESS")
    asked = (
        F.col("time_ms").isNotNull()
        & ~F.col("kind").isin(*_UNASKED)
        & ~F.coalesce(rebalancing, F.lit(False))
        & (F.col("group").isNotNull() | F.col("instance").isNotNull() | F.col("kind").isin(*_AROUND))
    )
    return events.filter(asked).select(
        F.coalesce("cluster", F.lit("")).alias("cluster"),
        "group",
        *_COLUMNS,
        "detail",
        F.substring("text", 1, _SAID).alias("text"),
    )


def _placed(asked: DataFrame) -> DataFrame:
    """Give a fence its group: Kafka's line names the instance alone. One that is known in several groups stays out."""
    known = (
        asked.filter("group IS NOT NULL AND instance IS NOT NULL")
        .groupBy("cluster", "instance")
        .agg(F.min("group").alias("its_group"), F.max("group").alias("other"))
        .filter("its_group = other")
        .select("cluster", "instance", "its_group")
    )
    rows = asked.join(F.broadcast(known), ["cluster", "instance"], "left")
    return rows.withColumn("group", F.coalesce("group", "its_group")).drop("its_group")


def _judge(
    surroundings: dict[str, ClusterHistory],
) -> Callable[[Iterable["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]:
    def judge_groups(batches: Iterable["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        import pyarrow as pa

        for cluster, group, table in whole_groups(batches):
            rows = list(_rows(table))
            if all(row.kind in _LIFELESS for row in rows):
                continue
            verdict = judge(GroupHistory(group, rows, surroundings.get(cluster)), cluster)
            told = {
                "cluster": cluster,
                "group": group,
                "cause": verdict.cause,
                "confidence": verdict.confidence,
                "verdict": pickle.dumps(verdict),
            }
            yield pa.RecordBatch.from_pylist([told], schema=_schema())

    return judge_groups


def _rows(table: "pa.Table") -> Iterator[Row]:
    names = table.column_names
    for batch in table.to_batches():
        columns: Iterable[list[Any]] = [column.to_pylist() for column in batch.columns]
        for values in zip(*columns, strict=True):
            yield read_row(dict(zip(names, values, strict=True)))


def _schema() -> "pa.Schema":
    import pyarrow as pa

    return pa.schema(
        [
            ("cluster", pa.string()),
            ("group", pa.string()),
            ("cause", pa.string()),
            ("confidence", pa.float64()),
            ("verdict", pa.binary()),
        ]
    )
