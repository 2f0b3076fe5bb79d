"""The history in some paths: complete rows for the verdicts, the event table, and the lines that were not understood.

Invariants:
- The files are read once, when an `EventHistory` is created. The rows are kept by Spark, in buckets (buckets.py).
- Steps that the files do not need, by their summaries, are not planned.
- The event table has the text of every line. It reads the files again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial, reduce
from typing import Final

from pyspark.accumulators import AccumulatorParam
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from slackwater.doctor.events.table import CLUSTER_KINDS, DETAIL
from slackwater.doctor.events.times import MIN_DATED_MS, is_dated
from slackwater.doctor.history.event_batches import ID_COLUMNS
from slackwater.doctor.history.lines import GROUP_EVENT, RECORD
from slackwater.doctor.history.log_events import LogReader
from slackwater.doctor.history.summaries import (
    MAX_EXAMPLES,
    NAMELESS_FAILURES,
    NAMELESS_GROUP,
    NO_TIMESTAMP_PREFIX,
    FileSummaries,
)
from slackwater.group.events import EventKind, EventSource
from slackwater.spark.doctor.history.attribution import fill_group_from_instance, fill_names
from slackwater.spark.doctor.history.buckets import (
    BUCKETED,
    INCOMPLETE,
    ROWS,
    bucket_json_rows,
    json_rows,
    names_of_rows,
)
from slackwater.spark.doctor.history.group_events import read_group_events
from slackwater.spark.doctor.history.offsets_topic import dumped_records, offsets_events, undecoded
from slackwater.spark.doctor.history.reading import LogFiles

_DETAIL_STRUCT: Final = ", ".join(f"`{name}` {kind}" for name, kind in DETAIL.items())
_ID_SCHEMA: Final = ", ".join(f"`{name}` string" for name in ID_COLUMNS)


@dataclass(frozen=True, slots=True)
class HistorySource:
    """The paths of a history, and how to read their lines."""

    paths: Sequence[str]
    cluster: str | None = None
    clusters_dir: str | None = None
    """A directory whose subdirectories are clusters, each with its own name."""
    zones: Mapping[str, str] = field(default_factory=dict)
    """Time zones of timestamps without an offset, by a part of the file's path; `zone` for all other files."""
    zone: str = "UTC"
    skip_corrupt: bool = False


class FileSummariesParam(AccumulatorParam[FileSummaries]):
    """Adds summaries in an accumulator."""

    def zero(self, value: FileSummaries) -> FileSummaries:
        """Return no summaries."""
        return FileSummaries()

    def addInPlace(self, value1: FileSummaries, value2: FileSummaries) -> FileSummaries:
        """Merge two sets of summaries."""
        return value1.add(value2.values())


