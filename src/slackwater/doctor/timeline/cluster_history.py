"""Events of the brokers and topics of a cluster, which concern all its groups.

Invariants:
- A broker's outage lasts from its stop to the end of its next start; a killed broker has no stop. Without a next start
  the end of the outage is unknown, and `ended_ms` is the time of the stop.
- Creating, deleting or extending a topic is logged once per partition and counts as one change.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from slackwater.doctor.events import row_predicates
from slackwater.doctor.events.rows import Row, in_order
from slackwater.group.rebalance_counter import INITIAL_DELAY_MS


class Outage(NamedTuple):
    """A broker was unavailable; `began_ms` is None if its stop was not logged."""

    node: str
    began_ms: int | None
    ended_ms: int
    rows: tuple[Row, ...]

    @property
    def has_end(self) -> bool:
        """Whether the broker's next start was logged."""
        return self.began_ms != self.ended_ms


@dataclass(frozen=True, slots=True)
class TopicChange:
    """A topic was created or deleted, or its number of partitions was raised."""

    kind: str
    topic: str
    time_ms: int
    row: Row


@dataclass(frozen=True, slots=True)
class ClusterHistory:
    """Outages and topic changes of a cluster."""

    outages: tuple[Outage, ...] = ()
    topic_changes: tuple[TopicChange, ...] = ()
    ended_ms: int = 0
    """Time of the last row about the cluster; a group whose rebalance never ends has no later row of its own."""

    @classmethod
    def of(cls, rows: Iterable[Row], ended_ms: int = 0) -> "ClusterHistory":
        """Build the history from the rows without a group."""
        ordered = in_order(rows)
        last = max((row.time_ms for row in ordered), default=0)
        return cls(tuple(_outages(ordered)), tuple(_topic_changes(ordered)), max(ended_ms, last))


def _outages(rows: Sequence[Row]) -> Iterable[Outage]:
    stopped: dict[str, Row] = {}
    up_since: dict[str, int] = {}
    for row in rows:
        if row_predicates.is_broker_stop(row):
            stopped.setdefault(row_predicates.node(row), row)
        elif row_predicates.is_broker_start(row):
            node = row_predicates.node(row)
            stop = stopped.pop(node, None)
            # Several lines report one start; no broker restarts in so short a time.
            if stop is None and node in up_since and row.time_ms - up_since[node] < INITIAL_DELAY_MS:
                continue
            up_since[node] = row.time_ms
            rows_of_outage = (row,) if stop is None else (stop, row)
            yield Outage(node, None if stop is None else stop.time_ms, row.time_ms, rows_of_outage)
    for node, stop in stopped.items():
        yield Outage(node, stop.time_ms, stop.time_ms, (stop,))


def _topic_changes(rows: Sequence[Row]) -> Iterable[TopicChange]:
    """Combine the rows of the partitions of one topic into one change."""
    batches: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        kind, topic = row_predicates.topic_change(row), row.detail_text("topic")
        if kind is None or not topic:
            continue
        batch = batches.setdefault((kind, topic), [])
        if batch and row.time_ms - batch[-1].time_ms > INITIAL_DELAY_MS:
            yield _topic_change(kind, topic, batch)
            batch.clear()
        batch.append(row)
    for (kind, topic), batch in batches.items():
        yield _topic_change(kind, topic, batch)


def _topic_change(kind: str, topic: str, batch: list[Row]) -> TopicChange:
    # A new topic logs partition 0; an extended topic already has it.
    if kind == row_predicates.CREATED and all(row.detail_number("partition") not in (None, 0) for row in batch):
        kind = row_predicates.GREW
    return TopicChange(kind, topic, batch[0].time_ms, batch[0])
