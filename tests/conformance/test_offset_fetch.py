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

from .coordinator_harness import GROUP, CoordinatorHarness

NO_OFFSET = FetchedOffset("t", 0, -1, -1, "", Error.NONE)


def fetch(harness: CoordinatorHarness, *groups: GroupToFetch, require_stable: bool = False) -> OffsetFetchResponse:
    """Send OffsetFetch and return the response."""
    return harness.send(OffsetFetch(groups, require_stable)).response


@pytest.mark.proves("OF-01")
def test_fetch_of_unknown_group_is_not_an_error(harness: CoordinatorHarness) -> None:
    assert fetch(harness, GroupToFetch(GROUP, (("t", 0), ("u", 3)))) == OffsetFetchResponse(
        (FetchedGroup(GROUP, Error.NONE, (NO_OFFSET, FetchedOffset("u", 3, -1, -1, "", Error.NONE))),)
    )
    assert fetch(harness, GroupToFetch(GROUP, None)) == OffsetFetchResponse((FetchedGroup(GROUP, Error.NONE, ()),))
    assert dict(harness.coordinator.groups) == {}


@pytest.mark.proves("OF-01")
def test_partition_without_commit_is_minus_one(harness: CoordinatorHarness) -> None:
    harness.commit_simple(5, partition=1)

    assert fetch(harness, GroupToFetch(GROUP, (("t", 0), ("t", 1)))) == OffsetFetchResponse(
        (FetchedGroup(GROUP, Error.NONE, (NO_OFFSET, FetchedOffset("t", 1, 5, -1, "", Error.NONE))),)
    )
    assert fetch(harness, GroupToFetch(GROUP, ())) == OffsetFetchResponse((FetchedGroup(GROUP, Error.NONE, ()),))


@pytest.mark.proves("OF-01")
def test_fetch_returns_all_offsets_of_group(harness: CoordinatorHarness) -> None:
    for topic, partition in (("u", 1), ("t", 0), ("t", 2)):
        harness.commit_simple(10 + partition, topic=topic, partition=partition)

    assert harness.fetch() == (
        FetchedOffset("t", 0, 10, -1, "", Error.NONE),
        FetchedOffset("t", 2, 12, -1, "", Error.NONE),
        FetchedOffset("u", 1, 11, -1, "", Error.NONE),
    )


@pytest.mark.proves("OF-02")
def test_fetch_needs_no_membership_in_any_state(harness: CoordinatorHarness) -> None:
    harness.commit_simple(5)
    assert harness.offset() == 5
    a = harness.member("a")
    states = {harness.state}
    a.join()
    states.add(harness.state)
    assert harness.offset() == 5
    harness.end_initial_delay()
    states.add(harness.state)
    assert harness.offset() == 5
    a.sync()
    states.add(harness.state)
    assert harness.offset() == 5
    harness.member("b").join()
    states.add(harness.state)
    assert harness.offset() == 5

    assert states == set(GroupState) - {GroupState.DEAD}


@pytest.mark.proves("OF-04")
def test_fetch_of_several_groups_has_error_per_group(harness: CoordinatorHarness) -> None:
    harness.commit_simple(1, group_id="one")
    harness.commit_simple(2, group_id="two")
    response = fetch(
        harness,
        GroupToFetch("one", None),
        GroupToFetch(None, None),
        GroupToFetch("absent", (("t", 0),)),
        GroupToFetch("two", (("t", 0),)),
    )

    assert response == OffsetFetchResponse(
        (
            FetchedGroup("one", Error.NONE, (FetchedOffset("t", 0, 1),)),
            FetchedGroup(None, Error.INVALID_GROUP_ID),
            FetchedGroup("absent", Error.NONE, (NO_OFFSET,)),
            FetchedGroup("two", Error.NONE, (FetchedOffset("t", 0, 2),)),
        )
    )


@pytest.mark.proves("OF-04")
def test_fetch_from_unavailable_partition_is_error_per_group(harness: CoordinatorHarness) -> None:
    harness.unload(1)
    assert fetch(harness, GroupToFetch(GROUP, None)) == OffsetFetchResponse(
        (FetchedGroup(GROUP, Error.NOT_COORDINATOR),)
    )
    harness.leader_epoch = 2
    harness.start_loading()

    assert fetch(harness, GroupToFetch(GROUP, None), GroupToFetch(None, None)) == OffsetFetchResponse(
        (FetchedGroup(GROUP, Error.COORDINATOR_LOAD_IN_PROGRESS), FetchedGroup(None, Error.INVALID_GROUP_ID))
    )


@pytest.mark.proves("OF-07")
def test_stable_fetch_waits_for_pending_commits(harness: CoordinatorHarness) -> None:
    harness.commit_simple(1)
    harness.hold_writes()
    harness.commit_simple(2)
    fetch_call = harness.send(OffsetFetch((GroupToFetch(GROUP, (("t", 0),)),), require_stable=True))
    assert fetch_call.parked
    harness.release_writes()

    assert fetch_call.response == OffsetFetchResponse((FetchedGroup(GROUP, Error.NONE, (FetchedOffset("t", 0, 2),)),))


@pytest.mark.proves("OF-07")
@pytest.mark.parametrize("write", [Error.REQUEST_TIMED_OUT, Error.NOT_ENOUGH_REPLICAS, Error.NOT_LEADER_OR_FOLLOWER])
def test_stable_fetch_after_failed_commit_is_not_coordinator(harness: CoordinatorHarness, write: Error) -> None:
    harness.commit_simple(1)
    harness.hold_writes()
    harness.commit_simple(2)
    fetch_call = harness.send(OffsetFetch((GroupToFetch(GROUP, (("t", 0),)),), require_stable=True))
    harness.release_writes(write)

    assert fetch_call.response == OffsetFetchResponse((FetchedGroup(GROUP, Error.NOT_COORDINATOR),))


@pytest.mark.proves("OF-07")
def test_stable_fetch_without_pending_writes_is_immediate(harness: CoordinatorHarness) -> None:
    harness.commit_simple(1)

    assert fetch(harness, GroupToFetch(GROUP, None), require_stable=True) == OffsetFetchResponse(
        (FetchedGroup(GROUP, Error.NONE, (FetchedOffset("t", 0, 1),)),)
    )
