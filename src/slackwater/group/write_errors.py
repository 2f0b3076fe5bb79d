"""The error codes that clients receive when a write of their coordinator fails (SG-08, TX-37)."""

from typing import Final

from slackwater.group.errors import Error

_OF_TRANSACTIONS: Final = {
    Error.UNKNOWN_TOPIC_OR_PARTITION: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_ENOUGH_REPLICAS: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Error.COORDINATOR_NOT_AVAILABLE,
    Error.REQUEST_TIMED_OUT: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_LEADER_OR_FOLLOWER: Error.NOT_COORDINATOR,
    Error.KAFKA_STORAGE_ERROR: Error.NOT_COORDINATOR,
    Error.MESSAGE_TOO_LARGE: Error.UNKNOWN_SERVER_ERROR,
    Error.RECORD_LIST_TOO_LARGE: Error.UNKNOWN_SERVER_ERROR,
}
# As in Kafka, only the group coordinator translates INVALID_FETCH_SIZE.
_OF_GROUPS: Final = _OF_TRANSACTIONS | {Error.INVALID_FETCH_SIZE: Error.UNKNOWN_SERVER_ERROR}


def group_response_error(error: Error) -> Error:
    """Return the error code to send to a client of the group coordinator whose write failed with `error`."""
    return _OF_GROUPS.get(error, error)


def transaction_response_error(error: Error) -> Error:
    """Return the error code to send to a client of the transaction coordinator whose write failed with `error`."""
    return _OF_TRANSACTIONS.get(error, error)
