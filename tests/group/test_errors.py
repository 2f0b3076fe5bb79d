"""The one table of errors."""

import pytest

from slackwater.group.errors import BrokerError, Error, PeerError, SlackwaterError, UsageError


def test_codes_without_a_name_read_as_unknown_server_error() -> None:
    assert Error(9_999) is Error.UNKNOWN_SERVER_ERROR
    with pytest.raises(ValueError, match="is not a valid Error"):
        Error("NONE")  # type: ignore[arg-type]


def test_codes_are_kafkas_and_without_a_gap() -> None:
    assert sorted(int(error) for error in Error) == list(range(-1, 134))


def test_broker_error_is_retriable_by_code() -> None:
    assert BrokerError(Error.NOT_COORDINATOR).retriable
    assert not BrokerError(Error.FENCED_INSTANCE_ID, "somebody else has it").retriable
    assert str(BrokerError(Error.NONE)) == "NONE"


def test_all_exceptions_share_a_base_class() -> None:
    assert all(issubclass(kind, SlackwaterError) for kind in (UsageError, PeerError, BrokerError))
