"""LeaveGroup in its versions."""

from pathlib import Path

import pytest

from slackwater.group.errors import Error
from slackwater.group.events import EventKind, GroupEvent, MemberLeft
from tests.broker.quiet_broker import QuietBroker

from .members import GROUP, settle


@pytest.mark.parametrize(("version", "told"), [(4, "not provided"), (5, "closing")])
def test_leave_reason_since_v5(tmp_path: Path, version: int, told: str) -> None:
    with QuietBroker(tmp_path) as broker:
        client, events = broker.connect(), list[GroupEvent]()
        member_id = settle(client)
        broker.broker.events.subscribe(events.append)
        leaver = {"member_id": member_id, "group_instance_id": None, "reason": "closing"}
        client.ask_fields("LeaveGroup", version, group_id=GROUP, members=[leaver])
    (left,) = (event.detail for event in events if event.kind is EventKind.MEMBER_LEFT)
    assert isinstance(left, MemberLeft)
    assert left.reason == told


@pytest.mark.parametrize("version", range(6))
def test_top_level_error_takes_precedence(tmp_path: Path, version: int) -> None:
    with QuietBroker(tmp_path) as broker:
        client = broker.connect()
        broker.broker.groups.coordinator.unload(0, None, broker.clock.now_ms())
        asked = {"member_id": "m", "members": [{"member_id": "m", "group_instance_id": None}]}
        answer = client.ask_fields("LeaveGroup", version, group_id=GROUP, **asked)
    assert answer["error_code"] == Error.NOT_COORDINATOR
    assert answer.get("members", []) == []
