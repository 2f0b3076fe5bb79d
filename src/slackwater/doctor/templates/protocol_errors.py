"""Errors of Kafka's group protocol in the lines of any program, by the words of the protocol's clients.

A program that catches an error of its library logs it in its own words. The error's own text is the same everywhere.

Invariants:
- These families are tried last: a line that a library's own template matches is not read here.
- An error in a line about a commit is a refused commit.
"""

from collections.abc import Iterator
from typing import Final

from slackwater.doctor.templates.wording import Family, Template
from slackwater.group.events import EventKind, EventSource

_UNKNOWN_MEMBER: Final = (
    "The coordinator is not aware of this member",
    "Broker: Unknown member",
    "The provided member is not known in the current generation",
    "Unknown Member ID",
    "UnknownMemberId",
    "UNKNOWN_MEMBER_ID",
    "unknown_member_id",
    "The member epoch is fenced by the group coordinator",
    "FencedMemberEpoch",
    "FENCED_MEMBER_EPOCH",
    "Local: Group partition assignment lost",
)
_OLD_GENERATION: Final = (
    "Specified group generation id is not valid",
    "Broker: Specified group generation id is not valid",
    "The provided generation id is not the current generation",
    "Illegal Generation",
    "IllegalGeneration",
    "ILLEGAL_GENERATION",
    "illegal_generation",
    "The member epoch is stale",
    "StaleMemberEpoch",
    "STALE_MEMBER_EPOCH",
)
_REBALANCING: Final = (
    "The group is rebalancing, so a rejoin is needed",
    "Broker: Group rebalance in progress",
    "A rebalance for the group is in progress",
    "Rebalance In Progress",
    "RebalanceInProgress",
    "REBALANCE_IN_PROGRESS",
    ":rebalance_in_progress",
    "error, rebalance_in_progress",
    "error,rebalance_in_progress",
)
_COMMIT_IN_REBALANCE: Final = "since the consumer is undergoing a rebalance"
_FENCED: Final = (
    "another consumer with the same group.instance.id has registered",
    "Another consumer with same group.instance.id has connected",
    "Get fenced exception for group.instance.id",
    "Static consumer fenced by other consumer",
    "FencedInstanceId",
    "FENCED_INSTANCE_ID",
    "fenced_instance_id",
)
_COORDINATOR: Final = (
    "This is not the correct coordinator",
    "Broker: Not coordinator",
    "not coordinated by this broker",
    "Not Coordinator For Group",
    "NotCoordinator",
    "NOT_COORDINATOR",
    "not_coordinator",
    "The coordinator is not available",
    "The group coordinator is not available",
    "Broker: Coordinator not available",
    "Broker: Group coordinator not available",
    "Group Coordinator Not Available",
    "CoordinatorNotAvailable",
    "COORDINATOR_NOT_AVAILABLE",
    "coordinator_not_available",
    "Local: Waiting for coordinator",
    "no coordinator available",
    "Failed to find group coordinator",
)
_LOADING: Final = (
    "The coordinator is loading and hence can't process requests",
    "Broker: Coordinator load in progress",
    "still loading offsets after a leader change",
    "Group Load In Progress",
    "CoordinatorLoadInProgress",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "coordinator_load_in_progress",
)
_NOT_ANSWERED: Final = (
    "Offset commit failed with a retriable exception",
    "expired before successfully committing offsets",
    "Failed to commit offsets because the offset commit request processing can not be completed in time",
)
"""Commits that got no answer or a retriable error: the coordinator was not reached."""
_NUMBERS: Final = (
    ("UNKNOWN_MEMBER_ID", 25, EventKind.SESSION_LOST, "error"),
    ("ILLEGAL_GENERATION", 22, EventKind.SESSION_LOST, "error"),
    ("REBALANCE_IN_PROGRESS", 27, EventKind.HEARTBEAT_REFUSED, "error"),
    ("NOT_COORDINATOR", 16, EventKind.COORDINATOR_LOST, "why"),
    ("COORDINATOR_NOT_AVAILABLE", 15, EventKind.COORDINATOR_LOST, "why"),
    ("COORDINATOR_LOAD_IN_PROGRESS", 14, EventKind.COORDINATOR_LOST, "why"),
)
_REQUESTS: Final = ("eartbeat", "JoinGroup", "SyncGroup")
"""A number alone is not enough: other programs have error codes, too."""
_BEFORE_NUMBERS: Final = ("error_code: ", "error_code=", "errorCode:", "errorCode: ", "errorCode=", "error codes: [")
_NOT_A_MEMBER: Final = (
    "Commit cannot be completed since the group has already",
    "Commit cannot be completed due to group rebalance",
    "the consumer is not part of an active group",
    "Failed to commit offsets because the consumer group has rebalanced",
)
_POLL: Final = (
    "Application maximum poll interval",
    "Maximum application poll interval",
    "MAX_POLL_EXCEEDED",
    "MaxPollExceeded",
)
_REFUSED_JOINS: Final = (
    ("INCONSISTENT_GROUP_PROTOCOL", "supported protocols are incompatible with those of existing members"),
    ("INVALID_SESSION_TIMEOUT", "session timeout is not within the range allowed by the broker"),
    ("INVALID_SESSION_TIMEOUT", "Broker: Invalid session timeout"),
    ("GROUP_MAX_SIZE_REACHED", "consumer group has reached its max size"),
    ("GROUP_MAX_SIZE_REACHED", "already has the configured maximum number of members"),
    ("GROUP_MAX_SIZE_REACHED", "Broker: Consumer group has reached maximum size"),
    ("INCONSISTENT_GROUP_PROTOCOL", "InconsistentGroupProtocol"),
    ("INCONSISTENT_GROUP_PROTOCOL", "inconsistent_group_protocol"),
    ("UNRELEASED_INSTANCE_ID", "instance ID is still used by another member in the consumer group"),
    ("UNRELEASED_INSTANCE_ID", "UNRELEASED_INSTANCE_ID"),
    ("UNSUPPORTED_ASSIGNOR", "assignor or its version range is not supported by the consumer group"),
    ("UNSUPPORTED_ASSIGNOR", "UNSUPPORTED_ASSIGNOR"),
    ("GROUP_AUTHORIZATION_FAILED", "Not authorized to access group"),
    ("GROUP_AUTHORIZATION_FAILED", "Broker: Group authorization failed"),
)


