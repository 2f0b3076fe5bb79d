"""Heartbeat in its versions."""

from pathlib import Path

import pytest

from slackwater.group.errors import Error
from tests.broker.quiet_broker import QuietBroker

from .members import GROUP, settle


@pytest.mark.parametrize("version", range(5))
def test_heartbeat_errors(tmp_path: Path, version: int) -> None:
    with QuietBroker(tmp_path) as broker:
        client = broker.connect()
        member_id = settle(client)
        for asked, error in (
            ((member_id, 1), Error.NONE),
            ((member_id, 2), Error.ILLEGAL_GENERATION),
            (("nobody", 1), Error.UNKNOWN_MEMBER_ID),
            ((member_id, 1), Error.NONE),
        ):
            answer = client.ask_fields("Heartbeat", version, group_id=GROUP, member_id=asked[0], generation_id=asked[1])
            assert answer == {"error_code": error} | ({"throttle_time_ms": 0} if version >= 1 else {})


def test_instance_id_is_used_since_v3(tmp_path: Path) -> None:
    with QuietBroker(tmp_path) as broker:
        client = broker.connect()
        settle(client, instance="i")
        beat = {"group_id": GROUP, "member_id": "other", "group_instance_id": "i", "generation_id": 1}
        errors = [client.ask_fields("Heartbeat", version, **beat)["error_code"] for version in range(5)]
    assert errors == [Error.UNKNOWN_MEMBER_ID] * 3 + [Error.FENCED_INSTANCE_ID] * 2


def test_heartbeat_extends_the_session(tmp_path: Path) -> None:
    with QuietBroker(tmp_path) as broker:
        client = broker.connect()
        beat = {"group_id": GROUP, "member_id": settle(client), "generation_id": 1}
        for _ in range(3):
            broker.pass_ms(9_000)
            assert client.ask_fields("Heartbeat", 4, **beat)["error_code"] == Error.NONE
        broker.pass_ms(10_000)
        assert client.ask_fields("Heartbeat", 4, **beat)["error_code"] == Error.UNKNOWN_MEMBER_ID
