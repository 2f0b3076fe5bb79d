"""Section 6 of the catalogue: OffsetFetch."""

import pytest

from slackwater.group.errors import Error
from slackwater.group.events import GroupState
from slackwater.group.messages import (
    FetchedGroup,
    FetchedOffset,
    GroupToFetch,
    OffsetFetch,
    OffsetFetchResponse,
)

from .room import GROUP, Room

NOTHING = FetchedOffset("t", 0, -1, -1, "", Error.NONE)


def fetch(room: Room, *groups: GroupToFetch, require_stable: bool = False) -> OffsetFetchResponse:
    """The answer to one OffsetFetch."""
    return room.ask(OffsetFetch(groups, require_stable)).answer


@pytest.mark.proves("OF-01")
def test_unknown_group_has_no_offsets_and_that_is_no_error(room: Room) -> None:
    assert fetch(room, GroupToFetch(GROUP, (("t", 0), ("u", 3)))) == OffsetFetchResponse(
        (FetchedGroup(GROUP, Error.NONE, (NOTHING, FetchedOffset("u", 3, -1, -1, "", Error.NONE))),)
    )
    assert fetch(room, GroupToFetch(GROUP, None)) == OffsetFetchResponse((FetchedGroup(GROUP, Error.NONE, ()),))
    assert dict(room.coordinator.groups) == {}


@pytest.mark.proves("OF-01")
def test_partition_without_commit_is_minus_one(room: Room) -> None:
    room.commit_simply(5, partition=1)

    assert fetch(room, GroupToFetch(GROUP, (("t", 0), ("t", 1)))) == OffsetFetchResponse(
        (FetchedGroup(GROUP, Error.NONE, (NOTHING, FetchedOffset("t", 1, 5, -1, "", Error.NONE))),)
    )
    assert fetch(room, GroupToFetch(GROUP, ())) == OffsetFetchResponse((FetchedGroup(GROUP, Error.NONE, ()),))


@pytest.mark.proves("OF-01")
def test_all_offsets_of_a_group_are_fetched_at_once(room: Room) -> None:
    for topic, partition in (("u", 1), ("t", 0), ("t", 2)):
        room.commit_simply(10 + partition, topic=topic, partition=partition)

    assert room.fetch() == (
        FetchedOffset("t", 0, 10, -1, "", Error.NONE),
        FetchedOffset("t", 2, 12, -1, "", Error.NONE),
        FetchedOffset("u", 1, 11, -1, "", Error.NONE),
    )


@pytest.mark.proves("OF-02")
def test_fetch_needs_no_membership_in_any_state(room: Room) -> None:
    room.commit_simply(5)
    assert room.offset() == 5
    a = room.member("a")
    seen = {room.state}
    a.join()
    seen.add(room.state)
    assert room.offset() == 5
    room.end_initial_delay()
    seen.add(room.state)
    assert room.offset() == 5
    a.sync()
    seen.add(room.state)
    assert room.offset() == 5
    room.member("b").join()
    seen.add(room.state)
    assert room.offset() == 5

    assert seen == set(GroupState) - {GroupState.DEAD}


@pytest.mark.proves("OF-04")
def test_fetch_of_several_groups_has_error_per_group(room: Room) -> None:
    room.commit_simply(1, group_id="one")
    room.commit_simply(2, group_id="two")
    answer = fetch(
        room,
        GroupToFetch("one", None),
        GroupToFetch(None, None),
        GroupToFetch("absent", (("t", 0),)),
        GroupToFetch("two", (("t", 0),)),
    )

    assert answer == OffsetFetchResponse(
        (
            FetchedGroup("one", Error.NONE, (FetchedOffset("t", 0, 1),)),
            FetchedGroup(None, Error.INVALID_GROUP_ID),
            FetchedGroup("absent", Error.NONE, (NOTHING,)),
            FetchedGroup("two", Error.NONE, (FetchedOffset("t", 0, 2),)),
        )
    )


@pytest.mark.proves("OF-04")
def test_fetch_from_unavailable_partition_is_error_per_group(room: Room) -> None:
    room.unload(1)
    assert fetch(room, GroupToFetch(GROUP, None)) == OffsetFetchResponse((FetchedGroup(GROUP, Error.NOT_COORDINATOR),))
    room.leader_epoch = 2
    room.start_loading()

    assert fetch(room, GroupToFetch(GROUP, None), GroupToFetch(None, None)) == OffsetFetchResponse(
        (FetchedGroup(GROUP, Error.COORDINATOR_LOAD_IN_PROGRESS), FetchedGroup(None, Error.INVALID_GROUP_ID))
    )


@pytest.mark.proves("OF-07")
def test_stable_fetch_waits_for_commits_under_way(room: Room) -> None:
    room.commit_simply(1)
    room.hold_writes()
    room.commit_simply(2)
    fetching = room.ask(OffsetFetch((GroupToFetch(GROUP, (("t", 0),)),), require_stable=True))
    assert fetching.parked
    room.release_writes()

    assert fetching.answer == OffsetFetchResponse((FetchedGroup(GROUP, Error.NONE, (FetchedOffset("t", 0, 2),)),))


@pytest.mark.proves("OF-07")
@pytest.mark.parametrize("write", [Error.REQUEST_TIMED_OUT, Error.NOT_ENOUGH_REPLICAS, Error.NOT_LEADER_OR_FOLLOWER])
def test_stable_fetch_after_failed_commit_is_not_coordinator(room: Room, write: Error) -> None:
    room.commit_simply(1)
    room.hold_writes()
    room.commit_simply(2)
    fetching = room.ask(OffsetFetch((GroupToFetch(GROUP, (("t", 0),)),), require_stable=True))
    room.release_writes(write)

    assert fetching.answer == OffsetFetchResponse((FetchedGroup(GROUP, Error.NOT_COORDINATOR),))


@pytest.mark.proves("OF-07")
def test_stable_fetch_without_pending_writes_is_immediate(room: Room) -> None:
    room.commit_simply(1)

    assert fetch(room, GroupToFetch(GROUP, None), require_stable=True) == OffsetFetchResponse(
        (FetchedGroup(GROUP, Error.NONE, (FetchedOffset("t", 0, 1),)),)
    )
