"""What a request's version changes: from the fields of the wire, through the coordinator, to those of the answer."""

from typing import cast

import pytest

from slackwater.broker.handlers import (
    describe_groups,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_fetch,
    sync_group,
)
from slackwater.group.errors import Error
from slackwater.group.events import GroupState, Joined, Kind
from slackwater.group.messages import JoinGroupResponse

from .room import GROUP, REBALANCE_MS, SESSION_MS, Call, Room, offering

Fields = dict[str, object]
OFFER: list[join_group.WireProtocol] = [{"name": name, "metadata": data} for name, data in offering("range")]


def ask_to_join(
    room: Room, version: int, *, member_id: str = "", instance: str | None = None, reason: str | None = None
) -> Call[JoinGroupResponse]:
    asked = join_group.request(
        version,
        group_id=GROUP,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=REBALANCE_MS,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=OFFER,
        reason=reason,
        client_id="c",
        uuid=room.next_uuid(),
    )
    return room.ask(asked)


def join(room: Room, version: int, **more: str) -> Fields:
    """The fields of an answer that comes at once."""
    return join_group.answer(version, ask_to_join(room, version, **more).answer)


def commit(room: Room, version: int, *, generation: int = -1, retention_ms: int = -1) -> Fields:
    asked = offset_commit.request(
        version,
        group_id=GROUP,
        generation_id_or_member_epoch=generation,
        retention_time_ms=retention_ms,
        topics=[{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}]}],
    )
    return offset_commit.answer(version, room.ask(asked).answer)


def committed(code: Error) -> list[Fields]:
    return [{"name": "t", "partitions": [{"partition_index": 0, "error_code": int(code)}]}]


@pytest.mark.proves("JG-07")
@pytest.mark.parametrize("version", range(4))
def test_before_v4_a_dynamic_member_without_an_id_is_a_member_at_once(room: Room, version: int) -> None:
    call = ask_to_join(room, version)
    assert call.parked
    (member_id,) = room.member_ids
    assert member_id.startswith("c-")


@pytest.mark.proves("JG-08")
@pytest.mark.parametrize("version", range(4, 10))
def test_from_v4_on_a_dynamic_member_without_an_id_is_told_its_id_first(room: Room, version: int) -> None:
    fields = join(room, version)
    assert fields["error_code"] == Error.MEMBER_ID_REQUIRED
    assert str(fields["member_id"]).startswith("c-")
    assert room.member_ids == set()
    assert room.state is GroupState.EMPTY


@pytest.mark.proves("JG-13")
@pytest.mark.parametrize("version", range(3, 10))
def test_an_instance_id_makes_a_static_member_from_v5_on(room: Room, version: int) -> None:
    call = ask_to_join(room, version, instance="i")
    assert call.parked is (version != 4)
    assert {member_id.partition("-")[0] for member_id in room.member_ids} == (
        {"i"} if version >= 5 else {"c"} if version < 4 else set()
    )


@pytest.mark.proves("JG-42", "JG-43")
@pytest.mark.parametrize("version", range(5, 10))
def test_a_static_leader_that_returns_keeps_the_lead_from_v9_on(room: Room, version: int) -> None:
    (leader,) = room.settled("a", static=True)
    fields = join(room, version, instance=leader.instance or "")
    assert fields["error_code"] == Error.NONE
    assert fields["member_id"] != leader.id
    if version >= 9:
        assert fields["skip_assignment"] is True
        assert fields["leader"] == fields["member_id"]
        assert len(cast(list[Fields], fields["members"])) == 1
    else:
        assert "skip_assignment" not in fields
        assert fields["leader"] == leader.id
        assert fields["members"] == []


@pytest.mark.proves("JG-27")
@pytest.mark.parametrize("version", [0, 1])
def test_v0_has_no_rebalance_timeout_so_the_session_timeout_is_used(room: Room, version: int) -> None:
    ask_to_join(room, version)
    (event,) = room.events.of(Kind.MEMBER_JOINED)
    assert isinstance(event.detail, Joined)
    assert event.detail.rebalance_timeout_ms == (SESSION_MS if version == 0 else REBALANCE_MS)