def _templates() -> Iterator[Template]:
    for text in _POLL:
        yield Template(
            "poll overrun",
            "all",
            text,
            f"{text}[[ (<limit_ms>ms) exceeded by <over_ms>ms]]",
            EventKind.POLL_OVERRUN,
            {"trigger": "poll_timeout"},
        )
    for text in _NOT_A_MEMBER:
        yield Template(
            "commit refused", "all", text, text, EventKind.COMMIT_REFUSED, {"error": f"UNKNOWN_MEMBER_ID: {text}"}
        )
    yield Template(
        "commit refused",
        "all",
        _COMMIT_IN_REBALANCE,
        _COMMIT_IN_REBALANCE,
        EventKind.COMMIT_REFUSED,
        {"error": "REBALANCE_IN_PROGRESS"},
    )
    for text in _FENCED:
        yield Template("fenced", "all", text, text, EventKind.MEMBER_FENCED, {"error": "FENCED_INSTANCE_ID"})
    for code, text in _REFUSED_JOINS:
        yield Template("join refused", "all", text, text, EventKind.JOIN_REFUSED, {"error": f"{code}: {text}"})
    errors = (
        ("UNKNOWN_MEMBER_ID", _UNKNOWN_MEMBER, EventKind.SESSION_LOST, "error"),
        ("ILLEGAL_GENERATION", _OLD_GENERATION, EventKind.SESSION_LOST, "error"),
        ("REBALANCE_IN_PROGRESS", _REBALANCING, EventKind.HEARTBEAT_REFUSED, "error"),
        ("NOT_COORDINATOR", _COORDINATOR, EventKind.COORDINATOR_LOST, "why"),
        ("COORDINATOR_LOAD_IN_PROGRESS", _LOADING, EventKind.COORDINATOR_LOST, "why"),
        ("COORDINATOR_NOT_AVAILABLE", _NOT_ANSWERED, EventKind.COORDINATOR_LOST, "why"),
    )
    for code, texts, kind, slot in errors:
        for text in texts:
            error = text if text == code else f"{code}: {text}"
            yield Template("commit refused", "all", text, f"ommit<*>{text}", EventKind.COMMIT_REFUSED, {"error": error})
            yield Template("error of the protocol", "all", text, text, kind, {slot: error})
    for code, number, kind, slot in _NUMBERS:
        for before in _BEFORE_NUMBERS:
            text = f"{before}{number}"
            yield Template("commit refused", "all", text, f"ommit<*>{text}", EventKind.COMMIT_REFUSED, {"error": code})
            for request in _REQUESTS:
                yield Template("number of an error", "all", text, f"{request}<*>{text}", kind, {slot: code})


PROTOCOL_ERRORS: Final = Family(
    name="errors of the group protocol",
    source=EventSource.CLIENT_LOG,
    markers=tuple(dict.fromkeys(template.key for template in _templates())),
    prefix=r"^(.*?)",
    prefix_slots=("head",),
    words=(),
    tries_later_families=True,
    templates=tuple(_templates()),
)
