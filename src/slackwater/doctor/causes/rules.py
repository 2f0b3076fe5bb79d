"""The rules: every cause with its summary, the sources that show it, and whether it needs action.

Invariants:
- The name of a cause is the label in the incident corpus.
- `sources` are the sources that can show a cause; an unsure verdict names those that were not read.
- Faults need action; changes are expected in the life of a group.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from slackwater.doctor.causes.conflicts import inconsistent_protocol, instance_id_conflict, shared_group_id
from slackwater.doctor.causes.coordinator import coordinator_restart, coordinator_unreachable
from slackwater.doctor.causes.departures import ExplainedDeparture
from slackwater.doctor.causes.finding import Finding
from slackwater.doctor.causes.leader import connect_config_loop, leader_rejoins
from slackwater.doctor.causes.metadata import metadata_change
from slackwater.doctor.causes.poll import poll_delay
from slackwater.doctor.causes.restarts import rolling_restart, static_member_leaves, static_restart
from slackwater.doctor.causes.scaling import flapping, scale_in, scale_out
from slackwater.doctor.causes.session import crash, crash_loop, session_expiry
from slackwater.doctor.causes.startup import startup_herd
from slackwater.doctor.causes.stuck import never_converges, stuck_rebalance
from slackwater.doctor.causes.unknown_reason import unknown_reason
from slackwater.doctor.timeline.group_history import GroupHistory

Check = Callable[[GroupHistory, Sequence[ExplainedDeparture]], Finding | None]
BROKER: Final = "the broker's log"
CLIENTS: Final = "the clients' logs"
RECORDS: Final = "__consumer_offsets"


class Rank(IntEnum):
    """Which cause is reported first if several are found."""

    WRONG_SETUP = 0
    FAULT = 1
    CHANGE = 2
    REMARK = 3
    """Never the cause; reported with it."""


@dataclass(frozen=True, slots=True)
class CauseDefinition:
    """A cause, its summary, the sources that show it, and whether it needs action."""

    name: str
    summary: str
    rank: Rank
    sources: tuple[str, ...]
    action_needed: bool
    avoidable: bool = False
    """An expected change whose rebalances can be avoided: it needs action if the alert on frequent rebalances fires."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A check and the causes that it can find."""

    check: Check
    finds: tuple[str, ...]


