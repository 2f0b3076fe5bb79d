"""The doctor's Spark job: a session, the history of paths and a live cluster, the verdicts, and the lines they cite.

Invariants:
- The input is paths, a live cluster, or both. The `slackwater` source reads a cluster's internal topics.
- Time limits and the selection of groups apply before the verdicts.
- Only the lines that verdicts cite and those that show the library are read again, with their line numbers.
"""

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial, reduce
from typing import Final
from urllib.parse import unquote

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from slackwater.doctor.diagnosis import Diagnosis, DiagnosisRequest
from slackwater.doctor.grouping import Selection
from slackwater.doctor.history.evidence import cite_lines
from slackwater.doctor.history.files import display_name, uri
from slackwater.doctor.input_paths import damaged_file_error, no_events_error, unreadable_file_error
from slackwater.doctor.timeline.cluster_history import ClusterHistory
from slackwater.group.errors import UsageError
from slackwater.group.internal_topics import EVENTS_TOPIC, OFFSETS_TOPIC
from slackwater.spark.doctor.group_diagnosis import diagnose_groups, read_cluster_histories
from slackwater.spark.doctor.history.event_history import (
    EventHistory,
    HistorySource,
    bucket,
    bucket_count,
    with_json_detail,
)
from slackwater.spark.doctor.history.group_events import read_group_events
from slackwater.spark.doctor.history.offsets_topic import offsets_events
from slackwater.spark.doctor.history.reading import find_evidence_lines

__all__ = ["Diagnosis", "DiagnosisRequest", "create_session", "describe_error", "diagnose"]

_DAMAGED: Final = ("Unexpected end of input stream", "EOFException", "not in gzip format", "invalid stored block")
_OS_ERROR: Final = re.compile(r"^\w*Error: \[Errno \d+\] (?P<reason>.*): ['\"](?P<path>.*)['\"]$", re.MULTILINE)
"""The error of a Python worker that could not read a file."""
_SPARK_FILE: Final = re.compile(r"while reading file (\S+?)\.?\s")
_EXCEPTION: Final = re.compile(r"[A-Za-z_.]*(?:Error|Exception|Interrupt)\b")
_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "32",
    "spark.sql.codegen.hugeMethodLimit": "8000",  # HotSpot does not compile larger methods
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
}
_LOCAL_SETTINGS: Final = {"spark.shuffle.compress": "false"}
"""Without a network, compression takes longer than writing."""


