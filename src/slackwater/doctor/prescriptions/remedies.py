"""Remedies for each cause: data, with the numbers left open.

Invariants:
- Remedies are listed in the order in which to try them: the cheapest first, code changes last.
- Each has its `cost`. `caution` lists what it conflicts with.
- `settings` have Kafka's names, so that a simulator can replay a history with them. A value in braces is computed from
  the figures of the finding (`values.py`); without the figure the setting is left out.
- `cites` name a section of Kafka's documentation or a KIP.
"""

from typing import Final

from slackwater.doctor.prescriptions.libraries import LIBRDKAFKA, SPARK, WITHOUT_POLL_TIMER
from slackwater.doctor.prescriptions.remedy import Caution, Delay, Remedy

ABOVE_THE_POLL_INTERVAL: Final = Caution(
    "librdkafka rejects a session.timeout.ms longer than max.poll.interval.ms", only_for=frozenset({None, LIBRDKAFKA})
)
SLOWER_DETECTION: Final = Delay("a crashed member is detected", new="session", present="session_now")
MAX_POLL_INTERVAL_DOC: Final = "Kafka documentation, Consumer Configs: max.poll.interval.ms"
MAX_POLL_RECORDS_DOC: Final = "Kafka documentation, Consumer Configs: max.poll.records"
SESSION_TIMEOUT_DOC: Final = "Kafka documentation, Consumer Configs: session.timeout.ms"
HEARTBEAT_INTERVAL_DOC: Final = "Kafka documentation, Consumer Configs: heartbeat.interval.ms"
INSTANCE_ID_DOC: Final = "Kafka documentation, Consumer Configs: group.instance.id"
ASSIGNMENT_STRATEGY_DOC: Final = "Kafka documentation, Consumer Configs: partition.assignment.strategy"
INITIAL_DELAY_DOC: Final = "Kafka documentation, Broker Configs: group.initial.rebalance.delay.ms"
STATIC_MEMBERSHIP: Final = "KIP-345: Introduce static membership protocol to reduce consumer rebalances"
INCREMENTAL_REBALANCE: Final = "KIP-429: Kafka Consumer Incremental Rebalance Protocol"
BACKGROUND_HEARTBEATS: Final = "KIP-62: Allow consumer to send heartbeats from a background thread"
CONSUMER_PROTOCOL: Final = "KIP-848: The Next Generation of the Consumer Rebalance Protocol"
BATCHED_LEAVES: Final = "KIP-345: Introduce static membership protocol (removing members with LeaveGroup)"

