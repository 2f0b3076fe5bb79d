"""The doctor's job on Spark: a session, a history, the verdicts, and the lines that they rest on.

Rules kept here
- Paths, a live cluster, or both; what a cluster holds is read by the `slackwater` source and judged with the logs.
- Time limits and the choice of groups are taken before anything is judged.
- The few lines that are shown are read again, with their numbers; no others are.
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Final
from urllib.parse import unquote

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from slackwater.doctor.causes.finding import EvidenceLine
from slackwater.doctor.diagnosis import Diagnosis, DiagnosisRequest
from slackwater.doctor.timeline.cluster_history import ClusterHistory
from slackwater.doctor.verdict import Verdict
from slackwater.group.errors import UsageError
from slackwater.spark.doctor.diagnosis import Choice, clusters, verdicts
from slackwater.spark.doctor.history import History, Source, as_told, buckets, pack
from slackwater.spark.doctor.history.files import uri
from slackwater.spark.doctor.history.group_events import own_events
from slackwater.spark.doctor.history.offsets_topic import offsets_events
from slackwater.spark.doctor.history.reading import Shown, shown_lines

__all__ = ["Diagnosis", "DiagnosisRequest", "create_session", "diagnose"]

OFFSETS: Final = "__consumer_offsets"
GROUP_EVENTS: Final = "__group_events"
_DAMAGED: Final = ("Unexpected end of input stream", "EOFException", "not in gzip format", "invalid stored block")
_OF_WORKER: Final = re.compile(r"^\w*Error: \[Errno \d+\] (?P<why>.*): ['\"](?P<path>.*)['\"]$", re.MULTILINE)
"""How a worker says that it could not read a file."""
_OF_SPARK: Final = re.compile(r"while reading file (\S+?)\.?\s")
"""How Spark names the file that it was at."""
_RAISED: Final = re.compile(r"[A-Za-z_.]*(?:Error|Exception|Interrupt)\b")
_SHARED: Final = {
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "32",
    "spark.sql.codegen.hugeMethodLimit": "8000",  # what is larger, HotSpot never compiles
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
}
_LOCAL: Final = {"spark.shuffle.compress": "false"}
"""Where nothing goes over a network, packing takes longer than moving."""


def create_session(master: str, conf: Mapping[str, str]) -> SparkSession:
    """A Spark session whose workers run this Python."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("slackwater doctor")
    for name, value in {**_SHARED, **(_LOCAL if master.startswith("local") else {}), **conf}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def diagnose(spark: SparkSession, patient: DiagnosisRequest) -> Diagnosis:
    """Read, judge, and number the lines; what Spark cannot read is told in a sentence."""
    try:
        return _diagnose(spark, patient)
    except (PySparkException, Py4JError) as error:  # the second is what a checkpoint's failure comes as
        raise UsageError(_sentence(str(error), patient)) from error
    except OSError as error:  # a file that was there when its directory was listed
        raise UsageError(_unreadable(error.filename, error.strerror)) from error


def _diagnose(spark: SparkSession, patient: DiagnosisRequest) -> Diagnosis:
    live = [as_told(events) for events in _live(spark, patient)] if patient.bootstrap is not None else []
    history = History(spark, _source(patient), live) if patient.paths else None
    try:
        tables = [history.packed] if history is not None else []
        tables += [pack(events, buckets(spark)) for events in live]
        packed = reduce(DataFrame.unionByName, tables)
        surroundings = _surroundings(history, patient) if history is not None else {}
        choice = Choice(patient.groups, patient.since_ms, patient.until_ms, patient.with_timeline)
        found = verdicts(packed, surroundings, choice)
        unread = _unread(history)
        told = [] if history is None or found else [_chosen(history.events, patient), *tables[1:]]
        if told and all(table.isEmpty() for table in told):
            raise UsageError(_nothing(patient, unread))
        if patient.clusters_dir is not None:
            found = [replace(verdict, cluster=unquote(verdict.cluster)) for verdict in found]
        return Diagnosis(_shown(spark, patient.paths, found), unread)
    finally:
        if history is not None:
            history.close()


def _surroundings(history: History, patient: DiagnosisRequest) -> dict[str, ClusterHistory]:
    """What happened around the groups: of brokers and topics only logs tell."""
    around = _chosen(history.around, patient) if history.survey.any("around") else None
    until_ms = patient.until_ms
    ended_ms = {
        name: time_ms if until_ms is None else min(time_ms, until_ms)
        for name, time_ms in history.survey.ended_ms().items()
    }
    return clusters(around, ended_ms)


def _sentence(text: str, patient: DiagnosisRequest) -> str:
    """What went wrong while reading, in one line."""
    where = ", ".join(patient.paths) or patient.bootstrap or ""
    if any(words in text for words in _DAMAGED):
        which = _OF_SPARK.search(text)
        file = _bare(which[1]) if which else f"A compressed file in {where}"
        return f"{file} is cut off or damaged. Fetch it again, or unpack what there is of it."
    if found := _OF_WORKER.search(text):
        return _unreadable(found["path"], found["why"])
    if "AUTHORIZATION_FAILED" in text or "not authorized" in text.lower():
        return (
            f"The cluster at {patient.bootstrap} does not let this user read {OFFSETS}. Ask for the right to read it."
        )
    lines = [line.strip().removeprefix(": ") for line in text.splitlines() if line.strip()]
    if any(line.startswith("Traceback") for line in lines):  # of a worker: what it came to stands last
        raised = [line for line in lines if _RAISED.match(line)]
        return f"{where} could not be read, which is a fault of slackwater's: {' '.join(raised[-1:])}"
    told = next((line for line in lines if "Exception: " in line), next(iter(lines), "Spark does not say why"))
    return f"{where} could not be read: {told}"


