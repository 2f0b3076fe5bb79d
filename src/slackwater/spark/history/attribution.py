"""Whose line it is: the group and the client that a client's line leaves out.

Rules kept here
- Mostly lines of clients are filled in; a broker's line says itself whom it is about.
- A file that names exactly one client tells of that client, and one that names exactly one group, of that group: then
  its other lines are theirs. A file with two of them tells nothing, and its lines keep their nulls.
- librdkafka names the client and not the group: a client id that the brokers, the offsets or other clients of the same
  cluster know in exactly one group is in that group.
- A broker's line about fencing or a new leader names members and no group: it is the only one that they are in.
- A file that names no client, but whose members' ids all begin with one client's id, is that client's.
- Lines without a time of their own (settings, the last line of a trace) have that of the last line before them.
- One pass (`survey`) tells per file what is wanting. What nothing wants is not done, and rows that want nothing stay
  where they are.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F

from slackwater.doctor.event_table import FactKind
from slackwater.group.events import Kind, Source
from slackwater.spark.history.recognise import EVENT, RECORD

_UUID: Final = r"^(.+)-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
_WITHOUT_GROUP: Final = (Kind.MEMBER_FENCED.value, Kind.LEADER_CHANGED.value)
_WHEN_STARTING: Final = (FactKind.BROKER_SETTING.value, FactKind.BROKER_STARTED.value)


@dataclass(frozen=True, slots=True)
class Survey:
    """Per cluster and file: whose it is, and how many of its rows lack what."""

    files: tuple[Row, ...]

    def any(self, what: str) -> bool:
        """Whether a row of any file is so."""
        return any(row[what] for row in self.files)


def survey(told: DataFrame) -> Survey:
    """Go over what lines say, once."""
    client, told_by_client = F.coalesce("client", _setting("client.id")), _told_by_client()
    named = _only(F.when(told_by_client, client))
    counts = {
        "unread": F.col("template").isNull(),
        "records": F.col("template") == RECORD,
        "own": F.col("template") == EVENT,
        "timeless": F.col("kind").isNotNull() & F.col("time_ms").isNull() & _apart(),
        "nameless": told_by_client & (F.col("client").isNull() | F.col("group").isNull()),
        "groupless": told_by_client & F.col("group").isNull(),
        "memberships": F.col("kind").isin(*_WITHOUT_GROUP) & F.col("group").isNull(),
        "fences": F.col("kind").isNotNull() & F.col("group").isNull() & F.col("instance").isNotNull(),
    }
    files = told.groupBy("cluster", "file").agg(
        F.coalesce(named, _only(F.when(told_by_client, _client_of("member", "instance")))).alias("its_client"),
        _only(F.when(told_by_client, F.coalesce("group", _setting("group.id")))).alias("its_group"),
        *(F.count(F.when(which, 1)).alias(name) for name, which in counts.items()),
    )
    return Survey(tuple(files.collect()))


def attributed(events: DataFrame, found: Survey) -> DataFrame:
    """Events with the groups and clients that the rest of their file, or of their cluster, leaves no doubt about.

    The events are looked at several times: let them be kept in memory.
    """
    rows = _in_time(events, found) if found.any("timeless") else events
    if found.any("nameless"):
        rows = _by_file(rows, found)
    if any(row.groupless and row.its_group is None for row in found.files):
        rows = _by_client(rows, events)
    if found.any("memberships"):
        rows = _by_member(rows, events)
    return rows.select(*events.columns)


def _by_file(rows: DataFrame, found: Survey) -> DataFrame:
    """Fill in a file's only client and its only group."""
    owned = _local(rows, found, lambda row: row.nameless and (row.its_client or row.its_group))
    theirs = F.broadcast(owned).withColumnsRenamed({"cluster": "there", "file": "known_file"})
    filled = rows.join(theirs, _there("there") & _told_by_client() & (F.col("file") == F.col("known_file")), "left")
    return filled.withColumns({"client": F.coalesce("client", "its_client"), "group": F.coalesce("group", "its_group")})


