"""Adds the missing group and client to rows, from the rest of the file or of the cluster.

Invariants:
- A file that names exactly one client belongs to that client; a file that names exactly one group, to that group. A
  file that names two of them decides nothing.
- A file that names no client, but whose member ids all begin with one client id, belongs to that client.
- A client id (librdkafka logs no group) that is known in exactly one group of the cluster is in that group.
- A member id in a broker's line about fencing or a new leader is in the only group that has this member; an instance
  id, in the only group that has this instance (`fill_group_from_instance`).
- Only the steps that the file summaries ask for are planned.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from slackwater.doctor.events.member_ids import SPARK_PATTERN
from slackwater.doctor.history.summaries import WITHOUT_GROUP, FileSummaries
from slackwater.group.events import EventSource


def fill_names(rows: DataFrame, summaries: FileSummaries, row_ids: DataFrame) -> DataFrame:
    """Fill in the groups and clients that a row's file, or the names of its cluster, determine."""
    columns = rows.columns
    if summaries.has_any("without_names"):
        rows = _fill_from_file(rows, summaries)
    if any("without_group" in summary.contents and summary.only_group is None for summary in summaries.values()):
        rows = _fill_group_from_client(rows, row_ids)
    if summaries.has_any("members_without_group"):
        rows = _fill_group_from_member(rows, row_ids)
    return rows.select(*columns)


def fill_group_from_instance(rows: DataFrame, row_ids: DataFrame) -> DataFrame:
    """Fill in the only group that an instance id is known in."""
    known = (
        row_ids.filter("`group` IS NOT NULL AND instance IS NOT NULL")
        .groupBy(F.col("cluster").alias("known_cluster"), F.col("instance").alias("known_instance"))
        .agg(_only(F.col("group")).alias("known_group"))
        .filter("known_group IS NOT NULL")
    )
    instance = F.when(F.col("group").isNull(), F.col("instance"))
    filled = rows.join(F.broadcast(known), _same_cluster() & (instance == F.col("known_instance")), "left")
    return filled.withColumn("group", F.coalesce("group", "known_group")).select(*rows.columns)


def _fill_from_file(rows: DataFrame, summaries: FileSummaries) -> DataFrame:
    files = [
        (summary.cluster, summary.file, summary.only_client, summary.only_group)
        for summary in summaries.values()
        if "without_names" in summary.contents and (summary.only_client or summary.only_group)
    ]
    schema = "known_cluster string, known_file string, only_client string, only_group string"
    known = rows.sparkSession.createDataFrame(files, schema)
    condition = _same_cluster() & _is_client_log() & (F.col("file") == F.col("known_file"))
    filled = rows.join(F.broadcast(known), condition, "left").withColumns(
        {"client": F.coalesce("client", "only_client"), "group": F.coalesce("group", "only_group")}
    )
    return filled.select(*rows.columns)


def _fill_group_from_client(rows: DataFrame, row_ids: DataFrame) -> DataFrame:
    client = F.coalesce("client", _client_of_member())
    known = (
        row_ids.filter("`group` IS NOT NULL")
        .groupBy(F.col("cluster").alias("known_cluster"), client.alias("known_client"))
        .agg(_only(F.col("group")).alias("known_group"))
        .filter("known_client IS NOT NULL AND known_group IS NOT NULL")
    )
    client = F.when(_is_client_log() & F.col("group").isNull(), F.col("client"))
    filled = rows.join(F.broadcast(known), _same_cluster() & (client == F.col("known_client")), "left")
    return filled.withColumn("group", F.coalesce("group", "known_group")).select(*rows.columns)


def _fill_group_from_member(rows: DataFrame, row_ids: DataFrame) -> DataFrame:
    member = F.when(F.col("kind").isin(*WITHOUT_GROUP) & F.col("group").isNull(), _named_member())
    needed = (
        rows.select(F.col("cluster").alias("known_cluster"), member.alias("needed"))
        .distinct()
        .filter("needed IS NOT NULL")
    )
    known = (
        row_ids.filter("`group` IS NOT NULL AND member IS NOT NULL")
        .join(F.broadcast(needed), _same_cluster() & (F.col("member") == F.col("needed")), "left_semi")
        .groupBy(F.col("cluster").alias("known_cluster"), F.col("member").alias("known_member"))
        .agg(_only(F.col("group")).alias("known_group"))
    )
    filled = rows.join(F.broadcast(known), _same_cluster() & (member == F.col("known_member")), "left")
    return filled.withColumn("group", F.coalesce("group", "known_group")).select(*rows.columns)


def _same_cluster() -> Column:
    return F.col("cluster").eqNullSafe(F.col("known_cluster"))


def _is_client_log() -> Column:
    return F.col("source") == EventSource.CLIENT_LOG.value


def _named_member() -> Column:
    return F.coalesce("member", F.get_json_object("detail", "$.holder"), F.get_json_object("detail", "$.old_leader"))


def _client_of_member() -> Column:
    """Return the client id that a dynamic member's id begins with; a static one's begins with its instance id."""
    client = F.regexp_extract("member", SPARK_PATTERN, 1)
    return F.when((client != "") & F.col("instance").isNull(), client)


def _only(column: Column) -> Column:
    """Return the only value of a group of rows; null if there are several, or none."""
    return F.when(F.min(column) == F.max(column), F.min(column))
