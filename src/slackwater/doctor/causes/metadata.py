"""What a group reads changed: partitions were added, a topic appeared or went, a subscription was changed.

Rules kept here
- The leader watches the topics that the group reads; when they change it rejoins, and the broker says no more than that
  it did. Which change it was stands in the leader's log, in the controller's lines, or in the next assignment.
- A member whose subscription is another one than before, in the same process, changed it itself: unless a topic came or
  went meanwhile, which a pattern would match. A pattern matches for all members alike.
- A topic that is known to be read and grows or goes is a change even while no leader has noticed (some never rejoin).
- Only topics that the group reads count. Where nobody tells what it reads, a change counts that a leader's rejoin
  follows within metadata.max.age.ms.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from slackwater.doctor.causes.absences import Reading, outage_of
from slackwater.doctor.causes.finding import (
    CERTAIN,
    CERTAIN_ENOUGH,
    LIKELY,
    SURE,
    Evidence,
    Finding,
    evidence,
    shown,
    unique,
)
from slackwater.doctor.defaults import METADATA_MAX_AGE_MS
from slackwater.doctor.events import signals
from slackwater.doctor.events.rows import Row, within
from slackwater.doctor.events.table import FactKind
from slackwater.doctor.timeline.client_timeline import NEAR_MS, Story
from slackwater.doctor.timeline.cluster_history import TopicChange
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.group.events import EventKind, Trigger

CLIENT_LOG = "which topics the group reads: ask for the clients' logs or __consumer_offsets"
_CAUSES: Final[dict[str, str]] = {
    signals.GREW: "partitions_added",
    signals.CREATED: "new_topic_matched",
    signals.DELETED: "topic_deleted",
}
_STARTED: Final = EventKind.REBALANCE_STARTED
_WATCHED: Final[frozenset[str]] = frozenset(
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


def metadata_change(history: GroupHistory, readings: Sequence[Reading]) -> Finding | None:
    """A change of the topics that the group reads."""
    changed = [
        (story, time_ms)
        for story in history.stories.values()
        if story.topics
        for time_ms in _resubscribed(history, story)
    ]
    everybody = _is_everybody(history, changed)
    if changed and not everybody:
        return _subscription_change(history, changed, everybody)
    for find in (_from_cluster, _from_clients, _from_records, _from_rejoins):
        found = find(history)
        if found is not None:
            return found
    return _subscription_change(history, changed, everybody) if changed else None


def _is_everybody(history: GroupHistory, changed: Sequence[tuple[Story, int]]) -> bool:
    """All members changed to the same topics: so would those of a pattern, where nobody tells of the new topic."""
    reading = [story for story in history.stories.values() if story.topics]
    names = {story.name for story, _ in changed}
    return len(names) == len(reading) > 1 and len({story.topics[-1][1] for story in reading}) == 1


def _subscription_change(history: GroupHistory, changed: Sequence[tuple[Story, int]], everybody: bool) -> Finding:
    """Members that subscribed to something else, told by their logs or their joins."""
    return Finding(
        cause="subscription_change",
        culprits=unique(story.name for story, _ in changed),
        times=unique_times(time_ms for _, time_ms in changed),
        confidence=LIKELY if everybody else CERTAIN_ENOUGH,
        evidence=shown(_subscription_evidence(history, story, time_ms) for story, time_ms in changed[:2]),
        alternatives=tuple(_CAUSES.values()) if everybody else (),
    )


def _resubscribed(history: GroupHistory, story: Story) -> list[int]:
    """When a process that had joined changed what it reads, and no topic came or went in between."""
    found = []
    for (noted_ms, before), (after_ms, after) in pairwise(story.topics):
        said = (row for row in story.subscribes if row.time_ms < after_ms and signals.subscribed(row) == before)
        before_ms = max((row.time_ms for row in said), default=noted_ms)
        there = any(t.joined_ms <= after_ms and (t.ended_ms is None or t.ended_ms > after_ms) for t in story.terms)
        restarted = any(t.ended_ms is not None and before_ms <= t.ended_ms <= after_ms for t in story.terms)
        restarted = restarted or any(before_ms < row.time_ms <= after_ms for row in story.started)
        came_or_went = {
            one.topic for one in history.cluster.topic_changes if before_ms < one.time_ms <= after_ms + NEAR_MS
        }
        if there and not restarted and after_ms > history.settled_ms and not (before ^ after) & came_or_went:
            found.append(after_ms)
    return found


def _subscription_evidence(history: GroupHistory, story: Story, time_ms: int) -> Evidence | None:
    said = [row for row in within(history.rows, time_ms, time_ms) if row.names("topics")]
    own = [row for row in said if (row.instance or row.client or row.label) in (story.name, story.client)]
    return evidence(next(iter(own or said), None), f"{story.name} subscribes to something else than before")


def _from_cluster(history: GroupHistory) -> Finding | None:
    """The broker tells of the change, and the group reads that topic."""
    read = history.topics_read
    rejoins = _rejoins(history)
    matched: list[tuple[TopicChange, Row | None]] = []
    for change in history.cluster.topic_changes:
        if change.time_ms <= history.settled_ms or (read and change.topic not in read):
            continue
        after = within(rejoins, change.time_ms, change.time_ms + METADATA_MAX_AGE_MS)
        row = after[0] if after else None
        if row is not None or (change.topic in read and change.kind != signals.CREATED):
            matched.append((change, row))
    if not matched:
        return None
    kind = matched[0][0].kind
    chosen = [(change, row) for change, row in matched if change.kind == kind]
    lines: list[Evidence | None] = []
    for change, row in chosen[:2]:
        lines.append(evidence(change.row, f"topic {change.topic} {change.kind}"))
        lines.append(evidence(row, "the group rejoins for it"))  # none, if it did not
    return Finding(
        cause=_CAUSES[kind],
        culprits=unique(change.topic for change, _ in chosen),
        times=unique_times(change.time_ms if row is None else row.time_ms for change, row in chosen),
        confidence=CERTAIN if read else LIKELY,
        evidence=shown(lines),
        missing=() if read else (CLIENT_LOG,),
    )


def _from_clients(history: GroupHistory) -> Finding | None:
    """The leader's log tells from what to what the topics changed."""
    for row in history.of(EventKind.JOIN_REQUESTED):
        found = _difference(row) if row.of_client else None
        if found is not None:
            kind, topics = found
            return Finding(
                cause=_CAUSES[kind],
                culprits=topics,
                times=(row.time_ms,),
                confidence=SURE,
                evidence=shown([evidence(row, f"the leader sees that {', '.join(topics)} {kind}")]),
            )
    return None


