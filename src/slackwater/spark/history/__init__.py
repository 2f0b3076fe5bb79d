"""A history of groups, read into the one event table (doctor/event_table.py has its columns).

Rules kept here
- `read_history` is the way in: it reads the files once, keeps what is relevant, and gives every reader its part.
- Reading begins when a history is made: what its files lack, and what they hold, is known then (`survey`), and only the
  parts of the way that they need are built.
- Events come as they stand in their files: order them by cluster, file and position, or by time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from slackwater.spark.history.attribution import attributed, survey
from slackwater.spark.history.group_events import own_events
from slackwater.spark.history.lines import unwrapped, with_cluster
from slackwater.spark.history.log_events import as_events, as_told, log_events, unread
from slackwater.spark.history.offsets_topic import dumped_records, offsets_events
from slackwater.spark.history.reading import raw_lines
from slackwater.spark.history.recognise import EVENT, RECORD, recognised, worth_reading


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
        raw = worth_reading(raw_lines(spark, source.paths, skip_corrupt=source.skip_corrupt))
        kept = with_cluster(recognised(unwrapped(raw)), cluster=source.cluster, below=source.below)
        # The plan that leads here is long. Were it part of all that follows, Spark would go over it with every step.
        self._told = log_events(kept, source.zones, source.zone).localCheckpoint(eager=False)
        self.survey: Final = survey(self._told)
        self.logged: Final = attributed(self._told.filter("kind IS NOT NULL"), self.survey)
        """What logs tell, as `log_events` has it: the smaller form of the table."""

    @property
    def told(self) -> DataFrame:
        """All of it, in the smaller form."""
        table = self.logged
        if self.survey.any("records"):
            records = dumped_records(self._told.filter(F.col("template") == RECORD))
            table = table.unionByName(as_told(offsets_events(records)))
        if self.survey.any("own"):
            table = table.unionByName(as_told(own_events(self._told.filter(F.col("template") == EVENT))))
        return table

    @property
    def events(self) -> DataFrame:
        """The event table."""
        return as_events(self.told)

    @property
    def unread(self) -> DataFrame:
        """Per cluster and file: how many relevant lines no template reads, and the first few of them."""
        return unread(self._told)

    def close(self) -> None:
        """Let go of what was kept in memory."""
        self._told._jdf.queryExecution().logical().rdd().unpersist(False)

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
