"""Log lines of brod (Erlang and Elixir).

Invariants:
- A message of the group coordinator has two lines: the first names the group, the second says what happened.
"""

from typing import Final

from slackwater.doctor.templates.wording import Family, Template
from slackwater.group.events import EventKind, EventSource

BROD: Final = Family(
    name="brod",
    source=EventSource.CLIENT_LOG,
    markers=("re-joining group, reason", "failed to join group", "Leaving group, reason", "assignments received:"),
    prefix=r"^(.*?)",
    prefix_slots=("head",),
    words=(),
    tries_later_families=True,
    templates=(
        Template(
            "asked to rejoin",
            "2.0+",
            "re-joining group, reason",
            "re-joining group, reason:[[:]][[ :]]<error>",
            EventKind.HEARTBEAT_REFUSED,
        ),
        Template(
            "join failed",
            "2.0+",
            "failed to join group",
            "failed to join group[[ reason[[:]]<error>]]",
            EventKind.REBALANCE_FAILED,
            {"operation": "join-group"},
        ),
        Template(
            "left",
            "2.0+",
            "Leaving group, reason",
            "Leaving group, reason: <reason>",
            EventKind.MEMBER_LEFT,
            {"by": "itself"},
        ),
        Template(
            "assigned", "2.0+", "assignments received:", "assignments received:<*>", EventKind.PARTITIONS_ASSIGNED
        ),
    ),
)
