"""Section 12 of the catalogue: describing, listing and deleting groups and offsets."""

import pytest

from slackwater.group.coordinator.records import CommittedOffset, GroupMetadata
from slackwater.group.errors import Error
from slackwater.group.events import EventKind, GroupState, OffsetsRemoved
from slackwater.group.messages import (
    CommittedPartition,
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
)

from .room import GROUP, HOST, Member, Room, offering, part_of, subscription

E = GroupState.EMPTY
PR = GroupState.PREPARING_REBALANCE
CR = GroupState.COMPLETING_REBALANCE
S = GroupState.STABLE


def described(member: Member, metadata: bytes, assignment: bytes) -> DescribedMember:
    """A member as DescribeGroups shows it."""
    return DescribedMember(member.id, member.instance, member.name, HOST, metadata, assignment)


# --- describing -------------------------------------------------------------------------------------------------


@pytest.mark.proves("AD-01")
def test_unknown_group_is_described_as_dead(room: Room) -> None:
    old = room.ask(DescribeGroups(("absent",), reports_missing_group=False)).answer
    assert old.groups == (DescribedGroup("absent", Error.NONE, "Dead"),)

    (new,) = room.ask(DescribeGroups(("absent",))).answer.groups
    assert new == DescribedGroup("absent", Error.GROUP_ID_NOT_FOUND, "Dead", error_message=new.error_message)
    assert new.error_message is not None
    assert "absent" in new.error_message


@pytest.mark.proves("AD-01")
def test_each_group_is_described_on_its_own(room: Room) -> None:
    room.settled("a")
    groups = room.ask(DescribeGroups(("absent", GROUP))).answer.groups

    assert [(group.group_id, group.error) for group in groups] == [
        ("absent", Error.GROUP_ID_NOT_FOUND),
        (GROUP, Error.NONE),
    ]


@pytest.mark.proves("AD-02")
def test_describe_stable_group_has_metadata_and_assignments(room: Room) -> None:
    a, b = room.settled("a", "b", static=True)
    group = room.describe()

    members = (described(a, subscription("t"), part_of(a.id)), described(b, subscription("t"), part_of(b.id)))
    assert set(group.members) == set(members)
    assert group == DescribedGroup(GROUP, Error.NONE, "Stable", "consumer", "range", group.members)


@pytest.mark.proves("AD-02")
def test_describe_in_first_rebalance_has_no_metadata(room: Room) -> None:
    a = room.member("a")
    a.join()
    assert room.describe() == DescribedGroup(
        GROUP, Error.NONE, "PreparingRebalance", "consumer", "", (described(a, b"", b""),)
    )
    room.end_initial_delay()

    assert room.describe() == DescribedGroup(
        GROUP, Error.NONE, "CompletingRebalance", "consumer", "", (described(a, b"", b""),)
    )


@pytest.mark.proves("AD-02")
def test_describe_shows_last_assignments_while_preparing(room: Room) -> None:
    a, b = room.settled("a", "b")
    a.join()
    last = {described(a, b"", part_of(a.id)), described(b, b"", part_of(b.id))}
    preparing = room.describe()
    assert (preparing.state, preparing.protocol_name, set(preparing.members)) == ("PreparingRebalance", "", last)
    b.join()

    completing = room.describe()
    assert (completing.state, completing.protocol_name, set(completing.members)) == ("CompletingRebalance", "", last)


@pytest.mark.proves("AD-02", "ST-10")
def test_describe_shows_no_assignments_after_failed_rebalance(room: Room) -> None:
    a, b = room.settled("a", "b")
    a.join()
    b.join()
    a.protocols = offering("range", topics=["u"])
    a.join()

    assert room.state is PR
    assert set(room.describe().members) == {described(a, b"", b""), described(b, b"", b"")}


@pytest.mark.proves("AD-02")
def test_empty_group_is_described_with_its_type_only(room: Room) -> None:
    (a,) = room.settled("a")
    a.leave()

    assert room.describe() == DescribedGroup(GROUP, Error.NONE, "Empty", "consumer")


