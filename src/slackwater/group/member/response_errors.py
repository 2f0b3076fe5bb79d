"""Maps JoinGroup and SyncGroup error codes to inputs of the transition table, and fatal codes to exceptions.

Invariants:
- Every code maps to an input; unlisted codes are `…_OTHER_ERROR` (CL-13, CL-14).
"""

from slackwater.group.errors import BrokerError, Error
from slackwater.group.member.config import MemberConfig
from slackwater.group.member.errors import FencedInstanceId, GroupMaxSizeReached, java_message
from slackwater.group.member.states import MemberInput


def join_input(error: Error, *, is_stale: bool) -> MemberInput:
    """The input for a JoinGroup response."""
    match error:
        case Error.NONE:
            return MemberInput.JOIN_OK
        case Error.MEMBER_ID_REQUIRED:
            return MemberInput.JOIN_MEMBER_ID_REQUIRED
        case Error.REBALANCE_IN_PROGRESS:
            return MemberInput.JOIN_REBALANCING
        case Error.UNKNOWN_MEMBER_ID:
            return MemberInput.JOIN_UNKNOWN_MEMBER_STALE if is_stale else MemberInput.JOIN_UNKNOWN_MEMBER
        case Error.COORDINATOR_LOAD_IN_PROGRESS:
            return MemberInput.JOIN_LOADING
        case Error.NOT_COORDINATOR | Error.COORDINATOR_NOT_AVAILABLE:
            return MemberInput.JOIN_NOT_COORDINATOR
        case _:
            return MemberInput.JOIN_OTHER_ERROR


def sync_input(error: Error, *, is_stale: bool) -> MemberInput:
    """The input for a SyncGroup response."""
    match error:
        case Error.NONE:
            return MemberInput.SYNC_OK
        case Error.REBALANCE_IN_PROGRESS:
            return MemberInput.SYNC_REBALANCING
        case Error.UNKNOWN_MEMBER_ID | Error.ILLEGAL_GENERATION if is_stale:
            return MemberInput.SYNC_STALE
        case Error.UNKNOWN_MEMBER_ID:
            return MemberInput.SYNC_UNKNOWN_MEMBER
        case Error.ILLEGAL_GENERATION:
            return MemberInput.SYNC_ILLEGAL_GENERATION
        case Error.NOT_COORDINATOR | Error.COORDINATOR_NOT_AVAILABLE:
            return MemberInput.SYNC_NOT_COORDINATOR
        case _:
            return MemberInput.SYNC_OTHER_ERROR


def fatal_error(request: str, error: Error, config: MemberConfig, member_id: str) -> BrokerError:
    """The exception that the application gets for a fatal response."""
    match error:
        case Error.FENCED_INSTANCE_ID:
            return FencedInstanceId(config.group_instance_id, member_id)
        case Error.GROUP_MAX_SIZE_REACHED:
            return GroupMaxSizeReached(config.group_id)
        case Error.GROUP_AUTHORIZATION_FAILED:
            return BrokerError(error, f"Not authorized to access group: {config.group_id}")
        case Error.INVALID_SESSION_TIMEOUT:
            message = f"session.timeout.ms = {config.session_timeout_ms}: {java_message(error)}"
            return BrokerError(error, message)
        case Error.UNSUPPORTED_VERSION if config.is_static:
            return BrokerError(error, f"{java_message(error)} Unset group.instance.id and try again.")
        case Error.INCONSISTENT_GROUP_PROTOCOL | Error.INVALID_GROUP_ID | Error.UNSUPPORTED_VERSION:
            return BrokerError(error, java_message(error))
        case _:
            return BrokerError(error, f"Unexpected error in {request} response: {error.name}")
