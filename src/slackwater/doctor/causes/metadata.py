"""Changes of the topics that a group reads: added partitions, new or deleted topics, changed subscriptions.

Invariants:
- The leader rejoins when its topics change; the broker logs only the rejoin. The change itself is in the leader's log,
  the controller's log or the next assignment.
- A member whose subscription changes in the same process changed it itself, unless a topic that a pattern could match
  was created or deleted meanwhile. A pattern matches for all members.
- A topic that is read and changes counts even if no leader has noticed (some clients never rejoin).
- Only topics that the group reads count. If these are unknown, a change counts if a leader rejoins within
  metadata.max.age.ms.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from slackwater.doctor.causes.departures import ExplainedDeparture, outage_of
from slackwater.doctor.causes.finding import (
    CERTAIN,
    LIKELY,
    NEARLY_CERTAIN,
    SURE,
    EvidenceLine,
    Finding,
    evidence,
    occasions,
    shown,
    unique,
)
from slackwater.doctor.defaults import METADATA_MAX_AGE_MS
from slackwater.doctor.events import row_predicates
from slackwater.doctor.events.rows import Row, within
from slackwater.doctor.events.table import OtherEventKind
from slackwater.doctor.phrases import count_of, shown_names
from slackwater.doctor.timeline.client_timeline import NEAR_MS, ClientTimeline
from slackwater.doctor.timeline.cluster_history import TopicChange
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.group.events import EventKind, Trigger

CLIENT_LOG = "which topics the group reads; add the clients' logs or __consumer_offsets"
_CAUSES: Final[dict[str, str]] = {
    row_predicates.GREW: "partitions_added",
    row_predicates.CREATED: "new_topic_matched",
    row_predicates.DELETED: "topic_deleted",
}
_CHANGE_TEXT: Final[dict[str, str]] = {
    row_predicates.GREW: "got more partitions",
    row_predicates.CREATED: "was created",
    row_predicates.DELETED: "was deleted",
}
_TRIGGERS: Final[dict[str, str]] = {
    Trigger.PARTITIONS_ADDED: row_predicates.GREW,
    Trigger.PATTERN_MATCHED: row_predicates.CREATED,
    Trigger.TOPIC_DELETED: row_predicates.DELETED,
}
_STARTED: Final = EventKind.REBALANCE_STARTED
_REJOIN_TRIGGERS: Final[frozenset[str]] = frozenset(
    {
        Trigger.LEADER_REJOIN,
        Trigger.UNKNOWN,
        Trigger.SUBSCRIPTION_CHANGE,
        Trigger.PATTERN_MATCHED,
        Trigger.PARTITIONS_ADDED,
        Trigger.TOPIC_DELETED,
    }
)
_JAVA_TOPIC: Final = re.compile(r"([^\s{},=]+)=\[([^\]]*)\]")
_PYTHON_TOPIC: Final = re.compile(r"'([^']+)': (\d+)")
_LIST: Final = re.compile(r"\[([^\]]*)\]")


def metadata_change(history: GroupHistory, departures: Sequence[ExplainedDeparture]) -> Finding | None:
    """Find a change of the topics that the group reads."""
    topic_changes = [(change.time_ms, change.topic) for change in history.cluster.topic_changes]
    for _, row in _named_changes(history):
        topic_changes += [(row.time_ms, topic) for topic in row.detail_names("topics")]
    changed = [
        (timeline, time_ms)
        for timeline in history.timelines.values()
        if timeline.topics
        for time_ms in _resubscribed(history, timeline, topic_changes)
    ]
    all_members = _changed_by_all(history, changed)
    if changed and not all_members:
        return _subscription_change(history, changed, all_members)
    for find in (_from_coordinator, _from_cluster, _from_clients, _from_records, _from_rejoins):
        finding = find(history)
        if finding is not None:
            return finding
    return _subscription_change(history, changed, all_members) if changed else None


def _changed_by_all(history: GroupHistory, changed: Sequence[tuple[ClientTimeline, int]]) -> bool:
    """Return whether all members changed to the same topics, as they do when a pattern matches an unlogged topic."""
    subscribed = [timeline for timeline in history.timelines.values() if timeline.topics]
    names = {timeline.name for timeline, _ in changed}
    return len(names) == len(subscribed) > 1 and len({timeline.topics[-1][1] for timeline in subscribed}) == 1


def _subscription_change(
    history: GroupHistory, changed: Sequence[tuple[ClientTimeline, int]], all_members: bool
) -> Finding:
    """Build the finding for members that changed their subscription."""
    return Finding(
        cause="subscription_change",
        culprits=unique(timeline.name for timeline, _ in changed),
        times=unique_times(time_ms for _, time_ms in changed),
        confidence=LIKELY if all_members else NEARLY_CERTAIN,
        evidence=shown(_subscription_evidence(history, timeline, time_ms) for timeline, time_ms in changed[:2]),
        alternatives=tuple(_CAUSES.values()) if all_members else (),
    )


def _resubscribed(
    history: GroupHistory, timeline: ClientTimeline, topic_changes: Sequence[tuple[int, str]]
) -> list[int]:
    """Return when a running member changed its subscription while no topic was created or deleted."""
    times = []
    for (noted_ms, before), (after_ms, after) in pairwise(timeline.topics):
        rows = (
            row
            for row in timeline.log.subscribes
            if row.time_ms < after_ms and row_predicates.subscribed(row) == before
        )
        before_ms = max((row.time_ms for row in rows), default=noted_ms)
        is_member = any(
            t.joined_ms <= after_ms and (t.ended_ms is None or t.ended_ms > after_ms) for t in timeline.intervals
        )
        restarted = any(t.ended_ms is not None and before_ms <= t.ended_ms <= after_ms for t in timeline.intervals)
        restarted = restarted or any(before_ms < row.time_ms <= after_ms for row in timeline.log.started)
        changed_topics = {topic for time_ms, topic in topic_changes if before_ms < time_ms <= after_ms + NEAR_MS}
        if is_member and not restarted and after_ms > history.start_ended_ms and not (before ^ after) & changed_topics:
            times.append(after_ms)
    return times


def _subscription_evidence(history: GroupHistory, timeline: ClientTimeline, time_ms: int) -> EvidenceLine | None:
    rows = [row for row in within(history.rows, time_ms, time_ms) if row.detail_names("topics")]
    own = [row for row in rows if (row.instance or row.client or row.label) in (timeline.name, timeline.client)]
    return evidence(next(iter(own or rows), None), f"{timeline.name} changed its subscription")


def _named_changes(history: GroupHistory) -> list[tuple[str, Row]]:
    """Return the rebalances of which the coordinator says which topics changed; Slackwater's does, Kafka's does not."""
    return [
        (_TRIGGERS[trigger], row)
        for row in history.rows_of(_STARTED, OtherEventKind.TOPICS_CHANGED)
        if (trigger := row.trigger or row.detail_text("why")) in _TRIGGERS and row.detail_names("topics")
    ]


def _from_coordinator(history: GroupHistory) -> Finding | None:
    """Find rebalances of which the coordinator says which topics changed."""
    changes = _named_changes(history)
    if not changes:
        return None
    kind = changes[0][0]
    rows = [row for change, row in changes if change == kind]
    topics = unique(topic for row in rows for topic in row.detail_names("topics"))
    return Finding(
        cause=_CAUSES[kind],
        culprits=topics,
        times=unique_times(row.time_ms for row in rows),
        confidence=CERTAIN,
        evidence=shown(evidence(row, f"{', '.join(row.detail_names('topics'))} {_CHANGE_TEXT[kind]}") for row in rows),
    )


def _from_cluster(history: GroupHistory) -> Finding | None:
    """Find changes in the brokers' logs of topics that the group reads."""
    read = history.topics_read
    rejoins = _rejoins(history)
    matched: list[tuple[TopicChange, Row | None]] = []
    for change in history.cluster.topic_changes:
        if change.time_ms <= history.start_ended_ms or (read and change.topic not in read):
            continue
        after = within(rejoins, change.time_ms, change.time_ms + METADATA_MAX_AGE_MS)
        row = after[0] if after else None
        if row is not None or (change.topic in read and change.kind != row_predicates.CREATED):
            matched.append((change, row))
    if not matched:
        return None
    kind = matched[0][0].kind
    chosen = [(change, row) for change, row in matched if change.kind == kind]
    lines: list[EvidenceLine | None] = []
    for change, row in chosen[:2]:
        lines.append(evidence(change.row, f"topic {change.topic} {_CHANGE_TEXT[change.kind]}"))
        lines.append(evidence(row, "the group rebalanced because of it"))  # no line if it did not
    return Finding(
        cause=_CAUSES[kind],
        culprits=unique(change.topic for change, _ in chosen),
        times=unique_times(change.time_ms if row is None else row.time_ms for change, row in chosen),
        confidence=CERTAIN if read else LIKELY,
        evidence=shown(lines),
        missing_input=() if read else (CLIENT_LOG,),
    )