# --- listing ----------------------------------------------------------------------------------------------------


@pytest.fixture
def populated(room: Room) -> Room:
    """A room with one group in each state that can be listed."""
    room.settled("a", group_id="stable", session_timeout_ms=600_000)
    (left,) = room.settled("a", group_id="empty")
    left.leave()
    completing = room.member("a", group_id="completing", session_timeout_ms=600_000)
    completing.join()
    room.end_initial_delay("completing")
    room.member("a", group_id="initial").join()
    preparing, _ = room.settled(
        "a", "b", group_id="preparing", session_timeout_ms=600_000, rebalance_timeout_ms=600_000
    )
    preparing.join()
    room.member("a", group_id="initial-again").join()
    room.commit_simply(1, group_id="simple")
    return room


def names(groups: list[ListedGroup]) -> set[str]:
    """Their ids."""
    return {group.group_id for group in groups}


@pytest.mark.proves("AD-03")
def test_all_groups_are_listed_with_state_and_type(populated: Room) -> None:
    listed = {group.group_id: group for group in populated.listed()}

    assert listed["stable"] == ListedGroup("stable", "consumer", "Stable", "classic")
    assert listed["empty"] == ListedGroup("empty", "consumer", "Empty", "classic")
    assert listed["completing"] == ListedGroup("completing", "consumer", "CompletingRebalance", "classic")
    assert listed["preparing"] == ListedGroup("preparing", "consumer", "PreparingRebalance", "classic")
    assert listed["initial-again"] == ListedGroup("initial-again", "consumer", "PreparingRebalance", "classic")
    assert listed["simple"] == ListedGroup("simple", "", "Empty", "classic")


@pytest.mark.proves("AD-03")
def test_groups_are_listed_by_state_whatever_the_case(populated: Room) -> None:
    assert names(populated.listed("Stable")) == {"stable"}
    assert names(populated.listed("sTABLE", "EMPTY")) == {"stable", "empty", "simple"}
    assert names(populated.listed("preparingrebalance")) >= {"preparing", "initial-again"}
    assert names(populated.listed("NoSuchState")) == set()
    assert names(populated.listed("NoSuchState", "stable")) == {"stable"}


@pytest.mark.proves("AD-03")
def test_groups_are_listed_by_type_whatever_the_case(populated: Room) -> None:
    everybody = names(populated.listed())

    assert names(populated.listed(types=("classic",))) == everybody
    assert names(populated.listed(types=("CLASSIC", "consumer"))) == everybody
    assert names(populated.listed(types=("consumer",))) == set()
    assert names(populated.listed(types=("nonsense",))) == set()
    assert names(populated.listed("stable", types=("Classic",))) == {"stable"}


# --- deleting groups --------------------------------------------------------------------------------------------


@pytest.mark.proves("AD-04")
@pytest.mark.parametrize("stage", ["initial", "completing", "stable", "preparing"])
def test_live_group_cannot_be_deleted(room: Room, stage: str) -> None:
    a, b = room.member("a"), room.member("b")
    a.join()
    b.join()
    if stage != "initial":
        room.end_initial_delay()
    if stage in ("stable", "preparing"):
        room.sync(a, b)
    if stage == "preparing":
        a.join()
    before = room.snapshot()

    assert room.ask(DeleteGroups((GROUP,))).answer == DeleteGroupsResponse(
        (DeletedGroup(GROUP, Error.NON_EMPTY_GROUP),)
    )
    assert room.snapshot() == before


@pytest.mark.proves("AD-04")
def test_empty_group_is_deleted_with_its_offsets(room: Room) -> None:
    (a,) = room.settled("a")
    a.commit(1)
    a.commit(2, partition=1)
    a.leave()
    before, written = room.events.mark(), len(room.log)

    assert room.ask(DeleteGroups((GROUP,))).answer == DeleteGroupsResponse((DeletedGroup(GROUP, Error.NONE),))
    assert GROUP not in room.coordinator.groups
    assert set(room.log[written:]) == {
        CommittedOffset(GROUP, "t", 0, None),
        CommittedOffset(GROUP, "t", 1, None),
        GroupMetadata(GROUP, None),
    }
    assert room.fetch() == ()
    (deleted,) = room.events.since(before, EventKind.GROUP_DELETED)
    assert deleted.group == GROUP
    room.restart()
    assert dict(room.coordinator.groups) == {}


