"""Errors of the transaction coordinator, as the versions of an API have them (TX-27)."""

from typing import Final

from slackwater.group.errors import Error

FENCED_SINCE: Final = 2  # AddPartitionsToTxn, AddOffsetsToTxn, EndTxn


def client_error(error: Error, version: int, fenced_since: int = FENCED_SINCE) -> Error:
    """Return the error for a request of this version: older ones have no PRODUCER_FENCED."""
    return Error.INVALID_PRODUCER_EPOCH if error is Error.PRODUCER_FENCED and version < fenced_since else error
