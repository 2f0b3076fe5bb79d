"""Log lines of Redpanda's group coordinator (log level trace).

Invariants:
- Every line begins with the group, its state and its generation.
"""

from typing import Final

from slackwater.doctor.templates.wording import Family, Template
from slackwater.group.events import EventKind, EventSource

_STARTED: Final = {"old_generation": "<generation>"}

REDPANDA: Final = Family(
    name="Redpanda's group coordinator",
    source=EventSource.BROKER_LOG,
    markers=("[N:",),
    prefix=r"^(.*?)\[N:(.+?) S:(\w+) G:(-?\d+)\] (?:[\w.]+:\d+ - )?",
    prefix_slots=("head", "group", "state_before", "generation"),
    words=(),
    templates=(
        Template(
            "member expired",
            "22+",
            "Heartbeat expired for ",
            "Heartbeat expired for keep_alive=[[false]][[0]] member <member>",
            EventKind.MEMBER_EXPIRED,
            {"timer": "session"},
        ),
        Template(
            "member did not join",
            "22+",
            "Removing unjoined member ",
            "Removing unjoined member <member>",
            EventKind.MEMBER_DROPPED,
            {"timer": "rebalance", "trigger": "rebalance_timeout"},
        ),
        Template(
            "id issued",
            "22+",
            "Requesting rejoin for unknown member ",
            "Requesting rejoin for unknown member with new id <member>",
            EventKind.MEMBER_ID_ISSUED,
        ),
        Template(
            "rebalance started",
            "22+",
            "Join completion scheduled in ",
            "Join completion scheduled in <*>",
            EventKind.REBALANCE_STARTED,
            _STARTED,
        ),
        Template(
            "rebalance started",
            "22+",
            "Scheduling initial debounce join timer ",
            "Scheduling initial debounce join timer for <*>",
            EventKind.REBALANCE_STARTED,
            _STARTED,
        ),
        Template(
            "no members rejoined",
            "22+",
            "No members re-joined",
            "No members re-joined. <*>",
            EventKind.REBALANCE_FAILED,
            {"error": "no members rejoined"},
        ),
    ),
)
