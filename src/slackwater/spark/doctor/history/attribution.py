"""Whose line it is: the group and the client that a line leaves out.

Rules kept here
- Mostly lines of clients are filled in; a broker's line says itself whom it is about.
- A file that names exactly one client tells of that client, and one that names exactly one group, of that group: then
  its other lines are theirs. A file with two of them tells nothing, and its lines keep their nulls.
- librdkafka names the client and not the group: a client id that the brokers, the offsets or other clients of the same
  cluster know in exactly one group is in that group.
- A broker's line about fencing or a new leader names members and no group: it is the only one that they are in. For a
  fence that names an instance alone, it is the only group that the instance is in (`placed`).
- A file that names no client, but whose members' ids all begin with one client's id, is that client's.
- Only loose rows are looked at (packing.py). What is wanting is known from the survey; what nothing wants is not done,
  and who is in which group (`names`) is asked only then.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from slackwater.group.events import EventSource
from slackwater.spark.doctor.history.packing import UUID, WITHOUT_GROUP

_COUNTS: Final = ("loose", "around", "unread", "records", "own", "nameless", "groupless", "memberships", "fences")
_NAMES: Final = ("clients", "groups", "prefixes")


@dataclass(frozen=True, slots=True)
class File:
    """A cluster's file: whose it is, and how many of its rows lack what."""

    cluster: str | None
    file: str
    its_client: str | None
    its_group: str | None
    ended_ms: int
    loose: int
    around: int
    unread: int
    records: int
    own: int
    nameless: int
    groupless: int
    memberships: int
    fences: int


@dataclass(frozen=True, slots=True)
class Survey:
    """All files."""

    files: tuple[File, ...]

    def any(self, what: str) -> bool:
        """Whether a row of any file is so."""
        return any(getattr(one, what) for one in self.files)

    def ended_ms(self) -> dict[str, int]:
        """Until when anything was told of each cluster."""
        found: dict[str, int] = {}
        for one in self.files:
            name = one.cluster or ""
            found[name] = max(found.get(name, 0), one.ended_ms)
        return found


def survey(pieces: Iterable[bytes]) -> Survey:
    """Bring together what tasks know of the files that they read."""
    found: dict[tuple[str | None, str], dict[str, Any]] = {}
    for piece in pieces:
        for one in json.loads(piece):
            all_of_it = found.setdefault((one["cluster"], one["file"]), {})
            for name in _COUNTS:
                all_of_it[name] = all_of_it.get(name, 0) + one[name]
            for name in _NAMES:
                all_of_it.setdefault(name, set()).update(one[name])
            all_of_it["ended_ms"] = max(all_of_it.get("ended_ms", 0), one["ended_ms"])
    return Survey(tuple(_file(cluster, file, known) for (cluster, file), known in found.items()))


def _file(cluster: str | None, file: str, known: dict[str, Any]) -> File:
    clients, groups, prefixes = (known[name] for name in _NAMES)
    counts = {name: known[name] for name in _COUNTS}
    return File(cluster, file, _only_one(clients or prefixes), _only_one(groups), known["ended_ms"], **counts)


def _only_one(names: set[str]) -> str | None:
    return next(iter(names)) if len(names) == 1 else None


def attributed(rows: DataFrame, found: Survey, names: DataFrame) -> DataFrame:
    """Loose rows with the groups and clients about which their file, or their cluster, leaves no doubt."""
    columns = rows.columns
    if found.any("nameless"):
        rows = _by_file(rows, found)
    if any(one.groupless and one.its_group is None for one in found.files):
        rows = _by_client(rows, names)
    if found.any("memberships"):
        rows = _by_member(rows, names)
    return rows.select(*columns)


