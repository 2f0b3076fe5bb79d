"""A history of groups, read into the one event table (doctor/events/table.py has its columns).

Rules kept here
- `read_history` is the way in: it reads the files, keeps what is relevant, and gives every reader its part.
- Reading begins when a history is made: what its files lack, and what they hold, is known then (`survey`), and only the
  parts of the way that they need are built.
- Most rows need nothing more when their line is read. They are kept packed, without their lines (packing.py), which is
  what verdicts are made of. The event table has the lines; it reads the files again.
- Events come as they stand in their files: order them by cluster, file and position, or by time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from slackwater.doctor.events.table import CLUSTER_KINDS, COLUMNS, DETAIL, EVIDENCE
from slackwater.spark.doctor.history.attribution import attributed, placed, survey
from slackwater.spark.doctor.history.group_events import own_events
from slackwater.spark.doctor.history.lines import EVENT, RECORD
from slackwater.spark.doctor.history.log_events import Reader
from slackwater.spark.doctor.history.offsets_topic import dumped_records, offsets_events, undecoded
from slackwater.spark.doctor.history.packing import (
    EVENTS,
    NAMES,
    PACKED,
    SURVEY,
    TOLD,
    packing_rows,
    reading_events,
    reading_lines,
    unpack_names,
)
from slackwater.spark.doctor.history.reading import Lines

_STRUCT: Final = ", ".join(f"`{name}` {kind}" for name, kind in DETAIL.items())
_NAMES: Final = ("cluster", "group", "client", "member", "instance")
_TOLD: Final = (*COLUMNS, "detail", *EVIDENCE)
_EXAMPLES: Final = 5
_TIMELESS: Final = "(no date and time that could be read) "


@dataclass(frozen=True, slots=True)
class Source:
    """Where a history lies, and how its lines are to be understood."""

    paths: Sequence[str]
    cluster: str | None = None
    below: str | None = None
    """A directory whose sub-directories are clusters, each under its own name."""
    zones: Mapping[str, str] = field(default_factory=dict)
    """Zones of stamps that have none, by a part of their file's path; `zone` for all others."""
    zone: str = "UTC"
    skip_corrupt: bool = False


