"""SyncGroup: the assignment from the leader. `tests/conformance` covers the versions."""

from pathlib import Path

import pytest

from tests.broker.quiet_broker import QuietBroker

from .members import GROUP, join_stable_group


@pytest.mark.parametrize("version", range(6))
def test_assignment_and_protocol_in_the_response(tmp_path: Path, version: int) -> None:
    with QuietBroker(tmp_path) as broker:
        client = broker.connect()
        sync = {"group_id": GROUP, "member_id": join_stable_group(client), "generation_id": 1, "assignments": []}
        protocol = {"protocol_type": "consumer", "protocol_name": "range"}
        response = client.request_fields("SyncGroup", version, **sync, **protocol)
    expected = {"error_code": 0, "assignment": b"part"}
    expected |= {"throttle_time_ms": 0} if version >= 1 else {}
    assert response == expected | (protocol if version >= 5 else {})
