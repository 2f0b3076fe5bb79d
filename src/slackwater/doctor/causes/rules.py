"""The rules: every cause with the question that decides it, who could tell, and how urgent it is.

Rules kept here
- A rule is a row: its name is the cause's (as in an incident's label), its check finds it in a group's history.
- `told_by` says which sources can show it at all; an unsure verdict asks for those that were not read.
- Faults need somebody to act; changes are what a group is expected to do.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from slackwater.doctor.causes.absences import Reading
from slackwater.doctor.causes.conflicts import inconsistent_protocol, instance_id_conflict, shared_group_id
from slackwater.doctor.causes.coordinator import coordinator_restart
from slackwater.doctor.causes.finding import Finding
from slackwater.doctor.causes.metadata import metadata_change
from slackwater.doctor.causes.poll import poll_delay
from slackwater.doctor.causes.restarts import rolling_restart, static_restart
from slackwater.doctor.causes.scaling import flapping, scale_in, scale_out
from slackwater.doctor.causes.session import crash, crash_loop, session_expiry
from slackwater.doctor.causes.startup import startup_herd
from slackwater.doctor.causes.stuck import never_converges, stuck_rebalance
from slackwater.doctor.causes.unknown_reason import untold
from slackwater.doctor.timeline.group_history import GroupHistory

Check = Callable[[GroupHistory, Sequence[Reading]], Finding | None]
BROKER: Final = "the broker's log"
CLIENTS: Final = "the clients' logs"
RECORDS: Final = "__consumer_offsets"


class Rank(IntEnum):
    """What is named first when several are found."""

    WRONG_SETUP = 0
    FAULT = 1
    CHANGE = 2
    REMARK = 3
    """Never the cause; told beside it."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause: what it is, who can tell, what it asks of the operator."""

    name: str
    says: str
    rank: Rank
    told_by: tuple[str, ...]
    action_needed: bool


@dataclass(frozen=True, slots=True)
class Rule:
    """A check, and the causes that it can find."""

    check: Check
    finds: tuple[str, ...]


def _cause(name: str, says: str, rank: Rank, told_by: tuple[str, ...], action: bool) -> Cause:
    return Cause(name, says, rank, told_by, action)


CAUSES: Final[dict[str, Cause]] = {
    cause.name: cause
    for cause in (
        _cause("shared_group_id", "two services share one group id", Rank.WRONG_SETUP, (CLIENTS, RECORDS), True),
        _cause(
            "instance_id_conflict", "two processes use one group.instance.id", Rank.WRONG_SETUP, (BROKER, CLIENTS), True
        ),
        _cause(
            "inconsistent_protocol", "a client shares no assignor with the group", Rank.WRONG_SETUP, (CLIENTS,), True
        ),
        _cause("poll_delay", "processing takes longer than max.poll.interval.ms", Rank.FAULT, (CLIENTS, BROKER), True),
        _cause(
            "kip848_poll_delay",
            "processing takes longer than max.poll.interval.ms",
            Rank.FAULT,
            (CLIENTS, BROKER),
            True,
        ),
        _cause(
            "session_expiry", "a member was silent for longer than its session", Rank.FAULT, (CLIENTS, BROKER), True
        ),
        _cause(
            "kip848_session_expiry",
            "a member was silent for longer than its session",
            Rank.FAULT,
            (CLIENTS, BROKER),
            True,
        ),
        _cause("crash_loop", "a process dies and is started again, and again", Rank.FAULT, (BROKER, CLIENTS), True),
        _cause("crash", "a process died", Rank.FAULT, (BROKER, CLIENTS), True),
        _cause("stuck_rebalance", "a rebalance does not end", Rank.FAULT, (BROKER,), True),
        _cause(
            "assignor_never_converges", "the assignor wants another round, and another", Rank.FAULT, (BROKER,), True
        ),
        _cause("autoscaler_flapping", "members are added and taken away again, and again", Rank.FAULT, (BROKER,), True),
        _cause("static_restart_too_late", "static members came back after their session", Rank.FAULT, (BROKER,), True),
        _cause("unknown", "members go and come back, and what was read does not say why", Rank.FAULT, (), True),
        _cause("coordinator_restart", "the group's coordinator restarted", Rank.CHANGE, (BROKER, CLIENTS), False),
        _cause("assignor_migration", "a deploy changed the assignor", Rank.CHANGE, (BROKER, CLIENTS, RECORDS), False),
        _cause("rolling_restart", "members were restarted one after another", Rank.CHANGE, (BROKER, CLIENTS), False),
        _cause(
            "kip848_rolling_restart", "members were restarted one after another", Rank.CHANGE, (BROKER, CLIENTS), False
        ),
        _cause(
            "static_restart_in_time", "static members were restarted, in time", Rank.CHANGE, (BROKER, RECORDS), False
        ),
        _cause("partitions_added", "a topic has more partitions", Rank.CHANGE, (BROKER, CLIENTS, RECORDS), False),
        _cause(
            "new_topic_matched", "a new topic matches the subscription", Rank.CHANGE, (BROKER, CLIENTS, RECORDS), False
        ),
        _cause("topic_deleted", "a topic was deleted", Rank.CHANGE, (BROKER, CLIENTS, RECORDS), False),
        _cause("subscription_change", "a member changed what it reads", Rank.CHANGE, (BROKER, CLIENTS), False),
        _cause("scale_out", "new members came", Rank.CHANGE, (BROKER, RECORDS, CLIENTS), False),
        _cause("scale_in", "members were taken away", Rank.CHANGE, (BROKER, CLIENTS), False),
        _cause("startup_herd", "many members started one after another", Rank.CHANGE, (BROKER,), False),
        _cause(
            "eager_stop_the_world",
            "everybody stops for every rebalance",
            Rank.REMARK,
            (BROKER, CLIENTS, RECORDS),
            False,
        ),
        _cause("healthy", "nothing to do", Rank.CHANGE, (BROKER, CLIENTS, RECORDS), False),
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
    Rule(rolling_restart, ("rolling_restart", "assignor_migration", "kip848_rolling_restart")),
    Rule(metadata_change, ("partitions_added", "new_topic_matched", "topic_deleted", "subscription_change")),
    Rule(scale_out, ("scale_out",)),
    Rule(scale_in, ("scale_in",)),
    Rule(startup_herd, ("startup_herd",)),
    Rule(untold, ("unknown", "poll_delay", "kip848_poll_delay")),
)