class History:
    """What was read: `events`, and per file the lines that look relevant and were not understood, in `unread`."""

    def __init__(self, spark: SparkSession, source: Source, beside: Sequence[DataFrame] = ()) -> None:
        """`beside` is what else is told of the same cluster, with its detail as JSON: it may know who is who."""
        self._beside: Final = beside
        self._buckets: Final = buckets(spark)
        self._undecodable: Final = spark.sparkContext.accumulator(0)
        self._lines: Final = Lines(spark, source.paths, skip_corrupt=source.skip_corrupt)
        self._reader: Final = partial(Reader, dict(source.zones), source.zone, source.cluster, source.below)
        read = self._lines.map(reading_lines(self._reader, self._buckets), f"{TOLD}, {PACKED}")
        self._read: Final = read.localCheckpoint(eager=False)
        pieces = self._read.filter(F.col("bucket") == SURVEY).select("packed").collect()
        self.survey: Final = survey(bytes(row.packed) for row in pieces)

    @cached_property
    def loose(self) -> DataFrame:
        """What logs tell, of all that is not packed: what brokers and topics did, and what was wanting something."""
        return attributed(self._loose.filter("kind IS NOT NULL"), self.survey, self._names())

    @property
    def events(self) -> DataFrame:
        """The event table."""
        rest = [self.loose, *self._others()]
        table = self._lines.map(reading_events(self._reader), EVENTS)
        for one in rest:
            table = table.unionByName(as_events(one))
        return table.withColumn("evidence", F.coalesce("evidence", F.expr("concat(file, ':', position)")))

    @property
    def packed(self) -> DataFrame:
        """All of it, packed, and fences with their groups."""
        rest = self._others()
        if self.survey.any("loose"):
            rest.append(self._placed())
        packed = self._packed
        for one in rest:
            packed = packed.unionByName(pack(one, self._buckets))
        return packed

    @property
    def around(self) -> DataFrame:
        """What happened to brokers and topics; it names no group, and nothing is wanting."""
        return self._loose.filter(F.col("kind").isin(*CLUSTER_KINDS))

    @property
    def has_unread(self) -> bool:
        """Some of what was read was not understood; of records of `__consumer_offsets`, once they have been judged."""
        return self.survey.any("unread") or self._undecodable.value > 0

    @property
    def unread(self) -> DataFrame:
        """Per cluster and file: how many relevant lines no template reads, and the first few of them.

        So it is with lines whose time cannot be read, and with records of `__consumer_offsets` that cannot be decoded.
        """
        first = F.slice(F.sort_array(F.collect_list(F.struct("position", "text"))), 1, _EXAMPLES)
        timeless = F.expr("kind IS NOT NULL AND time_ms IS NULL")
        text = F.when(timeless, F.concat(F.lit(_TIMELESS), "text")).otherwise(F.col("text"))
        lines = self._loose.filter(F.col("template").isNull() | timeless)
        lines = lines.select("cluster", "file", "position", text.alias("text"))
        if self.survey.any("records"):
            lines = lines.unionByName(undecoded(self._records))
        return lines.groupBy("cluster", "file").agg(
            F.count(F.lit(1)).alias("lines"), F.transform(first, lambda one: one["text"]).alias("examples")
        )

    def close(self) -> None:
        """Let go of what was kept in memory."""
        self._read._jdf.queryExecution().logical().rdd().unpersist(False)

    @property
    def _loose(self) -> DataFrame:
        return self._read.filter("bucket IS NULL").select(*_TOLD)

    @property
    def _records(self) -> DataFrame:
        return dumped_records(self._loose.filter(F.col("template") == RECORD))

    @property
    def _packed(self) -> DataFrame:
        return self._read.filter("bucket >= 0").select("bucket", "packed")

    def _names(self) -> DataFrame:
        """Who is in which group, by all that is told."""
        names = self._packed.mapInArrow(unpack_names, NAMES).unionByName(self._loose.select(*_NAMES))
        for one in (*self._others(), *self._beside):
            names = names.unionByName(one.select(*_NAMES))
        return names

    def _placed(self) -> DataFrame:
        return placed(self.loose, self._names()) if self.survey.any("fences") else self.loose

    def _others(self) -> list[DataFrame]:
        """What is told by no log, with its detail as JSON."""
        found = []
        if self.survey.any("records"):
            found.append(offsets_events(self._records, self._undecodable))
        if self.survey.any("own"):
            found.append(own_events(self._loose.filter(F.col("template") == EVENT)))
        return [as_told(one) for one in found]

    def __enter__(self) -> "History":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_history(spark: SparkSession, paths: Sequence[str], **how: object) -> History:
    """Read files and directories of logs, dumps of `__consumer_offsets` and of `__group_events`, all in one."""
    return History(spark, Source(paths, **how))  # type: ignore[arg-type]


def read_events(spark: SparkSession, paths: Sequence[str], **how: object) -> DataFrame:
    """The event table of these paths; `how` is as for `Source`."""
    return read_history(spark, paths, **how).events


def buckets(spark: SparkSession) -> int:
    """How many buckets groups are put into: as many as there are partitions when rows are brought together."""
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)


def pack(told: DataFrame, buckets: int) -> DataFrame:
    """Rows with their detail as JSON, packed; those without a group are nobody's."""
    return told.filter("`group` IS NOT NULL").mapInArrow(packing_rows(buckets), PACKED)


def as_told(events: DataFrame) -> DataFrame:
    """Events with their detail as JSON."""
    return events.withColumn("detail", F.to_json("detail"))


def as_events(told: DataFrame) -> DataFrame:
    """Events with their detail as a struct."""
    return told.withColumn("detail", F.from_json("detail", _STRUCT))


__all__ = ["History", "Source", "as_told", "buckets", "pack", "read_events", "read_history"]