def _from_clients(history: GroupHistory) -> Finding | None:
    """Find changes in the leader's log."""
    for row in history.rows_of(EventKind.JOIN_REQUESTED):
        change = _difference(row) if row.is_from_client else None
        if change is not None:
            kind, topics = change
            return Finding(
                cause=_CAUSES[kind],
                culprits=topics,
                times=(row.time_ms,),
                confidence=SURE,
                evidence=shown([evidence(row, f"the leader noticed that {', '.join(topics)} {_CHANGE_TEXT[kind]}")]),
            )
    return None


def _difference(row: Row) -> tuple[str, tuple[str, ...]] | None:
    text = row.detail_text("reason")
    if "subscription has changed" in text:
        lists = [{name.strip() for name in names.split(",") if name.strip()} for names in _LIST.findall(text)]
        if len(lists) == 2:
            return _sets(lists[0], lists[1])
        return None
    before, after = _counts(row.detail_text("why") or text.partition(" to ")[0]), _counts(text.rpartition(" to ")[2])
    if not before or not after:
        return None
    grown = tuple(topic for topic in before if after.get(topic, 0) > before[topic])
    if grown:
        return row_predicates.GREW, grown
    return _sets(before.keys(), after.keys())


def _sets(before: Iterable[str], after: Iterable[str]) -> tuple[str, tuple[str, ...]] | None:
    old, new = set(before), set(after)
    if not old or not new:
        return None
    if new - old:
        return row_predicates.CREATED, tuple(sorted(new - old))
    return (row_predicates.DELETED, tuple(sorted(old - new))) if old - new else None


