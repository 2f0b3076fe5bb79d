"""What to do about a cause: data, with the numbers left open.

Rules kept here
- Remedies stand in the order in which to try them: what costs nothing first, what changes the code last.
- Each has its price. Two that fight say so (`fights`).
- `settings` are Kafka's own names, so that a simulator can run a history again with them; a value in braces is computed
  from what was measured (`numbers.py`), and a remedy whose number was not measured is told without it.
- Where a row of the source texts says so, it is cited (`seed_rules.py` holds the whole list).
"""

from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Remedy:
    """One thing to do."""

    what: str
    price: str = "none"
    settings: dict[str, str] = field(default_factory=dict)
    where: str = "client"
    fights: tuple[str, ...] = ()
    cites: tuple[str, ...] = ()
    optional: bool = False


ABOVE_THE_POLL_INTERVAL: Final = "session.timeout.ms longer than max.poll.interval.ms is refused by librdkafka"

COOPERATIVE: Final = Remedy(
    "use the cooperative assignor: only what moves stops",
    "a change takes two rounds instead of one; every member must offer it, so deploy twice (both, then this one alone)"
    " or, with librdkafka, stop all members once",
    {"partition.assignment.strategy": "cooperative-sticky"},
    fights=("a single deploy that offers nothing but the new assignor is refused (inconsistent protocol)",),
    cites=("003 §5", "003 §7 row 5", "004 Minimizing Rebalance Impact"),
    optional=True,
)
OFF_THE_POLL_THREAD: Final = Remedy(
    "move the work off the poll thread: hand records to workers, pause() what is under way, resume() when it is done",
    "order and commits are yours to keep: commit only what is finished",
    where="code",
    cites=("003 §4 row 4", "004 Optimized Processing"),
)
STATIC: Final = Remedy(
    "give each instance a group.instance.id of its own (a StatefulSet's ordinal, a host name)",
    "a member that closes leaves no more: its partitions stand still until it is back, or its session ends; "
    "a dead member is noticed after {session} instead of {session_now}",
    {"group.instance.id": "<unique per instance>", "session.timeout.ms": "{restart_session_ms}"},
    fights=(ABOVE_THE_POLL_INTERVAL,),
    cites=("003 §6", "003 §7 row 4", "004 Static Membership"),
)
LONGER_SESSION: Final = Remedy(
    "raise session.timeout.ms above the longest pause, with heartbeats at a third of it",
    "a dead member is noticed after {session} instead of {session_now}",
    {"session.timeout.ms": "{pause_session_ms}", "heartbeat.interval.ms": "{pause_heartbeat_ms}"},
    fights=(
        "a longer session makes a crash cost more: its partitions stand still until it ends",
        "session.timeout.ms above the broker's group.max.session.timeout.ms is refused",
        ABOVE_THE_POLL_INTERVAL,
    ),
    cites=("003 §4 row 1", "003 §7 row 3", "004 Frequent Rebalances rows 2 and 3"),
)
POLL_REMEDIES: Final = (
    Remedy(
        "fetch fewer records per poll, so that a batch is done in time",
        "a little more overhead per record",
        {"max.poll.records": "{poll_records}"},
        fights=("no help where a single record takes longer than max.poll.interval.ms",),
        cites=("003 §4 row 3", "003 §7 row 2"),
    ),
    Remedy(
        "raise max.poll.interval.ms above the longest batch",
        "a member that hangs is noticed after {poll} instead of {poll_now}, and a rebalance may wait that long for it",
        {"max.poll.interval.ms": "{poll_interval_ms}"},
        fights=("a longer max.poll.interval.ms is also a longer rebalance timeout: one slow member holds a round up",),
        cites=("003 §4 row 2", "003 §7 row 2", "004 Frequent Rebalances row 1"),
    ),
    OFF_THE_POLL_THREAD,
)

