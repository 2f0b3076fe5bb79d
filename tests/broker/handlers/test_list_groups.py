"""ListGroups: all groups, and their states. Its versions are told apart in `tests/conformance`."""

from pathlib import Path

from tests.broker.quiet_broker import QuietBroker

from .members import commit, settle


def test_groups_of_members_and_of_offsets_are_named(tmp_path: Path) -> None:
    with QuietBroker(tmp_path, {"offsets.topic.num.partitions": 5}, t=1) as broker:
        client = broker.connect()
        settle(client, group="members")
        commit(client, 1, group="offsets")
        answer = client.ask_fields("ListGroups", 5, states_filter=[], types_filter=[])
    listed = {(group["group_id"], group["protocol_type"], group["group_state"]) for group in answer["groups"]}
    assert answer["error_code"] == 0
    assert listed == {("members", "consumer", "Stable"), ("offsets", "", "Empty")}