class EventHistory:
    """The rows of a history. Close it to free what Spark keeps."""

    def __init__(self, spark: SparkSession, source: HistorySource, live: Sequence[DataFrame] = ()) -> None:
        """Read the files. `live` are rows of the same cluster, with a JSON detail, that may complete rows of logs."""
        self._live_rows: Final = live
        self._buckets: Final = bucket_count(spark)
        self._undecodable: Final = spark.sparkContext.accumulator(0)
        summaries = spark.sparkContext.accumulator(FileSummaries(), FileSummariesParam())
        reader = partial(LogReader, dict(source.zones), source.zone, source.cluster, source.clusters_dir)
        self._files: Final = LogFiles(spark, source.paths, reader, skip_corrupt=source.skip_corrupt)
        self._rows: Final = self._files.bucketed_rows(self._buckets, summaries).localCheckpoint(eager=True)
        self.summaries: Final = summaries.value

    @property
    def bucketed(self) -> DataFrame:
        """All rows with a group, in buckets."""
        tables = [self._record_rows] if self._record_rows is not None else []
        if self.summaries.has_any("incomplete"):
            rows = self._completed_rows
            if self.summaries.has_any("instances_without_group"):
                rows = fill_group_from_instance(rows, self._row_ids())
            tables.append(_assign_nameless_group(rows))
        return reduce(DataFrame.unionByName, [bucket(rows, self._buckets) for rows in tables], self._complete_rows)

    @property
    def cluster_events(self) -> DataFrame:
        """The rows about brokers and topics, which have no group."""
        return self._incomplete_rows.filter(F.col("kind").isin(*CLUSTER_KINDS))

    @property
    def events(self) -> DataFrame:
        """The event table."""
        events = self._files.events().unionByName(_with_struct_detail(self._completed_rows))
        if self._record_rows is not None:
            events = events.unionByName(_with_struct_detail(self._record_rows))
        return events.withColumn("evidence", F.coalesce("evidence", F.expr("concat(file, ':', position)")))

    @property
    def has_unrecognized(self) -> bool:
        """Whether lines were not understood; for records of `__consumer_offsets`, after they have been read."""
        has_unread = self.summaries.has_any("unrecognized") or self._undecodable.value > 0
        return has_unread or (self.summaries.has_any("undated") and bool(self._dated_clusters))

    @property
    def unrecognized(self) -> DataFrame:
        """By cluster and file: the number of relevant lines that no template matches, and the first of them.

        Lines without a date and a time in a cluster that has lines with them, and records that cannot be decoded count,
        too.
        """
        first = F.slice(F.sort_array(F.collect_list(F.struct("position", "text"))), 1, MAX_EXAMPLES)
        is_undated = F.col("kind").isNotNull() & (F.col("time_ms") < MIN_DATED_MS)
        without_time = is_undated & F.coalesce("cluster", F.lit("")).isin(self._dated_clusters)
        text = F.when(without_time, F.concat(F.lit(NO_TIMESTAMP_PREFIX), "text")).otherwise(F.col("text"))
        lines = self._incomplete_rows.filter(F.col("template").isNull() | without_time)
        lines = lines.select("cluster", "file", "position", text.alias("text"))
        if self.summaries.has_any("records"):
            lines = lines.unionByName(undecoded(self._records))
        return lines.groupBy("cluster", "file").agg(
            F.count(F.lit(1)).alias("lines"), F.transform(first, lambda line: line["text"]).alias("examples")
        )

    @property
    def _dated_clusters(self) -> list[str]:
        return [cluster for cluster, ended_ms in self.summaries.ended_ms().items() if is_dated(ended_ms)]

    def close(self) -> None:
        """Free the rows that Spark keeps."""
        self._rows._jdf.queryExecution().logical().rdd().unpersist(False)

    @property
    def _complete_rows(self) -> DataFrame:
        return self._rows.filter(F.col("bucket") != INCOMPLETE)

    @property
    def _incomplete_rows(self) -> DataFrame:
        return self._rows.filter(F.col("bucket") == INCOMPLETE).mapInArrow(json_rows, ROWS)

    @cached_property
    def _completed_rows(self) -> DataFrame:
        """The incomplete rows of logs, with the names that other rows determine."""
        return fill_names(self._incomplete_rows.filter("kind IS NOT NULL"), self.summaries, self._row_ids())

    @property
    def _records(self) -> DataFrame:
        return dumped_records(self._incomplete_rows.filter(F.col("template") == RECORD))

    @cached_property
    def _record_rows(self) -> DataFrame | None:
        """The rows of dumped records and group events; None if there are none."""
        tables = []
        if self.summaries.has_any("records"):
            tables.append(offsets_events(self._records, self._undecodable))
        if self.summaries.has_any("group_events"):
            tables.append(read_group_events(self._incomplete_rows.filter(F.col("template") == GROUP_EVENT)))
        return reduce(DataFrame.unionByName, map(with_json_detail, tables)) if tables else None

    def _row_ids(self) -> DataFrame:
        """The ids that occur in the same row."""
        others = [self._incomplete_rows, *self._live_rows]
        if self._record_rows is not None:
            others.append(self._record_rows)
        names = [rows.select(*ID_COLUMNS) for rows in others]
        return reduce(DataFrame.unionByName, names, self._complete_rows.mapInArrow(names_of_rows, _ID_SCHEMA))

    def __enter__(self) -> "EventHistory":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def bucket_count(spark: SparkSession) -> int:
    """Return the number of buckets: one for each shuffle partition."""
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)


def bucket(rows: DataFrame, buckets: int) -> DataFrame:
    """Put rows with a JSON detail into buckets; rows without a group are dropped."""
    return rows.filter("`group` IS NOT NULL").mapInArrow(bucket_json_rows(buckets), BUCKETED)


def with_json_detail(events: DataFrame) -> DataFrame:
    """Return events with their detail as JSON."""
    return events.withColumn("detail", F.to_json("detail"))


def _assign_nameless_group(rows: DataFrame) -> DataFrame:
    """Put failures in clients' logs, and fenced members, that belong to no known group into the nameless group."""
    is_failure = (F.col("source") == EventSource.CLIENT_LOG.value) & F.col("kind").isin(*NAMELESS_FAILURES)
    is_failure |= F.col("kind") == EventKind.MEMBER_FENCED.value
    return rows.withColumn("group", F.coalesce("group", F.when(is_failure, F.lit(NAMELESS_GROUP))))


def _with_struct_detail(rows: DataFrame) -> DataFrame:
    return rows.withColumn("detail", F.from_json("detail", _DETAIL_STRUCT))


__all__ = ["EventHistory", "HistorySource", "bucket", "bucket_count", "with_json_detail"]