CAUSES: Final[dict[str, CauseDefinition]] = {
    cause.name: cause
    for cause in (
        CauseDefinition(
            "shared_group_id", "two services use the same group.id", Rank.WRONG_SETUP, (CLIENTS, RECORDS), True
        ),
        CauseDefinition(
            "instance_id_conflict",
            "two processes use the same group.instance.id",
            Rank.WRONG_SETUP,
            (BROKER, CLIENTS),
            True,
        ),
        CauseDefinition(
            "inconsistent_protocol", "a client shares no assignor with the group", Rank.WRONG_SETUP, (CLIENTS,), True
        ),
        CauseDefinition(
            "known_bug", "a known bug of this version causes the rebalances", Rank.WRONG_SETUP, (CLIENTS,), True
        ),
        CauseDefinition(
            "poll_delay", "processing takes longer than max.poll.interval.ms", Rank.FAULT, (CLIENTS, BROKER), True
        ),
        CauseDefinition(
            "kip848_poll_delay",
            "processing takes longer than max.poll.interval.ms",
            Rank.FAULT,
            (CLIENTS, BROKER),
            True,
        ),
        CauseDefinition(
            "session_expiry", "a member sent no heartbeat for session.timeout.ms", Rank.FAULT, (CLIENTS, BROKER), True
        ),
        CauseDefinition(
            "kip848_session_expiry",
            "a member sent no heartbeat for session.timeout.ms",
            Rank.FAULT,
            (CLIENTS, BROKER),
            True,
        ),
        CauseDefinition("crash_loop", "a process crashes and restarts repeatedly", Rank.FAULT, (BROKER, CLIENTS), True),
        CauseDefinition("crash", "a process crashed", Rank.FAULT, (BROKER, CLIENTS), True),
        CauseDefinition("stuck_rebalance", "a rebalance does not end", Rank.FAULT, (BROKER,), True),
        CauseDefinition(
            "assignor_never_converges", "the assignor keeps requesting another rebalance", Rank.FAULT, (BROKER,), True
        ),
        CauseDefinition("autoscaler_flapping", "members are added and removed repeatedly", Rank.FAULT, (BROKER,), True),
        CauseDefinition(
            "static_restart_too_late", "static members came back after session.timeout.ms", Rank.FAULT, (BROKER,), True
        ),
        CauseDefinition(
            "static_member_leaves",
            "a static member sends LeaveGroup, so its restart is not hidden",
            Rank.FAULT,
            (BROKER, CLIENTS),
            True,
        ),
        CauseDefinition(
            "coordinator_unreachable", "a client cannot reach its coordinator", Rank.FAULT, (CLIENTS, BROKER), True
        ),
        CauseDefinition(
            "connect_config_loop",
            "Connect workers do not agree on the offset of their configuration",
            Rank.FAULT,
            (CLIENTS,),
            True,
        ),
        CauseDefinition(
            "leader_rejoins",
            "the leader rejoins at an interval although nothing changes",
            Rank.FAULT,
            (BROKER, CLIENTS),
            True,
        ),
        CauseDefinition("join_refused", "the broker refuses the join of a client", Rank.FAULT, (CLIENTS, BROKER), True),
        CauseDefinition("unknown", "the input does not show the cause", Rank.FAULT, (), True),
        CauseDefinition(
            "coordinator_restart", "the group's coordinator restarted or moved", Rank.CHANGE, (BROKER, CLIENTS), False
        ),
        CauseDefinition(
            "assignor_migration", "a deploy changed the assignor", Rank.CHANGE, (BROKER, CLIENTS, RECORDS), False
        ),
        CauseDefinition(
            "rolling_restart",
            "members were restarted one after another",
            Rank.CHANGE,
            (BROKER, CLIENTS),
            False,
            avoidable=True,
        ),
        CauseDefinition(
            "kip848_rolling_restart", "members were restarted one after another", Rank.CHANGE, (BROKER, CLIENTS), False
        ),
        CauseDefinition(
            "static_restart_in_time",
            "static members were restarted within session.timeout.ms",
            Rank.CHANGE,
            (BROKER, RECORDS),
            False,
        ),
        CauseDefinition(
            "partitions_added", "partitions were added to a topic", Rank.CHANGE, (BROKER, CLIENTS, RECORDS), False
        ),
        CauseDefinition(
            "new_topic_matched", "a new topic matches the subscription", Rank.CHANGE, (BROKER, CLIENTS, RECORDS), False
        ),
        CauseDefinition("topic_deleted", "a topic was deleted", Rank.CHANGE, (BROKER, CLIENTS, RECORDS), False),
        CauseDefinition(
            "subscription_change", "the subscribed topics of a member changed", Rank.CHANGE, (BROKER, CLIENTS), False
        ),
        CauseDefinition("scale_out", "new members joined", Rank.CHANGE, (BROKER, RECORDS, CLIENTS), False),
        CauseDefinition("scale_in", "members were removed", Rank.CHANGE, (BROKER, CLIENTS), False),
        CauseDefinition("startup_herd", "many members started one after another", Rank.CHANGE, (BROKER,), False),
        CauseDefinition(
            "eager_stop_the_world",
            "every rebalance stops all members",
            Rank.REMARK,
            (BROKER, CLIENTS, RECORDS),
            False,
        ),
        CauseDefinition("healthy", "nothing to do", Rank.CHANGE, (BROKER, CLIENTS, RECORDS), False),
    )
}

RULES: Final = (
    Rule(shared_group_id, ("shared_group_id",)),
    Rule(instance_id_conflict, ("instance_id_conflict",)),
    Rule(inconsistent_protocol, ("inconsistent_protocol",)),
    Rule(poll_delay, ("poll_delay", "kip848_poll_delay")),
    Rule(session_expiry, ("session_expiry", "kip848_session_expiry")),
    Rule(crash_loop, ("crash_loop",)),
    Rule(crash, ("crash",)),
    Rule(stuck_rebalance, ("stuck_rebalance",)),
    Rule(never_converges, ("assignor_never_converges",)),
    Rule(flapping, ("autoscaler_flapping",)),
    Rule(static_restart, ("static_restart_too_late", "static_restart_in_time")),
    Rule(coordinator_restart, ("coordinator_restart",)),
    Rule(coordinator_unreachable, ("coordinator_unreachable",)),
    Rule(connect_config_loop, ("connect_config_loop",)),
    Rule(leader_rejoins, ("leader_rejoins",)),
    Rule(static_member_leaves, ("static_member_leaves",)),
    Rule(rolling_restart, ("rolling_restart", "assignor_migration", "kip848_rolling_restart")),
    Rule(metadata_change, ("partitions_added", "new_topic_matched", "topic_deleted", "subscription_change")),
    Rule(scale_out, ("scale_out",)),
    Rule(scale_in, ("scale_in",)),
    Rule(startup_herd, ("startup_herd",)),
    Rule(unknown_reason, ("unknown", "poll_delay", "kip848_poll_delay")),
)