def _by_client(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Fill in the only group that a client is known in."""
    client = F.coalesce("client", _client_of("member", "instance"))
    known = (
        events.filter("`group` IS NOT NULL")
        .groupBy(F.col("cluster").alias("there_client"), client.alias("known_client"))
        .agg(_only(F.col("group")).alias("clients_group"))
        .filter("known_client IS NOT NULL AND clients_group IS NOT NULL")
    )
    wanted = F.when(_told_by_client() & F.col("group").isNull(), F.col("client"))
    filled = rows.join(F.broadcast(known), _there("there_client") & (wanted == F.col("known_client")), "left")
    return filled.withColumn("group", F.coalesce("group", "clients_group"))


def _by_member(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Fill in the only group that a member id is in; few are asked for, and only these are looked up."""
    wanted = F.when(F.col("kind").isin(*_WITHOUT_GROUP) & F.col("group").isNull(), _named())
    asked = (
        rows.select(F.col("cluster").alias("there_asked"), wanted.alias("asked")).distinct().filter("asked IS NOT NULL")
    )
    known = (
        events.filter("`group` IS NOT NULL AND member IS NOT NULL")
        .join(F.broadcast(asked), _there("there_asked") & (F.col("member") == F.col("asked")), "left_semi")
        .groupBy(F.col("cluster").alias("there_member"), F.col("member").alias("known_member"))
        .agg(_only(F.col("group")).alias("members_group"))
    )
    filled = rows.join(F.broadcast(known), _there("there_member") & (wanted == F.col("known_member")), "left")
    return filled.withColumn("group", F.coalesce("group", "members_group"))


def _in_time(events: DataFrame, found: Survey) -> DataFrame:
    """Give lines without a time that of the last line before them that has one, or else of the first one after."""
    file = Window.partitionBy("cluster", "file").orderBy("position")
    before = F.last("time_ms", ignorenulls=True).over(file.rowsBetween(Window.unboundedPreceding, 0))
    after = F.first("time_ms", ignorenulls=True).over(file.rowsBetween(0, Window.unboundedFollowing))
    some = _local(events, found, lambda row: row.timeless).select(
        F.col("cluster").alias("there"), F.col("file").alias("its")
    )
    here = _there("there") & (F.col("file") == F.col("its"))
    # A broker's events have their time, but for what it prints when it starts. They are many, and stay where they are.
    moved = events.filter(_apart()).join(F.broadcast(some), here, "left_semi")
    stay = events.join(F.broadcast(some), here & _apart(), "left_anti")
    return moved.withColumn("time_ms", F.coalesce(before, after)).unionByName(stay)


def _local(events: DataFrame, found: Survey, which: Callable[[Row], object]) -> DataFrame:
    """Of the files, those that are so, as a table."""
    files: Iterable[tuple[str | None, ...]] = [
        (row.cluster, row.file, row.its_client, row.its_group) for row in found.files if which(row)
    ]
    return events.sparkSession.createDataFrame(
        list(files), "cluster string, file string, its_client string, its_group string"
    )


def _there(known: str) -> Column:
    return F.col("cluster").eqNullSafe(F.col(known))


def _named() -> Column:
    return F.coalesce("member", _told("holder"), _told("old_leader"))


def _apart() -> Column:
    return _told_by_client() | F.col("kind").isin(*_WHEN_STARTING)


def _told_by_client() -> Column:
    return F.col("source") == Source.CLIENT_LOG.value


def _client_of(member: str, instance: str) -> Column:
    """The client id that a dynamic member's id begins with; a static one's begins with its instance id."""
    prefix = F.regexp_extract(member, _UUID, 1)
    return F.when((prefix != "") & F.col(instance).isNull(), prefix)


def _setting(name: str) -> Column:
    said = (F.col("kind") == FactKind.CLIENT_SETTING.value) & (_told("setting") == name) & (_told("value") != "null")
    return F.when(said, _told("value"))


def _told(name: str) -> Column:
    return F.get_json_object("detail", f"$.{name}")


def _only(column: Column) -> Column:
    """The one value of a group of rows; null where there are several, or none."""
    return F.when(F.min(column) == F.max(column), F.min(column))
