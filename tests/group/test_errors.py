"""The table of error codes."""

import pytest

from slackwater.group.errors import BrokerError, Error, PeerError, SlackwaterError, UsageError


def test_unknown_code_is_unknown_server_error() -> None:
    assert Error(9_999) is Error.UNKNOWN_SERVER_ERROR
    with pytest.raises(ValueError, match="is not a valid Error"):
        Error("NONE")  # type: ignore[arg-type]


def test_codes_have_no_gap() -> None:
    assert sorted(int(error) for error in Error) == list(range(-1, 134))


def test_broker_error_is_retriable_by_code() -> None:
    assert BrokerError(Error.NOT_COORDINATOR).retriable
    assert not BrokerError(Error.FENCED_INSTANCE_ID, "another member has this id").retriable
    assert str(BrokerError(Error.NONE)) == "NONE"


def test_all_exceptions_share_a_base_class() -> None:
    assert all(issubclass(kind, SlackwaterError) for kind in (UsageError, PeerError, BrokerError))
