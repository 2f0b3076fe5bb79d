"""Log lines of librdkafka.

Invariants:
- By default it logs little (MAXPOLL, SESSTMOUT, COMMITFAIL). With `debug=cgrp` it logs everything, and only the lines
  that begin or end something are events.
- The lines contain the client and often not the group.
"""

from dataclasses import replace
from typing import Final

from slackwater.doctor.events.table import OtherEventKind
from slackwater.doctor.templates.wording import Family, Template
from slackwater.group.events import EventKind, EventSource

_RDKAFKA_EVENTS: Final = (
    Template(
        "maximum poll interval",
        "1.0+",
        "Application maximum poll interval",
        "Application maximum poll interval (<limit_ms>ms) exceeded by <over_ms>ms <*>",
        EventKind.POLL_OVERRUN,
        {"trigger": "poll_timeout"},
    ),
    Template(
        "session timed out",
        "1.0+",
        "]: Consumer group session timed out",
        "Consumer group session timed out (in join-state <*>) after <duration_ms> ms without a successful response "
        "from the group coordinator (broker <node>, last error was <why>): <*>",
        EventKind.SESSION_LOST,
        {"error": "session timed out"},
    ),
    Template(
        "commit failed",
        "1.0+",
        "Offset commit (",
        "Offset commit (<*>) failed for <*> partition(s)[[ in join-state <*>]]: <error>",
        EventKind.COMMIT_REFUSED,
    ),
    Template(
        "assignor failed",
        "1.0+",
        "failed to run assignor",
        'Group "<group>": failed to run assignor "<assignor>" for <members> member(s): <error>',
        EventKind.REBALANCE_FAILED,
    ),
    Template(
        "join answered",
        "1.0+",
        "JoinGroup response: GenerationId ",
        "JoinGroup response: GenerationId <generation>, Protocol <assignor>, LeaderId <leader>[[ (me)]], my MemberId "
        "<member>, member metadata count <*>: (no error)",
        EventKind.MEMBER_JOINED,
    ),
    Template(
        "id issued",
        "1.0+",
        "JoinGroup response: GenerationId ",
        "JoinGroup response: <*> Broker: Group member needs a valid member ID",
        None,
    ),
    Template(
        "join refused",
        "1.0+",
        "JoinGroup response: GenerationId ",
        "JoinGroup response: GenerationId <*>, Protocol <*>, LeaderId <*>, my MemberId <*>, member metadata count <*>: "
        "<error>",
        EventKind.JOIN_REFUSED,
    ),
    Template(
        "synced",
        "1.0+",
        "SyncGroup response: ",
        "SyncGroup response: Success (<*>",
        EventKind.REBALANCE_COMPLETED,
    ),
    Template(
        "sync refused", "1.0+", "SyncGroup response: ", "SyncGroup response: <error> (<*>", EventKind.REBALANCE_FAILED
    ),
    Template(
        "assignment lost",
        "1.6+",
        "current assignment of ",
        'Group "<group>": current assignment of <count> partition(s) lost: <why>: <*>',
        EventKind.PARTITIONS_LOST,
    ),
    Template(
        "rebalance",
        "1.0+",
        "rebalanc",
        'Group "<group>" [[is rebalancing]][[initiating rebalance]] (<why>) in state <*> (join-state <*>) with <count> '
        "assigned partition(s)[[ (lost)]][[ without an assignment]]: <reason>",
        EventKind.JOIN_REQUESTED,
    ),
    Template(
        "rebalance",
        "0.11-1.5",
        "rebalanc",
        'Group "<group>" is rebalancing in state <*> (join-state <*>) with[[out]] assignment: <reason>',
        EventKind.JOIN_REQUESTED,
    ),
    Template(
        "assigned incrementally",
        "1.6+",
        "being added to group assignment",
        'Group "<group>": <count> partition(s) being added to group assignment of <*>',
        EventKind.PARTITIONS_ASSIGNED,
    ),
    Template(
        "assigned",
        "1.6+",
        "setting group assignment to ",
        'Group "<group>": setting group assignment to <count> partition(s)',
        EventKind.PARTITIONS_ASSIGNED,
    ),
    Template(
        "assigned",
        "1.0+",
        "new assignment of ",
        'Group "<group>": new assignment of <count> partition(s) in join[[-]][[ ]]state <*>',
        EventKind.PARTITIONS_ASSIGNED,
    ),
    Template(
        "revoked incrementally",
        "1.6+",
        "being removed from group assignment",
        'Group "<group>": <count> partition(s) being removed from group assignment of <*>',
        EventKind.PARTITIONS_REVOKED,
    ),
    Template(
        "revoked",
        "1.6+",
        "Clearing current assignment of ",
        "Clearing current assignment of <count> partition(s)",
        EventKind.PARTITIONS_REVOKED,
    ),
    Template(
        "heartbeat refused",
        "1.0+",
        "heartbeat error response",
        'Group "<group>" heartbeat error response in state <*> (join[[-]][[ ]]state <*>): <error>',
        EventKind.HEARTBEAT_REFUSED,
    ),
    Template(
        "heartbeat failed",
        "0.9+",
        "Heartbeat failed: ",
        "Heartbeat failed: <error>",
        EventKind.HEARTBEAT_REFUSED,
    ),
    Template(
        "join failed",
        "0.9+",
        "JoinGroup failed: ",
        "JoinGroup failed: <error>",
        EventKind.REBALANCE_FAILED,
        {"operation": "join-group"},
    ),
    Template("heartbeat", "1.0+", "|HEARTBEAT|", "<*>", None),
    Template(
        "leaving",
        "1.0+",
        ": leave (in state ",
        'Group "<group>": leave (in state <*>)',
        EventKind.MEMBER_LEFT,
        {"by": "itself"},
    ),
    Template("leaving", "1.0+", "Leaving group", "<*>Leaving group<*>", EventKind.MEMBER_LEFT, {"by": "itself"}),
    Template(
        "coordinator found",
        "1.0+",
        "coordinator set to broker ",
        'Group "<group>" coordinator set to broker <node>',
        EventKind.COORDINATOR_FOUND,
    ),
    Template(
        "coordinator lost",
        "1.0+",
        "is no longer coordinator",
        'Group "<group>" broker <node> is no longer coordinator',
        EventKind.COORDINATOR_LOST,
    ),
    Template(
        "coordinator changed",
        "1.0+",
        "changing coordinator ",
        'Group "<group>" changing coordinator <*> -> <node>',
        None,
    ),
    Template(
        "first subscription",
        "0.11+",
        "effective subscription list changed",
        'Group "<group>": effective subscription list changed from 0 to <*> topic(s)',
        None,
    ),
    Template(
        "subscription ended",
        "0.11+",
        "effective subscription list changed",
        'Group "<group>": effective subscription list changed from <*> to 0 topic(s)',
        None,
    ),
    Template(
        "subscription changed",
        "0.11+",
        "effective subscription list changed",
        'Group "<group>": effective subscription list changed from <*> to <count> topic(s)',
        EventKind.JOIN_REQUESTED,
        {"trigger": "subscription_change", "reason": "subscription updated from metadata change"},
    ),
    Template(
        "rejoining for the subscription",
        "1.6+",
        "subscription updated from metadata change",
        'Group "<group>": subscription updated from metadata change: rejoining group in state <*>',
        None,
    ),
    Template(
        "subscription changed",
        "0.11+",
        "subscription updated from metadata change",
        'Group "<group>": subscription updated from metadata change: rejoining group',
        EventKind.JOIN_REQUESTED,
        {"trigger": "subscription_change", "reason": "subscription updated from metadata change"},
    ),
    Template("started", "1.0+", "|INIT|", "librdkafka <version> (<*>", OtherEventKind.CLIENT_STARTED),
    Template("closed", "1.0+", "Consumer closed", "Consumer closed", OtherEventKind.CLIENT_CLOSED),
    Template(
        "fenced",
        "1.4+",
        "tatic consumer fenced",
        "<*>tatic consumer fenced<*>",
        EventKind.MEMBER_FENCED,
        {"error": "FENCED_INSTANCE_ID"},
    ),
)

