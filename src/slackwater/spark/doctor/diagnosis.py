"""Events to verdicts: each group judged by itself, wherever Spark has its rows.

Rules kept here
- Raw lines never come here: what a group's history is made of is the event table, which is small beside the logs.
- Rows come packed (history/packing.py): Spark brings pieces of bytes together, and a worker unpacks one bucket of
  groups at a time. Rows that no rule asks for, or nobody chose, go then, before any of them is looked at.
- One pass over a group's rows, in work that grows with their number.
- What brokers and topics did belongs to all groups of a cluster. It is little, and goes to every worker.
- A group of which nothing but its loading is known was not alive in this history: it has no verdict.
"""

import gc
import pickle
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from slackwater.doctor.events.rows import Row, read_row
from slackwater.doctor.events.table import FactKind
from slackwater.doctor.timeline.cluster_history import ClusterHistory
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.doctor.verdict import Verdict, judge
from slackwater.group.events import EventKind
from slackwater.spark.doctor.history.reading import SAID

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

_UNASKED: Final = (
    EventKind.PARTITIONS_REVOKED,
    EventKind.PARTITIONS_LOST,
    EventKind.COORDINATOR_FOUND,
    EventKind.OFFSETS_EXPIRED,
    EventKind.OFFSETS_DELETED,
    FactKind.COORDINATOR_ELECTED,
    FactKind.COORDINATOR_RESIGNED,
    FactKind.COORDINATOR_LOADED,
    FactKind.BROKER_SETTING,
)
"""Kinds that no rule asks for."""
_REBALANCING: Final = "REBALANCE_IN_PROGRESS"
"""A heartbeat's refusal that says nothing: every member gets it in every round."""
_LIFELESS: Final = frozenset(
    {EventKind.GROUP_LOADED, EventKind.GROUP_UNLOADED, EventKind.GROUP_DELETED, EventKind.PROGRESS}
)
_PARTED_BY: Final = ("cluster", "group")
_BATCH_MS: Final = 1_000
"""Partitions of one topic that are created or deleted within this are told as one."""
VERDICTS: Final = "verdicts binary"


@dataclass(frozen=True, slots=True)
class Choice:
    """What is to be judged: these groups, or all; from and until these times."""

    groups: Collection[str] = ()
    since_ms: int | None = None
    until_ms: int | None = None
    with_timeline: bool = True
    """Verdicts are with_timeline: their single rounds, minutes and lanes are wanted."""


ALL: Final = Choice()


def verdicts(packed: DataFrame, surroundings: dict[str, ClusterHistory], choice: Choice = ALL) -> list[Verdict]:
    """The verdict on every group that was chosen, by cluster and name."""
    judged = by_group(packed).mapInArrow(_judge(surroundings, choice), VERDICTS)
    found: list[Verdict] = [verdict for row in judged.collect() for verdict in pickle.loads(bytes(row.verdicts))]
    return sorted(found, key=lambda verdict: (verdict.cluster, verdict.group))


def by_group(packed: DataFrame) -> DataFrame:
    """Rows of one group in one place. `whole_groups` takes them apart again."""
    return packed.repartition("bucket")


