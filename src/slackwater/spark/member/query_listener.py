"""What happens to the queries of this Spark session, passed on to their members.

Rules kept here
- The end of a batch comes from Spark's own listener, as it happens. Tasks and state come by looking: Spark has no
  listener for them that Python could hear without slowing every task down.
- A query is known by the token in its offset, so that a member is found whatever the query is called, and whatever
  other sources it has.
- Looking never disturbs: a query that ends in the middle of it, or a Spark that has stopped, ends the look and no more.
"""

import json
import logging
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

from slackwater.spark.member.control_server import ControlServer

log = logging.getLogger("slackwater.spark.member.query_listener")

LOOK_SECONDS: Final = 0.5
# Logical operators that keep state between batches when what they work on is a stream.
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
    """The token and the whole of an offset of ours; None for an offset of somebody else."""
    try:
        offset = json.loads(text or "null")
    except ValueError:
        return None
    if isinstance(offset, dict) and isinstance(offset.get("token"), str) and "ranges" in offset:
        return offset["token"], offset
    return None


class QueryListener(StreamingQueryListener):
    """Tells the control room of every batch that has ended."""

    def __init__(self, room: ControlServer, queries: "QueryMonitor") -> None:
        self._room = room
        self._queries = queries

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """A query begins: look at it from now on."""
        self._queries.wake()

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """A batch has ended."""
        keeps_state = bool(event.progress.stateOperators)
        for source in event.progress.sources:
            if (found := parse_offset(source.endOffset)) is not None:
                token, offset = found
                self._room.finished(token, offset)
                if keeps_state:
                    self._room.stateful(token, True)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Nothing new."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """A query has ended; its member learns that from Spark."""


class QueryMonitor:
    """Looks at the running queries twice a second, while there are any with a member."""

    def __init__(self, spark: SparkSession, room: ControlServer) -> None:
        self._spark = spark
        self._room = room
        self._ended_tasks: dict[str, int] = {}  # by run
        self._judged: set[str] = set()  # runs whose plan has been looked at
        self._begun = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="slackwater-queries", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """There is something to look at."""
        self._begun.set()

    def close(self) -> None:
        """Look no more."""
        self._over.set()
        self._begun.set()

    def _watch(self) -> None:
        while not self._over.is_set():
            self._begun.wait()
            try:
                active = list(self._spark.streams.active)
            except (Py4JError, OSError, AttributeError, AssertionError):
                return  # Spark has stopped
            if not active:
                self._begun.clear()
                self._ended_tasks.clear()
                self._judged.clear()
            for query in active:
                try:
                    self._look(query)
                except (Py4JError, OSError, AttributeError) as error:
                    log.debug("A query could not be looked at: %s", error)
            self._over.wait(LOOK_SECONDS)

    def _look(self, query: StreamingQuery) -> None:
        run_id = str(query.runId)
        execution = query._jsq.streamingQuery()
        tokens = [found[0] for text in _offsets(execution) if (found := parse_offset(text)) is not None]
        if not tokens:
            return
        if run_id not in self._judged:
            self._judged.add(run_id)
            for token in tokens:
                self._room.stateful(token, keeps_state(execution.logicalPlan()))
        ended = self._tasks_ended(run_id)
        if ended > self._ended_tasks.get(run_id, 0):
            self._ended_tasks[run_id] = ended
            for token in tokens:
                self._room.task_ended(token)

    def _tasks_ended(self, run_id: str) -> int:
        """The number of tasks a run of a query has finished, of those that Spark still remembers."""
        tracker = self._spark.sparkContext.statusTracker()
        active = set(tracker.getActiveJobsIds())
        jobs = tracker.getJobIdsForGroup(run_id)
        # A job's number grows, so that the sum grows with every task, and with every new job.
        ended = max(jobs, default=0) << 32
        for job in active.intersection(jobs):
            info = tracker.getJobInfo(job)
            stages = (tracker.getStageInfo(stage) for stage in (info.stageIds if info is not None else ()))
            ended += sum(stage.numCompletedTasks for stage in stages if stage is not None)
        return ended


def keeps_state(plan: Any) -> bool:
    """Whether a logical plan in the JVM has an operator that keeps state from batch to batch."""
    children = [plan.children().apply(at) for at in range(plan.children().size())]
    streams = sum(bool(child.isStreaming()) for child in children)
    name = plan.nodeName()
    if (streams and name in STATEFUL) or (streams > 1 and name == "Join"):
        return True
    return any(keeps_state(child) for child in children)


def _offsets(execution: Any) -> Iterator[str]:
    """The offsets of the batch that a query works on, or has ended last, one per source."""
    iterator = execution.availableOffsets().valuesIterator()
    while iterator.hasNext():
        yield str(iterator.next().json())
