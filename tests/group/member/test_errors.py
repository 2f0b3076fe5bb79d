"""The member's errors and the Java client's names and messages for error codes."""

import pytest

from slackwater.group.errors import BrokerError, Error, SlackwaterError
from slackwater.group.member import CommitFailed, FencedInstanceId, ListenerFailed, MemberConfig, RebalanceDriver
from slackwater.group.member.effects import CoordinatorNode
from slackwater.group.member.errors import java_message, java_name
from slackwater.group.member.response_errors import fatal_error, join_input, sync_input
from slackwater.group.member.states import MemberInput


def test_java_names_and_messages() -> None:
    assert java_name(Error.REBALANCE_IN_PROGRESS) == "RebalanceInProgressException"
    assert java_message(Error.NETWORK_EXCEPTION) == "null"
    assert java_name(Error.KAFKA_STORAGE_ERROR) == "KafkaException"
    assert java_message(Error.KAFKA_STORAGE_ERROR) == "Unexpected error KAFKA_STORAGE_ERROR"


def test_errors_have_cause_and_code() -> None:
    cause = ValueError("odd")
    assert ListenerFailed(cause).__cause__ is cause
    assert FencedInstanceId("i1", "").error is Error.FENCED_INSTANCE_ID
    assert "member unknown" in str(FencedInstanceId("i1", ""))
    assert isinstance(CommitFailed(), SlackwaterError)


@pytest.mark.parametrize("error", list(Error))
@pytest.mark.parametrize("is_stale", [True, False])
def test_every_error_code_maps_to_an_input(error: Error, is_stale: bool) -> None:
    assert join_input(error, is_stale=is_stale) in MemberInput
    assert sync_input(error, is_stale=is_stale) in MemberInput


@pytest.mark.parametrize("instance_id", [None, "i1"])
@pytest.mark.parametrize("error", list(Error))
def test_every_fatal_error_has_a_message(error: Error, instance_id: str | None) -> None:
    config = MemberConfig(group_id="g", client_id="c", group_instance_id=instance_id, driver=RebalanceDriver.POLL)
    fatal = fatal_error("JoinGroup", error, config, "m1")
    assert isinstance(fatal, BrokerError)
    assert fatal.error is error
    assert len(str(fatal)) > 10


def test_node_format_matches_java_client() -> None:
    assert str(CoordinatorNode(0, "h", 1)) == "h:1 (id: 2147483647 rack: null)"