def _difference(row: Row) -> tuple[str, tuple[str, ...]] | None:
    text = row.text("reason")
    if "subscription has changed" in text:
        lists = [{one.strip() for one in found.split(",") if one.strip()} for found in _LIST.findall(text)]
        if len(lists) == 2:
            return _sets(lists[0], lists[1])
        return None
    before, after = _counts(row.text("why") or text.partition(" to ")[0]), _counts(text.rpartition(" to ")[2])
    if not before or not after:
        return None
    grown = tuple(topic for topic in before if after.get(topic, 0) > before[topic])
    if grown:
        return signals.GREW, grown
    return _sets(before.keys(), after.keys())


def _sets(before: Iterable[str], after: Iterable[str]) -> tuple[str, tuple[str, ...]] | None:
    old, new = set(before), set(after)
    if not old or not new:
        return None
    if new - old:
        return signals.CREATED, tuple(sorted(new - old))
    return (signals.DELETED, tuple(sorted(old - new))) if old - new else None


def _counts(text: str) -> Mapping[str, int]:
    if "=[" in text:
        return {topic: listed.count(",") + 1 for topic, listed in _JAVA_TOPIC.findall(text)}
    return {topic: int(count) for topic, count in _PYTHON_TOPIC.findall(text)} if "': " in text else {}


def _from_records(history: GroupHistory) -> Finding | None:
    """The recorded assignments tell which partitions the whole group had, generation by generation."""
    if history.has_broker:
        return None
    had: dict[int, set[str]] = {}
    first: dict[int, Row] = {}
    for row in history.of(FactKind.MEMBER_RECORDED):
        if row.names("partitions") and row.generation is not None:
            had.setdefault(row.generation, set()).update(row.names("partitions"))
            first.setdefault(row.generation, row)
    before: dict[str, int] | None = None
    for generation in sorted(had):
        after: dict[str, int] = {}
        for name in had[generation]:
            topic = name.rpartition("-")[0]
            after[topic] = after.get(topic, 0) + 1
        if before is not None and first[generation].time_ms > history.settled_ms:
            grown = tuple(topic for topic in before if after.get(topic, 0) > before[topic])
            found = (signals.GREW, grown) if grown else _sets(before, after)
            if found is not None:
                return Finding(
                    cause=_CAUSES[found[0]],
                    culprits=found[1],
                    times=(first[generation].time_ms,),
                    confidence=LIKELY,
                    evidence=shown(
                        [evidence(first[generation], f"the assignment shows that {found[1][0]} {found[0]}")]
                    ),
                )
        before = {topic: max(count, (before or {}).get(topic, 0)) for topic, count in after.items()}
    return None


def _from_rejoins(history: GroupHistory) -> Finding | None:
    """A leader that rejoined a stable group for its topics' sake, and nobody tells which."""
    said = [row for row in _rejoins(history) if "etadata has changed" in signals.reason(row)]
    if Trigger.SUBSCRIPTION_CHANGE in history.triggers:
        said += [row for row in history.rows if row.trigger == Trigger.SUBSCRIPTION_CHANGE and row.of_broker]
    if not said:
        return None
    return Finding(
        cause="subscription_change",
        culprits=unique(name for row in said[:1] if (name := _client(history, row))),
        times=unique_times(row.time_ms for row in said),
        confidence=LIKELY,
        evidence=shown(evidence(row, "a member rejoins because what it reads has changed") for row in said),
        missing=("which topic it was: ask for the controller's log",),
        alternatives=tuple(_CAUSES.values()),
    )


def _client(history: GroupHistory, row: Row) -> str | None:
    members = signals.members_named(row)
    return next((term.name for term in history.terms if term.member in members), None)


def _rejoins(history: GroupHistory) -> list[Row]:
    """Rebalances that a member started which was there already, outside of any outage."""
    found = []
    kinds = (EventKind.GENERATION_FORMED,) if history.is_consumer_protocol else ()
    if not kinds and _WATCHED.isdisjoint(history.triggers):
        return []
    for row in history.of(_STARTED, *kinds):
        if row.kind == _STARTED and row.trigger in _WATCHED and row.time_ms > history.settled_ms:
            if outage_of(history, row.time_ms, None) is None:
                found.append(row)
        elif signals.is_formed(row) and row.time_ms > history.settled_ms:
            found.append(row)
    return found


def unique_times(times: Iterable[int]) -> tuple[int, ...]:
    """Times in order, each once."""
    return tuple(sorted(set(times)))
