"""Two that cannot live in one group: one instance id, no common assignor, one group id for two services.

Rules kept here
- A static member that is replaced while its old process still asks is fenced: that needs two live processes with one
  instance id. A restart never gets there, for its old process is gone. It forms no generation.
- A library that does not send its instance id with heartbeats (aiokafka) is not fenced: it is told that its member id
  is unknown, and joins again. Then the two take turns, which no restart does: a process that was replaced is gone.
- A join that shares no assignor with the group is refused before the broker logs anything; only the refused client says
  so.
- Members that subscribe to nothing in common rebalance each other for nothing: two services, one group id. A member
  that changes its subscription in a deploy is not that: there, one client has both.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from slackwater.doctor.causes.absences import Reading, Why, because, recurs
from slackwater.doctor.causes.finding import CERTAIN, LIKELY, SURE, Finding, evidence, shown, unique
from slackwater.doctor.events import signals
from slackwater.doctor.events.rows import Row
from slackwater.doctor.events.table import FactKind
from slackwater.doctor.timeline.client_timeline import Story
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.group.events import EventKind

_TURNS: Final = 2


def instance_id_conflict(history: GroupHistory, readings: Sequence[Reading]) -> Finding | None:
    """Processes that use one instance id at the same time."""
    fences = [
        row for row in history.of(EventKind.MEMBER_FENCED, EventKind.JOIN_REFUSED) if signals.is_instance_taken(row)
    ]
    instances = unique(name for row in fences if (name := _instance(history, row)))
    instances = instances or _taking_turns(history, readings)
    if not instances:
        return None
    users = _users(history, instances)
    swaps = [r for r in because(readings, Why.STATIC_IN_TIME) if r.story.name in instances]
    told = [row for row in fences if row.of_broker] or fences
    lines = [evidence(r.absence.evidence, f"another process takes over {r.story.name}") for r in swaps[:2]]
    for row in told[:2]:
        lines.append(evidence(row, f"the old one still asks, and is fenced: {row.text('operation')}"))
    return Finding(
        cause="instance_id_conflict",
        culprits=(*instances, *users),
        times=tuple(r.left_ms for r in swaps) or tuple(row.time_ms for row in told),
        confidence=CERTAIN if fences else LIKELY,
        evidence=shown([*lines[:1], *lines[len(swaps[:2]) :], *lines[1 : len(swaps[:2])]]),
        recurring=max(len(swaps), len(told)) > 1 or not fences,  # who takes turns has done so more than once
        figures={"takeovers": len(swaps) or len(told)},
        missing=() if users else ("which processes they are: ask for the clients' logs or __consumer_offsets",),
        alternatives=() if fences else ("static_restart_in_time",),
    )


def _taking_turns(history: GroupHistory, readings: Sequence[Reading]) -> tuple[str, ...]:
    """Instances that one client (or log) has, then another, then the first again; or that are replaced and live on."""
    joined_twice = _joined_twice(history)
    lived_on = [r.story.name for r in because(readings, Why.STATIC_IN_TIME) if r.absence.same_process is True]
    logs = _logs(history)
    found = []
    for story in history.stories.values():
        if story.instance is None:
            continue
        clients = [term.client for term in story.terms if term.client is not None]
        turns = (_changes(clients), _changes(logs.get(story.instance, ())), lived_on.count(story.name))
        if max(turns) >= _TURNS:
            found.append(story.name)
    return tuple(found) or tuple(name for name, logs in joined_twice.items() if len(logs) > 1)


def _joined_twice(history: GroupHistory) -> dict[str, list[str]]:
    """Per instance, the logs that tell of one generation under several member ids: only static members can be replaced.

    A log need not say that its member is static; its member id begins with the instance id all the same.
    """
    told: dict[tuple[str, str, int], set[str]] = {}
    for row in history.of(EventKind.MEMBER_JOINED):
        if row.of_client and row.member and row.label and row.generation:
            instance = row.instance or signals.made_of(row.member)
            told.setdefault((instance, row.label, row.generation), set()).add(row.member)
    found: dict[str, list[str]] = {}
    for (instance, label, _), members in told.items():
        if len(members) > 1 and label not in found.setdefault(instance, []):
            found[instance].append(label)
    return found


def _changes(names: Sequence[str]) -> int:
    return sum(1 for one, other in pairwise(names) if one != other)


def _logs(history: GroupHistory) -> dict[str, list[str]]:
    """Per instance, whose log tells of each of its joins."""
    found: dict[str, list[str]] = {}
    for row in history.of(EventKind.MEMBER_JOINED):
        instance = row.instance or history.names.instances.get(row.member or "")
        if row.of_client and instance and row.label:
            found.setdefault(instance, []).append(row.label)
    return found


def _users(history: GroupHistory, instances: Sequence[str]) -> tuple[str, ...]:
    """The client ids that were seen under the instances; of a log that does not name its client, the log's name."""
    logs = _logs(history) | _joined_twice(history)
    found: list[str] = []
    for name in instances:
        clients = sorted(client for client in history.names.users.get(name, ()) if client != name)
        labels = logs.get(name, []) if len(clients) < _TURNS else []
        found += [*clients, *labels]
    return unique(found)