REMEDIES: Final[dict[str, tuple[Remedy, ...]]] = {
    "poll_delay": POLL_REMEDIES,
    "kip848_poll_delay": POLL_REMEDIES,
    "handler_blocks_heartbeats": (
        Remedy("call heartbeat() inside the handler, at least once per third of the session", where="code"),
        Remedy(
            "raise the session above the slowest message",
            "a dead member is noticed after {session} instead of {session_now}",
            {"session.timeout.ms": "{handler_session_ms}"},
        ),
        OFF_THE_POLL_THREAD,
    ),
    "session_expiry": (
        LONGER_SESSION,
        Remedy(
            "find the pause: GC log and heap of the process, steal time and throttling of its machine, its network",
            where="operations",
            cites=("003 §7 row 3", "004 Frequent Rebalances row 3"),
        ),
    ),
    "kip848_session_expiry": (
        Remedy(
            "raise the group's session above the longest pause: it is a setting of the group, kept by the broker",
            "a dead member is noticed after {session} instead of {session_now}",
            {"consumer.session.timeout.ms": "{pause_session_ms}"},
            where="broker",
            fights=("a session above the broker's group.consumer.max.session.timeout.ms (60 s) is refused",),
        ),
        Remedy("find the pause: GC log and heap of the process, its machine, its network", where="operations"),
    ),
    "crash_loop": (
        Remedy(
            "fix what ends the process: its log has the error", where="code", cites=("004 Frequent Rebalances row 4",)
        ),
        Remedy(
            "send a record that cannot be processed to a dead-letter topic, and go on",
            "somebody must look at that topic",
            where="code",
        ),
        Remedy(
            "let the supervisor wait longer each time, and longer than a session",
            "its partitions are read by the others meanwhile",
            where="operations",
        ),
    ),
    "crash": (
        Remedy("find out why the process died: exit code, kernel log (OOM killer), its last lines", where="operations"),
    ),
    "rolling_restart": (
        STATIC,
        COOPERATIVE,
        Remedy("deploy one member at a time, the next when the group is stable", where="operations", optional=True),
    ),
    "kip848_rolling_restart": (
        Remedy(
            "nothing has to be done: the protocol moves only what must move; a group.instance.id saves even that",
            settings={"group.instance.id": "<unique per instance>"},
            optional=True,
        ),
    ),
    "static_restart_in_time": (),
    "static_restart_too_late": (
        Remedy(
            "raise session.timeout.ms above the time that a restart takes",
            "a dead member is noticed after {session} instead of {session_now}",
            {"session.timeout.ms": "{restart_session_ms}", "heartbeat.interval.ms": "{restart_heartbeat_ms}"},
            fights=LONGER_SESSION.fights,
            cites=("003 §6", "004 Static Membership"),
        ),
        Remedy(
            "make the restart shorter: fetch the image and warm up what can be before the old process stops",
            where="operations",
            fights=("two processes with one group.instance.id at the same time fence each other: stop, then start",),
        ),
    ),
    "instance_id_conflict": (
        Remedy(
            "give every process its own group.instance.id; find the second process and stop it",
            settings={"group.instance.id": "<unique per instance>"},
            cites=("003 §6",),
        ),
    ),
    "inconsistent_protocol": (
        Remedy(
            "offer an assignor that all members have: the new one and the old one together, in every member",
            "a deploy more",
            cites=("003 §5 Migration note", "004 Migration Steps"),
        ),
        Remedy("only when all members have both, take the old one out", where="operations"),
    ),
    "shared_group_id": (
        Remedy(
            "give each service its own group.id (and each topic, where they are unrelated)",
            "the new group starts without offsets: copy them first (kafka-consumer-groups --reset-offsets --from-file)",
            {"group.id": "<one per service>"},
        ),
        *POLL_REMEDIES,
    ),
    "autoscaler_flapping": (
        Remedy(
            "let the autoscaler wait: a cooldown of several swings ({cooldown} or more), other limits up than down",
            "it follows the load later",
            where="operations",
        ),
        COOPERATIVE,
    ),
    "scale_out": (COOPERATIVE,),
    "scale_in": (COOPERATIVE,),
    "startup_herd": (
        Remedy(
            "let the broker hold the first round back until everybody is there",
            "an empty group starts {herd_delay} later",
            {"group.initial.rebalance.delay.ms": "{herd_delay_ms}"},
            where="broker",
            optional=True,
        ),
    ),
    "startup_in_one_round": (
        Remedy(
            "nothing: group.initial.rebalance.delay.ms held the first round back until everybody was there",
            optional=True,
            where="broker",
        ),
    ),
    "partitions_added": (Remedy("nothing: it is expected; plan such changes", optional=True, where="operations"),),
    "new_topic_matched": (Remedy("narrow the subscription's pattern, if the topic was not meant", optional=True),),
    "topic_deleted": (Remedy("take the topic out of the subscription", optional=True, where="code"),),
    "subscription_change": (Remedy("nothing, if it was meant", optional=True, where="operations"),),
    "assignor_migration": (Remedy("nothing: let the deploy finish", optional=True, where="operations"),),
    "coordinator_restart": (Remedy("nothing: broker restarts are expected", optional=True, where="operations"),),
    "stuck_rebalance": (
        Remedy(
            "find the member that does not answer, and its network",
            where="operations",
            cites=("004 Stuck Rebalance",),
        ),
        Remedy(
            "remove it: slackwater groups remove-members GROUP --member ID --bootstrap HOST:PORT "
            "(kafka-consumer-groups has no option for it)",
            "if it lives it rejoins",
            where="operations",
            cites=("004 Stuck Rebalance",),
        ),
        Remedy(
            "lower max.poll.interval.ms: a round waits for no member longer than that",
            "a slow batch is put out sooner",
            fights=("poll delay asks for the opposite",),
        ),
    ),
    "assignor_never_converges": (
        Remedy(
            "leave the assignor that does not settle: another one, or client.rack the same way in all members",
            "all partitions move once",
            where="client",
        ),
    ),
    "eager_stop_the_world": (COOPERATIVE,),
    "unknown": (Remedy("read the client's log too: only it tells why it went", where="operations"),),
    "healthy": (),
}
