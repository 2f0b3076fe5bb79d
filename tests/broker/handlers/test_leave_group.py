"""LeaveGroup in all versions."""

from pathlib import Path

import pytest

from slackwater.group.errors import Error
from slackwater.group.events import EventKind, GroupEvent, MemberLeft
from tests.broker.quiet_broker import QuietBroker

from .members import GROUP, join_stable_group


@pytest.mark.parametrize(("version", "reason"), [(4, "not provided"), (5, "closing")])
def test_leave_reason_since_v5(tmp_path: Path, version: int, reason: str) -> None:
    with QuietBroker(tmp_path) as broker:
        client, events = broker.connect(), list[GroupEvent]()
        member_id = join_stable_group(client)
        broker.broker.events.subscribe(events.append)
        leaver = {"member_id": member_id, "group_instance_id": None, "reason": "closing"}
        client.request_fields("LeaveGroup", version, group_id=GROUP, members=[leaver])
    (left,) = (event.detail for event in events if event.kind is EventKind.MEMBER_LEFT)
    assert isinstance(left, MemberLeft)
    assert left.reason == reason


@pytest.mark.parametrize("version", range(6))
def test_top_level_error_takes_precedence(tmp_path: Path, version: int) -> None:
    with QuietBroker(tmp_path) as broker:
        client = broker.connect()
        broker.broker.group_coordinator.coordinator.unload(0, None, broker.clock.now_ms())
        request = {"member_id": "m", "members": [{"member_id": "m", "group_instance_id": None}]}
        response = client.request_fields("LeaveGroup", version, group_id=GROUP, **request)
    assert response["error_code"] == Error.NOT_COORDINATOR
    assert response.get("members", []) == []
