"""What a member's calls can end with, beside a broker's plain answer.

    SlackwaterError
    ├── BrokerError
    │   ├── FencedInstanceId        another process holds this group.instance.id
    │   └── GroupMaxSizeReached     the group is full
    ├── CommitFailed                the member is no longer in the group: what it did may be done again by others
    ├── RebalanceInProgress         the commit may succeed after the rebalance: poll, then commit again
    ├── RetriableCommitFailed       an asynchronous commit met a passing fault; it is not sent again
    ├── OperationTimedOut           default.api.timeout.ms passed first
    ├── AssignorFailed              an assignor broke its contract or threw
    ├── ListenerFailed              the application's rebalance listener threw
    └── Wakeup                      a listener was interrupted; what it was told is told again at the next poll

Rules kept here
- Messages say what was wrong and what to do.
- `java_name` and `java_message` say of an error code what the Java client's log would say (catalogue, section 14): the
  log lines are rendered from join reasons, and runbooks look for them.
"""

from typing import Final

from slackwater.group.errors import BrokerError, Error, SlackwaterError

COMMIT_FAILED: Final = (
    "the offsets were not committed: this member is no longer in its group, and its partitions may be others' by now. "
    "Poll to join again; what was processed since the last commit may be processed twice. If this happens often, the "
    "time between two polls is longer than max.poll.interval.ms, or heartbeats stay away for session.timeout.ms."
)
COMMIT_MID_REBALANCE: Final = (
    "the offsets were not committed: this member is in the middle of a rebalance. Poll until it is over, then commit "
    "what is still owned."
)
COMMIT_GROUP_REBALANCING: Final = (
    "the offsets were not committed: the group has begun a rebalance. Poll to take part in it, then commit what is "
    "still owned."
)
COMMIT_STALE: Final = (
    "the offsets were not committed: they were sent in an older generation than the one this member is joining. Poll "
    "until the rebalance is over, then commit what is still owned."
)
COMMIT_LOST: Final = (
    "the offsets were not committed: {} was lost before the commit could be sent, even if it has come back since; "
    "whoever had it meanwhile went on from the last committed offset."
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
    """The group already has as many members as the broker allows."""

    def __init__(self, group_id: str) -> None:
        super().__init__(
            Error.GROUP_MAX_SIZE_REACHED,
            f"Consumer group {group_id} already has the configured maximum number of members.",
        )


class CommitFailed(SlackwaterError):
    """The commit was refused because this member has left, or was removed from, the group."""

    def __init__(self, message: str = COMMIT_FAILED) -> None:
        super().__init__(message)


class RebalanceInProgress(SlackwaterError):
    """The commit came in the middle of a rebalance."""


class RetriableCommitFailed(SlackwaterError):
    """An asynchronous commit failed in a way that may pass."""


class OperationTimedOut(SlackwaterError):
    """A commit or a look-up of committed offsets did not end within default.api.timeout.ms."""


class AssignorFailed(SlackwaterError):
    """The assignor threw, or gave an assignment that its rebalance protocol forbids."""


class ListenerFailed(SlackwaterError):
    """The application's rebalance listener threw; the cause is what it threw."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(f"User rebalance callback throws an error: {cause!r}")
        self.__cause__ = cause


class Wakeup(SlackwaterError):
    """A listener was interrupted by the application itself; give it to `listener_done`."""


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
    """The class that the Java client names in its log for this error."""
    return _JAVA.get(error, ("KafkaException", ""))[0]


def java_message(error: Error) -> str:
    """The message that the Java client's log gives for this error."""
    return _JAVA.get(error, ("", f"Unexpected error {error.name}"))[1]