@pytest.mark.proves("AD-04")
def test_delete_response_waits_for_tombstones(room: Room) -> None:
    room.commit_simply(1)
    room.hold_writes()
    deleting = room.ask(DeleteGroups((GROUP,)))
    assert deleting.parked
    room.release_writes()

    assert deleting.answer == DeleteGroupsResponse((DeletedGroup(GROUP, Error.NONE),))


@pytest.mark.proves("AD-04")
def test_failed_deletion_keeps_group(room: Room) -> None:
    (a,) = room.settled("a")
    a.commit(7)
    a.leave()
    room.fail_next_write(Error.NOT_ENOUGH_REPLICAS)

    assert room.ask(DeleteGroups((GROUP,))).answer == DeleteGroupsResponse(
        (DeletedGroup(GROUP, Error.COORDINATOR_NOT_AVAILABLE),)
    )
    assert (room.state, room.generation, room.offset()) == (E, 2, 7)
    b = room.member("b")
    b.join()
    room.end_initial_delay()
    assert (room.state, room.generation) == (CR, 3)


@pytest.mark.proves("AD-04", "ST-08")
def test_failed_deletion_restores_no_former_member(room: Room) -> None:
    (a,) = room.settled("a")
    room.hold_writes()
    a.leave()
    assert (room.state, room.generation) == (E, 2)
    deleting = room.ask(DeleteGroups((GROUP,)))
    room.release_writes(Error.NOT_ENOUGH_REPLICAS)

    assert deleting.answer == DeleteGroupsResponse((DeletedGroup(GROUP, Error.COORDINATOR_NOT_AVAILABLE),))
    assert (room.state, room.generation, room.member_ids) == (E, 2, set())
    assert a.heartbeat() is Error.UNKNOWN_MEMBER_ID


@pytest.mark.proves("AD-04")
def test_each_group_is_deleted_separately_with_one_result(room: Room) -> None:
    room.settled("a")
    room.commit_simply(1, group_id="simple")
    answer = room.ask(DeleteGroups(("absent", "simple", GROUP, "simple", "absent"))).answer

    assert sorted(answer.groups, key=str) == sorted(
        [
            DeletedGroup("absent", Error.GROUP_ID_NOT_FOUND),
            DeletedGroup("simple", Error.NONE),
            DeletedGroup(GROUP, Error.NON_EMPTY_GROUP),
        ],
        key=str,
    )
    assert set(room.coordinator.groups) == {GROUP}


@pytest.mark.proves("AD-04")
def test_group_with_only_an_issued_id_can_be_deleted(room: Room) -> None:
    a = room.member("a")
    a.ask_to_join()

    assert room.ask(DeleteGroups((GROUP,))).answer == DeleteGroupsResponse((DeletedGroup(GROUP, Error.NONE),))
    assert dict(room.coordinator.groups) == {}
    room.pass_ms(60_000)
    assert a.ask_to_join().answer.error is Error.UNKNOWN_MEMBER_ID


@pytest.mark.proves("AD-04", "OC-14")
def test_empty_group_id_can_be_deleted_and_null_cannot(room: Room) -> None:
    room.commit_simply(1, group_id="")

    assert set(room.ask(DeleteGroups(("", None))).answer.groups) == {
        DeletedGroup("", Error.NONE),
        DeletedGroup(None, Error.INVALID_GROUP_ID),
    }
    assert dict(room.coordinator.groups) == {}


# --- deleting offsets -------------------------------------------------------------------------------------------


def delete(room: Room, *partitions: tuple[str, int], group_id: str | None = GROUP) -> OffsetDeleteResponse:
    """The answer to one OffsetDelete."""
    return room.ask(OffsetDelete(group_id, partitions)).answer