def create_session(master: str, conf: Mapping[str, str]) -> SparkSession:
    """Return a Spark session whose workers run this Python."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("slackwater doctor")
    for name, value in {**_SETTINGS, **(_LOCAL_SETTINGS if master.startswith("local") else {}), **conf}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def diagnose(spark: SparkSession, request: DiagnosisRequest) -> Diagnosis:
    """Return the verdicts; an error of Spark becomes a `UsageError`."""
    try:
        return _diagnose(spark, request)
    except (PySparkException, Py4JError) as error:  # a failed checkpoint raises the second
        raise UsageError(describe_error(str(error), request)) from error
    except OSError as error:  # a file that was removed after its directory was listed
        raise unreadable_file_error(error.filename, error.strerror) from error


def _diagnose(spark: SparkSession, request: DiagnosisRequest) -> Diagnosis:
    live = [with_json_detail(events) for events in _read_cluster(spark, request)] if request.bootstrap else []
    history = EventHistory(spark, _source(request), live) if request.paths else None
    try:
        tables = [history.bucketed] if history is not None else []
        tables += [bucket(rows, bucket_count(spark)) for rows in live]
        selection = Selection(request.groups, request.since_ms, request.until_ms, request.with_timeline)
        cluster_histories = _cluster_histories(history, selection) if history is not None else {}
        verdicts = diagnose_groups(reduce(DataFrame.unionByName, tables), cluster_histories, selection)
        unrecognized = _unrecognized(history)
        if history is not None and not verdicts:
            events = [_select(history.events, selection), *tables[1:]]
            if all(table.isEmpty() for table in events):
                raise no_events_error(request, unrecognized)
        if request.clusters_dir is not None:
            verdicts = [replace(verdict, cluster=unquote(verdict.cluster)) for verdict in verdicts]
        find = partial(find_evidence_lines, spark, request.paths)
        return Diagnosis(cite_lines(verdicts, find), unrecognized)
    finally:
        if history is not None:
            history.close()


def _cluster_histories(history: EventHistory, selection: Selection) -> dict[str, ClusterHistory]:
    cluster_events = _select(history.cluster_events, selection) if history.summaries.has_any("cluster_events") else None
    until_ms = selection.until_ms
    ended_ms = {
        name: time_ms if until_ms is None else min(time_ms, until_ms)
        for name, time_ms in history.summaries.ended_ms().items()
    }
    return read_cluster_histories(cluster_events, ended_ms)


def describe_error(text: str, request: DiagnosisRequest) -> str:
    """Return what an error of Spark means to the user, in one sentence."""
    where = ", ".join(request.paths) or request.bootstrap or ""
    if any(words in text for words in _DAMAGED):
        named = _SPARK_FILE.search(text)
        file = display_name(named[1]) if named else f"A compressed file in {where}"
        return str(damaged_file_error(file))
    if error := _OS_ERROR.search(text):
        return str(unreadable_file_error(error["path"], error["reason"]))
    if "AUTHORIZATION_FAILED" in text or "not authorized" in text.lower():
        cluster = f"the cluster at {request.bootstrap}"
        return f"This user is not authorized to read {OFFSETS_TOPIC} of {cluster}. Grant READ on it."
    lines = [line.strip().removeprefix(": ") for line in text.splitlines() if line.strip()]
    if any(line.startswith("Traceback") for line in lines):  # of a worker: the exception is last
        raised = [line for line in lines if _EXCEPTION.match(line)]
        return f"{where} could not be read because of a bug in slackwater: {' '.join(raised[-1:])}"
    reason = next((line for line in lines if "Exception: " in line), next(iter(lines), "Spark gives no reason"))
    return f"{where} could not be read: {reason}"


def _source(request: DiagnosisRequest) -> HistorySource:
    # The names of files are URIs, too.
    clusters_dir = None if request.clusters_dir is None else uri(request.clusters_dir)
    return HistorySource(
        request.paths, cluster=request.cluster, clusters_dir=clusters_dir, zones=request.zones, zone=request.zone
    )


def _select(events: DataFrame, selection: Selection) -> DataFrame:
    """Return the rows that `is_selected` (doctor/grouping.py) selects."""
    events = events.filter("time_ms IS NOT NULL")
    if selection.groups:
        events = events.filter(F.col("group").isin(*selection.groups) | F.col("group").isNull())
    if selection.since_ms is not None:
        events = events.filter(F.col("time_ms") >= selection.since_ms)
    if selection.until_ms is not None:
        events = events.filter(F.col("time_ms") <= selection.until_ms)
    return events


def _unrecognized(history: EventHistory | None) -> list[tuple[str, int, str]]:
    if history is None or not history.has_unrecognized:
        return []
    rows = history.unrecognized.orderBy(F.desc("lines")).limit(20).collect()
    return [(display_name(row.file), row.lines, row.examples[0]) for row in rows]


def _read_cluster(spark: SparkSession, request: DiagnosisRequest) -> list[DataFrame]:
    """Return the events in the internal topics of a live cluster."""
    import slackwater.spark

    slackwater.spark.register(spark)
    name = request.cluster or request.bootstrap
    records = _topic(spark, request, OFFSETS_TOPIC).select(
        F.lit(name).alias("cluster"),
        F.lit(OFFSETS_TOPIC).alias("file"),
        F.col("offset").alias("position"),
        "partition",
        "offset",
        F.unix_millis("timestamp").alias("timestamp"),
        "key",
        "value",
    )
    tables = [offsets_events(records)]
    if _has_topic(request, EVENTS_TOPIC):
        lines = _topic(spark, request, EVENTS_TOPIC).select(
            F.lit(name).alias("cluster"),
            F.lit(EVENTS_TOPIC).alias("file"),
            F.col("offset").alias("position"),
            F.col("value").cast("string").alias("text"),
        )
        tables.append(read_group_events(lines))
    return tables


def _topic(spark: SparkSession, request: DiagnosisRequest, topic: str) -> DataFrame:
    reader = spark.read.format("slackwater").option("kafka.bootstrap.servers", request.bootstrap or "")
    for name, value in request.settings.items():
        reader = reader.option(f"kafka.{name}", value)
    reader = reader.option("kafka.isolation.level", "read_committed")  # offsets of aborted transactions are not commits
    return reader.option("subscribe", topic).option("startingOffsets", "earliest").load()


def _has_topic(request: DiagnosisRequest, topic: str) -> bool:
    from slackwater.client.admin import Admin

    with Admin({"bootstrap.servers": request.bootstrap or "", **request.settings}) as admin:
        return topic in {listed.name for listed in admin.list_topics(internal=True)}
