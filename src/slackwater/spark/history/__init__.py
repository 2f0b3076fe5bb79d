"""A history of groups, read into the one event table (doctor/event_table.py has its columns).

Rules kept here
- `read_history` is the way in: it reads the files once, keeps what is relevant, and gives every reader its part.
- Events come as they stand in their files: order them by cluster, file and position, or by time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from slackwater.spark.history.attribution import attributed
from slackwater.spark.history.group_events import own_events
from slackwater.spark.history.lines import unwrapped, with_cluster
from slackwater.spark.history.log_events import log_events, unread
from slackwater.spark.history.offsets_topic import dumped_records, offsets_events
from slackwater.spark.history.reading import raw_lines
from slackwater.spark.history.recognise import EVENT, RECORD, recognised


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

    def __init__(self, spark: SparkSession, source: Source) -> None:
        raw = raw_lines(spark, source.paths, skip_corrupt=source.skip_corrupt)
        kept = with_cluster(recognised(unwrapped(raw)), cluster=source.cluster, below=source.below)
        self._told = log_events(kept, source.zones, source.zone).persist(StorageLevel.MEMORY_AND_DISK)
        records = dumped_records(self._told.filter(F.col("template") == RECORD))
        own = self._told.filter(F.col("template") == EVENT)
        self.unread: DataFrame = unread(self._told)
        self.events: DataFrame = (
            attributed(self._told.filter("kind IS NOT NULL"))
            .unionByName(offsets_events(records))
            .unionByName(own_events(own))
        )

    def close(self) -> None:
        """Let go of what was kept in memory."""
        self._told.unpersist()

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


__all__ = ["History", "Source", "read_events", "read_history"]