COPY_OFFSETS: Final = (
    "a new group has no offsets: copy them before a start (kafka-consumer-groups --reset-offsets --from-file)"
)
COOPERATIVE: Final = Remedy(
    "use the cooperative-sticky assignor: a rebalance then stops only the partitions that move",
    ("a change takes two rebalances instead of one", "all members must support it, so {assignor_change}"),
    {"partition.assignment.strategy": "cooperative-sticky"},
    caution=("a single deploy with only the new assignor is rejected (INCONSISTENT_GROUP_PROTOCOL)",),
    cites=(INCREMENTAL_REBALANCE, ASSIGNMENT_STRATEGY_DOC),
    optional=True,
)
OFF_THE_POLL_THREAD: Final = Remedy(
    "process records outside the poll thread: pass them to workers, pause() their partitions, resume() them when done",
    ("your code must keep the order of records and commit only finished ones",),
    where="code",
    cites=(BACKGROUND_HEARTBEATS,),
    not_for=frozenset({SPARK}),
)
STATIC: Final = Remedy(
    "give each instance its own group.instance.id (for example a StatefulSet ordinal or a host name)",
    (
        "a member that closes no longer leaves: its partitions are not read until it is back or its session expires",
        SLOWER_DETECTION,
    ),
    {"group.instance.id": "<unique per instance>", "session.timeout.ms": "{restart_session_ms}"},
    caution=(ABOVE_THE_POLL_INTERVAL,),
    cites=(STATIC_MEMBERSHIP, INSTANCE_ID_DOC),
)
LONGER_SESSION: Final = Remedy(
    "raise session.timeout.ms above the longest pause, and set heartbeat.interval.ms to a third of it",
    (SLOWER_DETECTION,),
    {"session.timeout.ms": "{pause_session_ms}", "heartbeat.interval.ms": "{pause_heartbeat_ms}"},
    caution=(
        "after a crash the partitions of the member are not read until the longer session expires",
        "the broker rejects a session.timeout.ms above its group.max.session.timeout.ms",
        ABOVE_THE_POLL_INTERVAL,
    ),
    cites=(SESSION_TIMEOUT_DOC, HEARTBEAT_INTERVAL_DOC),
)
SHARED_DELAY: Final = Remedy(
    "find what all these members wait for (a database, a lock, another service): they were late at the same time",
    where="operations",
)
POLL_REMEDIES: Final = (
    Remedy(
        "{fewer_records}, so that {basis} fits into max.poll.interval.ms{percent_note}{poll_note}",
        ("slightly more overhead per record",),
        {"max.poll.records": "{poll_records}"},
        caution=("does not help if a single record takes longer than max.poll.interval.ms",),
        cites=(MAX_POLL_RECORDS_DOC, MAX_POLL_INTERVAL_DOC),
    ),
    Remedy(
        "raise max.poll.interval.ms above {basis}",
        (
            Delay(
                "a member that hangs is detected",
                new="poll",
                present="poll_now",
                consequence=", and a rebalance can wait that long for it",
            ),
        ),
        {"max.poll.interval.ms": "{poll_interval_ms}"},
        caution=(
            Caution(
                "max.poll.interval.ms is also the rebalance timeout: one slow member delays every rebalance",
                not_for=WITHOUT_POLL_TIMER,
            ),
        ),
        cites=(MAX_POLL_INTERVAL_DOC, BACKGROUND_HEARTBEATS),
    ),
    OFF_THE_POLL_THREAD,
)

