"""Log lines of ruby-kafka."""

from typing import Final

from slackwater.doctor.templates.wording import Family, Template
from slackwater.group.events import EventKind, EventSource

RUBY_KAFKA: Final = Family(
    name="ruby-kafka",
    source=EventSource.CLIENT_LOG,
    markers=(
        "oining group `",
        "oined group `",
        "eaving group `",
        "Partitions assigned for `",
        "Not a group member",
        "Connection error while sending heartbeat",
        "Error sending heartbeat: Kafka::",
        "Failed to join group; resetting",
        "Connection error while trying to join group `",
        "Error committing offsets: Kafka::",
        "Group rebalance in progress, re-joining",
    ),
    prefix=r"^(.*?)",
    prefix_slots=("head",),
    words=(),
    tries_later_families=True,
    templates=(
        Template(
            "left",
            "0.7+",
            "Leaving group `",
            "Leaving group `<group>`",
            EventKind.MEMBER_LEFT,
            {"by": "itself"},
        ),
        Template(
            "assigned",
            "0.7+",
            "Partitions assigned for `",
            "Partitions assigned for `<*>`: <*>",
            EventKind.PARTITIONS_ASSIGNED,
        ),
        Template(
            "rejoining",
            "0.7+",
            "Not a group member",
            "Not a group member; rejoining",
            None,
        ),
        Template(
            "heartbeat not answered",
            "0.7+",
            "Connection error while sending heartbeat",
            "Connection error while sending heartbeat; rejoining",
            EventKind.COORDINATOR_LOST,
            {"why": "connection error while sending heartbeat"},
        ),
        Template("joining", "0.7+", "Joining group `", "Joining group `<*>`<*>", None),
        Template(
            "joined",
            "0.7+",
            "Joined group `",
            "Joined group `<group>` with member id `<member>`",
            EventKind.MEMBER_JOINED,
        ),
        Template(
            "heartbeat refused for the member",
            "0.7+",
            "Error sending heartbeat: Kafka::UnknownMemberId",
            "Error sending heartbeat: Kafka::UnknownMemberId",
            EventKind.SESSION_LOST,
            {"error": "UNKNOWN_MEMBER_ID"},
        ),
        Template(
            "heartbeat refused",
            "0.7+",
            "Error sending heartbeat: Kafka::",
            "Error sending heartbeat: Kafka::<error>",
            EventKind.HEARTBEAT_REFUSED,
        ),
        Template(
            "join not answered",
            "0.7+",
            "Connection error while trying to join group `",
            "Connection error while trying to join group `<group>`; retrying",
            EventKind.COORDINATOR_LOST,
            {"why": "connection error while trying to join the group"},
        ),
        Template(
            "commit refused",
            "0.7+",
            "Error committing offsets: Kafka::",
            "Error committing offsets: Kafka::<error>",
            EventKind.COMMIT_REFUSED,
        ),
        Template(
            "asked to rejoin",
            "0.7+",
            "Group rebalance in progress, re-joining",
            "Group rebalance in progress, re-joining",
            EventKind.HEARTBEAT_REFUSED,
            {"error": "REBALANCE_IN_PROGRESS"},
        ),
        Template(
            "join failed",
            "0.7+",
            "Failed to join group; resetting",
            "Failed to join group; resetting member id and retrying in <*>",
            EventKind.REBALANCE_FAILED,
            {"operation": "join-group"},
        ),
    ),
)
