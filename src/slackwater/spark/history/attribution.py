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
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from slackwater.doctor.event_table import FactKind
from slackwater.group.events import Kind, Source

_UUID: Final = r"^(.+)-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
_WITHOUT_GROUP: Final = (Kind.MEMBER_FENCED.value, Kind.LEADER_CHANGED.value)
_WHEN_STARTING: Final = (FactKind.BROKER_SETTING.value, FactKind.BROKER_STARTED.value)


def attributed(events: DataFrame) -> DataFrame:
    """Events with the groups and clients that the rest of their file, or of their cluster, leaves no doubt about.

    The events are looked at several times: let them be kept in memory.
    """
    rows = (
        _in_time(events)
        .join(F.broadcast(_files(events)), _there("known_file") & (F.col("file") == F.col("known_file")), "left")
        .withColumn("client", F.when(_told_by_client(), F.coalesce("client", "its_client")).otherwise(F.col("client")))
        .join(F.broadcast(_clients(events)), _same(F.col("client"), "known_client", _told_by_client()), "left")
        .join(_members(events), _same(_named(), "known_member", F.col("kind").isin(*_WITHOUT_GROUP)), "left")
    )
    of_client = F.when(_told_by_client(), F.coalesce("its_group", "clients_group"))
    return rows.withColumn("group", F.coalesce("group", of_client, "members_group")).select(*events.columns)


def _files(events: DataFrame) -> DataFrame:
    """Whose file it is: its only client and its only group."""
    named = _only(F.coalesce("client", _setting("client.id")))
    return (
        events.filter(_told_by_client())
        .groupBy(F.col("cluster").alias("there_known_file"), F.col("file").alias("known_file"))
        .agg(
            F.coalesce(named, _only(_client_of("member", "instance"))).alias("its_client"),
            _only(F.coalesce("group", _setting("group.id"))).alias("its_group"),
        )
    )


def _clients(events: DataFrame) -> DataFrame:
    """The clients that are in one group only."""
    client = F.coalesce("client", _client_of("member", "instance"))
    return (
        events.filter("`group` IS NOT NULL")
        .groupBy(F.col("cluster").alias("there_known_client"), client.alias("known_client"))
        .agg(_only(F.col("group")).alias("clients_group"))
        .filter("known_client IS NOT NULL AND clients_group IS NOT NULL")
    )


def _members(events: DataFrame) -> DataFrame:
    """The group that a member id is in."""
    return (
        events.filter("`group` IS NOT NULL AND member IS NOT NULL")
        .groupBy(F.col("cluster").alias("there_known_member"), F.col("member").alias("known_member"))
        .agg(_only(F.col("group")).alias("members_group"))
    )


def _same(who: Column, known: str, which: Column) -> Column:
    """Whether a row that lacks its group is about one that is known in its cluster."""
    wanted = F.when(which & F.col("group").isNull(), who)
    return _there(known) & (wanted == F.col(known))


def _there(known: str) -> Column:
    return F.col("cluster").eqNullSafe(F.col(f"there_{known}"))


def _named() -> Column:
    return F.coalesce("member", "detail.holder", "detail.old_leader")


def _in_time(events: DataFrame) -> DataFrame:
    """Give lines without a time that of the last line before them that has one, or else of the first one after."""
    file = Window.partitionBy("cluster", "file").orderBy("position")
    before = F.last("time_ms", ignorenulls=True).over(file.rowsBetween(Window.unboundedPreceding, 0))
    after = F.first("time_ms", ignorenulls=True).over(file.rowsBetween(0, Window.unboundedFollowing))
    # A broker's events have their time, but for what it prints when it starts. They are many, and stay where they are.
    apart = _told_by_client() | F.col("kind").isin(*_WHEN_STARTING)
    filled = events.filter(apart).withColumn("time_ms", F.coalesce(before, after))
    return filled.unionByName(events.filter(~apart))


def _told_by_client() -> Column:
    return F.col("source") == Source.CLIENT_LOG.value


def _client_of(member: str, instance: str) -> Column:
    """The client id that a dynamic member's id begins with; a static one's begins with its instance id."""
    prefix = F.regexp_extract(member, _UUID, 1)
    return F.when((prefix != "") & F.col(instance).isNull(), prefix)


def _setting(name: str) -> Column:
    return F.when((F.col("detail.setting") == name) & (F.col("detail.value") != "null"), F.col("detail.value"))


def _only(column: Column) -> Column:
    """The one value of a group of rows; null where there are several, or none."""
    return F.when(F.min(column) == F.max(column), F.min(column))