def _counts(text: str) -> Mapping[str, int]:
    if "=[" in text:
        return {topic: listed.count(",") + 1 for topic, listed in _JAVA_TOPIC.findall(text)}
    return {topic: int(count) for topic, count in _PYTHON_TOPIC.findall(text)} if "': " in text else {}


def _from_records(history: GroupHistory) -> Finding | None:
    """Find changes in the recorded assignments."""
    if history.has_broker:
        return None
    had: dict[int, set[str]] = {}
    first: dict[int, Row] = {}
    for row in history.rows_of(OtherEventKind.MEMBER_RECORDED):
        if row.detail_names("partitions") and row.generation is not None:
            had.setdefault(row.generation, set()).update(row.detail_names("partitions"))
            first.setdefault(row.generation, row)
    before: dict[str, int] | None = None
    for generation in sorted(had):
        after: dict[str, int] = {}
        for name in had[generation]:
            topic = name.rpartition("-")[0]
            after[topic] = after.get(topic, 0) + 1
        if before is not None and first[generation].time_ms > history.start_ended_ms:
            grown = tuple(topic for topic in before if after.get(topic, 0) > before[topic])
            change = (row_predicates.GREW, grown) if grown else _sets(before, after)
            if change is not None:
                what = f"the assignment shows that {change[1][0]} {_CHANGE_TEXT[change[0]]}"
                return Finding(
                    cause=_CAUSES[change[0]],
                    culprits=change[1],
                    times=(first[generation].time_ms,),
                    confidence=LIKELY,
                    evidence=shown([evidence(first[generation], what)]),
                )
        before = {topic: max(count, (before or {}).get(topic, 0)) for topic, count in after.items()}
    return None


def _from_rejoins(history: GroupHistory) -> Finding | None:
    """Find rejoins for a change of topics that is not logged."""
    rejoins = [row for row in _rejoins(history) if "etadata has changed" in row_predicates.reason(row)]
    if Trigger.SUBSCRIPTION_CHANGE in history.triggers:
        rejoins += [row for row in history.rows if row.trigger == Trigger.SUBSCRIPTION_CHANGE and row.is_from_broker]
    by_clients = [] if rejoins else _rejoins_of_clients(history)
    rejoins += by_clients
    if not rejoins:
        return None
    names = unique(name for row in rejoins[:1] if (name := _client(history, row)))
    often = count_of(len(occasions(by_clients)))
    return Finding(
        cause="subscription_change",
        culprits=names,
        times=unique_times(row.time_ms for row in rejoins),
        confidence=LIKELY,
        evidence=shown(evidence(row, "a member rejoined because its topics changed") for row in rejoins),
        missing_input=("which topic changed; add the controller's log",),
        alternatives=tuple(_CAUSES.values()),
        is_partial=bool(by_clients),
        headline=f"{shown_names(names, 'a client')} rejoined because it found other topics than before{often}"
        if by_clients
        else "",
    )


def _rejoins_of_clients(history: GroupHistory) -> list[Row]:
    """Return the rejoins that clients explain with changed topics; at its start, a client learns its topics."""
    rows = history.rows_of(EventKind.JOIN_REQUESTED)
    changed = [row for row in rows if row.is_from_client and row.trigger == Trigger.SUBSCRIPTION_CHANGE]
    if not changed or history.has_broker:
        return []
    has_starts = any(timeline.starts for timeline in history.timelines.values())
    return [row for row in changed if row.time_ms > history.start_ended_ms or not has_starts]


def _client(history: GroupHistory, row: Row) -> str | None:
    members = row_predicates.members_named(row)
    known = (interval.name for interval in history.intervals if interval.member in members)
    return next(known, row.client if row.is_from_client else None)


def _rejoins(history: GroupHistory) -> list[Row]:
    """Return the rebalances that an existing member started outside of any outage."""
    rejoins = []
    kinds = (EventKind.GENERATION_FORMED,) if history.is_consumer_protocol else ()
    if not kinds and _REJOIN_TRIGGERS.isdisjoint(history.triggers):
        return []
    for row in history.rows_of(_STARTED, *kinds):
        if row.kind == _STARTED and row.trigger in _REJOIN_TRIGGERS and row.time_ms > history.start_ended_ms:
            if outage_of(history, row.time_ms, None) is None:
                rejoins.append(row)
        elif row_predicates.is_formed(row) and row.time_ms > history.start_ended_ms:
            rejoins.append(row)
    return rejoins


def unique_times(times: Iterable[int]) -> tuple[int, ...]:
    """Return the distinct times in order."""
    return tuple(sorted(set(times)))