@pytest.mark.proves("JG-50")
@pytest.mark.parametrize("version", range(10))
def test_a_join_without_a_protocol_names_it_empty_before_v7_and_null_from_then_on(room: Room, version: int) -> None:
    fields = join(room, version, member_id="nobody")
    assert fields["error_code"] == Error.UNKNOWN_MEMBER_ID
    assert fields["protocol_name"] == ("" if version < 7 else None)
    assert ("protocol_type" in fields) is (version >= 7)
    assert fields.get("protocol_type") is None


@pytest.mark.proves("JG-51")
@pytest.mark.parametrize(
    ("version", "reason", "told"),
    [
        (7, "because", "not provided"),
        (8, "because", "because"),
        (9, "", "not provided"),
        (9, None, "not provided"),
    ],
)
def test_a_reason_counts_from_v8_on_if_there_is_one(room: Room, version: int, reason: str | None, told: str) -> None:
    member_id = str(join(room, version)["member_id"])
    ask_to_join(room, version, member_id=member_id, reason=reason)
    (event,) = room.events.of(Kind.MEMBER_JOINED)
    assert isinstance(event.detail, Joined)
    assert event.detail.reason == told


@pytest.mark.proves("SG-02")
@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize(("protocol_type", "protocol_name"), [(None, "range"), ("consumer", None)])
def test_from_v5_on_a_sync_must_name_its_protocol(
    room: Room, version: int, protocol_type: str | None, protocol_name: str | None
) -> None:
    (member,) = room.settled("a")
    asked = sync_group.request(
        version,
        group_id=GROUP,
        generation_id=member.generation,
        member_id=member.id,
        protocol_type=protocol_type,
        protocol_name=protocol_name,
        assignments=[],
    )
    fields = sync_group.answer(version, room.ask(asked).answer)
    assert fields["error_code"] == (Error.INCONSISTENT_GROUP_PROTOCOL if version >= 5 else Error.NONE)


@pytest.mark.proves("LG-01")
@pytest.mark.parametrize("version", range(3))
def test_before_v3_a_leavers_error_is_the_answers(room: Room, version: int) -> None:
    (member,) = room.settled("a")
    for member_id, error in (("nobody", Error.UNKNOWN_MEMBER_ID), (member.id, Error.NONE)):
        asked = leave_group.request(version, group_id=GROUP, member_id=member_id)
        fields = leave_group.answer(version, room.ask(asked).answer)
        assert fields["error_code"] == error
        assert "members" not in fields
    assert room.member_ids == set()


@pytest.mark.proves("LG-01")
@pytest.mark.parametrize("version", range(3, 6))
def test_from_v3_on_each_leaver_has_its_own_error(room: Room, version: int) -> None:
    (member,) = room.settled("a")
    asked = leave_group.request(version, group_id=GROUP, members=[{"member_id": "nobody"}, {"member_id": member.id}])
    fields = leave_group.answer(version, room.ask(asked).answer)
    assert fields["error_code"] == Error.NONE
    assert fields["members"] == [
        {"member_id": "nobody", "group_instance_id": None, "error_code": Error.UNKNOWN_MEMBER_ID},
        {"member_id": member.id, "group_instance_id": None, "error_code": Error.NONE},
    ]


@pytest.mark.proves("OC-02")
@pytest.mark.parametrize("version", offset_commit.VERSIONS)
def test_a_commit_with_a_generation_to_a_group_that_does_not_exist(room: Room, version: int) -> None:
    error = Error.GROUP_ID_NOT_FOUND if version >= 9 else Error.ILLEGAL_GENERATION
    assert commit(room, version, generation=3)["topics"] == committed(error)


