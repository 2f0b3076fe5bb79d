"""Configuration conflicts: a shared instance id, no common assignor, or one group id for two services.

Invariants:
- A static member that is replaced while its old process is still running is fenced: that takes two running processes
  with one instance id. A restart does not cause it, because the old process has ended. No generation is formed.
- A library that sends no instance id with heartbeats (aiokafka) is not fenced: it gets UNKNOWN_MEMBER_ID and rejoins.
  The two processes then replace each other in turn, which no restart does.
- A join without a common assignor is rejected before the broker logs anything; only the rejected client logs it.
- Members with no subscribed topic in common are two services with one group id. A member that changes its subscription
  in a deploy is not: there, one client has had both.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from slackwater.doctor.causes.departures import DepartureReason, ExplainedDeparture, filter_by_reason, recurs
from slackwater.doctor.causes.finding import CERTAIN, LIKELY, SURE, Finding, evidence, occasions, shown, unique
from slackwater.doctor.events import row_predicates
from slackwater.doctor.events.rows import Row
from slackwater.doctor.events.table import OtherEventKind
from slackwater.doctor.phrases import count_of, shown_names
from slackwater.doctor.timeline.client_timeline import ClientTimeline
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.group.events import EventKind

_MIN_SWITCHES: Final = 2
_SHOWN_SERVICES: Final = 2
_OPERATIONS: Final[dict[str, str]] = {
    EventKind.HEARTBEAT_REFUSED: "heartbeat",
    EventKind.COMMIT_REFUSED: "offset-commit",
    EventKind.JOIN_REFUSED: "join-group",
}


def instance_id_conflict(history: GroupHistory, departures: Sequence[ExplainedDeparture]) -> Finding | None:
    """Find processes that use one instance id at the same time."""
    fences = [
        row
        for row in history.rows_of(EventKind.MEMBER_FENCED, *row_predicates.REFUSALS)
        if row_predicates.is_instance_taken(row)
    ]
    instances = unique(name for row in fences if (name := _instance(history, row)))
    instances = instances or _switching_instances(history, departures)
    if not instances:
        return None
    users = _users(history, instances)
    swaps = [
        explained
        for explained in filter_by_reason(departures, DepartureReason.STATIC_IN_TIME)
        if explained.timeline.name in instances
    ]
    reports = [row for row in fences if row.is_from_broker] or occasions(fences)
    lines = [
        evidence(explained.departure.evidence, f"another process joined as {explained.timeline.name}")
        for explained in swaps[:2]
    ]
    for row in reports[:2]:
        operation = row.detail_text("operation") or _OPERATIONS.get(row.kind, "")
        fenced = f": {operation}" if operation else ""
        lines.append(evidence(row, f"the old process is still running and is fenced{fenced}"))
    return Finding(
        cause="instance_id_conflict",
        culprits=(*instances, *users),
        times=tuple(explained.left_ms for explained in swaps) or tuple(row.time_ms for row in reports),
        confidence=CERTAIN if fences else LIKELY,
        evidence=shown([*lines[:1], *lines[len(swaps[:2]) :], *lines[1 : len(swaps[:2])]]),
        is_recurring=max(len(swaps), len(reports)) > 1 or not fences,  # replacing in turn happens more than once
        figures={"takeovers": len(swaps) or len(reports)},
        missing_input=() if users else ("which processes they are; add the clients' logs or __consumer_offsets",),
        alternatives=() if fences else ("static_restart_in_time",),
        headline=_conflict(instances, _with_hosts(history, instances, users), len(swaps), len(reports)),
    )


def _conflict(instances: Sequence[str], users: Sequence[str], takeovers: int, fences: int) -> str:
    """Return which name is the instance id, which are the clients, and what happened how often."""
    often = f" (they replaced each other {takeovers} times)" if takeovers > 1 else ""
    often = often or (f" (fenced {fences} times)" if fences > 1 else "")
    clients = f", clients {' and '.join(users)}" if len(users) > 1 else ""
    return f"{shown_names(instances)}: this group.instance.id is used by two running processes{clients}{often}"


def _with_hosts(history: GroupHistory, instances: Sequence[str], users: Sequence[str]) -> list[str]:
    hosts = {
        interval.client: interval.host
        for timeline in history.timelines.values()
        for interval in timeline.intervals
        if interval.instance in instances and interval.client and interval.host
    }
    return [f"{name} on {host}" if (host := hosts.get(name)) else name for name in users]


def _switching_instances(history: GroupHistory, departures: Sequence[ExplainedDeparture]) -> tuple[str, ...]:
    """Return instances whose client (or log) changes back and forth, or whose replaced process keeps running."""
    joined_twice = _joined_twice(history)
    lived_on = [
        explained.timeline.name
        for explained in filter_by_reason(departures, DepartureReason.STATIC_IN_TIME)
        if explained.departure.same_process is True
    ]
    logs = _logs(history)
    instances = []
    for timeline in history.timelines.values():
        if timeline.instance is None:
            continue
        clients = [interval.client for interval in timeline.intervals if interval.client is not None]
        switches = (_changes(clients), _changes(logs.get(timeline.instance, ())), lived_on.count(timeline.name))
        if max(switches) >= _MIN_SWITCHES:
            instances.append(timeline.name)
    return tuple(instances) or tuple(name for name, own_logs in joined_twice.items() if len(own_logs) > 1)


def _joined_twice(history: GroupHistory) -> dict[str, list[str]]:
    """Return per instance the logs with one generation under several member ids: the static member was replaced.

    A log need not contain the instance id; the member id of a static member begins with it.
    """
    members_by_log: dict[tuple[str, str, int], set[str]] = {}
    for row in history.rows_of(EventKind.MEMBER_JOINED):
        if row.is_from_client and row.member and row.label and row.generation:
            instance = row.instance or row_predicates.member_id_prefix(row.member)
            members_by_log.setdefault((instance, row.label, row.generation), set()).add(row.member)
    logs: dict[str, list[str]] = {}
    for (instance, label, _), members in members_by_log.items():
        if len(members) > 1 and label not in logs.setdefault(instance, []):
            logs[instance].append(label)
    return logs


def _changes(names: Sequence[str]) -> int:
    return sum(1 for name, following in pairwise(names) if name != following)


def _logs(history: GroupHistory) -> dict[str, list[str]]:
    """Return per instance the log that contains each of its joins."""
    logs: dict[str, list[str]] = {}
    for row in history.rows_of(EventKind.MEMBER_JOINED):
        instance = row.instance or history.names.instances.get(row.member or "")
        if row.is_from_client and instance and row.label:
            logs.setdefault(instance, []).append(row.label)
    return logs


def _users(history: GroupHistory, instances: Sequence[str]) -> tuple[str, ...]:
    """Return the client ids used with the instances; for a log without a client id, the log's name."""
    logs = _logs(history) | _joined_twice(history)
    users: list[str] = []
    for name in instances:
        clients = sorted(client for client in history.names.users.get(name, ()) if client != name)
        labels = logs.get(name, []) if len(clients) < _MIN_SWITCHES else []
        users += [*clients, *labels]
    return unique(users)


