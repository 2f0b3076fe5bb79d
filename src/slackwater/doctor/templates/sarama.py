"""Log lines of sarama."""

from typing import Final

from slackwater.doctor.events.table import OtherEventKind
from slackwater.doctor.templates.wording import Family, Template
from slackwater.group.events import EventKind, EventSource

SARAMA: Final = Family(
    name="sarama",
    source=EventSource.CLIENT_LOG,
    markers=("consumergroup/", "client/coordinator ", "Initializing new client", "Closing Client"),
    prefix=r"^(.*?)",
    prefix_slots=("head",),
    words=("consumergroup/",),
    tries_later_families=True,
    templates=(
        Template(
            "session ended",
            "1.20+",
            " heartbeat loop stopped",
            "consumergroup/session/<member>/<generation> heartbeat loop stopped",
            None,
        ),
        Template(
            "session released",
            "1.20+",
            " released",
            "consumergroup/session/<member>/<generation> released",
            EventKind.PARTITIONS_REVOKED,
        ),
        Template(
            "partition count changed",
            "1.27+",
            " changed from ",
            "consumergroup/<group> loop check partition number goroutine find partitions in topics [<topics>] changed "
            "from <*> to <count>",
            EventKind.JOIN_REQUESTED,
            {"trigger": "partitions_added", "reason": "partition count changed"},
        ),
        Template(
            "session over",
            "1.27+",
            "goroutine will exit",
            "consumergroup/<group> loop check partition number goroutine will exit, topics [<topics>]",
            OtherEventKind.CLIENT_SUBSCRIBED,
        ),
        Template(
            "ownership lost",
            "1.43+",
            ": lost ownership of ",
            "consumergroup/<group>: lost ownership of <partitions> due to <why>",
            EventKind.PARTITIONS_LOST,
        ),
        Template(
            "fenced",
            "1.32+",
            "has been fenced",
            "JoinGroup failed: group instance id <instance> has been fenced",
            EventKind.MEMBER_FENCED,
            {"operation": "join-group", "error": "FENCED_INSTANCE_ID"},
        ),
        Template(
            "coordinator found",
            "1.0+",
            "coordinator for ",
            "client/coordinator coordinator for [[consumergroup ]]<group> is #<*> (<node>)",
            EventKind.COORDINATOR_FOUND,
        ),
        Template(
            "coordinator unavailable",
            "1.0+",
            "is not available",
            "client/coordinator coordinator for [[consumergroup ]]<group> is not available",
            EventKind.COORDINATOR_LOST,
        ),
        Template("coordinator asked for", "1.20+", "client/coordinator ", "client/coordinator <*>", None),
        Template(
            "user data",
            "1.50+",
            "falling back to static user data",
            "consumergroup/<group>: falling back to static user data <*>",
            None,
        ),
        Template(
            "started", "1.0+", "Initializing new client", "Initializing new client", OtherEventKind.CLIENT_STARTED
        ),
        Template("closed", "1.0+", "Closing Client", "Closing Client", OtherEventKind.CLIENT_CLOSED),
    ),
)
