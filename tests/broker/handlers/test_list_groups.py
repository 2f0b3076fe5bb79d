"""ListGroups: all groups with their states. `tests/conformance` covers the versions."""

from pathlib import Path

from tests.broker.quiet_broker import QuietBroker

from .members import commit, join_stable_group


def test_groups_with_members_or_offsets_are_listed(tmp_path: Path) -> None:
    with QuietBroker(tmp_path, {"offsets.topic.num.partitions": 5}, t=1) as broker:
        client = broker.connect()
        join_stable_group(client, group="members")
        commit(client, 1, group="offsets")
        response = client.request_fields("ListGroups", 5, states_filter=[], types_filter=[])
    listed = {(group["group_id"], group["protocol_type"], group["group_state"]) for group in response["groups"]}
    assert response["error_code"] == 0
    assert listed == {("members", "consumer", "Stable"), ("offsets", "", "Empty")}
