"""Section 12 of the catalogue: describing, listing and deleting groups and offsets."""

from typing import Any

import pytest

from slackwater.group.coordinator.records import CommittedOffset, GroupMetadata
from slackwater.group.errors import Error
from slackwater.group.events import EventKind, GroupState, OffsetsRemoved
from slackwater.group.messages import (
    DeletedGroup,
    DeleteGroups,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedMember,
    DescribeGroups,
    JoinProtocol,
    ListedGroup,
    OffsetDelete,
    OffsetDeleteResponse,
    OffsetResult,
)

from .coordinator_harness import GROUP, HOST, CoordinatorHarness, Member, assignment_of, join_protocols, subscription

E = GroupState.EMPTY
PR = GroupState.PREPARING_REBALANCE
CR = GroupState.COMPLETING_REBALANCE
S = GroupState.STABLE


def described(member: Member, metadata: bytes, assignment: bytes) -> DescribedMember:
    """Return the DescribeGroups entry of a member."""
    return DescribedMember(member.id, member.instance, member.name, HOST, metadata, assignment)


# --- describing -------------------------------------------------------------------------------------------------------


@pytest.mark.proves("AD-01")
def test_unknown_group_is_described_as_dead(harness: CoordinatorHarness) -> None:
    old = harness.send(DescribeGroups(("absent",), reports_missing_group=False)).response
    assert old.groups == (DescribedGroup("absent", Error.NONE, "Dead"),)

    (new,) = harness.send(DescribeGroups(("absent",))).response.groups
    assert new == DescribedGroup("absent", Error.GROUP_ID_NOT_FOUND, "Dead", error_message=new.error_message)
    assert new.error_message is not None
    assert "absent" in new.error_message


@pytest.mark.proves("AD-01")
def test_groups_are_described_separately(harness: CoordinatorHarness) -> None:
    harness.stable_group("a")
    groups = harness.send(DescribeGroups(("absent", GROUP))).response.groups

    assert [(group.group_id, group.error) for group in groups] == [
        ("absent", Error.GROUP_ID_NOT_FOUND),
        (GROUP, Error.NONE),
    ]


