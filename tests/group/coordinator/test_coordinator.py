"""The facade: shards that come and go, and what is under way meanwhile."""

import pytest

from slackwater.group.coordinator import (
    Answer,
    Append,
    CommittedOffset,
    Coordinator,
    CoordinatorConfig,
    Effect,
    GroupMetadata,
    StoredOffset,
)
from slackwater.group.coordinator.group import Group
from slackwater.group.errors import Error
from slackwater.group.events import GroupState
from slackwater.group.messages import (
    DeletedGroup,
    DeleteGroups,
    DeleteGroupsResponse,
    GroupToFetch,
    Heartbeat,
    HeartbeatResponse,
    OffsetCommit,
    OffsetCommitResponse,
    OffsetFetch,
    OffsetFetchResponse,
    OffsetToCommit,
    Response,
)

OFFSET = CommittedOffset("g", "t", 0, StoredOffset(5, -1, "", 0))


def _ready() -> Coordinator:
    coordinator = Coordinator(CoordinatorConfig(offsets_topic_num_partitions=1))
    coordinator.load(0, 1, 0)
    coordinator.loaded(0, 0)
    return coordinator


def _commit(group_id: str = "g") -> OffsetCommit:
    return OffsetCommit(group_id, "", None, -1, (OffsetToCommit("t", 0, 5),))


def _append(effects: list[Effect]) -> Append:
    (append,) = [effect for effect in effects if isinstance(effect, Append)]
    return append


def _answers(effects: list[Effect]) -> list[Response]:
    return [effect.response for effect in effects if isinstance(effect, Answer)]


def test_records_of_a_shard_that_was_given_up_while_it_was_loading_are_ignored() -> None:
    coordinator = Coordinator(CoordinatorConfig(offsets_topic_num_partitions=1))
    coordinator.load(0, 1, 0)
    coordinator.unload(0, None, 0)

    coordinator.replay(0, OFFSET)

    assert coordinator.loaded(0, 0) == []
    assert not coordinator.groups


def test_records_after_the_end_of_loading_are_ignored() -> None:
    coordinator = _ready()

    coordinator.replay(0, OFFSET)

    assert coordinator.loaded(0, 0) == []
    assert not coordinator.groups


def test_a_group_of_which_only_tombstones_are_left_does_not_come_back() -> None:
    coordinator = Coordinator(CoordinatorConfig(offsets_topic_num_partitions=1))
    coordinator.load(0, 1, 0)
    for record in (OFFSET, CommittedOffset("g", "t", 0, None), CommittedOffset("h", "t", 0, None)):
        coordinator.replay(0, record)
    coordinator.replay(0, GroupMetadata("g", None))

    coordinator.loaded(0, 0)

    assert not coordinator.groups


def test_an_unload_answers_what_waits_for_a_write_and_ignores_its_outcome() -> None:
    coordinator = _ready()
    append = _append(coordinator.handle(_commit(), "c", 1))

    (answer,) = _answers(coordinator.unload(0, None, 2))

    assert isinstance(answer, OffsetCommitResponse)
    assert [partition.error for partition in answer.partitions] == [Error.NOT_COORDINATOR]
    assert coordinator.written(append.write_id, Error.NONE, 3) == []


def test_an_unload_answers_a_deletion_whose_tombstones_are_not_written_yet() -> None:
    coordinator = _ready()
    coordinator.written(_append(coordinator.handle(_commit(), "c", 1)).write_id, Error.NONE, 1)
    coordinator.handle(DeleteGroups(("g",)), "d", 2)
    assert coordinator.groups["g"].state is GroupState.DEAD

    assert _answers(coordinator.unload(0, None, 3)) == [
        DeleteGroupsResponse((DeletedGroup("g", Error.NOT_COORDINATOR),))
    ]
    assert not coordinator.groups


def test_a_deletion_takes_along_an_offset_that_is_still_being_written() -> None:
    coordinator = _ready()
    coordinator.written(_append(coordinator.handle(_commit(), "c", 1)).write_id, Error.NONE, 1)
    late = OffsetCommit("g", "", None, -1, (OffsetToCommit("t", 1, 7),))
    in_flight = _append(coordinator.handle(late, "late", 2))

    tombstones = _append(coordinator.handle(DeleteGroups(("g",)), "d", 2))

    assert [
        (record.topic, record.partition) for record in tombstones.records if isinstance(record, CommittedOffset)
    ] == [
        ("t", 0),
        ("t", 1),
    ]
    coordinator.written(in_flight.write_id, Error.NONE, 3)
    coordinator.written(tombstones.write_id, Error.NONE, 3)
    assert not coordinator.groups


@pytest.mark.parametrize("group_id", ["", None])
def test_nobody_can_heartbeat_in_the_group_without_a_name_even_if_it_has_offsets(group_id: str | None) -> None:
    coordinator = _ready()
    coordinator.written(_append(coordinator.handle(_commit(""), "c", 1)).write_id, Error.NONE, 1)
    fetch = OffsetFetch((GroupToFetch("", None),))
    (fetched,) = _answers(coordinator.handle(fetch, "f", 2))
    assert isinstance(fetched, OffsetFetchResponse)
    assert [offset.offset for offset in fetched.groups[0].offsets] == [5]

    beat = Heartbeat(group_id, "m", None, 1)

    assert _answers(coordinator.handle(beat, "h", 2)) == [HeartbeatResponse(Error.INVALID_GROUP_ID)]


def test_an_illegal_move_is_an_internal_error() -> None:
    group = Group("g", 0, 0)

    with pytest.raises(AssertionError, match="no move from Empty to Stable"):
        group.move(GroupState.STABLE, 1)