def whole_groups(batches: Iterable["pa.RecordBatch"], choice: Choice = ALL) -> Iterator["Bucket"]:
    """Groups with all their rows that rules ask for, some groups at a time; a group's rows by time."""
    import numpy as np
    import pyarrow as pa

    from slackwater.spark.doctor.history.packing import pieces

    for _, every in pieces(batches):
        if "time_ms" not in every.column_names:
            continue  # none of these rows has a time that could be read: they are told as unread
        asked = np.flatnonzero(_asked(every, choice).to_numpy(zero_copy_only=False))
        if not len(asked):
            continue
        groups, clusters = _codes(every, "group"), _codes(every, "cluster")
        key = (groups.codes * len(clusters.names) + clusters.codes)[asked]
        order = np.lexsort((every["time_ms"].to_numpy()[asked], key))
        found, firsts = np.unique(key[order], return_index=True)
        ends = [*firsts[1:].tolist(), len(asked)]
        names = [(clusters.names[one % len(clusters.names)], groups.names[one // len(clusters.names)]) for one in found]
        told = every.select([name for name in every.column_names if name not in _PARTED_BY])
        rows = told.take(pa.array(asked[order]))
        yield Bucket(tuple(zip(names, firsts.tolist(), ends, strict=True)), rows)


@dataclass(frozen=True, slots=True)
class Bucket:
    """Rows of some groups."""

    groups: Sequence[tuple[tuple[str, str], int, int]]
    """Cluster and name, and from where to where its rows are."""
    rows: "pa.Table"


@dataclass(frozen=True, slots=True)
class _Codes:
    names: list[str]
    codes: Any


def _codes(rows: "pa.Table", name: str) -> _Codes:
    """A column's names, each once, and which of them each row has; none is an empty one."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc  # type: ignore[import-untyped]

    if name not in rows.column_names:
        return _Codes([""], np.zeros(rows.num_rows, np.int64))
    encoded = pc.fill_null(rows[name].combine_chunks().cast(pa.string()), "").dictionary_encode()
    return _Codes(encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64))


def _asked(rows: "pa.Table", choice: Choice) -> "pa.Array":
    """Which rows rules ask for, of those that were chosen."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from slackwater.spark.doctor.history.log_events import among

    asked = pc.and_(pc.is_valid(rows["time_ms"]), pc.invert(among(rows["kind"], _UNASKED)))
    for name in ("error", "detail"):
        if name in rows.column_names:
            told = rows[name].cast(pa.string())
            said = (
                pc.equal(told, _REBALANCING)
                if name == "error"
                else pc.match_substring(told, f'"error":"{_REBALANCING}"')
            )
            silent = pc.and_(among(rows["kind"], [EventKind.HEARTBEAT_REFUSED]), pc.fill_null(said, False))
            asked = pc.and_(asked, pc.invert(silent))
    if choice.groups:
        asked = pc.and_(asked, among(rows["group"], choice.groups))
    if choice.since_ms is not None:
        asked = pc.and_(asked, pc.greater_equal(rows["time_ms"], choice.since_ms))
    if choice.until_ms is not None:
        asked = pc.and_(asked, pc.less_equal(rows["time_ms"], choice.until_ms))
    return asked


def clusters(events: DataFrame | None, ended_ms: Mapping[str, int]) -> dict[str, ClusterHistory]:
    """What happened to the brokers and the topics of each cluster, by rows with their detail as JSON.

    Nothing did if there are no rows. `ended_ms` says until when anything was told of a cluster.
    """
    rows = _around(events) if events is not None else {}
    return {name: ClusterHistory.of(rows.get(name, ()), ended_ms.get(name, 0)) for name in rows.keys() | ended_ms}


def _around(events: DataFrame) -> dict[str, list[Row]]:
    told = events.filter("time_ms IS NOT NULL").withColumn(
        "told", F.from_json("detail", "topic string, node string, partition bigint")
    )
    together = told.groupBy(
        F.coalesce("cluster", F.lit("")).alias("cluster"),
        "kind",
        "told.topic",
        "told.node",
        F.expr(f"time_ms div {_BATCH_MS}").alias("second"),
    ).agg(
        F.min("time_ms").alias("time_ms"),
        F.min("told.partition").alias("partition"),
        F.min_by(F.coalesce("evidence", F.expr("concat(file, ':', position)")), "time_ms").alias("evidence"),
        F.min_by("source", "time_ms").alias("source"),
        F.min_by(F.substring("text", 1, SAID), "time_ms").alias("text"),
    )
    rows: dict[str, list[Row]] = {}
    for row in together.collect():
        columns = row.asDict()
        detail = {name: columns.pop(name) for name in ("topic", "node", "partition")}
        rows.setdefault(columns["cluster"], []).append(read_row(columns | {"detail": detail}))
    return rows


def _judge(
    surroundings: dict[str, ClusterHistory], choice: Choice
) -> Callable[[Iterable["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]:
    def judge_groups(batches: Iterable["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        import pyarrow as pa

        from slackwater.spark.doctor.rows import rows_of

        gc.disable()  # rows by the million, and no circles: looking for some costs as much as the judging
        for bucket in whole_groups(batches, choice):
            rows = rows_of(bucket.rows)
            found = [
                _judged(cluster, group, list(islice(rows, end - begin)), surroundings, choice.with_timeline)
                for (cluster, group), begin, end in bucket.groups
            ]
            told = [verdict for verdict in found if verdict is not None]
            # In one piece: what many verdicts have in common, such as the words of a cure, is written once.
            yield pa.record_batch({"verdicts": pa.array([pickle.dumps(told)], pa.binary())})

    return judge_groups


def _judged(
    cluster: str, group: str, rows: list[Row], surroundings: dict[str, ClusterHistory], with_timeline: bool
) -> Verdict | None:
    if all(row.kind in _LIFELESS for row in rows):
        return None
    return judge(GroupHistory(group, rows, surroundings.get(cluster)), cluster, with_timeline=with_timeline)