@pytest.mark.proves("AD-05")
@pytest.mark.parametrize("stage", ["initial", "completing", "stable", "preparing"])
def test_live_group_of_another_type_keeps_its_offsets(room: Room, stage: str) -> None:
    settings = {"protocol_type": "connect", "protocols": (JoinProtocol("default", b"\x00"),)}
    room.commit_simply(1)
    a, b = room.member("a", **settings), room.member("b", **settings)
    a.join()
    b.join()
    if stage != "initial":
        room.end_initial_delay()
    if stage in ("stable", "preparing"):
        room.sync(a, b)
    if stage == "preparing":
        a.join()

    assert delete(room, ("t", 0)) == OffsetDeleteResponse(Error.NON_EMPTY_GROUP)
    assert room.offset() == 1


@pytest.mark.proves("AD-05")
@pytest.mark.parametrize("stage", ["completing", "stable", "preparing"])
def test_offset_delete_keeps_subscribed_topics(room: Room, stage: str) -> None:
    room.commit_simply(1)
    room.commit_simply(2, topic="former")
    a, b = room.member("a"), room.member("b")
    a.join()
    b.join()
    room.end_initial_delay()
    if stage != "completing":
        room.sync(a, b)
    if stage == "preparing":
        a.join()
        assert room.state is PR
    before = room.events.mark()

    assert delete(room, ("t", 0), ("former", 0), ("former", 1)) == OffsetDeleteResponse(
        Error.NONE,
        (
            CommittedPartition("t", 0, Error.GROUP_SUBSCRIBED_TO_TOPIC),
            CommittedPartition("former", 0, Error.NONE),
            CommittedPartition("former", 1, Error.NONE),
        ),
    )
    assert [(fetched.topic, fetched.offset) for fetched in room.fetch()] == [("t", 1)]
    (told,) = room.events.since(before, EventKind.OFFSETS_DELETED)
    assert told.detail == OffsetsRemoved(count=1)


@pytest.mark.proves("AD-05")
def test_empty_group_lets_any_offset_go(room: Room) -> None:
    (a,) = room.settled("a")
    a.commit(1)
    a.leave()

    assert delete(room, ("t", 0), ("t", 1)) == OffsetDeleteResponse(
        Error.NONE, (CommittedPartition("t", 0, Error.NONE), CommittedPartition("t", 1, Error.NONE))
    )
    assert room.fetch() == ()
    assert room.state is E


@pytest.mark.proves("AD-05")
def test_deletion_of_offsets_that_are_not_there_writes_nothing(room: Room) -> None:
    room.commit_simply(1)
    written = len(room.appended)

    assert delete(room, ("u", 0)) == OffsetDeleteResponse(Error.NONE, (CommittedPartition("u", 0, Error.NONE),))
    assert len(room.appended) == written


@pytest.mark.proves("AD-05")
def test_offset_delete_response_waits_for_write_or_fails(room: Room) -> None:
    room.commit_simply(1)
    room.hold_writes()
    deleting = room.ask(OffsetDelete(GROUP, (("t", 0),)))
    assert deleting.parked
    room.release_writes(Error.NOT_ENOUGH_REPLICAS)

    assert deleting.answer == OffsetDeleteResponse(Error.COORDINATOR_NOT_AVAILABLE)
    assert room.offset() == 1


@pytest.mark.proves("AD-05")
def test_offsets_of_an_absent_group_cannot_be_deleted(room: Room) -> None:
    assert delete(room, ("t", 0)) == OffsetDeleteResponse(Error.GROUP_ID_NOT_FOUND)


@pytest.mark.proves("AD-05", "OC-14")
@pytest.mark.parametrize("group_id", [None, ""])
def test_deleting_offsets_needs_a_group_id(room: Room, group_id: str | None) -> None:
    room.commit_simply(1, group_id="")

    assert delete(room, ("t", 0), group_id=group_id) == OffsetDeleteResponse(Error.INVALID_GROUP_ID)