REMEDIES: Final[dict[str, tuple[Remedy, ...]]] = {
    "poll_delay": POLL_REMEDIES,
    "kip848_poll_delay": POLL_REMEDIES,
    "rejoined_late": (
        Remedy(
            "{fewer_records}, or use a faster handler: every rebalance waits until all members have polled again"
            "{poll_note}",
            ("slightly more overhead per record",),
            cites=(MAX_POLL_RECORDS_DOC, BACKGROUND_HEARTBEATS),
        ),
        OFF_THE_POLL_THREAD,
    ),
    "handler_blocks_heartbeats": (
        Remedy(
            "call heartbeat() in the handler, at least once per third of the session timeout",
            where="code",
            cites=(HEARTBEAT_INTERVAL_DOC,),
        ),
        Remedy(
            "raise the session timeout above the time of the slowest message",
            (SLOWER_DETECTION,),
            {"session.timeout.ms": "{handler_session_ms}"},
            cites=(SESSION_TIMEOUT_DOC,),
        ),
        OFF_THE_POLL_THREAD,
    ),
    "session_expiry": (
        LONGER_SESSION,
        Remedy(
            "find the pause: GC log and heap of the process, a call that blocks its event loop (Python, Node.js), CPU "
            "steal and throttling of its machine, its network",
            where="operations",
            cites=(SESSION_TIMEOUT_DOC,),
        ),
    ),
    "kip848_session_expiry": (
        Remedy(
            "raise the group's session timeout above the longest pause; it is a group setting on the broker",
            (SLOWER_DETECTION,),
            {"consumer.session.timeout.ms": "{pause_session_ms}"},
            where="broker",
            caution=("the broker rejects a value above its group.consumer.max.session.timeout.ms (60 s)",),
            cites=(CONSUMER_PROTOCOL, "Kafka documentation, Group Configs: consumer.session.timeout.ms"),
        ),
        Remedy("find the pause: GC log and heap of the process, its machine, its network", where="operations"),
    ),
    "crash_loop": (
        Remedy("fix the error that ends the process; it is in its log", where="code"),
        Remedy(
            "send records that cannot be processed to a dead-letter topic and continue",
            ("the dead-letter topic must be monitored",),
            where="code",
        ),
        Remedy(
            "let the supervisor back off between restarts, by more than a session timeout",
            ("the other members read the partitions meanwhile",),
            where="operations",
        ),
    ),
    "crash": (
        Remedy(
            "find out why the process ended: exit code, kernel log (OOM killer), last lines of its log",
            where="operations",
        ),
    ),
    "rolling_restart": (
        STATIC,
        COOPERATIVE,
        Remedy(
            "deploy one member at a time, the next one when the group is Stable",
            where="operations",
            optional=True,
        ),
    ),
    "kip848_rolling_restart": (
        Remedy(
            "nothing to do: the protocol moves only what must move; a group.instance.id avoids even that",
            settings={"group.instance.id": "<unique per instance>"},
            cites=(CONSUMER_PROTOCOL, INSTANCE_ID_DOC),
            optional=True,
        ),
    ),
    "static_restart_in_time": (),
    "static_restart_too_late": (
        Remedy(
            "raise session.timeout.ms above the duration of a restart",
            (SLOWER_DETECTION,),
            {"session.timeout.ms": "{restart_session_ms}", "heartbeat.interval.ms": "{restart_heartbeat_ms}"},
            caution=LONGER_SESSION.caution,
            cites=(STATIC_MEMBERSHIP, SESSION_TIMEOUT_DOC),
        ),
        Remedy(
            "shorten the restart: pull the image and warm up before the old process stops",
            where="operations",
            caution=("two processes with one group.instance.id fence each other: stop the old one first",),
            cites=(STATIC_MEMBERSHIP,),
        ),
    ),
    "instance_id_conflict": (
        Remedy(
            "stop the surplus process; if both are needed, give each a group.instance.id of its own",
            settings={"group.instance.id": "<unique per instance>"},
            cites=(STATIC_MEMBERSHIP, INSTANCE_ID_DOC),
        ),
    ),
    "inconsistent_protocol": (
        Remedy(
            "configure an assignor that all members have: the new and the old one together, in every member",
            ("one more deploy",),
            cites=(ASSIGNMENT_STRATEGY_DOC, INCREMENTAL_REBALANCE),
        ),
        Remedy("remove the old assignor only when all members have both", where="operations"),
    ),
    "shared_group_id": (
        Remedy(
            "give each service a group.id of its own; one service can keep the present one",
            (COPY_OFFSETS,),
            {"group.id": "<one per service>"},
            cites=("Kafka documentation, Consumer Configs: group.id",),
        ),
    ),
    "autoscaler_flapping": (
        Remedy(
            "give the autoscaler a longer cooldown ({cooldown} or more), and different limits for up and down",
            ("it follows the load later",),
            where="operations",
        ),
        COOPERATIVE,
    ),
    "scale_out": (COOPERATIVE,),
    "scale_in": (COOPERATIVE,),
    "startup_herd": (
        Remedy(
            "let the broker delay the first rebalance until all members have joined",
            (Delay("an empty group starts", new="herd_delay"),),
            {"group.initial.rebalance.delay.ms": "{herd_delay_ms}"},
            where="broker",
            cites=(INITIAL_DELAY_DOC, "KIP-134: Delay initial consumer group rebalance"),
            optional=True,
        ),
    ),
    "startup_in_one_round": (
        Remedy(
            "nothing to do: group.initial.rebalance.delay.ms delayed the first rebalance until all members had joined",
            optional=True,
            where="broker",
            cites=(INITIAL_DELAY_DOC,),
        ),
    ),
    "partitions_added": (Remedy("nothing to do; plan such changes", optional=True, where="operations"),),
    "new_topic_matched": (Remedy("narrow the subscription pattern if the topic should not be read", optional=True),),
    "topic_deleted": (Remedy("remove the topic from the subscription", optional=True, where="code"),),
    "subscription_change": (
        Remedy(
            "check that every subscribed topic exists and that the client is authorized to describe it",
            where="operations",
        ),
    ),
    "assignor_migration": (Remedy("nothing to do: let the deploy finish", optional=True, where="operations"),),
    "coordinator_restart": (
        Remedy(
            "compare the times with the start times of the brokers; if none was restarted and it recurs, check the"
            " network from this client to the brokers",
            where="operations",
        ),
    ),
    "stuck_rebalance": (
        Remedy("find the member that does not rejoin, and check its network", where="operations"),
        Remedy(
            "remove it: slackwater groups remove-members GROUP --member ID --bootstrap HOST:PORT "
            "(kafka-consumer-groups has no such option)",
            ("if it is alive it rejoins",),
            where="operations",
            cites=(BATCHED_LEAVES,),
        ),
        Remedy(
            "lower max.poll.interval.ms: a rebalance waits no longer than that for a member",
            ("a slow member is removed sooner",),
            caution=("a poll delay needs the opposite: a longer max.poll.interval.ms",),
            cites=(MAX_POLL_INTERVAL_DOC,),
        ),
    ),
    "assignor_never_converges": (
        Remedy(
            "use another assignor, or set client.rack in all members or in none",
            ("all partitions move once",),
            where="client",
            cites=(ASSIGNMENT_STRATEGY_DOC,),
        ),
    ),
    "static_member_leaves": (
        Remedy(
            "stop static members without LeaveGroup: do not remove them with a tool, and close them with the option of"
            " the library that keeps the membership; upgrade a library that always leaves",
            ("a member that stays away is removed only when its session expires",),
            where="code",
            cites=(STATIC_MEMBERSHIP,),
        ),
        Remedy(
            "or remove group.instance.id: static membership has no use if members leave",
            ("every restart is two rebalances",),
            optional=True,
            cites=(STATIC_MEMBERSHIP, INSTANCE_ID_DOC),
        ),
    ),
    "coordinator_unreachable": (
        Remedy(
            "connect from the client's machine to the coordinator's address in the log: name, port, firewall",
            where="operations",
        ),
        Remedy(
            "let the broker advertise an address that this client can reach",
            ("a rolling restart of the brokers",),
            where="broker",
            cites=("Kafka documentation, Broker Configs: advertised.listeners",),
        ),
    ),
    "connect_config_loop": (
        Remedy(
            "give all workers of one group.id the same config.storage.topic, and each Connect cluster its own group.id",
            ("a restart of the workers",),
            where="operations",
            cites=("Kafka documentation, Connect Configs: config.storage.topic",),
        ),
        Remedy(
            "create the configuration topic with one partition and cleanup.policy=compact, and check that all workers"
            " can read it to its end",
            where="operations",
            cites=("Kafka documentation, Connect Configs: config.storage.replication.factor",),
        ),
    ),
    "leader_rejoins": (
        Remedy(
            "find what the leader sees change: topics that appear and disappear, a pattern that matches them, missing"
            " authorization for one of several subscribed topics",
            where="operations",
        ),
        Remedy("upgrade the leader's client library to its current release", where="code"),
    ),
    "join_refused": (
        Remedy(
            "remove the reason of the error: without authorization, give the client's principal the ACL Read on the"
            " group; with an invalid session timeout, use one between the broker's group.min.session.timeout.ms and"
            " group.max.session.timeout.ms; with a full group, raise group.max.size",
            where="operations",
        ),
    ),
    "known_bug": (Remedy("upgrade the client library to its current release", where="code"),),
    "eager_stop_the_world": (COOPERATIVE,),
    "unknown": (),
    "healthy": (),
}