def _instance(history: GroupHistory, row: Row) -> str | None:
    return row.instance or history.names.instances.get(row.member or "")


def inconsistent_protocol(history: GroupHistory, readings: Sequence[Reading]) -> Finding | None:
    """Clients whose joins are refused because they share no assignor with the group."""
    told = history.of(EventKind.REBALANCE_FAILED, EventKind.JOIN_REFUSED, FactKind.CLIENT_FAILED)
    refused = [row for row in told if signals.is_inconsistent(row)]
    if not refused:
        return None
    names = unique(name for row in refused if (name := row.client or row.member or row.label))
    return Finding(
        cause="inconsistent_protocol",
        culprits=names,
        times=tuple(row.time_ms for row in refused),
        confidence=CERTAIN,
        evidence=shown(evidence(row, f"{row.client or 'a client'} is refused: no common assignor") for row in refused),
        figures={"refusals": len(refused)},
    )


def shared_group_id(history: GroupHistory, readings: Sequence[Reading]) -> Finding | None:
    """Members that have no topic in common."""
    services = _services(history)
    if len(services) < 2:
        return None
    topics = [", ".join(sorted(topics)) for topics, _ in services]
    disturbers = unique(reading.story.name for reading in readings)
    lines = [
        evidence(_said(stories[0]), f"{stories[0].name} reads {named}")
        for named, (_, stories) in zip(topics, services, strict=True)
    ]
    return Finding(
        cause="shared_group_id",
        culprits=disturbers or unique(story.name for story in services[-1][1]),
        times=tuple(reading.left_ms for reading in readings),
        confidence=SURE + 0.1,
        evidence=shown(lines),
        recurring=recurs(readings),
        figures={"services": len(services)},
    )


def _said(story: Story) -> Row | None:
    return next(iter(story.subscribes), None) or (story.terms[0].began if story.terms else None)


def _services(history: GroupHistory) -> list[tuple[frozenset[str], list[Story]]]:
    """Members by what they read, where no two of these have a topic in common and each had its own all along."""
    found: list[tuple[frozenset[str], list[Story]]] = []
    for story in history.stories.values():
        read = frozenset().union(*(topics for _, topics in story.topics)) if story.topics else frozenset()
        if not read:
            continue
        touching = [one for one in found if one[0] & read]
        for one in touching:
            found.remove(one)
        found.append(
            (
                frozenset(read).union(*(topics for topics, _ in touching)),
                [*(member for _, stories in touching for member in stories), story],
            )
        )
    return sorted(found, key=lambda one: one[1][0].terms[0].joined_ms if one[1][0].terms else 0)
