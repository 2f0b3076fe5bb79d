"""Heartbeat in all versions."""

from pathlib import Path

import pytest

from slackwater.group.errors import Error
from tests.broker.quiet_broker import QuietBroker

from .members import GROUP, join_stable_group


@pytest.mark.parametrize("version", range(5))
def test_heartbeat_errors(tmp_path: Path, version: int) -> None:
    with QuietBroker(tmp_path) as broker:
        client = broker.connect()
        member_id = join_stable_group(client)
        for (member, generation), error in (
            ((member_id, 1), Error.NONE),
            ((member_id, 2), Error.ILLEGAL_GENERATION),
            (("unknown", 1), Error.UNKNOWN_MEMBER_ID),
            ((member_id, 1), Error.NONE),
        ):
            response = client.request_fields(
                "Heartbeat", version, group_id=GROUP, member_id=member, generation_id=generation
            )
            assert response == {"error_code": error} | ({"throttle_time_ms": 0} if version >= 1 else {})


def test_instance_id_is_used_since_v3(tmp_path: Path) -> None:
    with QuietBroker(tmp_path) as broker:
        client = broker.connect()
        join_stable_group(client, instance="i")
        heartbeat = {"group_id": GROUP, "member_id": "other", "group_instance_id": "i", "generation_id": 1}
        errors = [client.request_fields("Heartbeat", version, **heartbeat)["error_code"] for version in range(5)]
    assert errors == [Error.UNKNOWN_MEMBER_ID] * 3 + [Error.FENCED_INSTANCE_ID] * 2


def test_heartbeat_extends_the_session(tmp_path: Path) -> None:
    with QuietBroker(tmp_path) as broker:
        client = broker.connect()
        heartbeat = {"group_id": GROUP, "member_id": join_stable_group(client), "generation_id": 1}
        for _ in range(3):
            broker.pass_ms(9_000)
            assert client.request_fields("Heartbeat", 4, **heartbeat)["error_code"] == Error.NONE
        broker.pass_ms(10_000)
        assert client.request_fields("Heartbeat", 4, **heartbeat)["error_code"] == Error.UNKNOWN_MEMBER_ID
