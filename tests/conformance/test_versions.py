"""Differences between API versions, from request bytes to response bytes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slackwater.group.coordinator.group import ClassicGroup
from slackwater.group.errors import Error
from slackwater.group.events import EventKind, GroupEvent, GroupState, MemberJoined
from tests.broker.quiet_broker import QuietBroker, QuietClient

GROUP = "orders"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
RETENTION_MS = 10_080 * 60_000
CHECK_MS = 600_000

Fields = dict[str, Any]


class GroupClient:
    """A client of a broker, with access to the group state of the broker."""

    def __init__(self, broker: QuietBroker) -> None:
        self.broker = broker
        self.connection: QuietClient = broker.connect("c")
        self.events: list[GroupEvent] = []
        broker.broker.events.subscribe(self.events.append)

    def send(self, api: str, version: int, **fields: Any) -> Fields:
        return self.connection.request_fields(api, version, **fields)

    @property
    def group(self) -> ClassicGroup:
        return self.broker.broker.group_coordinator.coordinator.groups[GROUP]

    @property
    def member_ids(self) -> set[str]:
        return set(self.group.members)

    def joined(self) -> MemberJoined:
        (event,) = (event for event in self.events if event.kind is EventKind.MEMBER_JOINED)
        assert isinstance(event.detail, MemberJoined)
        return event.detail

    def join(self, version: int, **more: Any) -> Fields:
        return self.send(
            "JoinGroup",
            version,
            **{
                "group_id": GROUP,
                "session_timeout_ms": SESSION_MS,
                "rebalance_timeout_ms": REBALANCE_MS,
                "member_id": "",
                "protocol_type": "consumer",
                "protocols": [{"name": "range", "metadata": b""}],
            }
            | more,
        )

    def join_and_sync(self, instance: str | None = None) -> str:
        """Form a stable group of one member and return its id."""
        member_id = self.join(9, group_instance_id=instance)["member_id"]
        if instance is None:
            self.join(9, member_id=member_id)
        self.sync(5, member_id, assignments=[{"member_id": member_id, "assignment": b"part"}], instance=instance)
        assert self.group.state is GroupState.STABLE
        return str(member_id)

    def sync(
        self,
        version: int,
        member_id: str,
        *,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
        assignments: list[Fields] | None = None,
        instance: str | None = None,
    ) -> Fields:
        return self.send(
            "SyncGroup",
            version,
            group_id=GROUP,
            generation_id=1,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=assignments or [],
        )

    def commit(self, version: int, *, generation: int = -1, retention_ms: int = -1) -> Fields:
        return self.send(
            "OffsetCommit",
            version,
            group_id=GROUP,
            generation_id_or_member_epoch=generation,
            retention_time_ms=retention_ms,
            topics=[
                {
                    "name": "t",
                    "partitions": [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}],
                }
            ],
        )

    def offset(self) -> int:
        topics = [{"name": "t", "partition_indexes": [0]}]
        response = self.send("OffsetFetch", 5, group_id=GROUP, topics=topics)
        return int(response["topics"][0]["partitions"][0]["committed_offset"])


@pytest.fixture
def client(tmp_path: Path) -> Iterator[GroupClient]:
    with QuietBroker(tmp_path, t=1) as broker:
        yield GroupClient(broker)


def committed(code: Error) -> list[Fields]:
    return [{"name": "t", "partitions": [{"partition_index": 0, "error_code": int(code)}]}]


@pytest.mark.proves("JG-07")
@pytest.mark.parametrize("version", range(4))
def test_join_before_v4_needs_no_member_id(client: GroupClient, version: int) -> None:
    fields = client.join(version)
    assert fields["error_code"] == Error.NONE
    assert client.member_ids == {fields["member_id"]}
    assert fields["member_id"].startswith("c-")


@pytest.mark.proves("JG-08")
@pytest.mark.parametrize("version", range(4, 10))
def test_join_from_v4_requires_member_id(client: GroupClient, version: int) -> None:
    fields = client.join(version)
    assert fields["error_code"] == Error.MEMBER_ID_REQUIRED
    assert fields["member_id"].startswith("c-")
    assert client.member_ids == set()
    assert client.group.state is GroupState.EMPTY


@pytest.mark.proves("JG-13")
@pytest.mark.parametrize("version", range(3, 10))
def test_join_from_v5_supports_instance_id(client: GroupClient, version: int) -> None:
    fields = client.join(version, group_instance_id="i")
    assert fields["error_code"] == (Error.MEMBER_ID_REQUIRED if version == 4 else Error.NONE)
    assert {member_id.partition("-")[0] for member_id in client.member_ids} == (
        {"i"} if version >= 5 else {"c"} if version < 4 else set()
    )


@pytest.mark.proves("JG-42", "JG-43")
@pytest.mark.parametrize("version", range(5, 10))
def test_static_leader_rejoin_keeps_leader_from_v9(client: GroupClient, version: int) -> None:
    leader = client.join_and_sync("a")
    fields = client.join(version, group_instance_id="a")
    assert fields["error_code"] == Error.NONE
    assert fields["member_id"] != leader
    if version >= 9:
        assert fields["skip_assignment"] is True
        assert fields["leader"] == fields["member_id"]
        assert len(fields["members"]) == 1
    else:
        assert "skip_assignment" not in fields
        assert fields["leader"] == leader
        assert fields["members"] == []


@pytest.mark.proves("JG-27")
@pytest.mark.parametrize("version", [0, 1])
def test_join_v0_uses_session_timeout(client: GroupClient, version: int) -> None:
    client.join(version)
    assert client.joined().rebalance_timeout_ms == (SESSION_MS if version == 0 else REBALANCE_MS)


@pytest.mark.proves("JG-50")
@pytest.mark.parametrize("version", range(10))
def test_join_error_protocol_is_empty_before_v7_then_null(client: GroupClient, version: int) -> None:
    fields = client.join(version, member_id="unknown")
    assert fields["error_code"] == Error.UNKNOWN_MEMBER_ID
    assert fields["generation_id"] == -1
    assert fields["protocol_name"] == ("" if version < 7 else None)
    assert ("protocol_type" in fields) is (version >= 7)
    assert fields.get("protocol_type") is None


@pytest.mark.proves("JG-51")
@pytest.mark.parametrize(
    ("version", "reason", "expected"),
    [
        (7, "because", "not provided"),
        (8, "because", "because"),
        (9, "", "not provided"),
        (9, None, "not provided"),
    ],
)
def test_join_from_v8_has_reason(client: GroupClient, version: int, reason: str | None, expected: str) -> None:
    member_id = client.join(version)["member_id"]
    client.join(version, member_id=member_id, reason=reason)
    assert client.joined().reason == expected


@pytest.mark.proves("SG-02")
@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize(("protocol_type", "protocol_name"), [(None, "range"), ("consumer", None)])
def test_sync_from_v5_requires_protocol(
    client: GroupClient, version: int, protocol_type: str | None, protocol_name: str | None
) -> None:
    member_id = client.join_and_sync()
    fields = client.sync(version, member_id, protocol_type=protocol_type, protocol_name=protocol_name)
    assert fields["error_code"] == (Error.INCONSISTENT_GROUP_PROTOCOL if version >= 5 else Error.NONE)
    assert fields["assignment"] == (b"" if version >= 5 else b"part")


@pytest.mark.proves("LG-01")
@pytest.mark.parametrize("version", range(3))
def test_leave_before_v3_has_top_level_error(client: GroupClient, version: int) -> None:
    member_id = client.join_and_sync()
    for leaver, error in (("unknown", Error.UNKNOWN_MEMBER_ID), (member_id, Error.NONE)):
        fields = client.send("LeaveGroup", version, group_id=GROUP, member_id=leaver)
        assert fields["error_code"] == error
        assert "members" not in fields
    assert client.member_ids == set()


@pytest.mark.proves("LG-01")
@pytest.mark.parametrize("version", range(3, 6))
def test_leave_from_v3_has_error_per_member(client: GroupClient, version: int) -> None:
    member_id = client.join_and_sync()
    leavers = [{"member_id": leaver, "group_instance_id": None} for leaver in ("unknown", member_id)]
    fields = client.send("LeaveGroup", version, group_id=GROUP, members=leavers)
    assert fields["error_code"] == Error.NONE
    assert fields["members"] == [
        {"member_id": "unknown", "group_instance_id": None, "error_code": Error.UNKNOWN_MEMBER_ID},
        {"member_id": member_id, "group_instance_id": None, "error_code": Error.NONE},
    ]


@pytest.mark.proves("OC-02")
@pytest.mark.parametrize("version", range(2, 10))
def test_commit_with_generation_to_missing_group(client: GroupClient, version: int) -> None:
    error = Error.GROUP_ID_NOT_FOUND if version >= 9 else Error.ILLEGAL_GENERATION
    assert client.commit(version, generation=3)["topics"] == committed(error)


@pytest.mark.proves("OC-13")
@pytest.mark.parametrize("version", range(2, 10))
def test_commit_v2_to_v4_has_retention_time(client: GroupClient, version: int) -> None:
    assert client.commit(version, retention_ms=3_600_000)["topics"] == committed(Error.NONE)
    assert client.offset() == 5
    client.broker.pass_ms(3_600_000 + CHECK_MS)
    assert client.offset() == (-1 if version <= 4 else 5)


@pytest.mark.proves("OC-13")
@pytest.mark.parametrize("version", [2, 3, 4])
def test_retention_minus_one_is_broker_default(client: GroupClient, version: int) -> None:
    client.commit(version)
    client.broker.pass_ms(RETENTION_MS // 2)
    assert client.offset() == 5


@pytest.mark.proves("OF-01")
@pytest.mark.parametrize("version", range(2, 8))
def test_fetch_from_v2_null_topics_means_all(client: GroupClient, version: int) -> None:
    client.commit(9)
    fields = client.send("OffsetFetch", version, group_id=GROUP, topics=None)
    (topic,) = fields["topics"]
    (partition,) = topic["partitions"]
    assert (topic["name"], partition["partition_index"], partition["committed_offset"]) == ("t", 0, 5)
    fields = client.send("OffsetFetch", version, group_id="unknown", topics=None)
    assert (fields["topics"], fields["error_code"]) == ([], Error.NONE)


@pytest.mark.proves("OF-04")
@pytest.mark.parametrize("version", [8, 9])
def test_fetch_from_v8_has_result_per_group(client: GroupClient, version: int) -> None:
    client.commit(9)
    topics = [{"name": "t", "partition_indexes": [0]}]
    requested = [{"group_id": group_id, "topics": topics} for group_id in (GROUP, "unknown")]
    groups = client.send("OffsetFetch", version, groups=requested)["groups"]
    assert [(group["group_id"], group["error_code"]) for group in groups] == [(GROUP, 0), ("unknown", 0)]
    offsets = [
        partition["committed_offset"]
        for group in groups
        for topic in group["topics"]
        for partition in topic["partitions"]
    ]
    assert offsets == [5, -1]


@pytest.mark.proves("AD-01")
@pytest.mark.parametrize("version", range(7))
def test_describe_missing_group_is_error_from_v6(client: GroupClient, version: int) -> None:
    (group,) = client.send("DescribeGroups", version, groups=["unknown"])["groups"]
    assert group["group_state"] == "Dead"
    assert group["error_code"] == (Error.GROUP_ID_NOT_FOUND if version >= 6 else Error.NONE)
    assert bool(group.get("error_message")) is (version >= 6)


@pytest.mark.proves("AD-03")
@pytest.mark.parametrize("version", range(6))
def test_list_filters_states_from_v4_and_types_from_v5(client: GroupClient, version: int) -> None:
    client.join_and_sync()
    group = {"group_id": GROUP, "protocol_type": "consumer"}
    group |= {"group_state": "Stable"} if version >= 4 else {}
    group |= {"group_type": "classic"} if version >= 5 else {}

    def listed(states: list[str], types: list[str]) -> object:
        return client.send("ListGroups", version, states_filter=states, types_filter=types)["groups"]

    assert listed(["stable"], ["CLASSIC"]) == [group]
    assert listed(["Empty"], []) == ([] if version >= 4 else [group])
    assert listed([], ["consumer"]) == ([] if version >= 5 else [group])
