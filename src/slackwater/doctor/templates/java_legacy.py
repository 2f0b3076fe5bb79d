"""Log lines of the Java consumer 0.9 to 0.11, which name the group at the end instead of in a prefix, and of Spring.

Invariants:
- Version 0.9 does not name the group.
- The same wording without a logger's name belongs to this family, too.
"""

from typing import Final

from slackwater.doctor.events.table import OtherEventKind
from slackwater.doctor.templates.wording import Family, Template
from slackwater.group.events import EventKind, EventSource

JAVA_LEGACY: Final = Family(
    name="Java consumer without a prefix",
    source=EventSource.CLIENT_LOG,
    markers=(
        "AbstractCoordinator",
        "ConsumerCoordinator",
        " dead for group ",
        "Marking the coordinator ",
        "Attempt to heart",
        "Attempt to join group ",
        "uto-commit of offsets ",
        "occurred while committing offsets for group ",
        "Unexpected error in join group response: ",
        "Unexpected error from SyncGroup: ",
        "Unexpected error in heartbeat response: ",
    ),
    prefix=r"^(.*?)",
    prefix_slots=("head",),
    words=(" for group ", "oining group "),
    tries_later_families=True,
    templates=(
        Template(
            "joined",
            "0.10-0.11",
            "Successfully joined group ",
            "Successfully joined group <group> with generation <generation>",
            EventKind.MEMBER_JOINED,
        ),
        Template("joining", "0.10-0.11", "(Re-)joining group", "(Re-)joining group <*>", None),
        *(
            Template("raised by poll()", "0.9+", text, f"{text}<error>", OtherEventKind.CLIENT_FAILED)
            for text in (
                "Unexpected error in join group response: ",
                "Unexpected error from SyncGroup: ",
                "Unexpected error in heartbeat response: ",
            )
        ),
        Template(
            "coordinator lost",
            "0.10-0.11",
            " dead for group ",
            "Marking the coordinator <node> dead for group <group>",
            EventKind.COORDINATOR_LOST,
        ),
        Template(
            "coordinator found",
            "0.10-0.11",
            "Discovered coordinator ",
            "Discovered coordinator <node> for group <group>.",
            EventKind.COORDINATOR_FOUND,
        ),
        Template(
            "assigned",
            "0.10-0.11",
            "Setting newly assigned partitions ",
            "Setting newly assigned partitions <partitions> for group <group>",
            EventKind.PARTITIONS_ASSIGNED,
        ),
        Template(
            "revoked",
            "0.10-0.11",
            "Revoking previously assigned partitions ",
            "Revoking previously assigned partitions <partitions> for group <group>",
            EventKind.PARTITIONS_REVOKED,
        ),
        Template(
            "coordinator lost",
            "0.9",
            "Marking the coordinator ",
            "Marking the coordinator <node> dead",
            EventKind.COORDINATOR_LOST,
        ),
        Template(
            "heartbeat refused for a rebalance",
            "0.9",
            "since the group is rebalancing",
            "Attempt to heart[[ ]]beat failed since the group is rebalancing",
            EventKind.HEARTBEAT_REFUSED,
            {"error": "REBALANCE_IN_PROGRESS"},
        ),
        Template(
            "heartbeat refused for the generation",
            "0.9-0.11",
            "since generation id is not legal",
            "Attempt to heart[[ ]]beat failed[[ for group <group>]] since generation id is not legal",
            EventKind.SESSION_LOST,
            {"error": "ILLEGAL_GENERATION"},
        ),
        Template(
            "heartbeat refused for the member",
            "0.9-0.11",
            "since member id is not valid",
            "Attempt to heart[[ ]]beat failed[[ for group <group>]] since member id is not valid",
            EventKind.SESSION_LOST,
            {"error": "UNKNOWN_MEMBER_ID"},
        ),
        Template(
            "heartbeat refused for the coordinator",
            "0.9-0.11",
            "is either not started or not valid",
            "Attempt to heart[[ ]]beat failed[[ for group <group>]] since coordinator <*>is either not started or not "
            "valid",
            EventKind.HEARTBEAT_REFUSED,
            {"error": "NOT_COORDINATOR"},
        ),
        Template(
            "join refused",
            "0.9-0.11",
            "failed due to fatal error",
            "Attempt to join group <group> failed due to fatal error: <error>",
            EventKind.JOIN_REFUSED,
        ),
        Template(
            "join failed",
            "0.9-0.11",
            "Attempt to join group ",
            "Attempt to join group <group> failed due to <error>",
            EventKind.REBALANCE_FAILED,
            {"operation": "join-group"},
        ),
        Template(
            "commit refused",
            "0.9-0.10",
            "occurred while committing offsets for group ",
            "Error <error> occurred while committing offsets for group <group>",
            EventKind.COMMIT_REFUSED,
        ),
        Template(
            "automatic commit failed",
            "0.10-2.0",
            "uto-commit of offsets ",
            "uto-commit of offsets <*> failed for group <group>: <error>",
            EventKind.COMMIT_REFUSED,
        ),
        Template(
            "automatic commit failed",
            "1.0+",
            "uto-commit of offsets ",
            "uto-commit of offsets <*> failed: <error>",
            EventKind.COMMIT_REFUSED,
        ),
        Template(
            "heartbeat refused for a rebalance",
            "0.10-0.11",
            "since it is rebalancing",
            "Attempt to heartbeat failed for group <group> since it is rebalancing[[.]]",
            EventKind.HEARTBEAT_REFUSED,
            {"error": "REBALANCE_IN_PROGRESS"},
        ),
        Template(
            "automatic commit failed",
            "0.10-0.11",
            "uto offset commit failed for group ",
            "Auto offset commit failed for group <group>: <error>",
            EventKind.COMMIT_REFUSED,
        ),
    ),
)

SPRING: Final = Family(
    name="Spring's listener container",
    source=EventSource.CLIENT_LOG,
    markers=(
        ": partitions assigned: [",
        ": partitions revoked: [",
        ": partitions lost: [",
        "atal consumer exception; stopping container",
        "topping container due to an Error",
    ),
    prefix=r"^(.*?)(?:(\S*)(?=: partitions ))?",  # without the group before 2.5
    prefix_slots=("head", "group"),
    words=(),
    tries_later_families=True,
    templates=(
        Template(
            "assigned",
            "2.0+",
            ": partitions assigned: [",
            ": partitions assigned: [<partitions>]",
            EventKind.PARTITIONS_ASSIGNED,
        ),
        Template(
            "revoked",
            "2.0+",
            ": partitions revoked: [",
            ": partitions revoked: [<partitions>]",
            EventKind.PARTITIONS_REVOKED,
        ),
        Template(
            "lost",
            "2.5+",
            ": partitions lost: [",
            ": partitions lost: [<partitions>]",
            EventKind.PARTITIONS_LOST,
        ),
        Template(
            "container failed",
            "2.0+",
            "atal consumer exception; stopping container",
            "Fatal consumer exception; stopping container",
            OtherEventKind.CLIENT_FAILED,
        ),
        Template(
            "container failed",
            "2.0+",
            "topping container due to an Error",
            "Stopping container due to an Error",
            OtherEventKind.CLIENT_FAILED,
        ),
    ),
)