@pytest.mark.proves("OC-13")
@pytest.mark.parametrize("version", offset_commit.VERSIONS)
def test_a_retention_counts_from_v2_to_v4(room: Room, version: int) -> None:
    assert commit(room, version, retention_ms=3_600_000)["topics"] == committed(Error.NONE)
    assert room.offset() == 5
    room.pass_ms(3_600_000 + room.config.offsets_retention_check_interval_ms)
    assert room.offset() == (-1 if version <= 4 else 5)


@pytest.mark.proves("OC-13")
@pytest.mark.parametrize("version", [2, 3, 4])
def test_a_retention_of_minus_one_leaves_it_to_the_broker(room: Room, version: int) -> None:
    commit(room, version)
    room.pass_ms(room.config.offsets_retention_ms // 2)
    assert room.offset() == 5


@pytest.mark.proves("OF-01")
@pytest.mark.parametrize("version", range(2, 8))
def test_from_v2_on_null_topics_fetch_everything(room: Room, version: int) -> None:
    commit(room, 9)
    asked = offset_fetch.request(version, group_id=GROUP, topics=None)
    fields = offset_fetch.answer(version, room.ask(asked).answer)
    (topic,) = cast(list[Fields], fields["topics"])
    (partition,) = cast(list[Fields], topic["partitions"])
    assert (topic["name"], partition["partition_index"], partition["committed_offset"]) == ("t", 0, 5)
    asked = offset_fetch.request(version, group_id="unheard of", topics=None)
    fields = offset_fetch.answer(version, room.ask(asked).answer)
    assert (fields["topics"], fields["error_code"]) == ([], Error.NONE)


@pytest.mark.proves("OF-04")
@pytest.mark.parametrize("version", [8, 9])
def test_from_v8_on_many_groups_are_fetched_each_with_its_own_answer(room: Room, version: int) -> None:
    commit(room, 9)
    asked = offset_fetch.request(
        version,
        groups=[
            {"group_id": GROUP, "topics": [{"name": "t", "partition_indexes": [0]}]},
            {"group_id": "unheard of", "topics": [{"name": "t", "partition_indexes": [0]}]},
        ],
    )
    groups = cast(list[Fields], offset_fetch.answer(version, room.ask(asked).answer)["groups"])
    assert [(group["group_id"], group["error_code"]) for group in groups] == [(GROUP, 0), ("unheard of", 0)]
    offsets = [
        partition["committed_offset"]
        for group in groups
        for topic in cast(list[Fields], group["topics"])
        for partition in cast(list[Fields], topic["partitions"])
    ]
    assert offsets == [5, -1]


@pytest.mark.proves("AD-01")
@pytest.mark.parametrize("version", describe_groups.VERSIONS)
def test_a_group_that_does_not_exist_is_dead_and_from_v6_on_an_error_too(room: Room, version: int) -> None:
    asked = describe_groups.request(version, groups=["unheard of"])
    (group,) = cast(list[Fields], describe_groups.answer(version, room.ask(asked).answer)["groups"])
    assert group["group_state"] == "Dead"
    assert group["error_code"] == (Error.GROUP_ID_NOT_FOUND if version >= 6 else Error.NONE)
    assert bool(group.get("error_message")) is (version >= 6)


@pytest.mark.proves("AD-03")
@pytest.mark.parametrize("version", list_groups.VERSIONS)
def test_states_are_filtered_and_told_from_v4_on_and_types_from_v5_on(room: Room, version: int) -> None:
    room.settled("a")
    group = {"group_id": GROUP, "protocol_type": "consumer"}
    group |= {"group_state": "Stable"} if version >= 4 else {}
    group |= {"group_type": "classic"} if version >= 5 else {}

    def listed(states: list[str], types: list[str]) -> object:
        asked = list_groups.request(version, states_filter=states, types_filter=types)
        return list_groups.answer(version, room.ask(asked).answer)["groups"]

    assert listed(["stable"], ["CLASSIC"]) == [group]
    assert listed(["Empty"], []) == ([] if version >= 4 else [group])
    assert listed([], ["consumer"]) == ([] if version >= 5 else [group])
