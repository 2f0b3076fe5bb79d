"""Loading and unloading partitions, and pending writes."""

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
    coordinator.finish_loading(0, 0)
    return coordinator


def _commit(group_id: str = "g") -> OffsetCommit:
    return OffsetCommit(group_id, "", None, -1, (OffsetToCommit("t", 0, 5),))


def _append(effects: list[Effect]) -> AppendRecords:
    (append,) = [effect for effect in effects if isinstance(effect, AppendRecords)]
    return append


def _responses(effects: list[Effect]) -> list[Response]:
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

    (response,) = _responses(coordinator.unload(0, None, 2))

    assert isinstance(response, OffsetCommitResponse)
    assert [partition.error for partition in response.partitions] == [Error.NOT_COORDINATOR]
    assert coordinator.on_append_result(append.write_id, Error.NONE, 3) == []


def test_unload_fails_pending_deletion() -> None:
    coordinator = _ready()
    coordinator.on_append_result(_append(coordinator.handle(_commit(), "c", 1)).write_id, Error.NONE, 1)
    coordinator.handle(DeleteGroups(("g",)), "d", 2)
    assert coordinator.groups["g"].state is GroupState.DEAD

    assert _responses(coordinator.unload(0, None, 3)) == [
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
    (fetched,) = _responses(coordinator.handle(fetch, "f", 2))
    assert isinstance(fetched, OffsetFetchResponse)
    assert [offset.offset for offset in fetched.groups[0].offsets] == [5]

    heartbeat = Heartbeat(group_id, "m", None, 1)

    assert _responses(coordinator.handle(heartbeat, "h", 2)) == [HeartbeatResponse(Error.INVALID_GROUP_ID)]


def test_invalid_transition_is_an_assertion_error() -> None:
    group = ClassicGroup("g", 0, 0)

    with pytest.raises(AssertionError, match="no transition from Empty to Stable"):
        group.transition_to(GroupState.STABLE, 1)
