"""Raw lines to lines of logs: what wraps them is taken off.

Rules kept here
- A JSON line of a container runtime or a log shipper holds the line that was logged (`log`, `message` or `msg`), and
  its own time. Lines that are JSON because their library writes JSON (kafkajs), records of `__consumer_offsets` and
  events of `__group_events` stay as they are.
- A wrapped text of several lines is kept whole: the reader of templates takes it apart.
- The cluster is a name the caller gives, or the directory below a common one that a file lies in.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from slackwater.spark.history.recognise import IS_EVENT, IS_RECORD

_WRAPPER: Final = (
    "log STRING, message STRING, msg STRING, time STRING, timestamp STRING, `@timestamp` STRING, ts STRING"
)
_OWN: Final = f"""(contains(text, '"logger":"kafkajs"') OR {IS_RECORD} OR {IS_EVENT})"""


def unwrapped(raw: DataFrame) -> DataFrame:
    """The lines that were logged, with the wrapper's own time in `stamp`."""
    inner = F.when(F.col("text").startswith("{") & ~F.expr(_OWN), F.from_json("text", _WRAPPER))
    rows = raw.withColumn("inner", inner)
    logged = F.coalesce("inner.message", "inner.msg", "inner.log", "text")
    stamp = F.coalesce("inner.time", "inner.`@timestamp`", "inner.timestamp", "inner.ts")
    return rows.select("file", "position", F.rtrim(logged).alias("text"), stamp.alias("stamp"))


def with_cluster(rows: DataFrame, *, cluster: str | None = None, below: str | None = None) -> DataFrame:
    """Name the cluster that each file tells of: `cluster`, or the directory right below `below`."""
    if below is None:
        return rows.withColumn("cluster", F.lit(cluster).cast("string"))
    rest = F.substring_index("file", below.rstrip("/") + "/", -1)
    return rows.withColumn("cluster", F.substring_index(rest, "/", 1))
