"""What happened to the brokers and the topics of a cluster, which all its groups share.

Rules kept here
- A broker's outage lasts from its stop to the end of its next start; one that was killed has no stop.
- The partitions of a topic that is created, deleted or grown are told one by one, and are one change.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slackwater.doctor.defaults import INITIAL_DELAY_MS
from slackwater.doctor.events import signals
from slackwater.doctor.events.rows import Row, in_order


@dataclass(frozen=True, slots=True)
class Outage:
    """The coordinator was not there; `began_ms` is None when nobody saw it stop."""

    node: str
    began_ms: int | None
    ended_ms: int
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class TopicChange:
    """A topic was created, deleted, or given more partitions."""

    kind: str
    topic: str
    time_ms: int
    row: Row


@dataclass(frozen=True, slots=True)
class ClusterHistory:
    """What happened to the brokers and the topics that all groups of a cluster share."""

    outages: tuple[Outage, ...] = ()
    topic_changes: tuple[TopicChange, ...] = ()
    ended_ms: int = 0
    """Until when anything was told of the cluster: a group whose round does not end is told of no more."""

    @classmethod
    def of(cls, rows: Iterable[Row], ended_ms: int = 0) -> "ClusterHistory":
        """Read the rows that name no group."""
        ordered = in_order(rows)
        last = max((row.time_ms for row in ordered), default=0)
        return cls(tuple(_outages(ordered)), tuple(_topic_changes(ordered)), max(ended_ms, last))


def _outages(rows: Sequence[Row]) -> Iterable[Outage]:
    stopped: dict[str, Row] = {}
    up_since: dict[str, int] = {}
    for row in rows:
        if signals.is_broker_stop(row):
            stopped.setdefault(signals.node(row), row)
        elif signals.is_broker_start(row):
            node = signals.node(row)
            stop = stopped.pop(node, None)
            # Several lines tell of one start, at its end; no broker dies and has started again in so short a time.
            if stop is None and node in up_since and row.time_ms - up_since[node] < INITIAL_DELAY_MS:
                continue
            up_since[node] = row.time_ms
            told = (row,) if stop is None else (stop, row)
            yield Outage(node, None if stop is None else stop.time_ms, row.time_ms, told)


def _topic_changes(rows: Sequence[Row]) -> Iterable[TopicChange]:
    """One change each: the partitions of a topic that is created, deleted or grown are told one by one."""
    batches: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        kind, topic = signals.topic_change(row), row.text("topic")
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
    # A new topic has a partition 0; one that grows already had it.
    if kind == signals.CREATED and all(row.number("partition") not in (None, 0) for row in batch):
        kind = signals.GREW
    return TopicChange(kind, topic, batch[0].time_ms, batch[0])