_PROCESS: Final = (OtherEventKind.CLIENT_STARTED, OtherEventKind.CLIENT_CLOSED)

LIBRDKAFKA: Final = Family(
    name="librdkafka",
    source=EventSource.CLIENT_LOG,
    markers=("[thrd:",),
    # `%7|1699.123|TAG|name#consumer-1| [thrd:main]: ` as librdkafka prints it, `TAG [name#consumer-1] [thrd:main]: ` as
    # an application's logger does.
    prefix=r"^(.*?)[A-Z_]+(?:\|| \[)([^|\]]*?)#(?:consumer|producer)-\d+(?:\||\]) \[thrd:[^\]]*\]: ",
    prefix_slots=("head", "client"),
    words=tuple(f"|{tag}|" for tag in ("MAXPOLL", "SESSTMOUT", "COMMITFAIL", "FATAL", "HEARTBEAT", "MEMBERFAIL")),
    tries_later_families=True,
    templates=_RDKAFKA_EVENTS,
)

LIBRDKAFKA_TEXT: Final = Family(
    name="librdkafka's messages in the lines of an application",
    source=EventSource.CLIENT_LOG,
    markers=(
        "Application maximum poll interval",
        "Offset commit (",
        "onsumer group session timed out",
        "heartbeat error response",
        "Heartbeat failed: ",
        "JoinGroup failed: ",
        "oordinator set to broker ",
        "is no longer coordinator",
        "being added to group assignment",
        "being removed from group assignment",
        "setting group assignment to ",
        "current assignment of ",
        "subscription updated from metadata change",
        "failed to run assignor",
    ),
    prefix=r"^(.*?)",
    prefix_slots=("head",),
    words=(),
    tries_later_families=True,
    templates=tuple(
        replace(template, key=template.key.removeprefix("]: "))
        for template in _RDKAFKA_EVENTS
        if not template.wording.startswith("<*>") and template.kind not in _PROCESS
    ),
)
"""The message as a callback or an exception passes it on: without tag, thread and client."""
