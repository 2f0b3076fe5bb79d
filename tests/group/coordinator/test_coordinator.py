"""Loading and unloading partitions, pending writes, and batches of requests."""

import random

import pytest

from slackwater.group.coordinator import (
    AppendRecords,
    CommittedOffset,
    Coordinator,
    CoordinatorConfig,
    Effect,
    GroupMetadata,
    SendResponse,
    StoredOffset,
)
from slackwater.group.coordinator.group import ClassicGroup
from slackwater.group.errors import Error
from slackwater.group.events import GroupState
from slackwater.group.messages import (
    DeletedGroup,
    DeleteGroups,
    DeleteGroupsResponse,
    GroupToFetch,
    Heartbeat,
    HeartbeatResponse,
    JoinGroup,
    JoinGroupResponse,
    JoinProtocol,
    OffsetCommit,
    OffsetCommitResponse,
    OffsetFetch,
    OffsetFetchResponse,
    OffsetToCommit,
    Request,
    Response,
    SyncGroup,
)
from slackwater.group.topic_partition import TopicPartition

OFFSET = CommittedOffset("g", "t", 0, StoredOffset(5, -1, "", 0))


def _ready() -> Coordinator:
    coordinator = Coordinator(CoordinatorConfig(offsets_topic_num_partitions=1))
    coordinator.load(0, 1, 0)
    coordinator.finish_loading(0, 0)
    return coordinator


def _commit(group_id: str = "g") -> OffsetCommit:
    return OffsetCommit(group_id, "", None, -1, (OffsetToCommit("t", 0, 5),))


def _append(effects: list[Effect]) -> AppendRecords:
    (append,) = [effect for effect in effects if isinstance(effect, AppendRecords)]
    return append


def _answers(effects: list[Effect]) -> list[Response]:
    return [effect.response for effect in effects if isinstance(effect, SendResponse)]


def test_records_after_unload_while_loading_are_ignored() -> None:
    coordinator = Coordinator(CoordinatorConfig(offsets_topic_num_partitions=1))
    coordinator.load(0, 1, 0)
    coordinator.unload(0, None, 0)

    coordinator.replay(0, OFFSET)

    assert coordinator.finish_loading(0, 0) == []
    assert not coordinator.groups


def test_records_after_the_end_of_loading_are_ignored() -> None:
    coordinator = _ready()

    coordinator.replay(0, OFFSET)

    assert coordinator.finish_loading(0, 0) == []
    assert not coordinator.groups


def test_group_with_only_tombstones_is_not_loaded() -> None:
    coordinator = Coordinator(CoordinatorConfig(offsets_topic_num_partitions=1))
    coordinator.load(0, 1, 0)
    for record in (OFFSET, CommittedOffset("g", "t", 0, None), CommittedOffset("h", "t", 0, None)):
        coordinator.replay(0, record)
    coordinator.replay(0, GroupMetadata("g", None))

    coordinator.finish_loading(0, 0)

    assert not coordinator.groups


def test_unload_fails_pending_writes_and_ignores_results() -> None:
    coordinator = _ready()
    append = _append(coordinator.handle(_commit(), "c", 1))

    (answer,) = _answers(coordinator.unload(0, None, 2))

    assert isinstance(answer, OffsetCommitResponse)
    assert [partition.error for partition in answer.partitions] == [Error.NOT_COORDINATOR]
    assert coordinator.on_append_result(append.write_id, Error.NONE, 3) == []


def test_unload_fails_pending_deletion() -> None:
    coordinator = _ready()
    coordinator.on_append_result(_append(coordinator.handle(_commit(), "c", 1)).write_id, Error.NONE, 1)
    coordinator.handle(DeleteGroups(("g",)), "d", 2)
    assert coordinator.groups["g"].state is GroupState.DEAD

    assert _answers(coordinator.unload(0, None, 3)) == [
        DeleteGroupsResponse((DeletedGroup("g", Error.NOT_COORDINATOR),))
    ]
    assert not coordinator.groups


def test_deletion_includes_offset_being_written() -> None:
    coordinator = _ready()
    coordinator.on_append_result(_append(coordinator.handle(_commit(), "c", 1)).write_id, Error.NONE, 1)
    late = OffsetCommit("g", "", None, -1, (OffsetToCommit("t", 1, 7),))
    in_flight = _append(coordinator.handle(late, "late", 2))

    tombstones = _append(coordinator.handle(DeleteGroups(("g",)), "d", 2))

    assert [
        (record.topic, record.partition) for record in tombstones.records if isinstance(record, CommittedOffset)
    ] == [
        ("t", 0),
        ("t", 1),
    ]
    coordinator.on_append_result(in_flight.write_id, Error.NONE, 3)
    coordinator.on_append_result(tombstones.write_id, Error.NONE, 3)
    assert not coordinator.groups


@pytest.mark.parametrize("group_id", ["", None])
def test_heartbeat_with_empty_group_id_is_invalid(group_id: str | None) -> None:
    coordinator = _ready()
    coordinator.on_append_result(_append(coordinator.handle(_commit(""), "c", 1)).write_id, Error.NONE, 1)
    fetch = OffsetFetch((GroupToFetch("", None),))
    (fetched,) = _answers(coordinator.handle(fetch, "f", 2))
    assert isinstance(fetched, OffsetFetchResponse)
    assert [offset.offset for offset in fetched.groups[0].offsets] == [5]

    beat = Heartbeat(group_id, "m", None, 1)

    assert _answers(coordinator.handle(beat, "h", 2)) == [HeartbeatResponse(Error.INVALID_GROUP_ID)]