def _instance(history: GroupHistory, row: Row) -> str | None:
    return row.instance or history.names.instances.get(row.member or "")


def inconsistent_protocol(history: GroupHistory, departures: Sequence[ExplainedDeparture]) -> Finding | None:
    """Find clients whose joins are rejected because they share no assignor with the group."""
    failures = history.rows_of(EventKind.REBALANCE_FAILED, EventKind.JOIN_REFUSED, OtherEventKind.CLIENT_FAILED)
    refused = occasions(row for row in failures if row_predicates.is_inconsistent(row))
    if not refused:
        return None
    names = unique(name for row in refused if (name := row.client or row.member or row.label))
    return Finding(
        cause="inconsistent_protocol",
        culprits=names,
        times=tuple(row.time_ms for row in refused),
        confidence=CERTAIN,
        evidence=shown(
            evidence(row, f"{row.client or 'a client'} was rejected: it shares no assignor with the group")
            for row in refused
        ),
        figures={"refusals": len(refused)},
        headline=f"{shown_names(names, 'a client')}: rejected, no assignor in common with the group"
        f"{_assignors(history, names)}{count_of(len(refused))}",
    )


def _assignors(history: GroupHistory, rejected: Sequence[str]) -> str:
    """Return which assignors the rejected clients have and which one the group uses, as far as the input shows it."""
    timelines = [
        timeline for timeline in history.timelines.values() if timeline.name in rejected and timeline.assignors
    ]
    offered = unique(name for timeline in timelines for name in timeline.assignors[-1][1])
    used = unique(name for assignors in history.assignors.values() for name in assignors)
    parts = [f"it has {' and '.join(offered)}"] if offered and len(rejected) == 1 else []
    parts += [f"the group uses {used[0]}"] if len(used) == 1 else []
    return f": {', '.join(parts)}" if parts else ""


def shared_group_id(history: GroupHistory, departures: Sequence[ExplainedDeparture]) -> Finding | None:
    """Find members that subscribe to no common topic."""
    services = _services(history)
    if len(services) < 2:
        return None
    topics = [", ".join(sorted(topics)) for topics, _ in services]
    disturbers = unique(explained.timeline.name for explained in departures)
    lines = [
        evidence(_subscription_row(timelines[0]), f"{timelines[0].name} reads {topic_list}")
        for topic_list, (_, timelines) in zip(topics, services, strict=True)
    ]
    return Finding(
        cause="shared_group_id",
        culprits=disturbers or unique(timeline.name for timeline in services[-1][1]),
        times=tuple(explained.left_ms for explained in departures),
        confidence=SURE + 0.1,
        evidence=shown(lines),
        is_recurring=recurs(departures),
        figures={"services": len(services)},
        headline=f"{len(services)} services without a common topic use one group.id: "
        + "; ".join(
            f"{timelines[0].name} reads {topic_list}"
            for topic_list, (_, timelines) in list(zip(topics, services, strict=True))[:_SHOWN_SERVICES]
        ),
    )


def _subscription_row(timeline: ClientTimeline) -> Row | None:
    return next(iter(timeline.log.subscribes), None) or (timeline.intervals[0].began if timeline.intervals else None)


def _services(history: GroupHistory) -> list[tuple[frozenset[str], list[ClientTimeline]]]:
    """Group the members by subscribed topics so that no two groups have a topic in common."""
    services: list[tuple[frozenset[str], list[ClientTimeline]]] = []
    for timeline in history.timelines.values():
        read = frozenset().union(*(topics for _, topics in timeline.topics)) if timeline.topics else frozenset()
        if not read:
            continue
        touching = [service for service in services if service[0] & read]
        for service in touching:
            services.remove(service)
        services.append(
            (
                frozenset(read).union(*(topics for topics, _ in touching)),
                [*(member for _, timelines in touching for member in timelines), timeline],
            )
        )
    return sorted(services, key=_first_joined_ms)


def _first_joined_ms(service: tuple[frozenset[str], list[ClientTimeline]]) -> int:
    intervals = service[1][0].intervals
    return intervals[0].joined_ms if intervals else 0
