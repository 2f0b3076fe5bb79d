"""Observes the queries of a Spark session, and reports their progress to the control server.

Invariants:
- The end of a batch comes from Spark's listener at once. Finished tasks and stateful operators are polled: Spark has no
  listener for them that Python could use without slowing down every task.
- The checkpoint id in its offset (`token`) identifies a query, whatever its name and its other sources are.
- A polling error never affects the query: if the query or Spark has stopped, only the poll ends.
"""

import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

from slackwater.escaping import get_logger
from slackwater.spark.member.control_server import ControlServer, RunningBatch

log = get_logger("slackwater.spark.member.query_listener")

POLL_S: Final = 0.5
# Logical operators that keep state between batches if their input is a stream.
STATEFUL: Final = (
    "Aggregate",
    "Deduplicate",
    "DeduplicateWithinWatermark",
    "Distinct",
    "FlatMapGroupsWithState",
    "FlatMapGroupsInPandasWithState",
    "TransformWithState",
    "TransformWithStateInPySpark",
)


def parse_offset(text: str | None) -> tuple[str, Mapping[str, object]] | None:
    """Return the checkpoint id and the content of an offset; None if another source wrote it."""
    try:
        offset = json.loads(text or "null")
    except ValueError:
        return None
    if isinstance(offset, dict) and isinstance(offset.get("token"), str) and "ranges" in offset:
        return offset["token"], offset
    return None


class QueryListener(StreamingQueryListener):
    """Reports every finished batch to the control server."""

    def __init__(self, server: ControlServer, queries: "QueryMonitor") -> None:
        self._server = server
        self._queries = queries

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Start polling."""
        self._queries.wake()

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Report a finished batch."""
        keeps_state = bool(event.progress.stateOperators)
        for source in event.progress.sources:
            if (parsed := parse_offset(source.endOffset)) is not None:
                checkpoint_id, offset = parsed
                self._server.batch_finished(checkpoint_id, offset)
                if keeps_state:
                    self._server.set_stateful(checkpoint_id, True)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Ignored."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Ignored: Spark stops the query's reader."""


class QueryMonitor:
    """Polls the running queries twice a second while there are any."""

    def __init__(self, spark: SparkSession, server: ControlServer) -> None:
        self._spark = spark
        self._server = server
        self._completed_tasks: dict[str, int] = {}  # by run id
        self._checked_plans: set[str] = set()  # run ids
        server.add_session(self.running_batch)
        self._active = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="slackwater-queries", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Start polling: a query has started."""
        self._active.set()

    def running_batch(self, query_id: str) -> RunningBatch | None:
        """Return the running batch of a query; None if this session does not run it."""
        try:
            for query in self._spark.streams.active:
                if str(query.id) == query_id:
                    batch = query._jsq.streamingQuery().getLatestExecutionContext()
                    return RunningBatch(int(batch.batchId()), _group_sources(batch))
        except (Py4JError, OSError, AttributeError, AssertionError) as error:
            log.debug("Cannot find the running batch of query %s: %s", query_id, error)
        return None

    def close(self) -> None:
        """Stop polling."""
        self._closed.set()
        self._active.set()

    def _run(self) -> None:
        while not self._closed.is_set():
            self._active.wait()
            try:
                active = list(self._spark.streams.active)
            except (Py4JError, OSError, AttributeError, AssertionError):
                return  # Spark has stopped
            if not active:
                self._active.clear()
                self._completed_tasks.clear()
                self._checked_plans.clear()
            for query in active:
                try:
                    self._poll(query)
                except (Py4JError, OSError, AttributeError) as error:
                    log.debug("Cannot poll a query: %s", error)
            self._closed.wait(POLL_S)

    def _poll(self, query: StreamingQuery) -> None:
        run_id = str(query.runId)
        execution = query._jsq.streamingQuery()
        checkpoint_ids = [offset[0] for text in _offsets(execution) if (offset := parse_offset(text)) is not None]
        if not checkpoint_ids:
            return
        if run_id not in self._checked_plans:
            self._checked_plans.add(run_id)
            for checkpoint_id in checkpoint_ids:
                self._server.set_stateful(checkpoint_id, keeps_state(execution.logicalPlan()))
        completed = self._count_completed_tasks(run_id)
        if completed > self._completed_tasks.get(run_id, 0):
            self._completed_tasks[run_id] = completed
            for checkpoint_id in checkpoint_ids:
                self._server.task_ended(checkpoint_id)

    def _count_completed_tasks(self, run_id: str) -> int:
        """Return a number that grows with every finished task of a query run."""
        tracker = self._spark.sparkContext.statusTracker()
        active = set(tracker.getActiveJobsIds())
        jobs = tracker.getJobIdsForGroup(run_id)
        # Job ids increase, so the sum grows with every task and every job.
        completed = max(jobs, default=0) << 32
        for job in active.intersection(jobs):
            info = tracker.getJobInfo(job)
            stages = (tracker.getStageInfo(stage) for stage in (info.stageIds if info is not None else ()))
            completed += sum(stage.numCompletedTasks for stage in stages if stage is not None)
        return completed


def keeps_state(plan: Any) -> bool:
    """Whether a logical plan in the JVM has an operator that keeps state between batches."""
    children = [plan.children().apply(index) for index in range(plan.children().size())]
    streams = sum(bool(child.isStreaming()) for child in children)
    name = plan.nodeName()
    if (streams and name in STATEFUL) or (streams > 1 and name == "Join"):
        return True
    return any(keeps_state(child) for child in children)


def _group_sources(batch: Any) -> list[tuple[str, int]]:
    """The sources in a group from which a batch reads; a batch without new data of a source does not read from it."""
    sources = []
    iterator = batch.endOffsets().iterator()
    while iterator.hasNext():
        entry = iterator.next()
        end = parse_offset(str(entry._2().json()))
        start = batch.startOffsets().get(entry._1())
        is_idle = start.isDefined() and parse_offset(str(start.get().json())) == end
        if end is not None and end[1].get("group") and not is_idle:
            sources.append((end[0], int(str(end[1]["seq"]))))
    return sources


def _offsets(execution: Any) -> Iterator[str]:
    """The offsets of the current or last batch of a query, one per source."""
    iterator = execution.availableOffsets().valuesIterator()
    while iterator.hasNext():
        yield str(iterator.next().json())
