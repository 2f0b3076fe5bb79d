"""SyncGroup: the assignment that the leader brought. Its versions are told apart in `tests/conformance`."""

from pathlib import Path

import pytest

from tests.broker.quiet_broker import QuietBroker

from .members import GROUP, settle


@pytest.mark.parametrize("version", range(6))
def test_assignment_and_protocol_in_the_response(tmp_path: Path, version: int) -> None:
    with QuietBroker(tmp_path) as broker:
        client = broker.connect()
        sync = {"group_id": GROUP, "member_id": settle(client), "generation_id": 1, "assignments": []}
        named = {"protocol_type": "consumer", "protocol_name": "range"}
        answer = client.ask_fields("SyncGroup", version, **sync, **named)
    expected = {"error_code": 0, "assignment": b"part"}
    expected |= {"throttle_time_ms": 0} if version >= 1 else {}
    assert answer == expected | (named if version >= 5 else {})
