"""The exceptions that a member's calls end with, apart from plain broker errors.

    SlackwaterError
    ├── BrokerError
    │   ├── FencedInstanceId        another process uses this group.instance.id
    │   └── GroupMaxSizeReached     the group is full
    ├── CommitFailed                the member is no longer in the group; its records may be processed again
    ├── RebalanceInProgress         poll to complete the rebalance, then commit again
    ├── RetriableCommitFailed       an asynchronous commit failed with a retriable error; it is not retried
    ├── OperationTimedOut           default.api.timeout.ms expired
    ├── AssignorFailed              an assignor raised or returned an invalid assignment
    ├── ListenerFailed              the application's rebalance listener raised
    └── Wakeup                      a listener was interrupted; its callback is repeated at the next poll

`java_name` and `java_message` give the Java client's exception name and message for an error code
(docs/kafka-behaviours.md, section 14). Log lines contain them, and runbooks search for them.
"""

from typing import Final

from slackwater.group.errors import BrokerError, Error, SlackwaterError

COMMIT_FAILED: Final = (
    "the offsets were not committed: this member is no longer in its group, and other members may own its partitions. "
    "Poll to rejoin; records processed since the last commit may be processed twice. If this happens often, the time "
    "between two polls exceeds max.poll.interval.ms, or no heartbeat arrives within session.timeout.ms."
)
COMMIT_MID_REBALANCE: Final = (
    "the offsets were not committed: this member is in the middle of a rebalance. Poll until it completes, then commit "
    "the partitions still owned."
)
COMMIT_GROUP_REBALANCING: Final = (
    "the offsets were not committed: the group has started a rebalance. Poll to join it, then commit the "
    "partitions still owned."
)
COMMIT_STALE: Final = (
    "the offsets were not committed: they belong to an older generation than the one this member is joining. Poll "
    "until the rebalance completes, then commit the partitions still owned."
)
COMMIT_LOST: Final = (
    "the offsets were not committed: {} was lost before the commit could be sent, even if it is assigned again "
    "now; its owner in between continued from the last committed offset."
)


class FencedInstanceId(BrokerError):
    """Another process joined with this member's group.instance.id."""

    def __init__(self, instance_id: str | None, member_id: str) -> None:
        super().__init__(
            Error.FENCED_INSTANCE_ID,
            f"group.instance.id {instance_id!r} was taken over by another process (this one was member "
            f"{member_id or 'unknown'}); give every process of the group its own group.instance.id.",
        )


class GroupMaxSizeReached(BrokerError):
    """The group already has group.max.size members."""

    def __init__(self, group_id: str) -> None:
        super().__init__(
            Error.GROUP_MAX_SIZE_REACHED,
            f"Consumer group {group_id} already has the configured maximum number of members.",
        )


class CommitFailed(SlackwaterError):
    """The commit was rejected because this member left, or was removed from, the group."""

    def __init__(self, message: str = COMMIT_FAILED) -> None:
        super().__init__(message)


class RebalanceInProgress(SlackwaterError):
    """The commit was rejected because of a rebalance."""


class RetriableCommitFailed(SlackwaterError):
    """An asynchronous commit failed with a retriable error."""


class OperationTimedOut(SlackwaterError):
    """A commit or a fetch of committed offsets did not complete within default.api.timeout.ms."""


class AssignorFailed(SlackwaterError):
    """The assignor raised, or returned an assignment that its rebalance protocol forbids."""


class ListenerFailed(SlackwaterError):
    """The application's rebalance listener raised; the cause is its exception."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(f"User rebalance callback throws an error: {cause!r}")
        self.__cause__ = cause


class Wakeup(SlackwaterError):
    """The application interrupted its own listener; pass it to `on_listener_done`."""


_JAVA: Final[dict[Error, tuple[str, str]]] = {
    Error.REBALANCE_IN_PROGRESS: ("RebalanceInProgressException", "The group is rebalancing, so a rejoin is needed."),
    Error.UNKNOWN_MEMBER_ID: ("UnknownMemberIdException", "The coordinator is not aware of this member."),
    Error.ILLEGAL_GENERATION: ("IllegalGenerationException", "Specified group generation id is not valid."),
    Error.COORDINATOR_LOAD_IN_PROGRESS: (
        "CoordinatorLoadInProgressException",
        "The coordinator is loading and hence can't process requests.",
    ),
    Error.COORDINATOR_NOT_AVAILABLE: ("CoordinatorNotAvailableException", "The coordinator is not available."),
    Error.NOT_COORDINATOR: ("NotCoordinatorException", "This is not the correct coordinator."),
    Error.NETWORK_EXCEPTION: ("DisconnectException", "null"),
    Error.FENCED_INSTANCE_ID: (
        "FencedInstanceIdException",
        (
            "The broker rejected this static consumer since another consumer with the same group.instance.id has "
            "registered with a different member.id."
        ),
    ),
    Error.INCONSISTENT_GROUP_PROTOCOL: (
        "InconsistentGroupProtocolException",
        (
            "The group member's supported protocols are incompatible with those of existing members or first group "
            "member tried to join with empty protocol type or empty protocol list."
        ),
    ),
    Error.INVALID_SESSION_TIMEOUT: (
        "InvalidSessionTimeoutException",
        (
            "The session timeout is not within the range allowed by the broker (as configured by "
            "group.min.session.timeout.ms and group.max.session.timeout.ms)."
        ),
    ),
    Error.INVALID_GROUP_ID: ("InvalidGroupIdException", "The configured groupId is invalid."),
    Error.GROUP_AUTHORIZATION_FAILED: ("GroupAuthorizationException", "Group authorization failed."),
    Error.GROUP_MAX_SIZE_REACHED: (
        "GroupMaxSizeReachedException",
        "The consumer group has reached its max size.",
    ),
    Error.UNSUPPORTED_VERSION: ("UnsupportedVersionException", "The version of API is not supported."),
}


def java_name(error: Error) -> str:
    """The Java exception class for this error code."""
    return _JAVA.get(error, ("KafkaException", ""))[0]


def java_message(error: Error) -> str:
    """The Java client's message for this error code."""
    return _JAVA.get(error, ("", f"Unexpected error {error.name}"))[1]