def placed(rows: DataFrame, names: DataFrame) -> DataFrame:
    """Give a fence its group. An instance that is known in several groups has none."""
    known = (
        names.filter("`group` IS NOT NULL AND instance IS NOT NULL")
        .groupBy(F.col("cluster").alias("there"), F.col("instance").alias("known_instance"))
        .agg(_only(F.col("group")).alias("its_group"))
        .filter("its_group IS NOT NULL")
    )
    wanted = F.when(F.col("group").isNull(), F.col("instance"))
    filled = rows.join(F.broadcast(known), _there("there") & (wanted == F.col("known_instance")), "left")
    return filled.withColumn("group", F.coalesce("group", "its_group")).select(*rows.columns)


def _by_file(rows: DataFrame, found: Survey) -> DataFrame:
    """Fill in a file's only client and its only group."""
    owned = _local(rows, found, lambda one: one.nameless and (one.its_client or one.its_group))
    theirs = F.broadcast(owned).withColumnsRenamed({"cluster": "there", "file": "known_file"})
    filled = rows.join(theirs, _there("there") & _told_by_client() & (F.col("file") == F.col("known_file")), "left")
    return filled.withColumns({"client": F.coalesce("client", "its_client"), "group": F.coalesce("group", "its_group")})


def _by_client(rows: DataFrame, names: DataFrame) -> DataFrame:
    """Fill in the only group that a client is known in."""
    client = F.coalesce("client", _client_of("member", "instance"))
    known = (
        names.filter("`group` IS NOT NULL")
        .groupBy(F.col("cluster").alias("there_client"), client.alias("known_client"))
        .agg(_only(F.col("group")).alias("clients_group"))
        .filter("known_client IS NOT NULL AND clients_group IS NOT NULL")
    )
    wanted = F.when(_told_by_client() & F.col("group").isNull(), F.col("client"))
    filled = rows.join(F.broadcast(known), _there("there_client") & (wanted == F.col("known_client")), "left")
    return filled.withColumn("group", F.coalesce("group", "clients_group"))


def _by_member(rows: DataFrame, names: DataFrame) -> DataFrame:
    """Fill in the only group that a member id is in; few are asked for, and only these are looked up."""
    wanted = F.when(F.col("kind").isin(*WITHOUT_GROUP) & F.col("group").isNull(), _named())
    asked = (
        rows.select(F.col("cluster").alias("there_asked"), wanted.alias("asked")).distinct().filter("asked IS NOT NULL")
    )
    known = (
        names.filter("`group` IS NOT NULL AND member IS NOT NULL")
        .join(F.broadcast(asked), _there("there_asked") & (F.col("member") == F.col("asked")), "left_semi")
        .groupBy(F.col("cluster").alias("there_member"), F.col("member").alias("known_member"))
        .agg(_only(F.col("group")).alias("members_group"))
    )
    filled = rows.join(F.broadcast(known), _there("there_member") & (wanted == F.col("known_member")), "left")
    return filled.withColumn("group", F.coalesce("group", "members_group"))


def _local(rows: DataFrame, found: Survey, which: Callable[[File], object]) -> DataFrame:
    """Of the files, those that are so, as a table."""
    files = [(one.cluster, one.file, one.its_client, one.its_group) for one in found.files if which(one)]
    return rows.sparkSession.createDataFrame(files, "cluster string, file string, its_client string, its_group string")


def _there(known: str) -> Column:
    return F.col("cluster").eqNullSafe(F.col(known))


def _named() -> Column:
    return F.coalesce("member", _told("holder"), _told("old_leader"))


def _told_by_client() -> Column:
    return F.col("source") == EventSource.CLIENT_LOG.value


def _client_of(member: str, instance: str) -> Column:
    """The client id that a dynamic member's id begins with; a static one's begins with its instance id."""
    prefix = F.regexp_extract(member, UUID, 1)
    return F.when((prefix != "") & F.col(instance).isNull(), prefix)


def _told(name: str) -> Column:
    return F.get_json_object("detail", f"$.{name}")


def _only(column: Column) -> Column:
    """The one value of a group of rows; null where there are several, or none."""
    return F.when(F.min(column) == F.max(column), F.min(column))