@pytest.mark.proves("AD-02")
def test_describe_stable_group_has_metadata_and_assignments(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b", static=True)
    group = harness.describe()

    members = (
        described(a, subscription("t"), assignment_of(a.id)),
        described(b, subscription("t"), assignment_of(b.id)),
    )
    assert set(group.members) == set(members)
    assert group == DescribedGroup(GROUP, Error.NONE, "Stable", "consumer", "range", group.members)


@pytest.mark.proves("AD-02")
def test_describe_in_first_rebalance_has_no_metadata(harness: CoordinatorHarness) -> None:
    a = harness.member("a")
    a.join()
    assert harness.describe() == DescribedGroup(
        GROUP, Error.NONE, "PreparingRebalance", "consumer", "", (described(a, b"", b""),)
    )
    harness.end_initial_delay()

    assert harness.describe() == DescribedGroup(
        GROUP, Error.NONE, "CompletingRebalance", "consumer", "", (described(a, b"", b""),)
    )


@pytest.mark.proves("AD-02")
def test_describe_shows_last_assignments_while_preparing(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    a.join()
    last = {described(a, b"", assignment_of(a.id)), described(b, b"", assignment_of(b.id))}
    preparing = harness.describe()
    assert (preparing.state, preparing.protocol_name, set(preparing.members)) == ("PreparingRebalance", "", last)
    b.join()

    completing = harness.describe()
    assert (completing.state, completing.protocol_name, set(completing.members)) == ("CompletingRebalance", "", last)


@pytest.mark.proves("AD-02", "ST-10")
def test_describe_shows_no_assignments_after_failed_rebalance(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    a.join()
    b.join()
    a.protocols = join_protocols("range", topics=["u"])
    a.join()

    assert harness.state is PR
    assert set(harness.describe().members) == {described(a, b"", b""), described(b, b"", b"")}


@pytest.mark.proves("AD-02")
def test_describe_empty_group_has_protocol_type_only(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    a.leave()

    assert harness.describe() == DescribedGroup(GROUP, Error.NONE, "Empty", "consumer")


# --- listing ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def populated(harness: CoordinatorHarness) -> CoordinatorHarness:
    """A harness with a group in every state that ListGroups returns."""
    harness.stable_group("a", group_id="stable", session_timeout_ms=600_000)
    (former,) = harness.stable_group("a", group_id="empty")
    former.leave()
    completing = harness.member("a", group_id="completing", session_timeout_ms=600_000)
    completing.join()
    harness.end_initial_delay("completing")
    harness.member("a", group_id="initial").join()
    preparing, _ = harness.stable_group(
        "a", "b", group_id="preparing", session_timeout_ms=600_000, rebalance_timeout_ms=600_000
    )
    preparing.join()
    harness.member("a", group_id="initial-again").join()
    harness.commit_simple(1, group_id="simple")
    return harness


def group_ids(groups: list[ListedGroup]) -> set[str]:
    """Return the group ids."""
    return {group.group_id for group in groups}


@pytest.mark.proves("AD-03")
def test_all_groups_are_listed_with_state_and_type(populated: CoordinatorHarness) -> None:
    listed = {group.group_id: group for group in populated.listed()}

    assert listed["stable"] == ListedGroup("stable", "consumer", "Stable", "classic")
    assert listed["empty"] == ListedGroup("empty", "consumer", "Empty", "classic")
    assert listed["completing"] == ListedGroup("completing", "consumer", "CompletingRebalance", "classic")
    assert listed["preparing"] == ListedGroup("preparing", "consumer", "PreparingRebalance", "classic")
    assert listed["initial-again"] == ListedGroup("initial-again", "consumer", "PreparingRebalance", "classic")
    assert listed["simple"] == ListedGroup("simple", "", "Empty", "classic")


@pytest.mark.proves("AD-03")
def test_list_state_filter_ignores_case(populated: CoordinatorHarness) -> None:
    assert group_ids(populated.listed("Stable")) == {"stable"}
    assert group_ids(populated.listed("sTABLE", "EMPTY")) == {"stable", "empty", "simple"}
    assert group_ids(populated.listed("preparingrebalance")) >= {"preparing", "initial-again"}
    assert group_ids(populated.listed("NoSuchState")) == set()
    assert group_ids(populated.listed("NoSuchState", "stable")) == {"stable"}


@pytest.mark.proves("AD-03")
def test_list_type_filter_ignores_case(populated: CoordinatorHarness) -> None:
    all_ids = group_ids(populated.listed())

    assert group_ids(populated.listed(types=("classic",))) == all_ids
    assert group_ids(populated.listed(types=("CLASSIC", "consumer"))) == all_ids
    assert group_ids(populated.listed(types=("consumer",))) == set()
    assert group_ids(populated.listed(types=("nonsense",))) == set()
    assert group_ids(populated.listed("stable", types=("Classic",))) == {"stable"}


# --- deleting groups --------------------------------------------------------------------------------------------------


@pytest.mark.proves("AD-04")
@pytest.mark.parametrize("stage", ["initial", "completing", "stable", "preparing"])
def test_live_group_cannot_be_deleted(harness: CoordinatorHarness, stage: str) -> None:
    harness.group_in(stage, "a", "b")
    before = harness.snapshot()

    assert harness.send(DeleteGroups((GROUP,))).response == DeleteGroupsResponse(
        (DeletedGroup(GROUP, Error.NON_EMPTY_GROUP),)
    )
    assert harness.snapshot() == before


@pytest.mark.proves("AD-04")
def test_empty_group_is_deleted_with_its_offsets(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    a.commit(1)
    a.commit(2, partition=1)
    a.leave()
    before, written = harness.events.mark(), len(harness.log)

    assert harness.send(DeleteGroups((GROUP,))).response == DeleteGroupsResponse((DeletedGroup(GROUP, Error.NONE),))
    assert GROUP not in harness.coordinator.groups
    assert set(harness.log[written:]) == {
        CommittedOffset(GROUP, "t", 0, None),
        CommittedOffset(GROUP, "t", 1, None),
        GroupMetadata(GROUP, None),
    }
    assert harness.fetch() == ()
    (deleted,) = harness.events.since(before, EventKind.GROUP_DELETED)
    assert deleted.group == GROUP
    harness.restart()
    assert dict(harness.coordinator.groups) == {}


@pytest.mark.proves("AD-04")
def test_delete_response_waits_for_tombstones(harness: CoordinatorHarness) -> None:
    harness.commit_simple(1)
    harness.hold_writes()
    delete_call = harness.send(DeleteGroups((GROUP,)))
    assert delete_call.parked
    harness.release_writes()

    assert delete_call.response == DeleteGroupsResponse((DeletedGroup(GROUP, Error.NONE),))


@pytest.mark.proves("AD-04")
def test_failed_deletion_keeps_group(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    a.commit(7)
    a.leave()
    harness.fail_next_write(Error.NOT_ENOUGH_REPLICAS)

    assert harness.send(DeleteGroups((GROUP,))).response == DeleteGroupsResponse(
        (DeletedGroup(GROUP, Error.COORDINATOR_NOT_AVAILABLE),)
    )
    assert (harness.state, harness.generation, harness.offset()) == (E, 2, 7)
    b = harness.member("b")
    b.join()
    harness.end_initial_delay()
    assert (harness.state, harness.generation) == (CR, 3)


@pytest.mark.proves("AD-04", "ST-08")
def test_failed_deletion_restores_no_former_member(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    harness.hold_writes()
    a.leave()
    assert (harness.state, harness.generation) == (E, 2)
    delete_call = harness.send(DeleteGroups((GROUP,)))
    harness.release_writes(Error.NOT_ENOUGH_REPLICAS)

    assert delete_call.response == DeleteGroupsResponse((DeletedGroup(GROUP, Error.COORDINATOR_NOT_AVAILABLE),))
    assert (harness.state, harness.generation, harness.member_ids) == (E, 2, set())
    assert a.heartbeat() is Error.UNKNOWN_MEMBER_ID


@pytest.mark.proves("AD-04")
def test_each_group_is_deleted_separately_with_one_result(harness: CoordinatorHarness) -> None:
    harness.stable_group("a")
    harness.commit_simple(1, group_id="simple")
    response = harness.send(DeleteGroups(("absent", "simple", GROUP, "simple", "absent"))).response

    assert sorted(response.groups, key=str) == sorted(
        [
            DeletedGroup("absent", Error.GROUP_ID_NOT_FOUND),
            DeletedGroup("simple", Error.NONE),
            DeletedGroup(GROUP, Error.NON_EMPTY_GROUP),
        ],
        key=str,
    )
    assert set(harness.coordinator.groups) == {GROUP}


@pytest.mark.proves("AD-04")
def test_group_with_only_pending_id_can_be_deleted(harness: CoordinatorHarness) -> None:
    a = harness.member("a")
    a.send_join()

    assert harness.send(DeleteGroups((GROUP,))).response == DeleteGroupsResponse((DeletedGroup(GROUP, Error.NONE),))
    assert dict(harness.coordinator.groups) == {}
    harness.advance_ms(60_000)
    assert a.send_join().response.error is Error.UNKNOWN_MEMBER_ID


@pytest.mark.proves("AD-04", "OC-14")
def test_empty_group_id_can_be_deleted_and_null_cannot(harness: CoordinatorHarness) -> None:
    harness.commit_simple(1, group_id="")

    assert set(harness.send(DeleteGroups(("", None))).response.groups) == {
        DeletedGroup("", Error.NONE),
        DeletedGroup(None, Error.INVALID_GROUP_ID),
    }
    assert dict(harness.coordinator.groups) == {}


# --- deleting offsets -------------------------------------------------------------------------------------------------


def delete(
    harness: CoordinatorHarness, *partitions: tuple[str, int], group_id: str | None = GROUP
) -> OffsetDeleteResponse:
    """Send OffsetDelete and return the response."""
    return harness.send(OffsetDelete(group_id, partitions)).response


@pytest.mark.proves("AD-05")
@pytest.mark.parametrize("stage", ["initial", "completing", "stable", "preparing"])
def test_offset_delete_is_rejected_for_other_live_types(harness: CoordinatorHarness, stage: str) -> None:
    settings: dict[str, Any] = {"protocol_type": "connect", "protocols": (JoinProtocol("default", b"\x00"),)}
    harness.commit_simple(1)
    harness.group_in(stage, "a", "b", **settings)

    assert delete(harness, ("t", 0)) == OffsetDeleteResponse(Error.NON_EMPTY_GROUP)
    assert harness.offset() == 1


@pytest.mark.proves("AD-05")
@pytest.mark.parametrize("stage", ["completing", "stable", "preparing"])
def test_offset_delete_keeps_subscribed_topics(harness: CoordinatorHarness, stage: str) -> None:
    harness.commit_simple(1)
    harness.commit_simple(2, topic="former")
    harness.group_in(stage, "a", "b")
    before = harness.events.mark()

    assert delete(harness, ("t", 0), ("former", 0), ("former", 1)) == OffsetDeleteResponse(
        Error.NONE,
        (
            OffsetResult("t", 0, Error.GROUP_SUBSCRIBED_TO_TOPIC),
            OffsetResult("former", 0, Error.NONE),
            OffsetResult("former", 1, Error.NONE),
        ),
    )
    assert [(fetched.topic, fetched.offset) for fetched in harness.fetch()] == [("t", 1)]
    (event,) = harness.events.since(before, EventKind.OFFSETS_DELETED)
    assert event.detail == OffsetsRemoved(count=1)


@pytest.mark.proves("AD-05")
def test_offset_delete_in_empty_group_deletes_any_offset(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    a.commit(1)
    a.leave()

    assert delete(harness, ("t", 0), ("t", 1)) == OffsetDeleteResponse(
        Error.NONE, (OffsetResult("t", 0, Error.NONE), OffsetResult("t", 1, Error.NONE))
    )
    assert harness.fetch() == ()
    assert harness.state is E


@pytest.mark.proves("AD-05")
def test_deleting_missing_offsets_writes_nothing(harness: CoordinatorHarness) -> None:
    harness.commit_simple(1)
    written = len(harness.appended)

    assert delete(harness, ("u", 0)) == OffsetDeleteResponse(Error.NONE, (OffsetResult("u", 0, Error.NONE),))
    assert len(harness.appended) == written


@pytest.mark.proves("AD-05")
def test_offset_delete_response_waits_for_write_or_fails(harness: CoordinatorHarness) -> None:
    harness.commit_simple(1)
    harness.hold_writes()
    delete_call = harness.send(OffsetDelete(GROUP, (("t", 0),)))
    assert delete_call.parked
    harness.release_writes(Error.NOT_ENOUGH_REPLICAS)

    assert delete_call.response == OffsetDeleteResponse(Error.COORDINATOR_NOT_AVAILABLE)
    assert harness.offset() == 1


@pytest.mark.proves("AD-05")
def test_offset_delete_of_missing_group_is_rejected(harness: CoordinatorHarness) -> None:
    assert delete(harness, ("t", 0)) == OffsetDeleteResponse(Error.GROUP_ID_NOT_FOUND)


@pytest.mark.proves("AD-05", "OC-14")
@pytest.mark.parametrize("group_id", [None, ""])
def test_offset_delete_without_group_id_is_rejected(harness: CoordinatorHarness, group_id: str | None) -> None:
    harness.commit_simple(1, group_id="")

    assert delete(harness, ("t", 0), group_id=group_id) == OffsetDeleteResponse(Error.INVALID_GROUP_ID)