def test_invalid_transition_is_an_assertion_error() -> None:
    group = ClassicGroup("g", 0, 0)

    with pytest.raises(AssertionError, match="no transition from Empty to Stable"):
        group.transition_to(GroupState.STABLE, 1)


def _member_of(coordinator: Coordinator, group_id: str) -> str:
    """Create a stable group with one static member."""
    protocols = (JoinProtocol("range", b""),)
    join = JoinGroup(group_id, "", "i", "consumer", protocols, 10_000, 60_000, uuid=f"of-{group_id}")
    effects = _done(coordinator, coordinator.handle(join, "j", 0), Error.NONE)
    effects += _done(coordinator, coordinator.tick(3_000), Error.NONE)
    joined = next(each for each in _answers(effects) if isinstance(each, JoinGroupResponse))
    sync = SyncGroup(group_id, joined.member_id, "i", 1, "consumer", "range", ((joined.member_id, b"part"),))
    _done(coordinator, coordinator.handle(sync, "s", 3_000), Error.NONE)
    return joined.member_id


def _done(coordinator: Coordinator, effects: list[Effect], error: Error) -> list[Effect]:
    """Return these effects and the effects of their writes."""
    done = list(effects)
    for effect in effects:
        if isinstance(effect, AppendRecords):
            done += _done(coordinator, coordinator.on_append_result(effect.write_id, error, 4_000), error)
    return done


def _some_commits(dice: random.Random, members: dict[str, str]) -> list[OffsetCommit]:
    commits: list[OffsetCommit] = []
    while len(commits) < 200:
        group_id = dice.choice((*members, "simple", "other", None))
        member_id, instance_id, generation_id = members.get(group_id or "", ""), None, 1 if group_id in members else -1
        if dice.random() < 0.4:
            member_id, instance_id = dice.choice((member_id, "", "nobody")), dice.choice((None, "i", "another"))
            generation_id = dice.choice((1, 2, -1))
        for number in range(dice.randrange(1, 8)):
            offsets = tuple(
                OffsetToCommit("t", dice.randrange(3), number, dice.randrange(3), dice.choice(("", "", None, "x" * 11)))
                for _ in range(dice.randrange(4))
            )
            retention_ms = dice.choice((-1, -1, 5))
            commits.append(OffsetCommit(group_id, member_id, instance_id, generation_id, offsets, retention_ms))
    return commits


@pytest.mark.parametrize("error", [Error.NONE, Error.NOT_ENOUGH_REPLICAS])
@pytest.mark.parametrize("seed", range(20))
def test_batched_commits_equal_single_commits(seed: int, error: Error) -> None:
    dice = random.Random(seed)
    config = CoordinatorConfig(offsets_topic_num_partitions=1, offset_metadata_max_bytes=10)
    together, alone = Coordinator(config), Coordinator(config)
    for coordinator in (together, alone):
        coordinator.load(0, 1, 0)
        coordinator.finish_loading(0, 0)
        members = {group_id: _member_of(coordinator, group_id) for group_id in ("a", "b")}
    asked = list(enumerate(_some_commits(dice, members)))

    at_once = together.handle_all([(request, number) for number, request in asked], 5_000)
    one_by_one = [effect for number, request in asked for effect in alone.handle(request, number, 5_000)]

    records = [record for effect in at_once if isinstance(effect, AppendRecords) for record in effect.records]
    assert records == [
        record for effect in one_by_one if isinstance(effect, AppendRecords) for record in effect.records
    ]
    answers = [each for each in _done(together, at_once, error) if isinstance(each, SendResponse)]
    expected = [each for each in _done(alone, one_by_one, error) if isinstance(each, SendResponse)]
    assert sorted(answers, key=_number) == sorted(expected, key=_number)
    assert [each.caller for each in sorted(answers, key=_number)] == [number for number, _ in asked]
    assert _offsets(together) == _offsets(alone)
    assert len([1 for each in at_once if isinstance(each, AppendRecords)]) < len(
        [1 for each in one_by_one if isinstance(each, AppendRecords)]
    )
    assert together.next_due_ms() == alone.next_due_ms()


def _number(answer: SendResponse) -> int:
    assert isinstance(answer.caller, int)
    return answer.caller


def _offsets(coordinator: Coordinator) -> dict[str, dict[TopicPartition, StoredOffset]]:
    return {group_id: group.offsets for group_id, group in coordinator.groups.items()}


def test_mixed_batch_is_handled_in_order() -> None:
    coordinator = _ready()
    asked: list[tuple[Request, object]] = [(_commit("x"), 1), (Heartbeat("x", "m", None, 1), 2), (_commit("x"), 3)]

    effects = coordinator.handle_all(asked, 1)

    assert [effect.records[0].group_id for effect in effects if isinstance(effect, AppendRecords)] == ["x", "x"]
    assert _answers(effects) == [HeartbeatResponse(Error.UNKNOWN_MEMBER_ID)]