def _unreadable(path: str, why: str | None) -> str:
    return f"{path} could not be read: {why}. See whether it is still there, and whether this user may read it."


def _source(patient: DiagnosisRequest) -> Source:
    """Files are called by their URIs, and so must be what they are below."""
    below = None if patient.clusters_dir is None else uri(patient.clusters_dir)
    return Source(patient.paths, cluster=patient.cluster, below=below, zones=patient.zones, zone=patient.zone)


def _chosen(events: DataFrame, patient: DiagnosisRequest) -> DataFrame:
    events = events.filter("time_ms IS NOT NULL")
    if patient.groups:
        wanted = F.col("group").isin(*patient.groups)
        events = events.filter(wanted | F.col("group").isNull())
    if patient.since_ms is not None:
        events = events.filter(F.col("time_ms") >= patient.since_ms)
    if patient.until_ms is not None:
        events = events.filter(F.col("time_ms") <= patient.until_ms)
    return events


def _nothing(patient: DiagnosisRequest, unread: Sequence[tuple[str, int, str]]) -> str:
    where = ", ".join(patient.paths)
    if patient.groups or patient.since_ms is not None or patient.until_ms is not None:
        return (
            f"Nothing in {where} is about the group and the time that were asked for. Ask for more, or look elsewhere."
        )
    if unread:
        file, lines, example = unread[0]
        return f"No line of {where} was understood; {file} has {lines} that look like Kafka's, such as: {example[:120]}"
    return f"Nothing in {where} is about a consumer group. Name a broker's server.log, clients' logs, dumped {OFFSETS}."


def _unread(history: History | None) -> list[tuple[str, int, str]]:
    if history is None or not history.has_unread:
        return []
    rows = history.unread.orderBy(F.desc("lines")).limit(20).collect()
    return [(_bare(row.file), row.lines, row.examples[0]) for row in rows]


def _bare(file: str) -> str:
    """A local file by its path, any other by its URI."""
    return unquote(re.sub("^file:/+", "/", file)) if file.startswith("file:") else file


def _live(spark: SparkSession, patient: DiagnosisRequest) -> list[DataFrame]:
    """The records of a running cluster, as events."""
    import slackwater.spark

    slackwater.spark.register(spark)
    name = patient.cluster or patient.bootstrap
    records = _topic(spark, patient, OFFSETS).select(
        F.lit(name).alias("cluster"),
        F.lit(OFFSETS).alias("file"),
        F.col("offset").alias("position"),
        "partition",
        "offset",
        F.unix_millis("timestamp").alias("timestamp"),
        "key",
        "value",
    )
    tables = [offsets_events(records)]
    if _has_topic(patient, GROUP_EVENTS):
        lines = _topic(spark, patient, GROUP_EVENTS).select(
            F.lit(name).alias("cluster"),
            F.lit(GROUP_EVENTS).alias("file"),
            F.col("offset").alias("position"),
            F.col("value").cast("string").alias("text"),
        )
        tables.append(own_events(lines))
    return tables


def _topic(spark: SparkSession, patient: DiagnosisRequest, topic: str) -> DataFrame:
    reader = spark.read.format("slackwater").option("kafka.bootstrap.servers", patient.bootstrap or "")
    for name, value in patient.settings.items():
        reader = reader.option(f"kafka.{name}", value)
    return reader.option("subscribe", topic).option("startingOffsets", "earliest").load()


def _has_topic(patient: DiagnosisRequest, topic: str) -> bool:
    from slackwater.client.admin import Admin

    with Admin({"bootstrap.servers": patient.bootstrap or "", **patient.settings}) as admin:
        return topic in {found.name for found in admin.list_topics(internal=True)}


def _shown(spark: SparkSession, paths: Sequence[str], found: Sequence[Verdict]) -> list[Verdict]:
    """`file:position` as `file:line`, with the line itself, wherever a verdict shows a line of a file."""
    wanted = {place for verdict in found for line in verdict.evidence if (place := _place(line)) is not None}
    lines = shown_lines(spark, paths, wanted)
    return [replace(verdict, evidence=tuple(_named(line, lines) for line in verdict.evidence)) for verdict in found]


def _place(line: EvidenceLine) -> tuple[str, int] | None:
    file, colon, position = (line.where or "").rpartition(":")
    return (file, int(position)) if colon and position.isdigit() and line.source.endswith("_log") else None


def _named(line: EvidenceLine, lines: Mapping[tuple[str, int], Shown]) -> EvidenceLine:
    place = _place(line)
    shown = None if place is None else lines.get(place)
    if place is None or shown is None:
        return line
    return replace(line, where=f"{_bare(place[0])}:{shown.number}", line=shown.text)
